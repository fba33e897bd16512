"""Sorts a joined table once, out of core, into the files of a `JoinIndex`.

The rows are dealt to buckets by the highest bits of the hash of their key. Each bucket is then sorted in memory, by
hash, time and position in the table; one after the other, the sorted buckets are the sorted table.
"""

import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from absl import logging

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.base.progress import report
from fullpass.components.ingest.joins.config import MOST_LOOKED_UP, Join, joined_columns
from fullpass.components.ingest.joins.join_index import (
    FIRST,
    LOOKUP,
    SECOND,
    SPAN,
    TIME,
    FileRows,
    IndexFiles,
    JoinIndex,
    StoredColumns,
    add_unreadable,
    keys_of,
    publish_index,
    times_of,
)
from fullpass.components.ingest.joins.tables import Tables, of_join
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.read_source import columns_of, columns_of_file, parts_of, read_rows
from fullpass.components.ingest.readers.readable import EmptyFileError, check_columns
from fullpass.components.ingest.readers.rows import BadRowCount, Reading, Rows
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import byte_ranges
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_keys import KEY, KEY_MARK, with_text_rules

_BUCKET_BYTES = 32 << 20
"""Bytes of the files of a table per bucket: a bucket is sorted in memory."""
_MOST_BITS = 8
"""At most 256 buckets, since the file of each is open while rows are dealt."""
_UNKNOWN_BITS = 4
"""Bits of the bucket of a row if the size of the table is unknown, such as that of a query."""
_BUFFERED_ROWS = 1 << 19
_BUFFERED_BYTES = 256 << 20
"""Rows, or bytes of them, that are dealt at once: fewer would write small batches to every bucket."""
_HASH_BITS = 64
_FILE, _ROW = "file", "row"
_OWN = (FIRST, SECOND, TIME, SPAN, KEY, _FILE, _ROW)


def build_index(
    name: str,
    join: Join,
    tables: Tables,
    columns: Iterable[RawColumn],
    most_bad: float,
    folder: str,
    text: RawText | None = None,
) -> JoinIndex:
    """Sorts a table into a new folder, and returns the index.

    Args:
        tables: The files of the table, or of the tables per span.
        columns: The raw columns that the pipeline reads; those of other tables are left out.
        most_bad: Largest share of unusable rows.
        folder: Folder around that of the index, or its address.
        text: Rules for reading text as values; None: those of the source.

    Raises:
        UserError: The table cannot be read, has too many unusable rows, repeats a key, or has no row with a key.
    """
    by_name = {column.name: column for column in columns}
    mine = tuple(by_name[column] for column in joined_columns(name, by_name))
    folder = f"{folder}/{uuid.uuid4().hex}"  # a retry must not write into files that this process has mapped
    work = tempfile.mkdtemp(prefix="fullpass-join-") if is_address(folder) else folder
    Path(work).mkdir(parents=True, exist_ok=True)
    with of_join(name):
        table = _Table(name, join, tables, mine, text or join.source.raw_text)
        buckets = Buckets(Path(work) / "unsorted", bucket_bits(tables.files))
        for batch in table.batches():
            buckets.add(batch)
        table.check(most_bad)
        rows = _write_sorted(table, buckets, Path(work))
    publish_index(work, folder)
    logging.info("join %s: %s of %s rows of the table can match", name, f"{sum(rows):,}", f"{table.counted.rows:,}")
    spans = tables.spans or [0] * len(tables.files)
    files = zip(tables.files, spans, table.read, rows, strict=True)
    counts = tuple(FileRows(file.path, span, read, int(found)) for file, span, read, found in files)
    return JoinIndex(name, join, mine, folder, counts, None if tables.spans is None else tables.before)


def bucket_bits(files: Sequence[SourceFile]) -> int:
    """Returns the number of highest bits of a hash that choose a bucket, given the files that are dealt."""
    if not all(file.size for file in files):
        return _UNKNOWN_BITS
    return min(max(sum(file.size for file in files) // _BUCKET_BYTES, 1).bit_length() - 1, _MOST_BITS)


@dataclass
class _Table:
    """The rows of a joined table, as they are read.

    Attributes:
        read: Number of rows read so far, per file.
        counted: All of these rows, and those that cannot be used.
        seen: Columns in any row, of a format whose rows alone contain them.
    """

    name: str
    join: Join
    tables: Tables
    columns: Sequence[RawColumn]
    text: RawText
    read: list[int] = field(default_factory=list)
    counted: BadRowCount = field(default_factory=BadRowCount)
    seen: set[str] = field(default_factory=set)

    def batches(self) -> Iterator[pa.Table]:
        """Yields the usable rows: hashes, time, span, key, file and row, and the columns under their joined names.

        An empty file of a table per span is a table without rows.
        """
        wanted = self._wanted()
        for number, file in enumerate(self.tables.files):
            self.read.append(0)
            try:
                for part in parts_of(file, self.join.source):
                    reading = Reading(file, wanted, part)
                    for rows in read_rows(reading, self.join.source):
                        self._count(len(rows.numbers))
                        yield self._usable(reading, rows, number)
                        report(self.counted.rows, None, "rows", f"join {self.name}")
                    self.seen |= reading.seen
                    self._count(reading.malformed)
                    self.counted.add(reading.take_bad())
            except EmptyFileError:
                if self.tables.spans is None:
                    raise

    def _count(self, rows: int) -> None:
        self.read[-1] += rows
        self.counted.rows += rows

    def _wanted(self) -> dict[str, RawColumn]:
        """Returns the columns to read. Key and date are read as text: a number loses the spelling of its token."""
        own = {column.name: column for column in self._own_columns()}
        return own | {name: RawColumn(name, "string") for name in self.join.right_columns}

    def _own_columns(self) -> list[RawColumn]:
        prefix = len(self.name) + 1
        return [RawColumn(**{**vars(column), "name": column.name[prefix:]}) for column in self.columns]

    def _usable(self, reading: Reading, rows: Rows, number: int) -> pa.Table:
        own = self._own_columns()
        arrays, good = convert_rows(own, self.text, reading, rows)
        span = 0 if self.tables.spans is None else self.tables.spans[number]
        found = self._searchable(reading, rows, good, span)
        values = {column.name: arrays[of.name] for column, of in zip(self.columns, own, strict=True)}
        found |= {_FILE: pa.array(np.full(len(good), number, np.int32)), _ROW: pa.array(rows.numbers)}
        return pa.table({**found, **values}).filter(pa.array(good))

    def without_rows(self) -> pa.Table:
        """Returns the columns of a table per span that has no rows in any span."""
        own = self._own_columns()
        kinds = {column.name: pa.string() if column.is_single else pa.list_(pa.string()) for column in own}
        nothing = pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
        reading = Reading(self.tables.files[0], {})
        arrays, _ = convert_rows(own, self.text, reading, Rows(nothing, np.empty(0, np.int64)))
        return pa.table({column.name: arrays[of.name] for column, of in zip(self.columns, own, strict=True)})

    def _searchable(self, reading: Reading, rows: Rows, good: np.ndarray, span: int) -> dict[str, pa.Array]:
        """Returns hashes, time, span and key of rows; sets `good` to False for rows that cannot match."""
        text, as_of = self.text, self.join.as_of
        keys = keys_of(rows.table, list(self.join.keys.values()), text)
        good &= keys.present
        times = spans = np.full(len(good), span)
        if as_of is not None:
            format = as_of.right_format or as_of.format
            times, known, unreadable = times_of(rows.table, as_of.right, text, format)
            add_unreadable(reading, rows, as_of.right, format, unreadable)
            good &= known
            times = times + as_of.delay
        numbers_of = {FIRST: keys.first, SECOND: keys.second, TIME: times, SPAN: spans}
        return {**{name: pa.array(values) for name, values in numbers_of.items()}, KEY: keys.texts}

    def check(self, most_bad: float) -> None:
        """Checks that the table has rows with each column that is read, and few unusable ones.

        Raises:
            UserError: It has none, or lacks a column, or too many are unusable.
        """
        if not self.counted.rows and self.tables.spans is None:
            paths = ", ".join(file.path for file in self.tables.files)
            raise UserError(f"no rows in {paths}; only a header line, or nothing. Give the rows, or remove the join.")
        first = self.tables.files[0]
        if self.tables.spans is None and columns_of(first, self.join.source) is None:
            found = {*(columns_of_file(first, self.join.source) or ()), *self.seen}
            check_columns(first.path, list(self._wanted()), sorted(found))
        missing = f"Declare a missing token (data.joins.{self.name}.source.missing)"
        fix = f"{missing}, fix the file, or raise data.bad_rows."
        self.counted.check(most_bad, "the table", f"data.bad_rows allows {most_bad:.2%}", fix)

    def check_lookup(self, rows: int) -> None:
        """Checks that a model can contain the table: it has few rows, and one value per column.

        Raises:
            UserError: It cannot.
        """
        several = [column.name for column in self.columns if not column.is_single]
        if rows > MOST_LOOKED_UP or several:
            what = f"{', '.join(several)} holds lists" if several else f"it has more than {MOST_LOOKED_UP:,} rows"
            raise UserError(f"a model cannot contain the table (serve: lookup): {what}. Use serve: given.")

    def kept(self, bucket: "Bucket") -> np.ndarray:
        """Returns the rows of a bucket that count, bool [rows]: one row per key, date and span.

        Raises:
            UserError: A key is repeated, and no rule says which row counts.
        """
        same = np.array(True)
        for name in (FIRST, SECOND, TIME, SPAN):
            values = bucket.numbers(name)
            same = same & (values[1:] == values[:-1])
        if self.join.duplicates == "refuse" and same.any():
            both = bucket.rows(int(same.argmax()), 2)
            key = both[0][KEY].decode("utf-8", "replace").replace(KEY_MARK, ", ")
            where = [f"{self.tables.files[row[_FILE]].path}, row {row[_ROW]}" for row in both]
            date = " and the same date" if self.join.as_of else ""
            raise UserError(
                f"two rows of the table have the key {key!r}{date}: {where[0]}, and {where[1]}. Name further key "
                f"columns (data.joins.{self.name}.on), make the key unique, or choose a row by "
                "`duplicates: first` or `duplicates: last`."
            )
        if self.join.duplicates == "last":
            return np.append(~same, True)
        return np.append(True, ~same)


class Buckets:
    """Rows dealt to files by the highest bits of their hash, the column FIRST."""

    def __init__(self, folder: Path, bits: int):
        self._folder, self._bits = folder, bits
        self._buffer: list[pa.Table] = []
        self._writers: dict[int, pa.ipc.RecordBatchFileWriter] = {}
        folder.mkdir()

    def add(self, batch: pa.Table) -> None:
        """Adds rows."""
        self._buffer.append(batch)
        rows, size = (sum(getattr(table, of) for table in self._buffer) for of in ("num_rows", "nbytes"))
        if rows >= _BUFFERED_ROWS or size >= _BUFFERED_BYTES:
            self._deal()

    def _deal(self) -> None:
        rows = pa.concat_tables(self._buffer).combine_chunks()
        self._buffer = []
        bucket = (rows.column(FIRST).to_numpy() >> np.uint64(_HASH_BITS - 1 - self._bits)) >> np.uint64(1)
        order = np.argsort(bucket, kind="stable")
        rows, bucket = rows.take(pa.array(order)), bucket[order]
        for number in np.unique(bucket).tolist():
            begin, end = np.searchsorted(bucket, number), np.searchsorted(bucket, number, "right")
            if number not in self._writers:
                self._writers[number] = pa.ipc.new_file(f"{self._folder}/{number}", rows.schema)
            self._writers[number].write_table(rows.slice(begin, end - begin))

    def sorted(self, names: Sequence[str]) -> Iterator["Bucket"]:
        """Yields the buckets in the order of their hashes, and removes each. names: those of `Bucket`."""
        if self._buffer:
            self._deal()
        for number, writer in sorted(self._writers.items()):
            writer.close()
            path = self._folder / str(number)
            yield Bucket(str(path), names)
            path.unlink()
        self._folder.rmdir()


class Bucket:
    """The rows of a file, sorted by some columns of numbers, the first one first; equal rows stay in their order."""

    def __init__(self, path: str, names: Sequence[str]):
        self._stored = StoredColumns(path)
        self._order = np.lexsort([self._stored.numbers(name) for name in reversed(names)])

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column of numbers."""
        return self._stored.numbers(name)[self._order]

    def rows(self, begin: int, count: int) -> list[dict[str, Any]]:
        """Returns a few rows."""
        found: list[dict[str, Any]] = self._stored.take(self._order[begin : begin + count]).to_pylist()
        return found

    def pieces(self, kept: np.ndarray | None = None) -> Iterator[pa.Table]:
        """Yields the rows in tables of at most `BATCH_BYTES`. kept: bool [rows], those that are yielded; None: all."""
        order = self._order if kept is None else self._order[kept]
        for part in byte_ranges(self._stored.bytes_at(order), rows=_BUFFERED_ROWS):
            yield self._stored.take(order[part]).combine_chunks()


def _write_sorted(table: _Table, buckets: Buckets, folder: Path) -> np.ndarray:
    """Writes the files of the index, and returns the number of rows in it of each file, int64 [files]."""
    rows, looked_up = np.zeros(len(table.tables.files), np.int64), list[pa.Table]()
    as_of, per_span = table.join.as_of is not None, table.tables.spans is not None
    names = (FIRST, SECOND, *([TIME] if as_of or per_span else []), *([SPAN] if as_of and per_span else []))
    with IndexFiles(folder, names, _OWN) as files:
        pieces = (piece for bucket in buckets.sorted(names) for piece in bucket.pieces(table.kept(bucket)))
        for piece in pieces:
            files.write(piece)
            rows += np.bincount(piece.column(_FILE).to_numpy(), minlength=len(rows))
            if table.join.serve == "lookup":
                looked_up.append(piece.drop([name for name in _OWN if name != KEY]))
                table.check_lookup(int(rows.sum()))
        if per_span and not rows.any():
            files.write_values(table.without_rows())
    if not rows.any() and not per_span:
        raise UserError(f"no row of the table has {', '.join(table.join.right_columns)}, so nothing can match.")
    if looked_up:
        schema = with_text_rules(looked_up[0].schema, table.text)
        with pa.ipc.new_file(str(folder / LOOKUP), schema) as file:
            file.write_table(pa.concat_tables(looked_up))
    return rows
