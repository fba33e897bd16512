"""Calls user-defined functions in the graph: imports them by path and checks their results."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.user_modules import import_function, own_code
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from fullpass.preprocessing.expressions.tensor_ops import StringColumn
from fullpass.preprocessing.features.feature import CustomFeature
from fullpass.preprocessing.features.output import transformed_name
from fullpass.preprocessing.internals.tft_internals import declared_domain

_ABSENT = (
    "{} reads the column {!r}, which it is not given. It gets {}: the columns of its `columns:`, or in place of all "
    "transforms those that serving has. The label is not among them: Fullpass adds it."
)
_OUTPUT_DTYPES = (tf.float32, tf.int64, tf.string)


def custom(name: str, feature: CustomFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms columns with a user-defined function: float32 [batch] or [batch, k], or int64 ids [batch]."""
    read = {
        column: columns.number(column) if wanted == "number" else columns.string(column).values
        for column, wanted in feature.columns.items()
    }
    result = _call(feature.function, read)
    if not isinstance(result, tf.Tensor):
        raise UserError(f"{feature.function} must return a tensor. Received: {_described(result)}.")
    if feature.ids is not None:
        return {transformed_name(name): _checked_ids(result, feature.function, feature.ids)}
    if result.dtype != tf.float32 or result.shape.rank not in (1, 2) or None in result.shape[1:]:
        raise UserError(
            f"{feature.function} must return float32 [batch] or [batch, k] with k known before any data is read; "
            f"for int64 ids declare `ids`. Received: {_described(result)}."
        )
    return {transformed_name(name): tf.identity(result)}


def _checked_ids(result: tf.Tensor, function: str, size: int) -> tf.Tensor:
    if result.dtype != tf.int64 or result.shape.rank != 1:
        raise UserError(f"{function} must return int64 [batch]. Received: {_described(result)}.")
    inside = (result >= 0) & (result < size)
    ids = tf.where(inside, result, 0)
    declared = declared_domain(result)
    if declared is None:
        return with_domain(ids, size - 1)
    # A wider range, such as that of a vocabulary with -1 for unknown tokens, stays in the schema: Transform refuses it.
    low, high = declared
    return with_domain(ids, tf.maximum(high, size - 1), tf.minimum(low, 0))


def apply_function(function: str, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Returns the outputs of a user-defined function that replaces the transforms of all features."""
    read = {
        name: value.values if isinstance(value, StringColumn) else value for name, value in columns.of_serving().items()
    }
    result = _call(function, read)
    if not isinstance(result, Mapping):
        raise UserError(f"{function} must return a dict of transformed features. Received: {_described(result)}.")
    for name, value in result.items():
        _check_output(function, name, value)
    return dict(result)


def _check_output(function: str, name: Any, value: Any) -> None:
    reserved = (LABEL, EXAMPLE_WEIGHT, ROW_ID)
    if not isinstance(name, str) or name in reserved:
        raise UserError(
            f"{function} must name its features with strings other than {', '.join(reserved)}, which are "
            f"reserved: Fullpass adds the label itself. Received: {name!r}."
        )
    if not isinstance(value, tf.Tensor | tf.SparseTensor | tf.RaggedTensor) or value.dtype not in _OUTPUT_DTYPES:
        raise UserError(
            f"{function} must return tensors of float32, int64 or string. Received for {name!r}: {_described(value)}."
        )


def _call(path: str, columns: Mapping[str, tf.Tensor]) -> Any:
    function = import_function(path)
    given = _Columns(columns)
    with own_code(path):
        try:
            return function(given)
        except KeyError:
            if given.absent is None:
                raise
            raise UserError(_ABSENT.format(path, given.absent, ", ".join(columns))) from None


class _Columns(dict[str, tf.Tensor]):
    """The columns of a function. absent: the column that it has asked for last, if there is none."""

    absent: object = None

    def __missing__(self, name: object) -> tf.Tensor:
        self.absent = name
        raise KeyError(name)


def _described(value: Any) -> str:
    if isinstance(value, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
        return f"{type(value).__name__} of {value.dtype.name} {list(value.shape)}"
    return f"{type(value).__name__} {value!r}"
