"""Stores the outcomes of a pipeline's runs in a SQLite file in its root, which the runs write themselves.

ML Metadata records executions and artifacts. This file records commands: the data of a run, its outcome, and the
occasion of the schedule that started it. It also holds the scheduler's state.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base.json_text import to_json_text
from fullpass.base.redact import redact
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.sqlite_files import HISTORY_DAMAGED, open_sqlite

_COLUMNS = "".join(
    f", {name} AS (json_extract(facts, '$.{name}'))" for name in RunFacts.names("kept") if name != "run_id"
)
"""The facts that the history keeps, as columns for queries, which SQLite computes from the JSON."""
_TABLES = f"""
CREATE TABLE IF NOT EXISTS runs (run_id TEXT PRIMARY KEY, facts TEXT{_COLUMNS});
CREATE TABLE IF NOT EXISTS occasion (
  number INTEGER PRIMARY KEY, key TEXT, kind TEXT, due TEXT, ended TEXT, span TEXT, outcome TEXT, message TEXT, log TEXT
);
CREATE TABLE IF NOT EXISTS request (
  number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, span INTEGER, why TEXT DEFAULT ''
);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT);
"""


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


_OF_OCCASION = ", ".join(one.name for one in fields(OccasionRecord))
_MARKS = ", ".join("?" for _ in fields(OccasionRecord))


class RunHistory:
    """The history of one pipeline; every call is one transaction."""

    def __init__(self, root: Path) -> None:
        self._file = RootLayout(root).history
        self._has_tables = False

    @property
    def exists(self) -> bool:
        """Whether anything was recorded."""
        return self._file.exists()

    def record(self, *runs: RunFacts) -> None:
        """Saves runs that have ended."""
        rows = [(run.run_id, to_json_text(run.marked("kept"))) for run in runs]
        with self._transaction() as database:
            database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?)", rows)

    def newest_trained(self, unit: str | None) -> RunFacts | None:
        """Returns the run that trained on the newest span; if there are several, the latest.

        Args:
            unit: Unit of the source's spans; None for a source without spans.
        """
        found = self._runs("WHERE trained AND unit IS ? ORDER BY COALESCE(last, 0) DESC, run_id DESC LIMIT 1", unit)
        return next(iter(found), None)

    def run_for(self, occasion: str) -> RunFacts | None:
        """Returns the latest run that was started for an occasion."""
        return next(iter(self._runs("WHERE occasion = ? ORDER BY run_id DESC LIMIT 1", occasion)), None)

    def trained_on(self, *, last: int | None, data: str, config: str) -> RunFacts | None:
        """Returns the latest run that trained on exactly this window of data with this config."""
        condition = "WHERE trained AND last IS ? AND data_digest = ? AND config_digest = ? ORDER BY run_id DESC LIMIT 1"
        return next(iter(self._runs(condition, last, data, config)), None)

    def newest(self, most: int) -> list[RunFacts]:
        """Returns the runs that ended last, by their start, newest first; refused and failed ones too."""
        return self._runs("ORDER BY run_id DESC LIMIT ?", most)

    def entries(self, most: int) -> list[OccasionRecord]:
        """Returns the latest occasions that ended, latest first."""
        query = f"SELECT {_OF_OCCASION} FROM occasion ORDER BY number DESC LIMIT ?"
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
            entries = [replace(entry, message=redact(entry.message)) for entry in ended]
            database.executemany(f"INSERT INTO occasion ({_OF_OCCASION}) VALUES ({_MARKS})", map(astuple, entries))
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
            for condition in ("occasion WHERE ended < ?", "runs WHERE ended < ? AND NOT trained"):
                old += database.execute(f"SELECT count(*) FROM {condition}", [moment]).fetchone()[0]
                if not dry_run:
                    database.execute(f"DELETE FROM {condition}", [moment])
        return old

    def add_request(self, span: int | None, why: str = "") -> int:
        """Adds a request for a run, which the scheduler reads; returns the number of the request.

        Args:
            why: What a watch of the served model found; empty for a request by hand.
        """
        with self._transaction() as database:
            at = datetime.now(UTC).isoformat()
            statement = "INSERT INTO request (at, span, why) VALUES (?, ?, ?)"
            return database.execute(statement, [at, span, redact(why)]).lastrowid or 0

    def requests(self) -> list[tuple[int, datetime, int | None, str]]:
        """Returns the open requests: number, time in UTC, span, and what a watch found."""
        with self._transaction() as database:
            rows = database.execute("SELECT number, at, span, why FROM request ORDER BY number").fetchall()
        return [(number, datetime.fromisoformat(at), span, why) for number, at, span, why in rows]

    def _runs(self, condition: str, *values: object) -> list[RunFacts]:
        if not self.exists:
            return []
        with self._transaction() as database:
            rows = database.execute(f"SELECT facts FROM runs {condition}", values).fetchall()
        return [RunFacts.of(json.loads(facts)) for (facts,) in rows]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if not self._has_tables:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        with open_sqlite(self._file, HISTORY_DAMAGED, "rwc") as database:
            with database:
                if not self._has_tables:
                    database.executescript(_TABLES)
                yield database
        self._has_tables = True
