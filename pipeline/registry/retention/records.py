"""The records of a root's metadata: read into memory, which of them are needed, and the removal of the others.

ML Metadata has no call that deletes, so reading and removing use SQL on one version of its schema. A removal is one
transaction. Lineage decides what is needed. These artifacts are kept with their files:

- all inputs and outputs of the kept runs,
- the examples of the window, which the next run reuses,
- for each kept model: the model, its evaluation, blessing and reports, its transform graph and the inputs of that
  graph, except the examples.

For all other ancestors of a kept artifact, the record stays for the lineage, and the files are removed. A model that
was the baseline or the warm start of another model does not count as its ancestor.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.locks import exclusive, for_reading
from fullpass.pipeline.root.layout import lock_of
from fullpass.pipeline.root.sqlite_files import METADATA_DAMAGED, open_sqlite

SCHEMA_VERSION = 10
"""The version of ML Metadata's tables on which both lines of TFX agree."""
LIVE, DELETED = 2, 4
"""States of artifacts (ml_metadata/proto/metadata_store.proto)."""
COMPLETE = 3
"""State of an execution, of the same file."""
_INPUTS = (2, 3, 5)
"""Types of events of inputs, of the same file: DECLARED_INPUT, INPUT, INTERNAL_INPUT."""
_ARTIFACTS = (
    "SELECT a.id, t.name, coalesce(a.uri, ''), coalesce(a.state, 0) FROM Artifact a JOIN Type t ON t.id = a.type_id"
)
_PROPERTIES = "SELECT artifact_id, name, coalesce(string_value, int_value) FROM ArtifactProperty"
_EVENTS = (
    "SELECT e.execution_id, e.artifact_id, e.type, p.step_key FROM Event e JOIN Artifact a ON a.id = e.artifact_id "
    "LEFT JOIN EventPath p ON p.event_id = e.id AND p.is_index_step = 0"
)
_EXECUTIONS = (
    "SELECT e.id, c.name, e.last_known_state FROM Execution e JOIN Association s ON s.execution_id = e.id "
    "JOIN Context c ON c.id = s.context_id JOIN Type t ON t.id = c.type_id WHERE t.name = 'node'"
)
_RUNS = (
    "SELECT c.id, c.name, c.create_time_since_epoch FROM Context c JOIN Type t ON t.id = c.type_id "
    "WHERE t.name = 'pipeline_run' ORDER BY c.create_time_since_epoch, c.id"
)
_UNUSED_CACHE_ENTRIES = (
    "SELECT c.id FROM Context c JOIN Type t ON t.id = c.type_id WHERE t.name = 'execution_cache' "
    "AND c.id NOT IN (SELECT context_id FROM Association)"
)
_TABLES = {
    "artifact": ("ArtifactProperty", "Attribution", "Event"),
    "execution": ("ExecutionProperty", "Association", "Event"),
    "context": ("ContextProperty", "Attribution", "Association", "ParentContext"),
}
"""The tables whose rows belong to a record of each kind."""


@dataclass(frozen=True)
class Artifact:
    """An artifact.

    Attributes:
        properties: Integer and text properties by name.
    """

    id: int
    type: str
    uri: str
    state: int
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution:
    """An execution of a node.

    Attributes:
        models: Ids of the inputs named `model`.
    """

    id: int
    node: str
    state: int
    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    models: frozenset[int] = frozenset()


@dataclass(frozen=True)
class RecordedRun:
    """A run.

    Attributes:
        created: Seconds since 1970.
    """

    id: int
    name: str
    created: float
    executions: frozenset[int]


@dataclass(frozen=True)
class MetadataRecords:
    """All records of a metadata file, by id; runs by age, the oldest first."""

    artifacts: Mapping[int, Artifact]
    executions: Mapping[int, Execution]
    runs: tuple[RecordedRun, ...]

    def makers(self) -> dict[int, int]:
        """Returns artifact -> the execution that produced it, not those that reused it from the cache."""
        newest_first = sorted(self.executions.values(), key=lambda execution: -execution.id)
        return {made: e.id for e in newest_first if e.state == COMPLETE for made in e.outputs}


@dataclass(frozen=True)
class Removal:
    """The ids to remove.

    Attributes:
        gone: Artifacts whose files are removed, and whose record stays and is marked as deleted.
    """

    artifacts: frozenset[int]
    executions: frozenset[int]
    runs: frozenset[int]
    gone: frozenset[int]


def read_metadata(path: Path) -> MetadataRecords:
    """Returns the records of a metadata file.

    Raises:
        UserError: The file has the schema of another version of ML Metadata.
    """
    with for_reading(lock_of(path)), _opened(path) as database:
        properties: dict[int, dict[str, Any]] = defaultdict(dict)
        for artifact, name, value in database.execute(_PROPERTIES):
            properties[artifact][name] = value
        inputs, outputs, models, members = (defaultdict[int, set[int]](set) for _ in range(4))
        for execution, artifact, kind, name in database.execute(_EVENTS):
            (inputs if kind in _INPUTS else outputs)[execution].add(artifact)
            if kind in _INPUTS and name == "model":
                models[execution].add(artifact)
        for context, execution in database.execute("SELECT context_id, execution_id FROM Association"):
            members[context].add(execution)
        artifacts = {
            i: Artifact(i, kind, uri, state, properties[i]) for i, kind, uri, state in database.execute(_ARTIFACTS)
        }
        executions = {}
        for i, name, state in database.execute(_EXECUTIONS):
            sides = (frozenset(ids[i]) for ids in (inputs, outputs, models))
            executions[i] = Execution(i, name.partition(".")[2], state, *sides)
        runs = (RecordedRun(i, name, ms / 1000, frozenset(members[i])) for i, name, ms in database.execute(_RUNS))
        return MetadataRecords(artifacts, executions, tuple(runs))


def remove_records(path: Path, removal: Removal) -> None:
    """Removes records from the metadata in one transaction, and frees their space."""
    with exclusive(lock_of(path)), _opened(path) as database:
        with database:
            database.executemany("UPDATE Artifact SET state = ? WHERE id = ?", [(DELETED, i) for i in removal.gone])
            _delete(database, "artifact", removal.artifacts)
            _delete(database, "execution", removal.executions)
            _delete(database, "context", removal.runs)
            _delete(database, "context", [i for (i,) in database.execute(_UNUSED_CACHE_ENTRIES)])
            database.execute("DELETE FROM EventPath WHERE event_id NOT IN (SELECT id FROM Event)")
        database.execute("VACUUM")


def _delete(database: sqlite3.Connection, kind: str, ids: Collection[int]) -> None:
    rows = [(identity,) for identity in ids]
    for table in _TABLES[kind]:
        database.executemany(f"DELETE FROM {table} WHERE {kind}_id = ?", rows)
    if kind == "context":
        database.executemany("DELETE FROM ParentContext WHERE parent_context_id = ?", rows)
    database.executemany(f"DELETE FROM {kind.capitalize()} WHERE id = ?", rows)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with open_sqlite(path, METADATA_DAMAGED) as database:
        [(version,)] = database.execute("SELECT schema_version FROM MLMDEnv").fetchall()
        if version != SCHEMA_VERSION:
            raise UserError(
                f"{path}: ML Metadata's schema {version}; this release of Fullpass supports {SCHEMA_VERSION} and "
                "removes nothing from others."
            )
        yield database


EXAMPLES, MODEL, REPORT = "Examples", "Model", "Report"
_BLESSED_KEPT = 2
"""The last blessed model, and the one before, which was its baseline."""


@dataclass(frozen=True)
class Kept:
    """The ids to keep.

    Attributes:
        files: Those of them that are kept with their files.
    """

    runs: frozenset[int]
    executions: frozenset[int]
    records: frozenset[int]
    files: frozenset[int]
    models: frozenset[int]


def find_kept(records: MetadataRecords, newest: int, pushed: Collection[str], spans: Collection[int]) -> Kept:
    """Returns the records and files to keep.

    Args:
        newest: The number of newest runs to keep, 1 or more.
        pushed: The addresses of pushed models, which are kept regardless of their run.
    """
    makers = records.makers()
    runs = records.runs[-newest:]
    executions = {one for run in runs for one in run.executions if one in records.executions}
    files = _artifacts_of(records, executions) | _window_examples(records, spans)
    models = _kept_models(records, pushed) | {one for one in files if records.artifacts[one].type == MODEL}
    # All ancestors, evaluations and reports of a kept model are kept; for examples and other models, only the records.
    about = _evaluations_and_reports(records, models) | _ancestry(records, makers, models)
    files |= models
    files |= {one for one in _artifacts_of(records, about) if records.artifacts[one].type not in (EXAMPLES, MODEL)}
    executions |= about | _ancestry(records, makers, files)
    return Kept(
        runs=frozenset(run.id for run in runs),
        executions=frozenset(executions),
        records=frozenset(files | _artifacts_of(records, executions)),
        files=frozenset(files),
        models=frozenset(models),
    )


def removal_of(records: MetadataRecords, kept: Kept) -> Removal:
    """Returns all records except the kept ones, and the kept records whose files are removed."""
    live = {artifact.id for artifact in records.artifacts.values() if artifact.state == LIVE}
    used = {run.id for run in records.runs if run.executions & kept.executions}
    return Removal(
        artifacts=frozenset(records.artifacts.keys() - kept.records),
        executions=frozenset(records.executions.keys() - kept.executions),
        runs=frozenset(run.id for run in records.runs) - kept.runs - used,
        gone=frozenset(live & kept.records - kept.files),
    )


def _kept_models(records: MetadataRecords, pushed: Collection[str]) -> set[int]:
    """Returns the pushed models, served or not, and the last blessed ones."""
    models = {artifact.id for artifact in records.artifacts.values() if artifact.type == MODEL}
    blessings = sorted(
        (a for a in records.artifacts.values() if a.type == "ModelBlessing" and a.properties.get("blessed") == 1),
        key=lambda artifact: -artifact.id,
    )
    blessed = list(dict.fromkeys(int(blessing.properties.get("current_model_id", 0)) for blessing in blessings))
    return {m for m in models if records.artifacts[m].uri in pushed} | (set(blessed[:_BLESSED_KEPT]) & models)


def _window_examples(records: MetadataRecords, spans: Collection[int]) -> set[int]:
    """Returns the raw examples of the window: the last ingested ones of each span."""
    raw = (a for a in records.artifacts.values() if a.type == EXAMPLES and a.properties.get("fingerprint"))
    live = sorted((a for a in raw if a.state == LIVE), key=lambda artifact: artifact.id)
    newest = {artifact.properties.get("span"): artifact.id for artifact in live}
    return {artifact for span, artifact in newest.items() if span in spans}


def _evaluations_and_reports(records: MetadataRecords, models: Collection[int]) -> set[int]:
    """Returns the executions that evaluated models, and those that reported on them."""
    found = [e for e in records.executions.values() if e.models & set(models) and MODEL not in _types_made(records, e)]
    outputs = {made for execution in found for made in execution.outputs}
    reports = [e for e in records.executions.values() if e.node == REPORT and e.inputs & outputs]
    return {execution.id for execution in (*found, *reports)}


def _ancestry(records: MetadataRecords, makers: dict[int, int], artifacts: Iterable[int]) -> set[int]:
    """Returns the executions that produced artifacts and their ancestors.

    The previous model and the previous vocabularies are no ancestors, since their chain would reach back to the first
    run: an execution's models, and inputs of the type of its own outputs, are not followed.
    """
    found: set[int] = set()
    waiting = [makers[artifact] for artifact in artifacts if artifact in makers]
    while waiting:
        execution = records.executions[waiting.pop()]
        if execution.id not in found:
            found.add(execution.id)
            skipped = (_types_made(records, execution) | {MODEL}) - {EXAMPLES}
            waiting += [makers[a] for a in execution.inputs if a in makers and records.artifacts[a].type not in skipped]
    return found


def _types_made(records: MetadataRecords, execution: Execution) -> set[str]:
    return {records.artifacts[artifact].type for artifact in execution.outputs}


def _artifacts_of(records: MetadataRecords, executions: Iterable[int]) -> set[int]:
    found = (records.executions[execution] for execution in executions)
    return {artifact for execution in found for artifact in execution.inputs | execution.outputs}
