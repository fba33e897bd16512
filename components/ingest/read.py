"""Which reader reads which source, and what all of them share: columns that the names of folders give."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from components.ingest.files import SourceFile
from components.ingest.readers.avro import AvroReader
from components.ingest.readers.bigquery import BigQueryReader
from components.ingest.readers.csv import CsvReader
from components.ingest.readers.frames import ModuleReader
from components.ingest.readers.images import ImagesReader
from components.ingest.readers.json_lines import JsonLinesReader
from components.ingest.readers.numpy_arrays import NumpyReader
from components.ingest.readers.proto import ProtoReader
from components.ingest.readers.sql import SqlReader
from components.ingest.readers.tables import ArrowReader, OrcReader, ParquetReader
from components.ingest.readers.text import TextReader
from components.ingest.readers.tfds import TfdsReader
from components.ingest.readers.tfrecord import TfRecordReader
from components.ingest.reading import Part, Reader, Reading, Rows
from components.ingest.sources import (
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
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def columns_of(file: SourceFile, source: Source) -> list[str] | None:
    """Returns the columns of a file, those of its folders included; None where only its rows tell.

    Raises:
        UserError: The file is empty or not of its format.
    """
    columns = _reader(file, source).columns()
    if columns is None:
        return None
    return [*columns, *(name for name in folder_columns(file, source) if name not in columns)]


def parts_of(file: SourceFile, source: Source) -> list[Part]:
    """Returns the parts that can be read side by side, in order."""
    return _reader(file, source).parts()


def read(reading: Reading, source: Source) -> Iterator[Rows]:
    """Yields the rows of one part in order.

    Args:
        reading: what is needed of it; collects the rows that do not parse.
        source: the section of the YAML.

    Raises:
        UserError: The file is empty, lacks a column, or cannot be read as its format.
    """
    reader = _reader(reading.file, source)
    folders = folder_columns(reading.file, source)
    own = reader.columns() if folders else None
    constant = {n: v for n, v in folders.items() if n in reading.columns and (own is None or n not in own)}
    beside = {n: v for n, v in folders.items() if own is None or n not in own} if reading.whole else {}
    if not constant and not beside:
        yield from reader.rows(reading)
        return
    needed = {n: c for n, c in reading.columns.items() if n not in constant}
    inner = Reading(reading.file, needed, reading.part, whole=reading.whole)
    inner.bad, inner.seen = reading.bad, reading.seen
    reading.seen.update(constant)
    for rows in reader.rows(inner):
        reading.malformed, reading.consumed = inner.malformed, inner.consumed
        table = _with_constants(rows.table, constant).select(list(reading.columns))
        yield Rows(table, rows.numbers, None if rows.whole is None else _with_constants(rows.whole, beside))
    reading.malformed = inner.malformed


def folder_columns(file: SourceFile, source: Any) -> dict[str, str | None]:
    """Returns the columns that folders named key=value above a file give, as Hive and Spark write them.

    Example:
        `/data/year=2024/city=S%C3%A3o/a.parquet` gives `{"year": "2024", "city": "São"}`.
    """
    if not isinstance(source, FileSource):
        return {}
    pairs = (part.partition("=") for part in PurePath(file.path).parts[:-1])
    return {unquote(k): None if v == _NULL_FOLDER else unquote(v) for k, equals, v in pairs if equals and k}


def _reader(file: SourceFile, source: Source) -> Reader:
    return READERS[type(source)](file, source)


def _with_constants(table: pa.Table, constant: Mapping[str, str | None]) -> pa.Table:
    for name, value in constant.items():
        column = pa.nulls(table.num_rows, pa.string()) if value is None else pa.array([value] * table.num_rows)
        table = table.append_column(name, column)
    return table
