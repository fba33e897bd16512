"""Shared functions of the tests of readers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from fullpass.components.ingest.config import DataConfig, IngestConfig
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.readers.read_source import find_inputs, parts_of, read_rows
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.files import SourceFile, resolve_path
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request
from fullpass.components.ingest.spans.spans import find_window
from fullpass.preprocessing.columns.raw_columns import RawColumn


def raw(**types: str) -> dict[str, RawColumn]:
    """Returns raw columns by name; `v=3` is a vector of width 3."""
    return {n: RawColumn(n, "vector", t) if isinstance(t, int) else RawColumn(n, t) for n, t in types.items()}


def read_file(path, source, columns, *, address: str = ""):
    """Returns the rows of all parts as tuples, the row numbers, and the bad rows."""
    size = Path(path).stat().st_size if Path(path).is_file() else 0
    return read_input(SourceFile(str(path), None, size, "", address), source, columns)


def read_input(file: SourceFile, source, columns):
    """As `read_file`, for a file returned by `find_inputs`."""
    if not isinstance(columns, dict):
        columns = {column: RawColumn(column, "string") for column in columns}
    rows, numbers, bad = [], [], []
    for part in parts_of(file, source):
        reading = Reading(file, columns, part)
        for batch in read_rows(reading, source):
            assert batch.table.column_names == list(columns)
            assert batch.table.num_rows == len(batch.numbers)
            rows += [tuple(row.values()) for row in batch.table.to_pylist()]
            numbers += batch.numbers.tolist()
        bad += reading.take_bad()
    return rows, numbers, bad


def ingested_parts(ingestion: Ingestion) -> Iterator[tuple[Reading, list[pa.Table]]]:
    """Yields each part of the files of an ingestion as it has been read, with tables of its usable rows."""
    for file in ingestion.files:
        for part in parts_of(file, ingestion.config.source):
            reading, tables = ingestion.reading(file, part), []
            for _, arrays, good in ingestion.batches(reading):
                tables.append(pa.table(arrays).filter(pa.array(good)))
            yield reading, tables


def ingest_config_of(data: DataConfig) -> IngestConfig:
    """Returns the configuration of an ingestion of `data:`, of which all derived columns are computed."""
    shared = IngestConfig.model_fields.keys() & DataConfig.model_fields.keys()
    return IngestConfig(**{name: getattr(data, name) for name in shared})


def request_of(
    folder: Path,
    data: DataConfig,
    ingest: IngestConfig,
    columns: Sequence[RawColumn],
    span: str | None = None,
    known: Sequence[KnownSpan] = (),
) -> Request:
    """Returns the request for a window of the data, whose relative paths start at `folder`."""
    window = find_window(data, lambda path: resolve_path(path, folder), span)
    return Request(ingest, ("train", "eval"), tuple(columns), gzip=False).with_window(window, known)


def inputs(source, folder):
    """Returns the files of a source; relative paths start at `folder`."""
    return find_inputs(source, lambda path: resolve_path(path, folder))
