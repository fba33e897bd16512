"""Rows of a source: a part of a file, the state of reading it, numbered rows, and bad rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import gather, row_ranges

BATCH_ROWS = 16_384
"""Rows of a batch, which spread the cost of Python per batch; `BATCH_BYTES` bounds their memory."""
PART_BYTES = 64 << 20
"""Size of a part of a file that can be cut. It determines shards and row order; therefore it is a constant."""
_KEPT_TEXT = 1000
"""Characters of the text of a bad row in the quarantine: enough to find it, whatever a damaged file holds."""
_SHOWN_TEXT = 80
"""Characters of the text of a bad row in a message: one line."""
_Item = TypeVar("_Item")

AllColumns = Literal["to_hash", "to_show"]
"""Form of rows with every column of the source: bytes for `row_hash.contents`, or values."""


@dataclass(frozen=True)
class FilePart:
    """A part of a source file that one worker reads.

    Attributes:
        begin, end: Range in the reader's unit (bytes, row groups, rows, keys); None is from the start, or to the end.
        state: State of the file when the part was planned; empty if unknown.
    """

    begin: Any = None
    end: Any = None
    first_row: int = 1
    state: str = field(default="", compare=False)


WHOLE = FilePart()


def planned(parts: Sequence[FilePart], state: str) -> list[FilePart]:
    """Returns parts with the state that their file had before they were planned."""
    return [replace(part, state=state) for part in parts]


@dataclass(frozen=True)
class BadRow:
    """An unusable row. row: its number in `Rows.numbers`."""

    file: str
    row: int
    column: str | None
    reason: str
    text: str

    @property
    def why(self) -> str:
        """The reason, with the column."""
        return f"{self.reason} in column {self.column!r}" if self.column else self.reason

    @property
    def shown(self) -> str:
        """The place of the row and the beginning of its text, for messages."""
        return f"{self.file}, row {self.row}: {self.text[:_SHOWN_TEXT]!r}"


@dataclass
class BadRowCount:
    """The number of rows read and of bad ones, and the first of these."""

    rows: int = 0
    bad: int = 0
    first: BadRow | None = None

    def add(self, bad: Sequence[BadRow]) -> None:
        """Adds bad rows."""
        self.bad += len(bad)
        self.first = self.first or next(iter(bad), None)

    def check(self, most: float, of: str, limit: str, fix: str) -> None:
        """Raises UserError if a larger share of the rows is bad. of, limit, fix: parts of the message."""
        if self.first is not None and self.bad > most * self.rows:
            first = f"{self.first.file}, row {self.first.row}: {self.first.why}: {self.first.text[:_SHOWN_TEXT]!r}"
            raise UserError(
                f"{self.bad:,} of {self.rows:,} rows of {of} cannot be used; {limit}. The first: {first}. {fix}"
            )


@dataclass(frozen=True)
class Rows:
    """Some rows of one file.

    Attributes:
        numbers: int64 [rows], increasing. In text, the line at which a row starts, from 1, with the header counted;
            else the position of the row in the file, from 1.
        all_columns: The same rows with every unchanged column of the source, if `Reading.all_columns` requests it.
        without_bad: bool [rows], False for a row that a join added to the bad rows; None: there is none.
    """

    table: pa.Table
    numbers: np.ndarray
    all_columns: pa.Table | None = None
    without_bad: np.ndarray | None = None

    @property
    def good(self) -> np.ndarray:
        """A new array of bool [rows], False for the rows that are bad already."""
        return np.ones(len(self.numbers), bool) if self.without_bad is None else self.without_bad.copy()

    def filter(self, mask: np.ndarray) -> "Rows":
        """Returns the rows where `mask`, bool [rows], is true."""
        kept = pa.array(mask)
        all_columns = None if self.all_columns is None else self.all_columns.filter(kept)
        without_bad = None if self.without_bad is None else self.without_bad[mask]
        return Rows(self.table.filter(kept), self.numbers[mask], all_columns, without_bad)

    def slice(self, start: int, count: int) -> "Rows":
        """Returns at most `count` rows."""
        all_columns = None if self.all_columns is None else self.all_columns.slice(start, count)
        without_bad = None if self.without_bad is None else self.without_bad[start : start + count]
        return Rows(self.table.slice(start, count), self.numbers[start : start + count], all_columns, without_bad)

    def with_columns(self, columns: Iterable[tuple[str, pa.Array | pa.ChunkedArray]]) -> "Rows":
        """Returns the rows with further columns; `all_columns` stays as it is."""
        table = self.table
        for name, column in columns:
            table = table.append_column(name, column)
        return replace(self, table=table)


class RowBatch(NamedTuple):
    """Some rows in the form of a tf.Example. arrays: columns by name. good: bool [rows], True if a row is usable."""

    rows: Rows
    arrays: dict[str, pa.Array]
    good: np.ndarray

    def slice(self, part: slice) -> "RowBatch":
        """Returns a range of the rows."""
        arrays = {name: array[part] for name, array in self.arrays.items()}
        return RowBatch(self.rows.slice(part.start, part.stop - part.start), arrays, self.good[part])


@dataclass
class Reading:
    """The state of reading one part: the needed columns, and the bad rows found so far.

    Attributes:
        bad: Bad rows found since the last `take_bad`.
        read: Number of rows that parsed so far, as Ingest counts them (`Ingestion.read`).
        malformed: Number of rows that were not yielded: they did not parse, or are left out.
        consumed: Number of bytes of the part read so far; 0 if unknown.
        seen: Columns found so far, by readers that find columns only in the rows.
        all_columns: Form of the rows with every column of the source; None if these are not needed.
        unmatched: Name of a join -> number of rows without a match.
        left_out: Reason -> number of rows that are in no split and not bad.
        histories: Name of a history -> number of rows, by what they are counted for (`HistoryCount`).
    """

    file: SourceFile
    columns: Mapping[str, RawColumn]
    part: FilePart = WHOLE
    bad: list[BadRow] = field(default_factory=list)
    read: int = 0
    malformed: int = 0
    consumed: int = 0
    seen: set[str] = field(default_factory=set)
    all_columns: AllColumns | None = None
    unmatched: Counter[str] = field(default_factory=Counter)
    histories: dict[str, Counter[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        return self.file.path

    def add_malformed(self, row: int, reason: str, text: str, *, column: str | None = None) -> None:
        """Adds a bad row that does not parse and therefore is never yielded."""
        self.malformed += 1
        self.add_bad(row, column, reason, text)

    def add_bad(self, row: int, column: str | None, reason: str, text: str) -> None:
        """Adds an unusable row; at most 1,000 characters of its text are kept."""
        self.bad.append(BadRow(self.path, row, column, reason, text[:_KEPT_TEXT]))

    def take_bad(self) -> list[BadRow]:
        """Returns the bad rows added since the last call, in order, each with its first reason."""
        first = {row.row: row for row in reversed(self.bad)}
        self.bad.clear()  # in place: a reading of fewer columns shares the list
        return [first[row] for row in sorted(first)]


def numbered(table: pa.Table, first_row: int, all_columns: pa.Table | None = None) -> Rows:
    """Returns the rows of a table, numbered from `first_row`; `all_columns` has all columns of the same rows."""
    return Rows(table, np.arange(first_row, first_row + table.num_rows, dtype=np.int64), all_columns)


def select_rows(table: pa.Table, numbers: np.ndarray, reading: Reading) -> Rows:
    """Returns the columns that `reading` needs of a table with every column of the source, or with the needed ones."""
    return Rows(table.select(list(reading.columns)), numbers, table if reading.all_columns else None)


def bounded(rows: Rows) -> Iterator[Rows]:
    """Yields rows in batches of at most `BATCH_ROWS` rows and `BATCH_BYTES` bytes."""
    for part in row_ranges(rows.table if rows.all_columns is None else rows.all_columns, rows=BATCH_ROWS):
        yield rows.slice(part.start, part.stop - part.start)


def numbered_batches(
    items: Iterable[_Item], size: Callable[[_Item], int], first: int = 1
) -> Iterator[tuple[list[_Item], np.ndarray]]:
    """Yields lists of at most `BATCH_ROWS` items and `BATCH_BYTES` bytes, and their numbers, int64 [items]."""
    for batch in gather(items, size, rows=BATCH_ROWS):
        yield batch, np.arange(first, first + len(batch), dtype=np.int64)
        first += len(batch)
