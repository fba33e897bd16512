"""Computes derived columns of a batch of raw rows, with the same TensorFlow ops as in the transform graph."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import derived_value
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.expressions.expression import parse_expression
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, Value


def derived_column(
    name: str, arrays: Mapping[str, pa.Array], columns: Sequence[RawColumn], derive: Mapping[str, str]
) -> pa.Array:
    """Returns a derived column, float32 or binary [rows], null where it is missing.

    Args:
        arrays: Raw columns, float32 or binary, null where missing.
        columns: Descriptions of the raw columns; vectors and lists are skipped, because no expression reads them.
        derive: Derived column -> expression, in dependency order.
    """
    values: dict[str, Value] = {column.name: _value(arrays[column.name]) for column in columns if column.is_single}
    for derived, text in derive.items():
        expression = parse_expression(text)
        read = {column: values[column] for column in expression.columns if column in values}
        values[derived] = derived_value(expression, read or values)
        if derived == name:
            break
    return _array(values[name])


def _value(column: pa.Array) -> Value:
    if pa.types.is_binary(column.type):
        present = column.is_valid().to_numpy(zero_copy_only=False)
        texts = tf.constant(np.array(column.fill_null(b"").to_pylist(), dtype=object), tf.string)
        return StringColumn(texts, tf.constant(present) & tf.not_equal(texts, ""))
    numbers = tf.constant(column.cast(pa.float32()).fill_null(float("nan")).to_numpy(zero_copy_only=False))
    return tf.where(tf.math.is_finite(numbers), numbers, np.float32("nan"))


def _array(value: Value) -> pa.Array:
    if isinstance(value, StringColumn):
        return pa.array(value.values.numpy().tolist(), pa.binary(), mask=~value.present.numpy())
    numbers = value.numpy().astype(np.float32)
    return pa.array(numbers, mask=~np.isfinite(numbers))
