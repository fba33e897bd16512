"""Evaluates expressions over Python values."""

import math

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.expressions.expression import check_types, parse_expression
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, compute_expression

NAN = float("nan")


def column(values):
    """Converts Python values, None for missing, to the inputs of `compute_expression`."""
    if any(isinstance(value, str | bytes) for value in values):
        present = [value is not None for value in values]
        return StringColumn(tf.constant(["?" if v is None else v for v in values]), tf.constant(present))
    return tf.constant([NAN if value is None else value for value in values], tf.float32)


def plain(value):
    """Converts a result to Python values, None for missing."""
    if isinstance(value, StringColumn):
        pairs = zip(value.values.numpy(), value.present.numpy(), strict=True)
        return [text.decode() if present else None for text, present in pairs]
    assert value.dtype == tf.float32
    return [None if math.isnan(number) else number for number in value.numpy().tolist()]


def run(text, **columns):
    expression = parse_expression(text)
    columns = {name: column(values) for name, values in columns.items()}
    types = {name: "string" if isinstance(c, StringColumn) else "number" for name, c in columns.items()}
    check_types(expression, types)
    return plain(compute_expression(expression, columns))


def f32(number):
    return float(np.float32(number))
