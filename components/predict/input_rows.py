"""Reads the rows to predict with Ingest's readers, in batches of dense columns; bad rows keep their position."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, count
from typing import cast

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean, listed
from fullpass.components.ingest.history.event_index import EventIndex, with_lists
from fullpass.components.ingest.joins.config import Join, is_joined, joined_columns
from fullpass.components.ingest.joins.join_index import JoinIndex, joined_arrays
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.read_source import columns_of, columns_of_file, read_rows
from fullpass.components.ingest.readers.readable import check_columns
from fullpass.components.ingest.readers.rows import WHOLE, BadRow, FilePart, Reading, RowBatch, Rows, bounded, numbered
from fullpass.components.ingest.readers.tables import columns_of_schema as names_in
from fullpass.components.ingest.readers.tables import with_fields
from fullpass.components.ingest.sources.config import CsvSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.predict.input_source import InputSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.expressions.syntax_tree import AGE
from fullpass.preprocessing.features.history import list_group
from fullpass.preprocessing.values.list_values import flatten, lengths_of
from fullpass.preprocessing.values.raw_text import RawText


@dataclass(frozen=True)
class InputBatch:
    """Some rows of an input, in its order.

    Attributes:
        shown: Every column of the input; rows that do not parse have only nulls.
        good: bool [rows], True if the model can predict the row.
        inputs: Raw column -> a value per good row: number float32 [good], NaN for missing; string bytes [good], b"" for
            missing; vector float32 [good, width], NaN for missing; list [good, elements of the longest], with missing
            elements after the end of shorter lists. A column that the input lacks has no rows.
    """

    shown: pa.Table
    good: np.ndarray
    bad: Sequence[BadRow]
    inputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class OtherRows:
    """What adds columns to a file that lacks them: tables to join, and events of which lists are made."""

    tables: Sequence[JoinIndex] = ()
    histories: Sequence[EventIndex] = ()


class InputRows:
    """The rows of some files, batch by batch."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        how: InputSource,
        columns: Mapping[str, RawColumn],
        joins: Collection[str] = (),
        others: OtherRows | None = None,
        parts: Sequence[tuple[int, FilePart]] | None = None,
    ):
        """Constructs the reader; iteration opens the files.

        Args:
            joins: Names of all joins of training.
            others: The rows that complete those of the files.
            parts: The number of a file in `files` and a part of it, in order; by default all files.
        """
        self._parts = [(files[n], part) for n, part in parts or [(n, WHOLE) for n in range(len(files))]]
        self._how = how
        self._columns = columns
        self._joins = joins
        self._others = others or OtherRows()
        self._seen: set[str] = set()

    @property
    def absent(self) -> tuple[str, ...]:
        """Raw columns that are in no row read so far; the model treats them as missing."""
        return tuple(name for name in self._columns if name not in self._seen)

    def __iter__(self) -> Iterator[InputBatch]:
        """Yields the rows.

        Raises:
            UserError: A file is empty or not of its format, has none of the columns that the model reads, or lacks
                joined columns whose table is not given.
        """
        for file, part in self._parts:
            yield from self._read(file, part)

    def _read(self, file: SourceFile, part: FilePart) -> Iterator[InputBatch]:
        present = columns_of(file, self._how.source)
        given = {*(present or ())}
        if present is None and (self._others.tables or self._others.histories):
            given = {*(columns_of_file(file, self._how.source) or ())}
        tables = [table for table in self._others.tables if not joined_columns(table.name, given)]
        histories = [one for one in self._others.histories if not {column.name for column in one.lists} & given]
        joined = {column.name for table in tables for column in table.columns}
        joins = {table.name: table.join for table in tables}
        added = joined | {column.name for one in histories for column in one.lists}
        keys = [name for table in tables for name in table.join.left_columns]
        keys += [name for one in histories for name in (*one.history.keys, one.history.at)]
        if present is not None:
            self._check_columns(file.path, [*present, *added])
            self._check_joins(file.path, [*present, *added], keys)
        needed = {n: c for n, c in self._columns.items() if n not in added and (present is None or n in present)}
        columns = {**needed, **{name: RawColumn(name, "string") for name in keys if name not in added}}
        reading = Reading(file, columns, part, all_columns="to_show")
        bad: list[BadRow] = []
        shown = _with_unique_names(pa.table([pa.array([], pa.string())] * len(present or ()), names=present or ()))
        batches = read_rows(reading, self._how.source)
        for table in tables:
            batches = table.add_columns(batches, reading, self._how.text)
        for rows, arrays, good in self._converted(batches, reading, needed, joins, histories):
            self._seen |= added
            self._seen |= needed.keys() if present is not None else reading.seen
            _check_histories(file.path, self._seen, self._columns)
            shown = _with_unique_names(cast(pa.Table, rows.all_columns))
            if not self._seen:
                self._check_columns(file.path, shown.column_names)
            # A reader records the malformed rows of a block before it yields the other rows.
            bad += reading.take_bad()
            reached = [row for row in bad if row.row <= rows.numbers[-1]]
            bad = [row for row in bad if row.row > rows.numbers[-1]]
            inputs = {n: _dense(arrays[n].filter(pa.array(good)), c) for n, c in self._columns.items() if n in arrays}
            yield _batch(rows.numbers, shown, good, reached, inputs)
        bad += reading.take_bad()
        if bad:
            yield _batch(np.zeros(0, np.int64), shown.slice(0, 0), np.zeros(0, bool), bad, {})

    def _converted(
        self,
        batches: Iterable[Rows],
        reading: Reading,
        needed: Mapping[str, RawColumn],
        joins: Mapping[str, Join],
        histories: Sequence[EventIndex],
    ) -> Iterator[RowBatch]:
        joined = [column for name, column in self._columns.items() if is_joined(name, joins)]
        for rows in batches:
            arrays, good = convert_rows(needed.values(), self._how.text, reading, rows)
            of_tables, fit = joined_arrays(joined, joins, reading, rows)
            batch = RowBatch(rows, arrays | of_tables, good & fit)
            yield from with_lists(histories, batch, reading, self._how.text, None)

    def _check_joins(self, path: str, present: Sequence[str], keys: Sequence[str]) -> None:
        for name in self._joins:
            lacking = joined_columns(name, [*self._columns, *keys])
            if lacking and not lacking.keys() & {*present}:
                raise UserError(
                    f"{path}: the columns {listed(list(lacking))} are absent, which training joined. Give them in the "
                    f"file, or give the table: --join {name}=PATH."
                )

    def _check_columns(self, path: str, present: Sequence[str]) -> None:
        hint = ""
        if isinstance(self._how.source, CsvSource):
            hint = (
                " The separator may be another one (--separator), or there is no header line (--columns)."
                if self._how.source.columns is None
                else " If the file has a header line, give --header."
            )
        _check_columns(path, present, tuple(self._columns), hint)


class TableRows:
    """The rows of a table in memory, in the same batches as `InputRows`; rows are numbered from 0.

    Args:
        table: The rows; columns that the model does not read are allowed.
    """

    NAME = "the table"

    def __init__(self, table: pa.Table, text: RawText, columns: Mapping[str, RawColumn]):
        names = names_in(table.schema)
        _check_columns(self.NAME, names, tuple(columns))
        present = set(names)
        _check_histories(self.NAME, present, columns)
        self.absent = tuple(name for name in columns if name not in present)
        self._table = table
        self._text = text
        self._needed = {name: column for name, column in columns.items() if name in present}

    def __iter__(self) -> Iterator[InputBatch]:
        """Yields the rows."""
        for rows in bounded(numbered(with_fields(self._table, self._needed), 0, self._table)):
            shown = _with_unique_names(cast(pa.Table, rows.all_columns))
            reading = Reading(SourceFile(self.NAME, None, 0, ""), self._needed)
            arrays, good = convert_rows(self._needed.values(), self._text, reading, rows)
            inputs = {name: _dense(arrays[name].filter(pa.array(good)), c) for name, c in self._needed.items()}
            yield InputBatch(shown, good, reading.take_bad(), inputs)


def _check_columns(path: str, present: Sequence[str], columns: Sequence[str], hint: str = "") -> None:
    if not present:
        raise UserError(f"{path}: the input has no columns. The model reads: {', '.join(columns)}.{hint}")
    check_columns(path, [name for name in columns if name in present], present)
    if not set(present) & set(columns):
        raise UserError(
            f"{path}: none of the columns that the model reads is in the input.{did_you_mean(columns[0], present)} "
            f"The model reads: {', '.join(columns)}. The input has: {', '.join(present)}.{hint}"
        )


def _check_histories(path: str, present: Set[str], columns: Mapping[str, RawColumn]) -> None:
    """Raises UserError for a history of which the input has no list at all: its features would all be missing."""
    for name in columns:
        if (
            name.endswith(f".{AGE}")
            and name not in present
            and columns[name].group == list_group(name.partition(".")[0])
        ):
            lists = [other for other, column in columns.items() if column.group == columns[name].group]
            raise UserError(
                f"{path}: no column {name!r}. The model reads the history of each row as lists of equal length, the "
                f"oldest event first: {', '.join(lists)}; {name} is how many seconds before the row an event was. Add "
                f"the lists, as in JSON lines or Parquet, empty for a row without events; or give a file with the "
                f"events: --history {name.partition('.')[0]}=PATH."
            )


def _with_unique_names(table: pa.Table) -> pa.Table:
    """Returns a table whose blank names are column_N, by position, and whose repeated names end in _2, _3 and so on."""
    given, names = set(table.column_names), dict[str, None]()
    for position, name in enumerate(table.column_names, start=1):
        base = name if name.strip() else f"column_{position}"
        made_up = (new for n in count(2) if (new := f"{base}_{n}") not in given)
        names[next(new for new in chain([base], made_up) if new not in names)] = None
    return table.rename_columns(list(names))


def _dense(values: pa.Array, column: RawColumn) -> np.ndarray:
    if column.many:
        return _padded(values, b"" if column.type == "string" else np.float32("nan"))
    if column.type == "string":
        return values.fill_null(b"").to_numpy(zero_copy_only=False)
    if column.type == "number":
        return values.fill_null(np.nan).to_numpy(zero_copy_only=False)
    dense = np.full((len(values), column.width), np.nan, np.float32)
    dense[values.is_valid().to_numpy(zero_copy_only=False)] = values.flatten().to_numpy().reshape(-1, column.width)
    return dense


def _padded(lists: pa.Array, missing: object) -> np.ndarray:
    """Returns lists as a dense array, [rows, elements of the longest], padded with `missing`."""
    lengths = lengths_of(lists)
    longest = int(lengths.max(initial=0))
    dense = np.full((len(lists), longest), missing, object if isinstance(missing, bytes) else np.float32)
    dense[np.arange(longest) < lengths[:, None]] = flatten(lists).to_numpy(zero_copy_only=False)
    return dense


def _batch(
    numbers: np.ndarray, shown: pa.Table, good: np.ndarray, bad: Sequence[BadRow], inputs: Mapping[str, np.ndarray]
) -> InputBatch:
    """Returns a batch with the bad rows that the reader did not yield inserted between the yielded rows."""
    order = np.union1d(numbers, [row.row for row in bad]).astype(np.int64)
    if len(order) == len(numbers):
        return InputBatch(shown, good, bad, inputs)
    yielded = np.isin(order, numbers)
    index = np.cumsum(yielded) - 1
    usable = np.zeros(len(order), bool)
    usable[yielded] = good
    return InputBatch(shown.take(pa.array(index, mask=~yielded)), usable, bad, inputs)
