"""Raw columns as dense tensors, which is how batches, requests and the model hold them, and back.

number: float32 [rows], NaN for missing. string: string [rows], "" for missing. vector: float32 [rows, width], a row
of NaN for missing.
"""

import tensorflow as tf

from fullpass.preprocessing.features.raw_columns import RawColumn

DTYPES = {"number": tf.float32, "string": tf.string, "vector": tf.float32}


def to_dense(value: tf.SparseTensor, column: RawColumn) -> tf.Tensor:
    """Returns a raw column, as it is parsed from examples, as a dense one."""
    width = column.width if column.type == "vector" else 1
    cells = tf.SparseTensor(value.indices, value.values, tf.stack([value.dense_shape[0], width]))
    missing = tf.constant("" if column.type == "string" else float("nan"), DTYPES[column.type])
    dense = tf.ensure_shape(tf.sparse.to_dense(cells, missing, validate_indices=False), [None, width])
    return dense if column.type == "vector" else dense[:, 0]


def to_sparse(value: tf.Tensor, rows: tf.Tensor) -> tf.SparseTensor:
    """Returns a dense column of `rows` rows, or of none, as it is parsed from examples: only what is not missing."""
    present = tf.not_equal(value, "") if value.dtype == tf.string else tf.equal(value, value)
    if value.shape.rank == 2:
        present |= tf.reduce_any(present, axis=1, keepdims=True)
    where = tf.where(present)
    indices = where if value.shape.rank == 2 else tf.pad(where, [[0, 0], [0, 1]])
    width = value.shape[1] if value.shape.rank == 2 else 1
    return tf.SparseTensor(indices, tf.gather_nd(value, where), tf.stack([rows, tf.constant(width, tf.int64)]))


def dense_shape(column: RawColumn) -> tuple[int | None, ...]:
    """Returns the shape of a dense column of any number of rows."""
    return (None, column.width) if column.type == "vector" else (None,)
