"""Reads raw examples on Beam. An element is a file or a list of examples, never a single example."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.base.errors import UserError
from fullpass.components.read_records import RecordReader
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RAW_TRAIN_ROW
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import TextFeature
from fullpass.preprocessing.internals.tfx_bsl_internals import ExamplesToRecordBatchDecoder
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from fullpass.preprocessing.values.raw_batches import as_train_rows
from fullpass.trainer.input.raw_examples import RawExamples, RawRows

ANALYZED_SPLIT = "train"
_BYTES_WITH_TEXTS = 4 << 20
"""Bytes of a batch if there are texts, whose tokens take several times the memory of the text."""

_DTYPES = {schema_pb2.FLOAT: tf.float32, schema_pb2.INT: tf.int64, schema_pb2.BYTES: tf.string}


Parse = Callable[[RawRows], dict[str, tf.SparseTensor | tf.Tensor]]
"""Raw examples -> their columns, as [rows, values] without missing values; dense if the schema says so."""


def dtypes_of(schema: schema_pb2.Schema) -> dict[str, tf.DType]:
    """Returns the dtype of each column of a schema."""
    return {one.name: _DTYPES[one.type] for one in schema.feature}


def parser_of(schema: bytes, columns: Iterable[str], split: str) -> Parse:
    """Returns the parser of some columns of a serialized schema. Only rows of the train split get RAW_TRAIN_ROW."""
    wanted = set(columns)
    folds = RAW_TRAIN_ROW in wanted and split == ANALYZED_SPLIT
    if folds:
        wanted |= {RAW_ROW_ID}
    features = [one for one in schema_pb2.Schema.FromString(schema).feature if one.name in wanted]
    parse = _examples(tuple((one.name, _DTYPES[one.type]) for one in features)).tensors
    if shapes := {one.name: [dim.size for dim in one.shape.dim] for one in features if one.HasField("shape")}:
        return partial(_with_dense, parse, shapes)
    if not folds:
        return parse

    def of_train(examples: RawRows) -> dict[str, tf.SparseTensor]:
        parsed = parse(examples)
        return {**parsed, RAW_TRAIN_ROW: parsed[RAW_ROW_ID]}

    return of_train


def _with_dense(
    parse: Parse, shapes: Mapping[str, Sequence[int]], examples: RawRows
) -> dict[str, tf.SparseTensor | tf.Tensor]:
    """Returns parsed columns, dense where a schema, such as one of TFX's SchemaGen, says their shape."""
    parsed = parse(examples)
    for name, shape in shapes.items():
        values = parsed[name].values
        if len(values) != len(examples) * math.prod(shape):
            raise UserError(
                f"column {name!r}: the schema says that each row has {math.prod(shape)} value(s), and "
                f"{len(examples):,} rows have {len(values):,}. Correct its shape in the schema, as by "
                "infer_feature_shape=False of SchemaGen."
            )
        parsed[name] = tf.reshape(values, [-1, *shape])
    return parsed


@lru_cache(maxsize=2)
def _examples(dtypes: tuple[tuple[str, tf.DType], ...]) -> RawExamples:
    """Returns the parser of some columns, which all splits share: each would trace it again."""
    return RawExamples(dict(dtypes))


def batch_bytes_of(config: PreprocessingConfig) -> int:
    """Returns the largest size of a batch: small with texts, whose tokens take a hundred times the bytes."""
    has_texts = any(isinstance(feature, TextFeature) for feature in config.features.values())
    return _BYTES_WITH_TEXTS if has_texts else BATCH_BYTES


class ReadExamples(beam.PTransform):
    """Reads TFRecord files as batches of a `RecordReader`.

    Args:
        note: Text about the current step, shown with the progress.
        batch_bytes: The largest size of a batch of more than one example.
        dtypes: Those of the columns that may be read in place of the examples.
    """

    def __init__(
        self,
        paths: Sequence[str],
        note: str,
        rows: int | None,
        batch_bytes: int = BATCH_BYTES,
        dtypes: Mapping[str, tf.DType] | None = None,
    ):
        super().__init__()
        self._paths = list(paths)
        self._reader = RecordReader(note, rows, batch_bytes=batch_bytes, dtypes=dtypes)

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection:
        read = beam.ParDo(_ReadFile(self._reader))
        return pipeline | "Files" >> beam.Create(self._paths) | "Read" >> read


class _ReadFile(beam.DoFn):
    def __init__(self, reader: RecordReader):
        self._reader = reader

    def process(self, path: str) -> Iterator[Any]:  # Beam's type check does not support a union here
        yield from self._reader.batches(path)


class ToRecordBatches(beam.DoFn):
    """Decodes train rows, as lists of serialized examples, for the analyzers of TF Transform's own Beam graph."""

    def __init__(self, schema: bytes):
        self._schema = schema

    def setup(self) -> None:
        self._decoder = ExamplesToRecordBatchDecoder(self._schema)
        features = schema_pb2.Schema.FromString(self._schema).feature
        self._folds = any(feature.name == RAW_TRAIN_ROW for feature in features)

    def process(self, records: list[bytes]) -> Iterator[pa.RecordBatch]:
        batch = self._decoder.DecodeBatch(records)
        yield as_train_rows(batch) if self._folds else batch
