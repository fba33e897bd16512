"""The records of a root's metadata: read into memory, which of them are needed, and the removal of the others.

ML Metadata has no call that deletes, so reading and removing use SQL on one version of its schema. A removal is one
transaction. These are kept:

- the newest runs, with the files of all that they read and made;
- the runs that made a pushed model or one of the last two blessed ones, with the files of all that they made, but of
  no examples;
- the ingested spans of the window, which the next run reuses.

An execution that made a kept file is kept too, and what it names stays as a record, for the lineage.
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
_OUTPUTS = (1, 4)
"""Types of events of outputs, of the same file: DECLARED_OUTPUT, OUTPUT; what a resolver finds is INTERNAL_OUTPUT."""
_ARTIFACTS = (
    "SELECT a.id, t.name, coalesce(a.uri, ''), coalesce(a.state, 0) FROM Artifact a JOIN Type t ON t.id = a.type_id"
)
_PROPERTIES = "SELECT artifact_id, name, coalesce(string_value, int_value) FROM ArtifactProperty"
_EVENTS = "SELECT execution_id, artifact_id, type FROM Event WHERE artifact_id IN (SELECT id FROM Artifact)"
_EXECUTIONS = "SELECT id, last_known_state FROM Execution"
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
        artifacts: Ids of all that it read, made or looked up.
        made: Ids of its outputs, computed or taken from the cache; none if it looked them up.
    """

    id: int
    state: int
    artifacts: frozenset[int] = frozenset()
    made: frozenset[int] = frozenset()


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
        named, made, members = (defaultdict[int, set[int]](set) for _ in range(3))
        for execution, artifact, kind in database.execute(_EVENTS):
            named[execution].add(artifact)
            if kind in _OUTPUTS:
                made[execution].add(artifact)
        for context, execution in database.execute("SELECT context_id, execution_id FROM Association"):
            members[context].add(execution)
        artifacts = {
            i: Artifact(i, kind, uri, state, properties[i]) for i, kind, uri, state in database.execute(_ARTIFACTS)
        }
        executions = {
            i: Execution(i, state, frozenset(named[i]), frozenset(made[i]))
            for i, state in database.execute(_EXECUTIONS)
        }
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


EXAMPLES, MODEL = "Examples", "Model"
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
    models = _kept_models(records, pushed)
    made_one = {e.id for e in records.executions.values() if e.made & models}
    newest_runs = records.runs[-newest:]
    of_models = [run for run in records.runs if run.executions & made_one]
    files = models | _window_examples(records, spans)
    files |= {one for execution in _executions_of(records, newest_runs) for one in execution.artifacts}
    made = {one for execution in _executions_of(records, of_models) for one in execution.made}
    files |= {one for one in made if records.artifacts[one].type != EXAMPLES}
    runs = frozenset(run.id for run in (*newest_runs, *of_models))
    executions = {one for run in records.runs if run.id in runs for one in run.executions}
    executions |= {e.id for e in records.executions.values() if e.state == COMPLETE and e.made & files}
    return Kept(
        runs=runs,
        executions=frozenset(executions),
        records=frozenset(files.union(*(records.executions[one].artifacts for one in executions))),
        files=frozenset(files),
        models=frozenset(one for one in files if records.artifacts[one].type == MODEL),
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


def _executions_of(records: MetadataRecords, runs: Iterable[RecordedRun]) -> Iterator[Execution]:
    return (records.executions[execution] for run in runs for execution in run.executions)
