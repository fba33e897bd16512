"""Finds the matching rows of a joined table: a binary search in files that all workers share.

`build_index.py` sorts the table once by (hash of the key, time when the row is known). The hashes and times are
memory-mapped arrays and the columns a memory-mapped Arrow file, so a worker needs memory for one batch only, whatever
the size of the table, and every runner of Beam finds the same rows.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import prefix_errors
from fullpass.base.files import is_address
from fullpass.components.ingest.joins.config import AsOf, Join
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.rows import BATCH_ROWS, Reading, Rows
from fullpass.components.ingest.writing.manifest import JoinCount
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.values.arrow_text import as_mask
from fullpass.preprocessing.values.byte_batches import byte_ranges, row_bytes
from fullpass.preprocessing.values.convert import Converted, convert_raw
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_keys import KEY_MARK, is_key_text
from fullpass.preprocessing.values.shown_cells import text_at

FIRST, SECOND, TIME, VALUES, BYTES = "hash-1.uint64", "hash-2.uint64", "known-at.int64", "values.arrow", "bytes.int64"
"""Files of an index: both halves of the hashes of the keys, microseconds since 1970 UTC, the columns, and their bytes.

Of tables per span that are joined by key only, the time is the span."""
SPAN = "span.int64"
"""File of the span of each row, of tables per span that are joined by time."""
LOOKUP = "lookup.arrow"
"""The keys and columns of a table that the model contains."""
SpansOf = Callable[[pa.Table], int | np.ndarray]
"""Rows -> their span, or that of each, int64 [rows]."""
_MOST_COMBINED = 1 << 29
"""Bytes of columns that are read into memory as one batch, 512 MB: taking rows of one batch is faster than of many."""
OPEN_INDEXES = 16
"""Indexes that a process keeps mapped: more than the joins and histories of a usual pipeline, and few file handles."""
_HALVES = ("fullpass joins 1", "fullpass joins 2")  # keys of SipHash, 16 bytes each


@dataclass(frozen=True)
class Keys:
    """The keys of some rows.

    Attributes:
        texts: binary [rows], the tokens of the key joined by `KEY_MARK`; null if one of them is missing.
        first, second: uint64 [rows], two independent hashes; equal pairs are equal keys.
    """

    texts: pa.Array
    first: np.ndarray
    second: np.ndarray

    @property
    def present(self) -> np.ndarray:
        """bool [rows], whether the row has a key."""
        return as_mask(self.texts.is_valid())


def keys_of(table: pa.Table, columns: Sequence[str], text: RawText) -> Keys:
    """Returns the keys of rows: the tokens of the key columns, in any Arrow type."""
    tokens = [_cells(table, name, text, token=True).flat for name in columns]
    texts = tokens[0] if len(tokens) == 1 else pc.binary_join_element_wise(*tokens, pa.scalar(KEY_MARK.encode()))
    distinct = texts.dictionary_encode()
    objects = distinct.dictionary.to_numpy(zero_copy_only=False)
    rows = distinct.indices.fill_null(len(objects)).to_numpy()
    halves = (pd.util.hash_array(objects, hash_key=key, categorize=False) for key in _HALVES)
    return Keys(texts, *(np.append(half, np.uint64(0))[rows] for half in halves))


def times_of(table: pa.Table, column: str, text: RawText, format: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns times, int64 microseconds since 1970 UTC, whether a row has one, and whether it is unreadable, bool.

    A row whose cell is missing or "" has no time, and is not unreadable.
    """
    cells = _cells(table, column, text, token=False)
    read = read_dates(cells.flat.cast(pa.string()), format)
    there = as_mask(pc.not_equal(cells.flat, b"").fill_null(False)) | cells.bad
    return read.utc, read.valid, there & ~read.valid


def add_unreadable(reading: Reading, rows: Rows, column: str, format: str, unreadable: np.ndarray) -> None:
    """Adds the rows with an unreadable date, bool [rows], to the bad rows."""
    for row in np.flatnonzero(unreadable).tolist():
        text = text_at(rows.table.column(column), row)
        reading.add_bad(int(rows.numbers[row]), column, f"no date of the format {format}", text)


def joined_arrays(
    columns: Iterable[RawColumn], joins: Mapping[str, Join], reading: Reading, rows: Rows
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns joined columns by name in the form of a tf.Example, and which rows are usable, bool [rows].

    They were converted when their table was read, but for a number by which rows find others: its text is its key.
    """
    arrays, good = {}, rows.good
    for column in columns:
        arrays[column.name] = rows.table.column(column.name).combine_chunks()
        if is_key_text(arrays[column.name], column):
            text = joins[column.name.partition(".")[0]].source.raw_text
            numbers, fits = convert_rows([column], text, reading, rows)
            arrays |= numbers
            good &= fits
    return arrays, good


def with_keys(columns: Iterable[RawColumn], keys: Iterable[str]) -> dict[str, RawColumn]:
    """Returns the columns of an index by name, with the joined ones by which rows find others, as text."""
    found = {column.name: column for column in columns}
    for name in keys:
        if name not in found or (found[name].type == "number" and not found[name].many):
            found[name] = RawColumn(name, "string", token=True)
    return found


def _cells(table: pa.Table, name: str, text: RawText, *, token: bool) -> Converted:
    column = table.column(name).combine_chunks()
    return convert_raw(column, RawColumn(name, "string", token=token), text)


@dataclass(frozen=True)
class JoinIndex:
    """A joined table, ready to find rows in.

    Attributes:
        columns: The joined columns, named NAME.COLUMN.
        folder: Folder of the index, or its address.
        counts: What was read of each file.
        before: If a table is one per span, the number of spans before its own that a row sees; else None.
    """

    name: str
    join: Join
    columns: tuple[RawColumn, ...]
    folder: str
    counts: tuple["FileRows", ...]
    before: int | None = None

    def count(self, span: int | None, unmatched: int) -> JoinCount:
        """Returns what rows of a span have seen of the table; unmatched: number of rows without a match."""
        seen = [one for one in self.counts if self.before is None or 0 <= (span or 0) - one.span <= self.before]
        rows = sum(one.rows for one in seen)
        aside = sum(one.read for one in seen) - rows
        return JoinCount(self.name, tuple(one.path for one in seen), rows, aside, unmatched)

    def add_columns(
        self, batches: Iterable[Rows], reading: Reading, text: RawText, spans_of: SpansOf = lambda _: 0
    ) -> Iterator[Rows]:
        """Yields the rows with the joined columns, in the form of a tf.Example; null in rows without a match.

        Counts the rows without a match. A row with an unreadable date stays, without a match, and is a bad row. A batch
        is cut where the joined columns have more than `BATCH_BYTES`.

        Args:
            text: Rules for reading the text of the rows.
            spans_of: Returns the span of the rows of a table, or of each, int64 [rows].
        """
        for rows in batches:
            with prefix_errors(reading.path):
                positions, unreadable = self.find(rows.table, text, spans_of(rows.table))
            if self.join.as_of is not None and unreadable.any():
                add_unreadable(reading, rows, self.join.as_of.left, self.join.as_of.format, unreadable)
                rows = replace(rows, without_bad=rows.good & ~unreadable)
            reading.unmatched[self.name] += int((rows.good & (positions < 0)).sum())
            for part in byte_ranges(self.bytes_at(positions), rows=BATCH_ROWS):
                yield rows.slice(part.start, part.stop - part.start).with_columns(self.columns_at(positions[part]))

    def find(self, table: pa.Table, text: RawText, spans: int | np.ndarray = 0) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows of the joined table that match the rows of another.

        Args:
            text: Rules for reading the text of `table`.
            spans: Span of the rows of `table`, or of each, int64 [rows].

        Returns:
            Position of the match of each row, int64 [rows], -1 without one; and whether its date cannot be read, bool.
        """
        keys, as_of = keys_of(table, list(self.join.keys), text), self.join.as_of
        searched, times = keys.present, np.zeros(table.num_rows, np.int64)
        unreadable = np.zeros(table.num_rows, bool)
        if as_of is not None:
            times, known, unreadable = times_of(table, as_of.left, text, as_of.format)
            searched = searched & known
        elif self.before is not None:
            times = np.full(table.num_rows, spans)
        positions = np.full(table.num_rows, -1)
        index = _opened(self.folder, as_of, self.before)
        rows = np.flatnonzero(searched)
        rows = rows[np.argsort(keys.first[rows])]  # searches of neighbours touch the same pages of the file
        own = np.broadcast_to(np.asarray(spans, np.int64), table.num_rows)[rows]
        positions[rows] = index.find(keys.first[rows], keys.second[rows], times[rows], own)
        return positions, unreadable

    def columns_at(self, positions: np.ndarray) -> list[tuple[str, pa.ChunkedArray]]:
        """Returns names and values of the joined columns at some positions, null where a position is -1."""
        arrays = self._values.take(positions).columns
        return [(column.name, array) for column, array in zip(self.columns, arrays, strict=True)]

    def bytes_at(self, positions: np.ndarray) -> np.ndarray:
        """Returns the bytes of the joined columns at each of some positions, int64 [positions]."""
        return self._values.bytes_at(positions)

    @property
    def _values(self) -> "StoredColumns":
        return _opened(self.folder, self.join.as_of, self.before).values


@dataclass(frozen=True)
class FileRows:
    """What was read of a file of a joined table: `read` rows, of which `rows` can match; and its span, if it has one.

    The others cannot be read, have no key or date, or repeat a key.
    """

    path: str
    span: int
    read: int
    rows: int


Entities = tuple[np.ndarray, np.ndarray]
"""Both halves of the hashes of some keys, uint64 [rows] each."""


class SortedRows:
    """The files of an index, mapped into memory; rows are sorted by the halves of the hash of their key.

    Attributes:
        first, second: Both halves, uint64 [rows].
        time, span: int64 [rows]; None without such a file.
    """

    def __init__(self, folder: str):
        self.first = _mapped(f"{folder}/{FIRST}", np.uint64)
        self.second = _mapped(f"{folder}/{SECOND}", np.uint64)
        self.time, self.span = (
            _mapped(path, np.int64) if os.path.exists(path := f"{folder}/{name}") else None for name in (TIME, SPAN)
        )
        self.values = StoredColumns(f"{folder}/{VALUES}", _mapped(f"{folder}/{BYTES}", np.int64))

    def ends(self, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions between which the keys with these first halves are, int64 [rows] each."""
        return np.searchsorted(self.first, first, "left"), np.searchsorted(self.first, first, "right")

    def search(
        self,
        second: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        is_before: Callable[[np.ndarray, np.ndarray], np.ndarray | bool],
    ) -> np.ndarray:
        """Returns the first position of each row that is not before what is searched, int64 [rows].

        Args:
            second: The second halves that are searched, uint64 [rows].
            low, high: Positions from `ends`, or between them.
            is_before: Positions with the key of some rows, and the numbers of these rows -> whether they are before.
        """
        low, high = low.copy(), high.copy()
        while len(rows := np.flatnonzero(low < high)):
            middle = (low[rows] + high[rows]) // 2
            found = self.second[middle]
            before = (found < second[rows]) | ((found == second[rows]) & is_before(middle, rows))
            low[rows[before]] = middle[before] + 1
            high[rows[~before]] = middle[~before]
        return low


class _OpenIndex(SortedRows):
    def __init__(self, folder: str, as_of: AsOf | None, before: int | None):
        super().__init__(folder)
        self._before = before or 0
        # `time` is the date plus the delay, or the span itself.
        self._longest = 0 if as_of is None else None if as_of.oldest is None else as_of.oldest - as_of.delay

    def find(self, first: np.ndarray, second: np.ndarray, times: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Returns the position of the match of each key, time and span, int64 [rows]; -1 without a match."""
        known = self.time
        begin, end = self.ends(first)
        positions = self.search(
            second, begin, end, lambda at, rows: True if known is None else known[at] <= times[rows]
        )
        positions = positions - 1
        matched = positions >= begin
        rows = np.flatnonzero(matched)
        matched[rows] = self.second[positions[rows]] == second[rows]
        if self.span is not None:
            rows = np.flatnonzero(matched)
            # Rows of one key and time are in the order of their spans, so few steps pass those that a row may not see.
            while len(rows := rows[~self._is_seen(positions[rows], spans[rows])]):
                positions[rows] -= 1
                left = positions[rows] >= begin[rows]
                left[left] = self.second[positions[rows[left]]] == second[rows[left]]
                matched[rows[~left]] = False
                rows = rows[left]
        if known is not None and self._longest is not None:
            rows = np.flatnonzero(matched)
            matched[rows] = times[rows] - known[positions[rows]] <= self._longest
        return np.where(matched, positions, -1)

    def _is_seen(self, positions: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Returns whether rows of some spans see the rows of the table at some positions, bool [rows]."""
        if self.span is None:
            return np.ones(len(positions), bool)
        back = spans - self.span[positions]
        return (back >= 0) & (back <= self._before)


def _mapped(path: str, dtype: type) -> np.ndarray:
    return np.memmap(path, dtype, "r") if os.path.getsize(path) else np.empty(0, dtype)  # nothing cannot be mapped


class StoredColumns:
    """The columns of an Arrow file, mapped into memory; `names` are their names.

    Args:
        sizes: The bytes of each row, int64 [rows]; None: they are computed, and the columns read if they are small.
    """

    def __init__(self, path: str, sizes: np.ndarray | None = None):
        file = pa.ipc.open_file(pa.memory_map(path))
        self._schema = file.schema
        self.names: list[str] = file.schema.names
        self._batches = [file.get_batch(i) for i in range(file.num_record_batches)]
        self._sizes = np.concatenate([*map(row_bytes, self._batches)]) if sizes is None else sizes
        if sizes is None and self._sizes.sum() < _MOST_COMBINED:
            self._batches = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
        self._ends = np.cumsum([batch.num_rows for batch in self._batches])

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column of numbers."""
        return np.concatenate([batch.column(name).to_numpy() for batch in self._batches])

    def bytes_at(self, positions: np.ndarray) -> np.ndarray:
        """Returns the bytes of the columns at each of some positions, int64 [positions]; 0 where a position is -1."""
        sizes = np.zeros(len(positions), np.int64)
        sizes[positions >= 0] = self._sizes[positions[positions >= 0]]
        return sizes

    def take(self, positions: np.ndarray) -> pa.Table:
        """Returns the columns of some rows, null where a position is -1.

        A column has a chunk for every `BATCH_BYTES` bytes, since Arrow counts the bytes of texts in 32 bits.
        """
        parts = byte_ranges(self.bytes_at(positions), rows=max(len(positions), 1))
        return pa.concat_tables([self._schema.empty_table(), *(self._take(positions[part]) for part in parts)])

    def _take(self, positions: np.ndarray) -> pa.Table:
        if len(self._schema) and len(self._batches) == 1 and not (positions < 0).any():
            return pa.Table.from_batches([pc.take(self._batches[0], pa.array(positions))])
        wanted = np.unique(positions[positions >= 0])
        if not len(wanted) or not len(self._schema):
            return pa.table([pa.nulls(len(positions), field.type) for field in self._schema], schema=self._schema)
        cuts = np.concatenate([[0], np.searchsorted(wanted, self._ends)])
        batches = [
            pc.take(batch, pa.array(wanted[begin:end] - (last - batch.num_rows)))
            for batch, last, begin, end in zip(self._batches, self._ends, cuts[:-1], cuts[1:], strict=True)
            if begin < end
        ]
        rows = pa.array(np.searchsorted(wanted, positions), mask=positions < 0)
        return pa.Table.from_batches(batches).combine_chunks().take(rows)


@lru_cache(maxsize=OPEN_INDEXES)
def _opened(folder: str, as_of: AsOf | None, before: int | None) -> _OpenIndex:
    return _OpenIndex(local_copy(folder), as_of, before)


class IndexFiles:
    """Writes sorted rows to the files of an index; as context manager, it closes them.

    Args:
        numbers: Columns of which each has its own file; the file has the name of the column.
        own: All columns that are not in the file of values.
    """

    def __init__(self, folder: Path, numbers: Sequence[str], own: Collection[str]):
        self._folder, self._own, self._stack = folder, own, ExitStack()
        self._files = {name: self._stack.enter_context(open(folder / name, "wb")) for name in numbers}
        self._sizes = self._stack.enter_context(open(folder / BYTES, "wb"))
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def __enter__(self) -> "IndexFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, rows: pa.Table) -> None:
        """Appends rows."""
        for name, file in self._files.items():
            rows.column(name).to_numpy().tofile(file)
        self.write_values(rows.drop([name for name in self._own if name in rows.column_names]))

    def write_values(self, values: pa.Table) -> None:
        """Appends values, or describes the columns of an index without rows."""
        if self._writer is None:
            self._writer = self._stack.enter_context(pa.ipc.new_file(str(self._folder / VALUES), values.schema))
        self._writer.write_table(values)
        row_bytes(values).tofile(self._sizes)


def publish_index(work: str | Path, folder: str) -> None:
    """Moves the files of an index from the folder in which they were written, if that is not `folder` itself."""
    if not is_address(folder):
        return
    from tfx.dsl.io import fileio  # loads TensorFlow, which a check of a sample does without

    fileio.makedirs(folder)
    for file in Path(work).iterdir():
        fileio.copy(str(file), f"{folder}/{file.name}")
    shutil.rmtree(work)


def local_copy(address: str) -> str:
    """Returns a folder of this machine with the files of an index."""
    if not is_address(address):
        return address
    from tfx.dsl.io import fileio  # loads TensorFlow, which a check of a sample does without

    folder = tempfile.mkdtemp(prefix="fullpass-join-")
    for name in fileio.listdir(address):
        fileio.copy(os.path.join(address, name), f"{folder}/{name}")
    return folder
