"""Finds the events of each row's entity before the row: a binary search in files that all workers share.

`events_pass.py` sorts the events once by (hash of the entity, time, position in the source), as `joins/` sorts a
table. A worker needs memory for the lists of one batch only, however many events an entity has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, listed, prefix_errors
from fullpass.components.ingest.joins.join_index import (
    OPEN_INDEXES,
    Entities,
    Keys,
    SortedRows,
    add_unreadable,
    keys_of,
    local_copy,
    times_of,
)
from fullpass.components.ingest.readers.rows import Reading, RowBatch, Rows
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.forecast import ShiftedLabel
from fullpass.preprocessing.features.history import History
from fullpass.preprocessing.values.byte_batches import byte_ranges
from fullpass.preprocessing.values.list_values import lists_of_lengths
from fullpass.preprocessing.values.raw_text import RawText

_FIRST_TIME = np.iinfo(np.int64).min
_SECOND = 1_000_000
"""Microseconds."""
_AGE_BYTES = 4
"""Bytes of the age of an event, a float32."""
_MOST_BYTES = 1 << 30
"""Of the lists of a row: half of what a tf.Example and an array of Arrow can hold."""
_MOST_ELEMENTS = 1 << 22
"""Largest number of events in the lists of a batch: 4,194,304."""
_FIRST_SPAN = -(2**62)
"""Before every span: half of int64, so that adding to it does not overflow."""
_SCANNED_LISTS = 4
"""Spans are looked at in steps of this many lists of the greatest length, so that one step usually finds enough."""


class SpansSeen(NamedTuple):
    """The spans whose events a row sees: first to last, its own."""

    first: int
    last: int


def keys_and_times(
    rows: Rows, good: np.ndarray, reading: Reading, of: History | ShiftedLabel, text: RawText
) -> tuple[Keys, np.ndarray, np.ndarray]:
    """Returns the keys of rows, their times in microseconds, int64 [rows], and which rows have both, bool [rows].

    A row with an unreadable date is added to the bad rows, and its `good`, bool [rows], is set to False.

    Args:
        of: Names the columns of key and date.
        text: Rules for reading the text of `rows`.
    """
    with prefix_errors(reading.path):
        times, known, unreadable = times_of(rows.table, of.at, text, of.format)
        keys = keys_of(rows.table, of.keys, text)
    add_unreadable(reading, rows, of.at, of.format, unreadable & good)
    good &= ~unreadable
    return keys, times, keys.present & known


@dataclass(frozen=True)
class EventIndex:
    """The sorted events of a history.

    Attributes:
        lists: The list columns of the examples, named HISTORY.COLUMN.
        folder: Folder of the index, or its address.
        files: Paths that were read.
        events: Number of events.
        ordered: Whether the events of each entity have their spans in the order of their times.
        before: Number of the spans before its own whose events a row sees.
    """

    name: str
    history: History
    lists: tuple[RawColumn, ...]
    folder: str
    files: tuple[str, ...]
    events: int
    ordered: bool = True
    before: int = 0

    def find(self, batch: RowBatch, reading: Reading, text: RawText, span: int | None) -> "FoundEvents":
        """Finds the events of each row.

        A row with an unreadable date is added to the bad rows, and set to False in `batch.good`.

        Args:
            text: Rules for reading the text of the rows.
            span: Number of the rows' span; None if the source has no spans.
        """
        seen = None if span is None else SpansSeen(max(span - self.before, _FIRST_SPAN), span)
        keys, times, there = keys_and_times(batch.rows, batch.good, reading, self.history, text)
        counts = reading.histories.setdefault(self.name, Counter())
        counts["without"] += int((batch.good & ~there).sum())
        lengths, positions = np.zeros(len(there), np.int64), np.zeros(0, np.int64)
        if self.events:
            mine = np.flatnonzero(there)
            found = self._find(opened_index(self.folder), keys.first[mine], keys.second[mine], times[mine], seen)
            counts["cut"] += int((found.cut & batch.good[mine]).sum())
            lengths[mine], positions = found.lengths, found.positions
        return FoundEvents(self, times, lengths, positions)

    def _find(
        self, index: "SortedEvents", first: np.ndarray, second: np.ndarray, times: np.ndarray, seen: SpansSeen | None
    ) -> "_Found":
        history, of = self.history, (first, second)
        oldest = np.full(len(times), _FIRST_TIME) if history.longest is None else times - history.longest
        # Times are whole microseconds: an event counts from its delay on, but never at the time of the row.
        first_unknown = times - max(history.delay - 1, 0)
        begin, end = index.lower_bound(index.time, of, oldest), index.lower_bound(index.time, of, first_unknown)
        end = np.maximum(begin, end)
        if seen is None or self.ordered:
            if seen is not None:
                begin = index.lower_bound(index.span, of, np.full(len(times), seen.first), begin, end)
                end = index.lower_bound(index.span, of, np.full(len(times), seen.last + 1), begin, end)
            kept = np.maximum(begin, end - history.max_length)
            return _Found(end - kept, _ranges(kept, end), kept > begin)
        rows = [
            index.seen(*ends, seen, history.max_length + 1) for ends in zip(begin.tolist(), end.tolist(), strict=True)
        ]
        kept_of = [row[-history.max_length :] for row in rows]
        lengths = np.array([len(row) for row in kept_of], np.int64)
        cut = np.array([len(row) > history.max_length for row in rows], bool)
        return _Found(lengths, np.concatenate([np.zeros(0, np.int64), *kept_of]), cut)


class _Found(NamedTuple):
    """lengths: int64 [rows]. positions: int64 [elements]. cut: bool [rows], whether the list of a row was longer."""

    lengths: np.ndarray
    positions: np.ndarray
    cut: np.ndarray


@dataclass(frozen=True)
class FoundEvents:
    """The events of some rows.

    Attributes:
        times: Of the rows, int64 [rows].
        lengths: Number of events of each row, int64 [rows].
        positions: The events in the index, int64 [elements].
    """

    index: EventIndex
    times: np.ndarray
    lengths: np.ndarray
    positions: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of the lists of each row, int64 [rows]."""
        if not len(self.positions):
            return np.zeros(len(self.lengths), np.int64)
        bytes_of = opened_index(self.index.folder).values.bytes_at(self.positions) + _AGE_BYTES
        ends = np.cumsum(self.lengths)
        before = np.concatenate([[0], np.cumsum(bytes_of)])
        return before[ends] - before[ends - self.lengths]

    def lists(self, part: slice) -> dict[str, pa.Array]:
        """Returns the lists of a range of rows, large lists of float32 or binary; null for a row without events."""
        of, times, lengths = self.index, self.times[part], self.lengths[part]
        if not of.events:
            return {column.name: pa.nulls(len(times), pa.large_list(element_type(column))) for column in of.lists}
        index, begin = opened_index(of.folder), int(self.lengths[: part.start].sum())
        positions = self.positions[begin : begin + int(lengths.sum())]
        ages = pa.array(_rounded_up((np.repeat(times, lengths) - index.time[positions]) / _SECOND))
        stored = index.values.take(positions) if index.values.names else pa.table({})
        values = {name: stored.column(name).combine_chunks() for name in stored.column_names}
        return {column.name: lists_of_lengths(values.get(column.name, ages), lengths) for column in of.lists}


def with_lists(
    histories: Sequence[EventIndex], batch: RowBatch, reading: Reading, text: RawText, span: int | None
) -> Iterator[RowBatch]:
    """Yields rows with the lists of their histories, in batches of bounded bytes; see `EventIndex.find`.

    Raises:
        UserError: The lists of a row have more bytes than an example can hold.
    """
    longest = max((index.history.max_length for index in histories), default=0)
    size = max(1, _MOST_ELEMENTS // longest if longest else len(batch.good))
    for start in range(0, len(batch.good), size):
        some = batch.slice(slice(start, start + size))
        found = [index.find(some, reading, text, span) for index in histories]
        sizes = np.sum([one.sizes for one in found], axis=0) if found else np.zeros(len(some.good), np.int64)
        _check_sizes(sizes, [index.name for index in histories], reading, some.rows)
        for part in byte_ranges(sizes, rows=size):
            piece = some.slice(part)
            lists = {name: column for one in found for name, column in one.lists(part).items()}
            yield piece._replace(arrays=piece.arrays | lists)


def _check_sizes(sizes: np.ndarray, histories: Sequence[str], reading: Reading, rows: Rows) -> None:
    row = int(sizes.argmax())
    if sizes[row] > _MOST_BYTES:
        raise UserError(
            f"{reading.path}, row {rows.numbers[row]}: its lists of {listed([f'data.history.{n}' for n in histories])} "
            f"have {sizes[row] / 1e9:.1f} GB; an example holds less than {_MOST_BYTES / 1e9:.1f} GB. Keep fewer or "
            "shorter columns, or lower max_length or within."
        )


class SortedEvents(SortedRows):
    """The files of an index of events, mapped into memory."""

    time: np.ndarray
    span: np.ndarray

    def lower_bound(
        self,
        ordered_by: np.ndarray,
        of: Entities,
        values: np.ndarray,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
    ) -> np.ndarray:
        """Returns the position of the first event of each entity with at least a value, int64 [rows].

        Args:
            ordered_by: Times or spans, which increase for the events of an entity.
            of: Both halves of the hashes of the entities.
            low, high: Positions between which to search; by default all events.
        """
        first, second = of
        if low is None or high is None:
            low, high = self.ends(first)
        return self.search(second, low, high, lambda at, rows: ordered_by[at] < values[rows])

    def seen(self, begin: int, end: int, seen: SpansSeen, most: int) -> np.ndarray:
        """Returns the positions of the last events between two positions whose spans are seen, at most `most`."""
        found = np.zeros(0, np.int64)
        while end > begin and len(found) < most:
            start = max(begin, end - _SCANNED_LISTS * most)
            spans = self.span[start:end]
            found = np.concatenate([start + np.flatnonzero((spans >= seen.first) & (spans <= seen.last)), found])
            end = start
        return found[-most:]


@lru_cache(maxsize=OPEN_INDEXES)
def opened_index(folder: str) -> SortedEvents:
    """Returns the files of an index; a process opens each once."""
    return SortedEvents(local_copy(folder))


def _rounded_up(seconds: np.ndarray) -> np.ndarray:
    """Returns seconds, float64, as float32 that are not smaller: an event older than 365d is no event within it."""
    nearest = seconds.astype(np.float32)
    return np.where(nearest < seconds, np.nextafter(nearest, np.float32(np.inf)), nearest)


def _ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Returns the positions from each begin to its end, one range after the other: int64 [elements]."""
    lengths = end - begin
    return np.repeat(end - np.cumsum(lengths), lengths) + np.arange(lengths.sum())


def element_type(column: RawColumn) -> pa.DataType:
    """Returns the type of the elements of a list: float32 or binary."""
    return pa.float32() if column.type == "number" else pa.binary()
