"""The records of a root's metadata, read into memory, and the removal of some of them.

ML Metadata has no call that deletes, so both use SQL on one version of its schema. A removal is one transaction.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.pipeline.root.layout import lock_of
from fullpass.pipeline.root.locks import exclusive
from fullpass.pipeline.root.sqlite_files import METADATA_DAMAGED, opened

SCHEMA_VERSION = 10
LIVE, DELETED = 2, 4
COMPLETE = 3
_INPUTS = (2, 3, 5)
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
class Run:
    """A run.

    Attributes:
        created: Seconds since 1970.
    """

    id: int
    name: str
    created: float
    executions: frozenset[int]


@dataclass(frozen=True)
class Records:
    """All records of a metadata file, by id; runs by age, the oldest first."""

    artifacts: Mapping[int, Artifact]
    executions: Mapping[int, Execution]
    runs: tuple[Run, ...]

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


def read_records(path: Path) -> Records:
    """Returns the records of a metadata file.

    Raises:
        UserError: The file has the schema of another version of ML Metadata.
    """
    with _opened(path) as database:
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
        runs = (Run(i, name, ms / 1000, frozenset(members[i])) for i, name, ms in database.execute(_RUNS))
        return Records(artifacts, executions, tuple(runs))


def remove_records(path: Path, removal: Removal) -> None:
    """Removes records from the metadata in one transaction, and frees their space."""
    with _opened(path) as database:
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
    with exclusive(lock_of(path)), opened(path, METADATA_DAMAGED) as database:
        [(version,)] = database.execute("SELECT schema_version FROM MLMDEnv").fetchall()
        if version != SCHEMA_VERSION:
            raise UserError(
                f"{path}: ML Metadata's schema {version}; this release of Fullpass supports {SCHEMA_VERSION} and "
                "removes nothing from others."
            )
        yield database
