"""Reads a source by the reader of its format, and adds the columns that are encoded in folder names."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from fullpass.components.ingest.readers.crashes import run_in_fork
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.rows import FilePart, Reading, Rows, bounded
from fullpass.components.ingest.sources.config import BaseSource, FileSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile
from fullpass.components.ingest.sources.formats import FORMATS

_T = TypeVar("_T")
_ROWS_WITH_NAMES = 1000
"""Rows whose keys are the columns, for messages and proposals; later rows rarely have others."""
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def find_inputs(source: BaseSource, resolve: Resolve) -> tuple[SourceFile, ...]:
    """Returns all inputs of a source.

    Raises:
        UserError: Files are missing, or named twice.
    """
    return tuple(FORMATS[source.format].load_reader().inputs(source, resolve))


def columns_of(file: SourceFile, source: BaseSource) -> list[str] | None:
    """Returns the columns of a file, including those of its folders; None if only the rows contain the columns.

    Raises:
        UserError: The file is empty or not of its format.
    """
    columns = _reader(file, source).columns()
    if columns is None:
        return None
    return [*columns, *(name for name in folder_columns(file, source) if name not in columns)]


def columns_of_file(file: SourceFile, source: BaseSource) -> list[str] | None:
    """Returns the columns of a file, or of its first 1,000 rows if only rows contain them; None if that takes long.

    Raises:
        UserError: The file is empty or not of its format.
    """
    columns = columns_of(file, source)
    return _reader(file, source).names_in_rows(_ROWS_WITH_NAMES) if columns is None else columns


def run_in_fork_if_native(source: BaseSource, work: Callable[[], _T]) -> _T:
    """Runs a function that reads rows and returns its result; runs it in a fork if the decoder may crash."""
    return run_in_fork(work) if FORMATS[source.format].native else work()


def parts_of(file: SourceFile, source: BaseSource) -> list[FilePart]:
    """Returns the parts that can be read in parallel, in order."""
    return _reader(file, source).parts()


def dictionary_columns(file: SourceFile, source: BaseSource) -> frozenset[str]:
    """Returns the columns of a file that are stored with a dictionary of values, for values of any type."""
    return _reader(file, source).dictionary_columns()


def read_rows(reading: Reading, source: BaseSource) -> Iterator[Rows]:
    """Yields the rows of one part in order, in batches that are limited in rows and bytes.

    Args:
        reading: The part and the needed columns; collects the rows that do not parse.

    Raises:
        UserError: The file is empty, lacks a column, or cannot be read as its format.
    """
    for rows in _read(reading, source):
        yield from bounded(rows)


def _read(reading: Reading, source: BaseSource) -> Iterator[Rows]:
    """Yields the batches of the reader of one part, with the columns of the folder names added."""
    reader = _reader(reading.file, source)
    folders = folder_columns(reading.file, source)
    own = reader.columns() if folders else None
    constant = {n: v for n, v in folders.items() if n in reading.columns and (own is None or n not in own)}
    beside = {n: v for n, v in folders.items() if own is None or n not in own} if reading.all_columns else {}
    if not constant and not beside:
        yield from reader.rows(reading)
        return
    needed = {n: c for n, c in reading.columns.items() if n not in constant}
    inner = replace(reading, columns=needed)  # with the same lists of bad rows and columns
    reading.seen.update(constant)
    for rows in reader.rows(inner):
        reading.malformed, reading.consumed = inner.malformed, inner.consumed
        table = _with_constants(rows.table, constant).select(list(reading.columns))
        yield Rows(table, rows.numbers, None if rows.all_columns is None else _with_constants(rows.all_columns, beside))
    reading.malformed = inner.malformed


def folder_columns(file: SourceFile, source: Any) -> dict[str, str | None]:
    """Returns the columns of the folders named key=value above a file, as Hive and Spark write them.

    Example:
        `/data/year=2024/city=S%C3%A3o/a.parquet` gives `{"year": "2024", "city": "São"}`.
    """
    if not isinstance(source, FileSource):
        return {}
    pairs = (part.partition("=") for part in PurePath(file.path).parts[:-1])
    return {unquote(k): None if v == _NULL_FOLDER else unquote(v) for k, equals, v in pairs if equals and k}


def _reader(file: SourceFile, source: BaseSource) -> Reader:
    reader: Reader = FORMATS[source.format].load_reader()(file, source)
    return reader


def _with_constants(table: pa.Table, constant: Mapping[str, str | None]) -> pa.Table:
    for name, value in constant.items():
        column = pa.nulls(table.num_rows, pa.string()) if value is None else pa.array([value] * table.num_rows)
        table = table.append_column(name, column)
    return table
