"""Raw columns as dense tensors, which is how batches, requests and the model hold them, and back.

number: float32 [rows], NaN for missing. string: string [rows], "" for missing. vector: float32 [rows, width], a row
of NaN for missing. A list of numbers or strings: [rows, elements of the longest], missing elements behind the shorter.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.raw_columns import RawColumn

DTYPES = {"number": tf.float32, "string": tf.string, "vector": tf.float32}


def to_dense(value: tf.SparseTensor, column: RawColumn) -> tf.Tensor:
    """Returns a raw column, as it is parsed from examples, as a dense one."""
    width = dense_shape(column)[-1] if column.type == "vector" else value.dense_shape[1] if column.many else 1
    cells = tf.SparseTensor(value.indices, value.values, tf.stack([value.dense_shape[0], width]))
    dense = tf.sparse.to_dense(cells, missing_value(column), validate_indices=False)
    dense = tf.ensure_shape(dense, [None, None if column.many else width])
    return dense[:, 0] if len(dense_shape(column)) == 1 else dense


def to_sparse(value: tf.Tensor, rows: tf.Tensor) -> tf.SparseTensor:
    """Returns a dense column of `rows` rows, or of none, as it is parsed from examples: only what is not missing.

    Of a list all elements are returned up to the last that is not missing.
    """
    present = tf.not_equal(value, "") if value.dtype == tf.string else tf.equal(value, value)
    if value.shape.rank == 2 and value.shape[1] is None:
        present = tf.cumsum(tf.cast(present, tf.int32), axis=1, reverse=True) > 0
    elif value.shape.rank == 2:
        present |= tf.reduce_any(present, axis=1, keepdims=True)
    where = tf.where(present)
    indices = where if value.shape.rank == 2 else tf.pad(where, [[0, 0], [0, 1]])
    width = tf.shape(value, tf.int64)[1] if value.shape.rank == 2 else tf.constant(1, tf.int64)
    return tf.SparseTensor(indices, tf.gather_nd(value, where), tf.stack([rows, width]))


def to_request(
    values: Mapping[str, np.ndarray], columns: Mapping[str, RawColumn], keys: Mapping[str, str]
) -> dict[str, tf.Tensor]:
    """Returns the inputs of an export's `serving_raw`.

    Args:
        values: Dense columns by name; those that are not there are missing in every row.
        columns: All raw columns that the export reads.
        keys: Raw column -> name of its input.
    """
    return {
        keys[name]: tf.constant(values[name] if name in values else no_rows(column), DTYPES[column.type])
        for name, column in columns.items()
    }


def missing_value(column: RawColumn) -> tf.Tensor:
    """Returns what stands for a missing value, a scalar."""
    return tf.constant("" if column.type == "string" else float("nan"), DTYPES[column.type])


def dense_shape(column: RawColumn) -> tuple[int | None, ...]:
    """Returns the shape of a dense column of any number of rows."""
    if column.many:
        return (None, None)
    return (None, column.width) if column.type == "vector" else (None,)


def no_rows(column: RawColumn) -> np.ndarray:
    """Returns a dense column without rows, which means missing in every row."""
    return np.zeros([size or 0 for size in dense_shape(column)], object if column.type == "string" else np.float32)
