"""Selects the reader of a source, and adds the columns that are encoded in folder names."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from fullpass.components.ingest.readers.avro import AvroReader
from fullpass.components.ingest.readers.bigquery import BigQueryReader
from fullpass.components.ingest.readers.crashes import run_in_fork
from fullpass.components.ingest.readers.csv import CsvReader
from fullpass.components.ingest.readers.frames import ModuleReader
from fullpass.components.ingest.readers.images import ImagesReader
from fullpass.components.ingest.readers.json_lines import JsonLinesReader
from fullpass.components.ingest.readers.numpy_arrays import NumpyReader
from fullpass.components.ingest.readers.proto import ProtoReader
from fullpass.components.ingest.readers.reader import FilePart, Reader, Reading, Rows, bounded
from fullpass.components.ingest.readers.sql import SqlReader
from fullpass.components.ingest.readers.tables import ArrowReader, OrcReader, ParquetReader, TableReader
from fullpass.components.ingest.readers.text import TextReader
from fullpass.components.ingest.readers.tfds import TfdsReader
from fullpass.components.ingest.readers.tfrecord import TfRecordReader
from fullpass.components.ingest.sources.source_config import (
    ArrowSource,
    AvroSource,
    BigQuerySource,
    CsvSource,
    FileSource,
    ImagesSource,
    JsonLinesSource,
    ModuleSource,
    NumpySource,
    OrcSource,
    ParquetSource,
    ProtoSource,
    Source,
    SqlSource,
    TextSource,
    TfdsSource,
    TfRecordSource,
)
from fullpass.components.ingest.sources.source_files import SourceFile

READERS: Mapping[type, type[Reader]] = {
    CsvSource: CsvReader,
    JsonLinesSource: JsonLinesReader,
    ParquetSource: ParquetReader,
    ArrowSource: ArrowReader,
    OrcSource: OrcReader,
    AvroSource: AvroReader,
    TfRecordSource: TfRecordReader,
    ProtoSource: ProtoReader,
    SqlSource: SqlReader,
    BigQuerySource: BigQueryReader,
    TfdsSource: TfdsReader,
    NumpySource: NumpyReader,
    ModuleSource: ModuleReader,
    ImagesSource: ImagesReader,
    TextSource: TextReader,
}
_T = TypeVar("_T")
IN_NATIVE_CODE = (ParquetSource, ArrowSource, OrcSource)
"""Sources whose rows Arrow decodes. Arrow crashes on some damaged files, though on no damaged schema that was tried."""
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def columns_of(file: SourceFile, source: Source | FileSource) -> list[str] | None:
    """Returns the columns of a file, including those of its folders; None if only the rows contain the columns.

    Raises:
        UserError: The file is empty or not of its format.
    """
    columns = _reader(file, source).columns()
    if columns is None:
        return None
    return [*columns, *(name for name in folder_columns(file, source) if name not in columns)]


def run_in_fork_if_native(source: Source | FileSource, work: Callable[[], _T]) -> _T:
    """Runs a function that reads rows and returns its result; runs it in a fork if the decoder may crash."""
    return run_in_fork(work) if isinstance(source, IN_NATIVE_CODE) else work()


def parts_of(file: SourceFile, source: Source) -> list[FilePart]:
    """Returns the parts that can be read in parallel, in order."""
    return _reader(file, source).parts()


def dictionary_columns(file: SourceFile, source: Source) -> frozenset[str]:
    """Returns the columns of a file that are stored with a dictionary of values, for values of any type."""
    reader = _reader(file, source)
    return reader.dictionary_columns() if isinstance(reader, TableReader) else frozenset()


def read(reading: Reading, source: Source | FileSource) -> Iterator[Rows]:
    """Yields the rows of one part in order, in batches that are limited in rows and bytes.

    Args:
        reading: the part and the needed columns; collects the rows that do not parse.
        source: the section of the YAML.

    Raises:
        UserError: The file is empty, lacks a column, or cannot be read as its format.
    """
    for rows in _read(reading, source):
        yield from bounded(rows)


def _read(reading: Reading, source: Source | FileSource) -> Iterator[Rows]:
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
    inner = Reading(reading.file, needed, reading.part, all_columns=reading.all_columns)
    inner.bad, inner.seen = reading.bad, reading.seen
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


def _reader(file: SourceFile, source: Source | FileSource) -> Reader:
    return READERS[type(source)](file, source)


def _with_constants(table: pa.Table, constant: Mapping[str, str | None]) -> pa.Table:
    for name, value in constant.items():
        column = pa.nulls(table.num_rows, pa.string()) if value is None else pa.array([value] * table.num_rows)
        table = table.append_column(name, column)
    return table
