"""The metadata of a root as a graph, and the removal of a part of it.

ML Metadata has no call that deletes, so both use SQL on one version of its schema. A removal is one transaction.
"""

import sqlite3
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
_INPUTS, _OUTPUTS = (2, 3, 5), (1, 4, 6, 7)
# The tables whose rows belong to a record of each kind.
_ROWS_OF = {
    "artifact": ("ArtifactProperty", "Attribution", "Event"),
    "execution": ("ExecutionProperty", "Association", "Event"),
    "context": ("ContextProperty", "Attribution", "Association", "ParentContext"),
}


@dataclass(frozen=True)
class Artifact:
    """An artifact.

    Attributes:
        type: name of the artifact type, such as `Examples`.
        properties: integer and text properties by name.
    """

    id: int
    type: str
    uri: str
    state: int
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution:
    """An execution.

    Attributes:
        node: id of its node.
        inputs: name -> ids of input artifacts.
        outputs: name -> ids of output artifacts.
    """

    id: int
    node: str
    state: int
    inputs: Mapping[str, frozenset[int]] = field(default_factory=dict)
    outputs: Mapping[str, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run.

    Attributes:
        created: seconds since 1970.
        executions: ids of its executions.
    """

    id: int
    name: str
    created: float
    executions: frozenset[int]


@dataclass(frozen=True)
class Records:
    """All records of a metadata file, by id."""

    artifacts: Mapping[int, Artifact]
    executions: Mapping[int, Execution]
    runs: tuple[Run, ...]

    def makers(self) -> dict[int, int]:
        """Returns artifact -> the execution that produced it, not those that reused it from the cache."""
        return {
            artifact: execution.id
            for execution in sorted(self.executions.values(), key=lambda e: e.id, reverse=True)
            if execution.state == COMPLETE
            for artifacts in execution.outputs.values()
            for artifact in artifacts
        }


def read_records(path: Path) -> Records:
    """Returns the records of a metadata file.

    Raises:
        UserError: The file has the schema of another version of ML Metadata.
    """
    with _opened(path) as database:
        properties: dict[int, dict[str, Any]] = {}
        for artifact, name, number, text in database.execute(
            "SELECT artifact_id, name, int_value, string_value FROM ArtifactProperty"
        ):
            properties.setdefault(artifact, {})[name] = number if text is None else text
        artifacts = {
            identity: Artifact(identity, kind, uri or "", state or 0, properties.get(identity, {}))
            for identity, kind, uri, state in database.execute(
                "SELECT a.id, t.name, a.uri, a.state FROM Artifact a JOIN Type t ON t.id = a.type_id"
            )
        }
        events = _events(database)
        executions = {
            identity: Execution(identity, name.partition(".")[2], state, *events.get(identity, ({}, {})))
            for identity, name, state in database.execute(
                "SELECT e.id, c.name, e.last_known_state FROM Execution e JOIN Association s ON s.execution_id = e.id "
                "JOIN Context c ON c.id = s.context_id JOIN Type t ON t.id = c.type_id WHERE t.name = 'node'"
            )
        }
        return Records(artifacts, executions, tuple(_runs(database)))


def _events(database: sqlite3.Connection) -> dict[int, tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]]:
    """Returns execution -> its inputs and its outputs."""
    found: dict[int, tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]] = {}
    for execution, artifact, kind, key in database.execute(
        "SELECT e.execution_id, e.artifact_id, e.type, p.step_key FROM Event e "
        "LEFT JOIN EventPath p ON p.event_id = e.id AND p.is_index_step = 0"
    ):
        inputs, outputs = found.setdefault(execution, ({}, {}))
        side = inputs if kind in _INPUTS else outputs if kind in _OUTPUTS else {}
        side[key or ""] = side.get(key or "", frozenset()) | {artifact}
    return found


def _runs(database: sqlite3.Connection) -> Iterator[Run]:
    executions: dict[int, set[int]] = {}
    for context, execution in database.execute("SELECT context_id, execution_id FROM Association"):
        executions.setdefault(context, set()).add(execution)
    for identity, name, created in database.execute(
        "SELECT c.id, c.name, c.create_time_since_epoch FROM Context c JOIN Type t ON t.id = c.type_id "
        "WHERE t.name = 'pipeline_run' ORDER BY c.create_time_since_epoch, c.id"
    ):
        yield Run(identity, name, created / 1000, frozenset(executions.get(identity, ())))


@dataclass(frozen=True)
class Removal:
    """The ids to remove.

    Attributes:
        gone: artifacts whose files are removed, and whose record stays and is marked as deleted.
    """

    artifacts: frozenset[int]
    executions: frozenset[int]
    runs: frozenset[int]
    gone: frozenset[int]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.artifacts or self.executions or self.runs or self.gone)


def remove_records(path: Path, removal: Removal) -> None:
    """Removes records from the metadata in one transaction, and frees their space."""
    with _opened(path) as database:
        with database:
            _mark_deleted(database, removal.gone)
            for kind, ids in (("artifact", removal.artifacts), ("execution", removal.executions)):
                _delete(database, kind, ids)
            _delete(database, "context", removal.runs)
            # Cache entries without executions.
            unused = database.execute(
                "SELECT c.id FROM Context c JOIN Type t ON t.id = c.type_id WHERE t.name = 'execution_cache' "
                "AND c.id NOT IN (SELECT context_id FROM Association)"
            ).fetchall()
            _delete(database, "context", {identity for (identity,) in unused})
            database.execute("DELETE FROM EventPath WHERE event_id NOT IN (SELECT id FROM Event)")
        database.execute("VACUUM")


def _mark_deleted(database: sqlite3.Connection, ids: Collection[int]) -> None:
    database.executemany("UPDATE Artifact SET state = ? WHERE id = ?", [(DELETED, identity) for identity in ids])


def _delete(database: sqlite3.Connection, kind: str, ids: Collection[int]) -> None:
    rows = [(identity,) for identity in ids]
    for table in _ROWS_OF[kind]:
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
