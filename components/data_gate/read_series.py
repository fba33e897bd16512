"""Sketches the series without Beam, from the records of a run or from raw files before a run."""

from collections.abc import Sequence

import pyarrow as pa

from fullpass.components.data_gate.series import Series, Sketches
from fullpass.components.data_gate.span_summary import Summary, merge_parts
from fullpass.components.ingest.ingestion import Ingestion, ingestion_of
from fullpass.components.ingest.readers.open_source import parts_of
from fullpass.components.ingest.readers.reader import FilePart
from fullpass.components.ingest.spans.ingest_request import Request, SpanRequest
from fullpass.components.statistics.raw_records import RawRecords
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig


def sketch_records(paths: Sequence[str], config: PreprocessingConfig, series: Sequence[Series]) -> Sketches:
    """Returns the sketches of the raw examples in TFRecord files."""
    sketches = Sketches(config, tuple(series))
    records = RawRecords(raw_columns(config))
    for path in paths:
        for batch in records.batches(path):
            sketches.add(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)
    return sketches


def summarize_raw(
    request: Request, span: SpanRequest, config: PreprocessingConfig, series: Sequence[Series]
) -> Summary:
    """Returns the summary of a span that is not ingested yet, from the rows that Ingest would write.

    Args:
        request: the request to Ingest; its columns are the columns of `config`.
        span: one of the spans of the request.
        config: features and label.
        series: the series to sketch.

    Raises:
        UserError: A file cannot be read, or lacks a column.
    """
    ingestion = ingestion_of(request, span, folder="")
    parts = [
        _sketch_part(ingestion, index, part, config, series)
        for index, file in enumerate(span.files)
        for part in parts_of(file, request.config.source)
    ]
    rows = sum(part.rows for part in parts)
    return merge_parts(span.number, span.label, span.fingerprint, rows, [part.distributions() for part in parts])


def _sketch_part(
    ingestion: Ingestion, index: int, part: FilePart, config: PreprocessingConfig, series: Sequence[Series]
) -> Sketches:
    sketches = Sketches(config, tuple(series))
    reading = ingestion.reading(ingestion.files[index], part)
    for _, rows in ingestion.read(reading):
        arrays, good = ingestion.convert(reading, rows)
        usable = {name: array.filter(pa.array(good)) for name, array in arrays.items()}
        sketches.add(usable, int(good.sum()))
    return sketches
