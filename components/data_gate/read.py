"""Rows to sketches: from the records of a run, or straight from raw files, without Beam, before there is one."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import tensorflow as tf
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from components.data_gate.series import Series, Sketches
from components.data_gate.summary import Summary, joined
from components.ingest.ingest import Ingest
from components.ingest.read import parts_of
from components.ingest.reading import Part
from components.ingest.request import Request, SpanRequest
from components.ingest.rows import convert_columns, read_rows, reading_of
from preprocessing.config import PreprocessingConfig
from preprocessing.schema import raw_schema

_BATCH_ROWS = 4096


def sketch_records(paths: Sequence[str], config: PreprocessingConfig, series: Sequence[Series]) -> Sketches:
    """Returns the sketches of the raw examples in TFRecord files."""
    sketches = Sketches(config, tuple(series))
    decoder = ExamplesToRecordBatchDecoder(raw_schema(config).SerializeToString())
    for path in paths:
        records = tf.data.TFRecordDataset(path, compression_type="GZIP" if path.endswith(".gz") else "")
        for batch in records.batch(_BATCH_ROWS).prefetch(2).as_numpy_iterator():
            decoded = decoder.DecodeBatch(list(batch))
            sketches.add(dict(zip(decoded.schema.names, decoded.columns, strict=True)), decoded.num_rows)
    return sketches


def summarize_raw(
    request: Request, span: SpanRequest, config: PreprocessingConfig, series: Sequence[Series]
) -> Summary:
    """Returns the summary of a span that is not ingested: of the rows that ingestion would write, read in this process.

    Args:
        request: what ingestion is asked for; its columns are those of `config`.
        span: one of its spans.
        config: features and label.
        series: what is looked at.

    Raises:
        UserError: A file cannot be read, or lacks a column.
    """
    plan = Ingest(
        config=request.config,
        files=span.files,
        splits=request.splits,
        columns=request.columns,
        folder="",
        gzip=False,
        span=span.number if request.spanned else None,
    )
    parts = [
        _sketch_part(plan, index, part, config, series)
        for index, file in enumerate(span.files)
        for part in parts_of(file, request.config.source)
    ]
    return of_parts(span.number, span.label, span.fingerprint, parts)


def _sketch_part(
    plan: Ingest, index: int, part: Part, config: PreprocessingConfig, series: Sequence[Series]
) -> Sketches:
    sketches = Sketches(config, tuple(series))
    reading = reading_of(plan, plan.files[index], part)
    for _, rows in read_rows(plan, reading):
        arrays, good = convert_columns(plan, reading, rows)
        usable = {name: array.filter(pa.array(good)) for name, array in arrays.items()}
        sketches.add(usable, int(good.sum()))
    return sketches


def of_parts(number: int, label: str, fingerprint: str, parts: Iterable[Sketches]) -> Summary:
    """Returns the summary of a span from the sketches of its parts."""
    every = list(parts)
    rows = sum(part.rows for part in every)
    return joined(number, label, fingerprint, rows, [part.distributions() for part in every])
