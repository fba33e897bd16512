"""TFRecord files -> RecordBatches, read in C++ batches: a Beam element is a file, then a batch, never an example."""

from collections.abc import Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from fullpass.preprocessing.progress import report
from fullpass.trainer.input.record_batches import record_batches

_BATCH_ROWS = 2048


class RecordReader:
    """Reads files and reports progress.

    Args:
        schema: serialized, of the raw examples.
        note: what is done with the rows, shown beside the progress.
        rows: how many there are in all, if that is known.
    """

    def __init__(self, schema: bytes, note: str, rows: int | None):
        self._decoder = ExamplesToRecordBatchDecoder(schema)
        self._note = note
        self._rows = rows
        self._done = 0

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file in the layout of the schema."""
        for batch in record_batches(path, rows=_BATCH_ROWS):
            yield self._decoder.DecodeBatch(batch)
            self._done += len(batch)
            report(self._done, self._rows, "rows", self._note)


class ReadExamples(beam.PTransform):
    """TFRecord files -> RecordBatches in the layout of the schema.

    Args:
        paths: of the files.
        schema: serialized, of the raw examples.
        note: what is done with the rows, shown beside the progress.
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
