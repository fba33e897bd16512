"""Stores the outcomes of a pipeline's runs in a SQLite file in its root, which the runs write themselves.

ML Metadata records executions and artifacts. This file records commands: the data of a run, its outcome, and the
occasion of the schedule that started it. It also holds the scheduler's state.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base.redact import redact
from fullpass.components.ingest.sources.files import fingerprint
from fullpass.components.ingest.spans.ingest_request import spans_read
from fullpass.components.ingest.spans.spans import Window
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import user_digest
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.sqlite_files import HISTORY_DAMAGED, open_sqlite

_TABLES = """
CREATE TABLE IF NOT EXISTS run (
  run_id TEXT PRIMARY KEY, occasion TEXT, started TEXT, ended TEXT, outcome TEXT, exit_code INTEGER, message TEXT,
  unit TEXT, first INTEGER, last INTEGER, data TEXT, config TEXT, trained INTEGER, pushed_to TEXT, measured TEXT
);
CREATE TABLE IF NOT EXISTS occasion (
  number INTEGER PRIMARY KEY, key TEXT, kind TEXT, due TEXT, ended TEXT, span TEXT, outcome TEXT, message TEXT, log TEXT
);
CREATE TABLE IF NOT EXISTS request (number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, span INTEGER);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT);
"""
_ADDED = "ALTER TABLE run ADD COLUMN measured TEXT"
"""Adds what the histories of earlier releases lack."""
OCCASION_VARIABLE = "FULLPASS_OCCASION"
"""Environment variable with the key of the occasion of the schedule that started a run."""
_NO_DATA = ("schedule", "notify", "mlflow", "gates", "beam", "push", "root")


@dataclass(frozen=True)
class RunRecord:
    """A run that has ended.

    Attributes:
        outcome: One of success, not_blessed, gate_stop, failure or interrupted.
        config: Digest of the sections of the YAML and of the user's code that determine the model.
        trained: Whether the run evaluated a model that was trained on its whole window.
        occasion: Key of the schedule's occasion; empty for a run by hand.
        unit, first, last: Its window; None for a source without spans.
        measured: JSON of what stays of the run's summary after its logs are gone; "" or None if nothing was recorded.
    """

    run_id: str
    started: str
    ended: str
    outcome: str
    exit_code: int
    data: str
    config: str
    trained: bool
    occasion: str = ""
    message: str = ""
    unit: str | None = None
    first: int | None = None
    last: int | None = None
    pushed_to: str | None = None
    measured: str | None = None


@dataclass(frozen=True)
class OccasionRecord:
    """An occasion of the schedule that has ended.

    Attributes:
        span: Label of the span for people.
    """

    key: str
    kind: str
    due: str
    ended: str
    span: str
    outcome: str
    message: str
    log: str = ""


class RunHistory:
    """The history of one pipeline; every call is one transaction."""

    def __init__(self, root: Path) -> None:
        self._file = RootLayout(root).history
        self._has_tables = False

    @property
    def exists(self) -> bool:
        """Whether anything was recorded."""
        return self._file.exists()

    def record(self, run: RunRecord) -> None:
        """Saves a run that has ended."""
        with self._transaction() as database:
            _insert(database, "run", run)

    def newest_trained(self, unit: str | None) -> RunRecord | None:
        """Returns the run that trained on the newest span; if there are several, the latest.

        Args:
            unit: Unit of the source's spans; None for a source without spans.
        """
        found = self._runs("WHERE trained AND unit IS ? ORDER BY COALESCE(last, 0) DESC, run_id DESC LIMIT 1", unit)
        return next(iter(found), None)

    def run_for(self, occasion: str) -> RunRecord | None:
        """Returns the latest run that was started for an occasion."""
        return next(iter(self._runs("WHERE occasion = ? ORDER BY run_id DESC LIMIT 1", occasion)), None)

    def trained_on(self, *, last: int | None, data: str, config: str) -> RunRecord | None:
        """Returns the latest run that trained on exactly this window of data with this config."""
        condition = "WHERE trained AND last IS ? AND data = ? AND config = ? ORDER BY run_id DESC LIMIT 1"
        return next(iter(self._runs(condition, last, data, config)), None)

    def newest(self, most: int) -> list[RunRecord]:
        """Returns the runs that ended last, by their start, newest first; refused and failed ones too."""
        return self._runs("ORDER BY run_id DESC LIMIT ?", most)

    def entries(self, most: int) -> list[OccasionRecord]:
        """Returns the latest occasions that ended, latest first."""
        query = f"SELECT {_names(OccasionRecord)} FROM occasion ORDER BY number DESC LIMIT ?"
        with self._transaction() as database:
            return [OccasionRecord(*row) for row in database.execute(query, [most])]

    def state(self, name: str) -> str | None:
        """Returns the text that was saved under a name."""
        with self._transaction() as database:
            row = database.execute("SELECT value FROM state WHERE name = ?", [name]).fetchone()
        return row[0] if row else None

    def save_state(
        self, name: str, value: str, *, ended: Iterable[OccasionRecord] = (), requests: Sequence[int] = ()
    ) -> None:
        """Saves a text under a name, adds ended occasions and removes handled requests, in one transaction."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", [name, value])
            for entry in ended:
                _insert(database, "occasion", entry)
            database.executemany("DELETE FROM request WHERE number = ?", [[number] for number in requests])

    def delete_before(self, since: datetime, *, dry_run: bool = False) -> int:
        """Deletes occasions and runs without a model that ended before a time; returns their number.

        Runs that trained a model stay, so no data is trained on twice.
        """
        if not self.exists:
            return 0
        moment = since.astimezone(UTC).isoformat()
        with self._transaction() as database:
            old = 0
            for condition in ("occasion WHERE ended < ?", "run WHERE ended < ? AND NOT trained"):
                old += database.execute(f"SELECT count(*) FROM {condition}", [moment]).fetchone()[0]
                if not dry_run:
                    database.execute(f"DELETE FROM {condition}", [moment])
        return old

    def add_request(self, span: int | None) -> int:
        """Adds a request for a run, which the scheduler reads; returns the number of the request."""
        with self._transaction() as database:
            at = datetime.now(UTC).isoformat()
            return database.execute("INSERT INTO request (at, span) VALUES (?, ?)", [at, span]).lastrowid or 0

    def requests(self) -> list[tuple[int, datetime, int | None]]:
        """Returns the open requests: number, time in UTC, span."""
        with self._transaction() as database:
            rows = database.execute("SELECT number, at, span FROM request ORDER BY number").fetchall()
        return [(number, datetime.fromisoformat(at), span) for number, at, span in rows]

    def _runs(self, condition: str, *values: object) -> list[RunRecord]:
        if not self.exists:
            return []
        with self._transaction() as database:
            rows = database.execute(f"SELECT {_names(RunRecord)} FROM run {condition}", values).fetchall()
        found = [RunRecord(*row) for row in rows]
        return [replace(run, trained=bool(run.trained)) for run in found]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if not self._has_tables:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        with open_sqlite(self._file, HISTORY_DAMAGED, "rwc") as database:
            with database:
                if not self._has_tables:
                    database.executescript(_TABLES)
                    if "measured" not in [column[1] for column in database.execute("PRAGMA table_info(run)")]:
                        database.execute(_ADDED)
                yield database
        self._has_tables = True


def _names(kind: type[RunRecord | OccasionRecord]) -> str:
    return ", ".join(field.name for field in fields(kind))


def _insert(database: sqlite3.Connection, table: str, record: RunRecord | OccasionRecord) -> None:
    values = list(vars(replace(record, message=redact(record.message))).values())
    marks = ", ".join("?" * len(values))
    database.execute(f"INSERT OR REPLACE INTO {table} ({_names(type(record))}) VALUES ({marks})", values)


def data_digest(config: PipelineConfig, window: Window) -> str:
    """Returns 16 hex digits that change with the data of a window, and of earlier spans whose rows its rows see."""
    spans = spans_read(config.ingest_config, window)
    parts: list[tuple[object, ...]] = [(span.number, span.version, fingerprint(span.files)) for span in spans]
    numbers = {span.number for span in spans}
    parts += [(name, fingerprint(tables.seen_by(numbers).files)) for name, tables in window.tables.items()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def config_digest(loaded: Loaded) -> str:
    """Returns 16 hex digits that change with every setting of the YAML, and with the user's code, that affect training.

    The folder of the user's modules has been set (`use_modules_of`).
    """
    text = loaded.config.model_dump_json(exclude=set(_NO_DATA)) + user_digest(loaded)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
