"""Recomputes the lists of a few entities from their rows by other code, to prove that nothing of the future is in them.

Ingest compares the lists that it writes with these: plain loops over the events of an entity, without the sorted index
and its search.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.joins.join_index import Keys
from fullpass.components.ingest.readers.rows import Reading, Rows
from fullpass.preprocessing.expressions.syntax_tree import AGE
from fullpass.preprocessing.features.history import History

SAMPLE = "sample.json"
_ENTITIES = 20
_MOST_EVENTS = 1000
_ROWS_OF_BATCH = 20


@dataclass(frozen=True)
class SpansSeen:
    """The spans whose events a row sees: first to last, its own."""

    first: int
    last: int


@dataclass(frozen=True)
class Event:
    """One event of an entity. values: list column -> number, text, or None. span: 0 if the source has no spans."""

    time: int
    span: int
    values: Mapping[str, Any]


@dataclass
class EventSample:
    """All events of a few entities, in the order of the source, by the text of the key."""

    events: dict[str, list[Event]] = field(default_factory=dict)
    chosen: bool = False

    def add(self, keys: Keys, usable: np.ndarray, times: np.ndarray, spans: np.ndarray, values: pa.Table) -> None:
        """Adds the rows of the entities of the sample; the first batch with a key chooses them.

        Args:
            usable: bool [rows], whether a row is an event.
            values: The columns of the events, under the names of their lists.
        """
        if not self.chosen:
            rows = np.flatnonzero(usable)
            some = rows[np.linspace(0, len(rows) - 1, _ENTITIES).astype(int)].tolist()
            self.events = {_text(keys, row): [] for row in some}
            self.chosen = True
        for row in self._rows(keys, usable):
            mine = self.events[_text(keys, row)]
            if len(mine) <= _MOST_EVENTS:  # with one more, the entity is no longer compared
                cells = {name: _plain(values.column(name)[row].as_py()) for name in values.column_names}
                mine.append(Event(int(times[row]), int(spans[row]), cells))

    def check(
        self,
        name: str,
        history: History,
        keys: Keys,
        times: np.ndarray,
        usable: np.ndarray,
        lists: Mapping[str, pa.Array],
        reading: Reading,
        table: Rows,
        seen: SpansSeen | None,
    ) -> int:
        """Compares the lists of rows of the sample's entities with recomputed ones, and returns how many were compared.

        Raises:
            RuntimeError: The lists of a row differ.
        """
        rows = self._rows(keys, usable)
        compared = rows[:: max(1, len(rows) // _ROWS_OF_BATCH)]
        for row in compared:
            expected = recompute(history, self.events[_text(keys, row)], int(times[row]), seen)
            for column, cells in lists.items():
                own = column.removeprefix(f"{name}.")
                wanted = [
                    _age(int(times[row]) - event.time) if own == AGE else event.values[column] for event in expected
                ]
                received = [_plain(cell) for cell in cells[row].as_py() or ()]
                if received != wanted:
                    where = f"{reading.path}, row {table.numbers[row]}"
                    raise RuntimeError(
                        f"{where}: {column} is {received}, but the rows of the entity give {wanted}. This is a fault "
                        "of Fullpass; please report it."
                    )
        return len(compared)

    def _rows(self, keys: Keys, usable: np.ndarray) -> list[int]:
        """Returns the usable rows of the entities of the sample that have few events."""
        few = {key.encode() for key, events in self.events.items() if len(events) <= _MOST_EVENTS}
        distinct = keys.texts.dictionary_encode()
        known = np.array([*(text in few for text in distinct.dictionary.to_pylist()), False])
        codes = distinct.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)
        mine: list[int] = np.flatnonzero(usable & known[codes]).tolist()
        return mine

    def write(self, folder: str) -> None:
        """Writes the sample beside the index."""
        rows = {key: [[e.time, e.span, e.values] for e in events] for key, events in self.events.items()}
        with open(f"{folder}/{SAMPLE}", "w", encoding="utf-8") as f:
            json.dump(rows, f)


def read_event_sample(folder: str) -> EventSample:
    """Returns the sample that `write` wrote."""
    with open(f"{folder}/{SAMPLE}", encoding="utf-8") as f:
        return EventSample({key: [Event(*event) for event in events] for key, events in json.load(f).items()}, True)


def recompute(history: History, events: Sequence[Event], time: int, seen: SpansSeen | None) -> list[Event]:
    """Returns the events that a row sees, the oldest first.

    Args:
        events: All rows of the entity, in the order of the source.
        time: Of the row, in microseconds since 1970 UTC.
        seen: None if the source has no spans.
    """
    visible = []
    for event in events:
        too_new = event.time == time or event.time > time - history.delay
        too_old = history.longest is not None and event.time < time - history.longest
        elsewhere = seen is not None and not seen.first <= event.span <= seen.last
        if not (too_new or too_old or elsewhere):
            visible.append(event)
    return sorted(visible, key=lambda event: event.time)[-history.max_length :]


def _text(keys: Keys, row: int) -> str:
    text: str = keys.texts[row].as_py().decode("utf-8", "replace")
    return text


def _age(microseconds: int) -> float:
    """Returns an age in seconds: the smallest float32 that is not below it."""
    seconds = np.float32(microseconds / 1e6)
    while float(seconds) * 1e6 < microseconds:
        seconds = np.nextafter(seconds, np.float32(np.inf))
    return float(seconds)


def _plain(cell: Any) -> Any:
    """Returns a cell as JSON writes it; None for a missing one."""
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    return None if cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell)) else cell
