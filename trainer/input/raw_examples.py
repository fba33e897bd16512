"""Parses serialized raw examples, for statistics, analysis, the transform, the evaluation and parity.

`tf.io.parse_example` parses a batch in one call on all cores, in a quarter of the CPU time of tfx_bsl's decoder. It
cannot distinguish an empty list from an absent feature; Ingest writes no empty lists.

Others parse too, each where this parser cannot: an export in its own graph (`export/signatures.py`), and the analysis
by TF Transform's Beam graph, which refuses batches that are not laid out as tfx_bsl's (`transform/read_examples.py`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.input.raw_tensors import DTYPES, dense_shape, missing_value, to_dense

_ARROW = {tf.float32: pa.float32(), tf.int64: pa.int64(), tf.string: pa.binary()}


def raw_dtypes(columns: Mapping[str, RawColumn]) -> dict[str, tf.DType]:
    """Returns the dtype of each column's values."""
    return {name: DTYPES[column.type] for name, column in columns.items()}


class RawExamples:
    """Parses some columns of raw examples; other columns are ignored.

    Args:
        dtypes: Name of each column -> dtype of its values.
    """

    def __init__(self, dtypes: Mapping[str, tf.DType]):
        self._dtypes = dict(dtypes)
        self._sparse = _parse(_sparse_spec(dtypes))
        self._ragged = _parse(
            {name: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) for name, dtype in dtypes.items()}
        )

    def tensors(self, records: Sequence[bytes] | tf.Tensor) -> dict[str, tf.SparseTensor]:
        """Returns the columns of serialized examples, string [rows], as [rows, values] without missing values."""
        # `tf.convert_to_tensor` looks at each record in Python before it does as `tf.constant`.
        serialized = records if tf.is_tensor(records) else tf.constant(records, tf.string)
        return self._sparse(serialized) if self._dtypes else {}

    def lists(self, records: Sequence[bytes]) -> pa.RecordBatch:
        """Returns the columns of serialized examples as lists of values; null where a row has no value."""
        parsed = self._ragged(tf.constant(records, tf.string))
        arrays = [
            _lists(parsed[name].values.numpy(), parsed[name].row_splits.numpy(), _ARROW[dtype])
            for name, dtype in self._dtypes.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, list(self._dtypes))


def dense_columns(records: tf.Tensor, columns: Mapping[str, RawColumn]) -> dict[str, tf.Tensor]:
    """Returns columns of serialized examples, string [rows], in the dense form of `raw_tensors`.

    The parser itself makes all columns but lists dense: an operation per column would cost a wide table seconds.
    """
    spec = {name: _dense_spec(column) for name, column in columns.items()}
    parsed = tf.io.parse_example(records, spec)
    return {name: to_dense(parsed[name], column) if column.many else parsed[name] for name, column in columns.items()}


def _dense_spec(column: RawColumn) -> tf.io.FixedLenFeature | tf.io.VarLenFeature:
    if column.many:
        return tf.io.VarLenFeature(DTYPES[column.type])
    shape = [width for width in dense_shape(column)[1:] if width is not None]
    return tf.io.FixedLenFeature(shape, DTYPES[column.type], tf.fill(shape, missing_value(column)))


def _sparse_spec(dtypes: Mapping[str, tf.DType]) -> dict[str, tf.io.VarLenFeature]:
    return {name: tf.io.VarLenFeature(dtype) for name, dtype in dtypes.items()}


def _parse(spec: Mapping[str, object]) -> tf.types.experimental.PolymorphicFunction:
    def parse(records: tf.Tensor) -> dict[str, object]:
        return tf.io.parse_example(records, spec)

    return tf.function(parse, autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])


def _lists(values: np.ndarray, splits: np.ndarray, kind: pa.DataType) -> pa.ListArray:
    missing = np.append(splits[:-1] == splits[1:], False)
    starts = pa.array(splits.astype(np.int32), mask=missing if missing.any() else None)
    return pa.ListArray.from_arrays(starts, pa.array(values, kind))
