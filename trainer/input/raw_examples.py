"""Parses serialized raw examples, for statistics, analysis, the transform, the evaluation and parity.

`tf.io.parse_example` parses a batch in one call on all cores, in a quarter of the CPU time of tfx_bsl's decoder. It
cannot distinguish an empty list from an absent feature; Ingest writes no empty lists.

Others parse too, each where this parser cannot: an export in its own graph (`export/signatures.py`), and the analysis
by TF Transform's Beam graph, which refuses batches that are not laid out as tfx_bsl's (`transform/read_examples.py`).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import as_mask
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of
from fullpass.trainer.input.raw_tensors import DTYPES, dense_shape, missing_value, to_dense

_ARROW = {tf.float32: pa.float32(), tf.int64: pa.int64(), tf.string: pa.binary()}


def raw_dtypes(columns: Mapping[str, RawColumn]) -> dict[str, tf.DType]:
    """Returns the dtype of each column's values."""
    return {name: DTYPES[column.type] for name, column in columns.items()}


RawRows: TypeAlias = Sequence[bytes] | pa.RecordBatch
"""Raw examples: serialized, or their columns as `raw_column_files.stored_rows` returns them."""


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

    def tensors(self, rows: RawRows | tf.Tensor) -> dict[str, tf.SparseTensor]:
        """Returns the columns of raw examples as [rows, values] without missing values. rows: or string [rows]."""
        if isinstance(rows, pa.RecordBatch):
            return {name: _sparse(*_values(rows, name, dtype)) for name, dtype in self._dtypes.items()}
        # `tf.convert_to_tensor` looks at each record in Python before it does as `tf.constant`.
        serialized = rows if tf.is_tensor(rows) else tf.constant(rows, tf.string)
        return self._sparse(serialized) if self._dtypes else {}

    def lists(self, rows: RawRows) -> pa.RecordBatch:
        """Returns the columns of raw examples as lists of values; null where a row has no value."""
        if isinstance(rows, pa.RecordBatch):
            arrays = [_lists(*_values(rows, name, dtype)) for name, dtype in self._dtypes.items()]
        else:
            parsed = self._ragged(tf.constant(rows, tf.string))
            arrays = [
                _lists(pa.array(parsed[name].values.numpy(), _ARROW[dtype]), parsed[name].row_splits.numpy())
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


def _values(rows: pa.RecordBatch, name: str, dtype: tf.DType) -> tuple[pa.Array, np.ndarray]:
    """Returns the values of a stored column, and where those of each row begin, int64 [rows + 1]."""
    index = rows.schema.get_field_index(name)
    column = pa.nulls(rows.num_rows, _ARROW[dtype]) if index < 0 else rows.column(index)
    lists = is_list(column.type)
    lengths = lengths_of(column) if lists else as_mask(column.is_valid())
    values = flatten(column) if lists else column.drop_null()
    return values.cast(_ARROW[dtype]), np.concatenate([[0], np.cumsum(lengths)])


def _sparse(values: pa.Array, splits: np.ndarray) -> tf.SparseTensor:
    kind, lengths = tf.string if pa.types.is_binary(values.type) else None, np.diff(splits)
    cells = tf.constant(values.to_numpy(zero_copy_only=False), kind)
    if (lengths == 1).all():
        return tf.SparseTensor(_one_each(len(lengths)), cells, tf.constant([len(lengths), 1], tf.int64))
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    indices = np.stack([row_of, np.arange(len(row_of)) - splits[row_of]], axis=1)
    return tf.SparseTensor(indices, cells, [len(lengths), lengths.max(initial=0)])


@lru_cache(maxsize=2)
def _one_each(rows: int) -> tf.Tensor:
    """Returns the indices of a value in each row, which most columns of a batch share."""
    return tf.constant([[row, 0] for row in range(rows)], tf.int64, [rows, 2])


def _lists(values: pa.Array, splits: np.ndarray) -> pa.ListArray:
    missing = np.append(splits[:-1] == splits[1:], False)
    starts = pa.array(splits.astype(np.int32), mask=missing if missing.any() else None)
    return pa.ListArray.from_arrays(starts, values)
