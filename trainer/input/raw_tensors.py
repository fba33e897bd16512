"""Converts raw columns to dense tensors, the form of batches, requests and the model's inputs, and back.

number: float32 [rows], NaN for missing. string: string [rows], "" for missing. vector: float32 [rows, width], a row
of NaN for missing. A list of numbers or strings: [rows, elements of the longest list]; shorter lists are padded with
missing elements.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.apply.list_tensors import present_elements
from fullpass.preprocessing.columns.raw_columns import RawColumn

DTYPES = {"number": tf.float32, "string": tf.string, "vector": tf.float32}


def to_dense(value: tf.SparseTensor, column: RawColumn) -> tf.Tensor:
    """Returns a raw column, parsed from examples, as a dense column."""
    width = dense_shape(column)[-1] if column.type == "vector" else value.dense_shape[1] if column.many else 1
    cells = tf.SparseTensor(value.indices, value.values, tf.stack([value.dense_shape[0], width]))
    dense = tf.sparse.to_dense(cells, missing_value(column), validate_indices=False)
    dense = tf.ensure_shape(dense, [None, None if column.many else width])
    return dense[:, 0] if len(dense_shape(column)) == 1 else dense


def to_sparse(columns: Mapping[str, tf.Tensor], rows: tf.Tensor) -> dict[str, tf.SparseTensor]:
    """Returns dense columns of `rows` rows, or of none, in the form parsed from examples: without missing values.

    A list keeps all elements up to the last that is not missing. All columns of single cells together take a fixed
    number of operations, because TensorFlow's time to optimize a graph grows faster than the graph.
    """
    singles = {name: value for name, value in columns.items() if value.shape.rank == 1}
    sparse = {name: _sparse_lists(value, rows) for name, value in columns.items() if name not in singles}
    for names in names_by_dtype(singles):
        sparse |= dict(zip(names, _sparse_cells([columns[name] for name in names], rows), strict=True))
    return sparse


def names_by_dtype(columns: Mapping[str, tf.Tensor]) -> list[list[str]]:
    """Returns the names of the columns, grouped by dtype."""
    names: dict[tf.DType, list[str]] = {}
    for name, value in columns.items():
        names.setdefault(value.dtype, []).append(name)
    return list(names.values())


def _sparse_cells(columns: Sequence[tf.Tensor], rows: tf.Tensor) -> list[tf.SparseTensor]:
    """Returns columns of one dtype, each [rows] or [0], as sparse ones [rows, 1]."""
    cells = tf.concat(columns, 0)
    where = tf.where(present_elements(cells))[:, 0]
    numbers = tf.ragged.range(tf.concat(tf.shape_n(columns, tf.int64), 0))  # row numbers, column by column
    counts = tf.math.unsorted_segment_sum(
        tf.ones_like(where), tf.gather(numbers.value_rowids(), where), num_segments=len(columns)
    )
    indices = tf.pad(tf.gather(numbers.values, where)[:, tf.newaxis], [[0, 0], [0, 1]])
    shape = tf.stack([rows, 1])
    by_column = (tf.split(value, counts, num=len(columns)) for value in (indices, tf.gather(cells, where)))
    return [tf.SparseTensor(*cells, shape) for cells in zip(*by_column, strict=True)]


def _sparse_lists(value: tf.Tensor, rows: tf.Tensor) -> tf.SparseTensor:
    """Returns a column of vectors or lists, [rows, elements], as a sparse one."""
    present = present_elements(value)
    if value.shape[1] is None:
        present = tf.cumsum(tf.cast(present, tf.int32), axis=1, reverse=True) > 0
    else:
        present |= tf.reduce_any(present, axis=1, keepdims=True)
    where = tf.where(present)
    return tf.SparseTensor(where, tf.gather_nd(value, where), tf.stack([rows, tf.shape(value, tf.int64)[1]]))


def to_request(
    values: Mapping[str, np.ndarray], columns: Mapping[str, RawColumn], keys: Mapping[str, str]
) -> dict[str, tf.Tensor]:
    """Returns the inputs of an export's `serving_raw`.

    Args:
        values: Dense columns by name; absent columns are missing in every row.
        columns: All raw columns that the export reads.
        keys: Raw column -> name of its input.
    """
    return {
        keys[name]: tf.constant(values[name] if name in values else empty_column(column), DTYPES[column.type])
        for name, column in columns.items()
    }


def missing_value(column: RawColumn) -> tf.Tensor:
    """Returns the scalar that represents a missing value."""
    return tf.constant("" if column.type == "string" else float("nan"), DTYPES[column.type])


def dense_shape(column: RawColumn) -> tuple[int | None, ...]:
    """Returns the shape of a dense column of any number of rows."""
    if column.many:
        return (None, None)
    return (None, column.width) if column.type == "vector" else (None,)


def empty_column(column: RawColumn) -> np.ndarray:
    """Returns a dense column without rows, which means missing in every row."""
    return np.zeros([size or 0 for size in dense_shape(column)], object if column.type == "string" else np.float32)
