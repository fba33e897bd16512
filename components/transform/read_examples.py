"""Reads raw examples on Beam. An element is a file or a list of examples, never a single example."""

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.components.read_records import RecordReader
from fullpass.preprocessing.internals.tfx_bsl_internals import ExamplesToRecordBatchDecoder
from fullpass.trainer.input.raw_examples import RawExamples

_DTYPES = {schema_pb2.FLOAT: tf.float32, schema_pb2.INT: tf.int64, schema_pb2.BYTES: tf.string}


def parser_of(schema: bytes, columns: Iterable[str]) -> RawExamples:
    """Returns the parser of some columns of a serialized schema."""
    wanted = set(columns)
    features = schema_pb2.Schema.FromString(schema).feature
    return RawExamples({one.name: _DTYPES[one.type] for one in features if one.name in wanted})


class ReadExamples(beam.PTransform):
    """Reads TFRecord files as lists of serialized examples.

    Args:
        note: Text about the current step, shown with the progress.
    """

    def __init__(self, paths: Sequence[str], note: str, rows: int | None):
        super().__init__()
        self._paths = list(paths)
        self._reader = RecordReader(note, rows)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        read = beam.ParDo(_ReadFile(self._reader)).with_output_types(list[bytes])
        return pipeline | "Files" >> beam.Create(self._paths) | "Read" >> read


class _ReadFile(beam.DoFn):
    def __init__(self, reader: RecordReader):
        self._reader = reader

    def process(self, path: str) -> Iterator[list[bytes]]:
        yield from self._reader.batches(path)


class ToRecordBatches(beam.DoFn):
    """Decodes lists of serialized examples for the analyzers that run in TF Transform's own Beam graph."""

    def __init__(self, schema: bytes):
        self._schema = schema

    def setup(self) -> None:
        self._decoder = ExamplesToRecordBatchDecoder(self._schema)

    def process(self, records: list[bytes]) -> Iterator[pa.RecordBatch]:
        yield self._decoder.DecodeBatch(records)
