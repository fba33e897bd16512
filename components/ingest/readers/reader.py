"""The common types and functions of all readers: parts of a file, numbered rows, converted values, and bad rows."""

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean, prefix_errors
from fullpass.components.ingest.readers.crashes import noted
from fullpass.components.ingest.sources.config import BaseSource, FileSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, find_files
from fullpass.components.ingest.sources.storage import state_of
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.history import holds_ages
from fullpass.preprocessing.values.byte_batches import gather, row_ranges
from fullpass.preprocessing.values.convert import convert_raw
from fullpass.preprocessing.values.list_values import flatten, length_mismatch, lengths_of
from fullpass.preprocessing.values.raw_text import RawText

BATCH_ROWS = 16_384
PART_BYTES = 64 << 20
"""Size of a part of a file that can be cut. It determines shards and row order; therefore it is a constant."""
_KEPT_TEXT = 1000
_SELF_EXPLANATORY_ERRORS = (pa.ArrowException, OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile)
_Item = TypeVar("_Item")
_Source = TypeVar("_Source", bound=BaseSource)

AllColumns = Literal["to_hash", "to_show"]
"""Form of rows with every column of the source: bytes for `row_hash.contents`, or values."""


class EmptyFileError(UserError):
    """A file has not even the header line that its format begins with."""


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
        return f"{self.file}, row {self.row}: {self.text[:80]!r}"


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
            first = f"{self.first.file}, row {self.first.row}: {self.first.why}: {self.first.text[:80]!r}"
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
        malformed: Number of rows that did not parse and therefore were not yielded.
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


def text_at(column: pa.Array | pa.ChunkedArray, row: int) -> str:
    """Returns the `cell_text` of a cell; for a date outside Python's range, its number."""
    cell = column[row]
    try:
        return cell_text(cell.as_py())
    except (OverflowError, ValueError):
        return str(getattr(cell, "value", column.type))


def cell_text(cell: Any) -> str:
    """Returns a cell as readable text: bytes are decoded, and a list of one value, as in tf.Examples, is unwrapped."""
    if isinstance(cell, list) and len(cell) == 1:
        return cell_text(cell[0])
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


class Reader(ABC, Generic[_Source]):
    """Reads the inputs of one format, such as files: one object per input."""

    def __init__(self, file: SourceFile, source: _Source):
        self._file = file
        self._path = file.path
        self._source = source

    @classmethod
    def inputs(cls, source: Any, resolve: Resolve) -> Sequence[SourceFile]:
        """Returns all inputs of a source; see `read_source.find_inputs`."""
        return find_files(source.path, resolve, endings=source.endings)

    def columns(self) -> list[str] | None:
        """Returns the columns of the file, or None if only the rows contain them, or finding them takes long."""
        return None

    def names_in_rows(self, rows: int) -> list[str] | None:
        """Returns the columns in the first rows, of a format whose rows contain them; None if reading them is slow."""
        return self.columns()

    def dictionary_columns(self) -> frozenset[str]:
        """Returns the columns that are stored with a dictionary of values, for values of any type."""
        return frozenset()

    def parts(self) -> list[FilePart]:
        """Returns parts that can be read in parallel; in this order, they make up the file."""
        return planned([WHOLE], state_of(self._path)) if isinstance(self._source, FileSource) else [WHOLE]

    @abstractmethod
    def rows(self, reading: Reading) -> Iterator[Rows]:
        """Yields the rows of one part in order, with the columns of `reading`, in their order."""


class FileReader(Reader[_Source]):
    """Reads files whose columns are checked before they are read, and whose failures name the file."""

    def state(self) -> str:
        """Returns text that changes when the input changes."""
        return state_of(self._path)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        columns = self.columns()
        if columns is not None:
            check_columns(self._path, list(reading.columns), columns)
        with readable(self._path, reading, lambda _: self.state()):
            yield from self._rows(reading)

    @abstractmethod
    def _rows(self, reading: Reading) -> Iterator[Rows]:
        """Yields the rows, as `rows` does."""


def load_package(module: str, *, package: str, needed_by: str) -> Any:
    """Returns a module of a package that only some sources need.

    Raises:
        UserError: The package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{needed_by} needs the Python package {package}, which is not installed here ({error}). "
            f"Install fullpass[sources], or {package} alone."
        ) from error


def numbered_batches(
    items: Iterable[_Item], size: Callable[[_Item], int], first: int = 1
) -> Iterator[tuple[list[_Item], np.ndarray]]:
    """Yields lists of at most `BATCH_ROWS` items and `BATCH_BYTES` bytes, and their numbers, int64 [items]."""
    for batch in gather(items, size, rows=BATCH_ROWS):
        yield batch, np.arange(first, first + len(batch), dtype=np.int64)
        first += len(batch)


def select_rows(table: pa.Table, numbers: np.ndarray, reading: "Reading") -> Rows:
    """Returns the columns that `reading` needs of a table with every column of the source, or with the needed ones."""
    return Rows(table.select(list(reading.columns)), numbers, table if reading.all_columns else None)


def check_columns(path: str, needed: Sequence[str], present: Sequence[str]) -> None:
    """Checks that each needed column is present exactly once.

    Raises:
        UserError: A column is absent from the file, or is in it twice.
    """
    found = Counter(present)
    for column in needed:
        if column not in found:
            raise UserError(
                f"{path}: no column {column!r}.{did_you_mean(column, present)} "
                f"Columns of the file: {', '.join(present)}. If it was renamed, rename it back, or read the files "
                "with each name in a separate pipeline."
            )
        if found[column] > 1:
            raise UserError(f"{path}: column {column!r} appears twice; rename one.")


def planned(parts: Sequence[FilePart], state: str) -> list[FilePart]:
    """Returns parts with the state that their file had before they were planned."""
    return [replace(part, state=state) for part in parts]


@contextmanager
def readable(path: str, reading: "Reading | None" = None, state: Callable[[str], str] = state_of) -> Iterator[None]:
    """Turns a failure to read or decompress into an error that names the file. Keeps a note of the file for crashes.

    Decoders raise many types of errors for a damaged file, such as KeyError; for these, the message contains the type.

    Args:
        reading: The part that is read; afterwards the file must be as it was when it was found and its parts planned.

    Raises:
        UserError: The file cannot be read, or has changed.
    """
    before = {reading.file.state, reading.part.state} - {""} if reading is not None else set()
    try:
        with noted(path):
            yield
        if before:
            _check_unchanged(path, before, state)
    except UserError:
        raise
    except Exception as error:
        if "arrow.py_extension_type" in str(error):  # the rest of the message shows the code
            raise UserError(
                f"{path}: not read, because its schema holds Python code, which Arrow would run (the type "
                "arrow.py_extension_type, CVE-2023-47248). Write the file again with the plain type of the column: its "
                "`storage` in pyarrow."
            ) from None
        if before:
            _check_unchanged(path, before, state)
        message = f"{error}" if isinstance(error, _SELF_EXPLANATORY_ERRORS) else f"{type(error).__name__}: {error}"
        raise UserError(
            f"{path}: reading stopped: {message}. Is the file cut short, in another format than its name suggests, or "
            f"written by newer software (read by pyarrow {pa.__version__})?"
        ) from error


def _check_unchanged(path: str, before: Set[str], state: Callable[[str], str]) -> None:
    now = state(path)
    if before == {now}:
        return
    was, size = min(before).partition(" ")[0], now.partition(" ")[0]
    changed = f"{was} bytes before, {size} now" if was.isdigit() and was != size else "its time is another"
    raise UserError(
        f"{path}: changed while it was read ({changed if now else 'it is gone'}). Some of its rows would be missing or "
        "from two versions. Run again when it is complete. Write new data under another name, and rename it when it is "
        "whole."
    )


def numbered(table: pa.Table, first_row: int, all_columns: pa.Table | None = None) -> Rows:
    """Returns the rows of a table, numbered from `first_row`; `all_columns` has all columns of the same rows."""
    return Rows(table, np.arange(first_row, first_row + table.num_rows, dtype=np.int64), all_columns)


def bounded(rows: Rows) -> Iterator[Rows]:
    """Yields rows in batches of at most `BATCH_ROWS` rows and `BATCH_BYTES` bytes."""
    for part in row_ranges(rows.table if rows.all_columns is None else rows.all_columns, rows=BATCH_ROWS):
        yield rows.slice(part.start, part.stop - part.start)


def convert_rows(
    columns: Iterable[RawColumn], text: RawText, reading: Reading, rows: Rows
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns the columns by name in the form of a tf.Example, and bool [rows], True if a row is usable.

    Each unusable row is added to `reading`, with its column and the reason.
    """
    good, arrays = rows.good, dict[str, pa.Array]()
    columns = tuple(columns)
    for raw in columns:
        column = rows.table.column(raw.name).combine_chunks()
        with prefix_errors(reading.path):
            converted = convert_raw(column, raw, text)
        arrays[raw.name] = converted.flat
        bad = converted.bad
        for row in np.flatnonzero(bad).tolist():
            reading.add_bad(int(rows.numbers[row]), raw.name, converted.reason_of(row), _shown(column, row, raw))
        good &= ~bad
    for group in sorted({raw.group for raw in columns if raw.group is not None}):
        members = [raw.name for raw in columns if raw.group == group]
        for row in np.flatnonzero(length_mismatch([arrays[name] for name in members]) & good).tolist():
            lengths = ", ".join(f"{name} {len(arrays[name][row].as_py() or ())}" for name in members)
            reading.add_bad(
                int(rows.numbers[row]), members[0], f"another length than the other lists of {group}", lengths
            )
            good[row] = False
    for ages in (raw.name for raw in columns if holds_ages(raw.name, raw.group)):
        for row in np.flatnonzero(_holds_no_ages(arrays[ages]) & good).tolist():
            cell = text_at(rows.table.column(ages), row)
            reading.add_bad(int(rows.numbers[row]), ages, "not the ages of events, the oldest first", cell)
            good[row] = False
    return arrays, good


def _holds_no_ages(lists: pa.Array) -> np.ndarray:
    """Returns whether a number of a list is below 0, larger than the one before it, or behind a missing one.

    Missing ones at the end pad the list.
    """
    numbers, of_row = flatten(lists).to_numpy(zero_copy_only=False), np.repeat(np.arange(len(lists)), lengths_of(lists))
    wrong = numbers < 0
    falls = (numbers[1:] <= numbers[:-1]) | np.isnan(numbers[1:])
    wrong[1:] |= ~falls & (of_row[1:] == of_row[:-1])
    return np.bincount(of_row[wrong], minlength=len(lists)) > 0


def _shown(column: pa.Array, row: int, raw: RawColumn) -> str:
    """Returns a cell as readable text; for an image, its size and first bytes."""
    content = column[row].as_py() if raw.image else None
    if not isinstance(content, bytes):
        return text_at(column, row)
    return f"{len(content):,} bytes, which begin with {content[:8].hex(' ')}"
