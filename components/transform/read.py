"""TFRecord files -> RecordBatches: read in C++ batches, so that one Beam element is a file, then a batch; never an
example.
"""

from collections.abc import Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from preprocessing.progress import report

_BATCH_ROWS = 2048


class RecordReader:
    """Reads files and tells how far it is.

    Args:
        schema: serialized, of the raw examples.
        note: what is done with the rows, for people.
        rows: how many there are in all, if that is known.
    """

    def __init__(self, schema: bytes, note: str, rows: int | None):
        self._decoder = ExamplesToRecordBatchDecoder(schema)
        self._note = note
        self._rows = rows
        self._done = 0

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file in the layout of the schema."""
        compression = "GZIP" if path.endswith(".gz") else ""
        records = tf.data.TFRecordDataset(path, compression_type=compression, buffer_size=8 << 20)
        for batch in records.batch(_BATCH_ROWS).prefetch(2).as_numpy_iterator():
            yield self._decoder.DecodeBatch(list(batch))
            self._done += len(batch)
            report(self._done, self._rows, "rows", self._note)


class ReadExamples(beam.PTransform):
    """TFRecord files -> RecordBatches in the layout of the schema.

    Args:
        paths: of the files.
        schema: serialized, of the raw examples.
        note: what is done with the rows, for people.
        rows: how many there are in all.
    """

    def __init__(self, paths: Sequence[str], schema: bytes, note: str, rows: int | None):
        super().__init__()
        self._paths = list(paths)
        self._reader = (schema, note, rows)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """See base class."""
        read = beam.ParDo(_ReadFile(*self._reader))
        return pipeline | "Files" >> beam.Create(self._paths) | "Read" >> read.with_output_types(pa.RecordBatch)


class _ReadFile(beam.DoFn):
    def __init__(self, schema: bytes, note: str, rows: int | None):
        self._of_reader = (schema, note, rows)

    def setup(self) -> None:
        self._reader = RecordReader(*self._of_reader)

    def process(self, path: str) -> Iterator[pa.RecordBatch]:
        yield from self._reader.batches(path)
