"""Transforms the label and the weight of an example; see `Label` for the dtype and shape of each task."""

from collections.abc import Callable, Mapping

import tensorflow as tf

from fullpass.preprocessing.apply.category import boolean_ids, separated_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Limits, counted_vocabulary
from fullpass.preprocessing.apply.list_tensors import rows_of_sparse
from fullpass.preprocessing.apply.number_chains import fill_remaining_with_zero
from fullpass.preprocessing.apply.token_table import TokenTable
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, LABEL_VOCABULARY
from fullpass.preprocessing.features.label import FALSE, TRUE, Label, Task

Labelled = tuple[tf.Tensor | tf.SparseTensor, tf.Tensor]
"""The label, and bool [batch]: whether the example has a usable label."""


def label(declared: Label, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor]:
    """Returns the transformed label, and the weight of each example: 0 where it has no usable label."""
    value, usable = labelled(declared, columns)
    if declared.weight is None:
        weight = tf.ones_like(usable, tf.float32)
    else:
        weight = tf.maximum(fill_remaining_with_zero(columns.number(declared.weight)), 0.0)
    return {LABEL: value, EXAMPLE_WEIGHT: tf.where(usable, weight, 0.0)}


def labelled(declared: Label, columns: Columns) -> Labelled:
    """Returns the label without its weight; it is transformed once per batch."""
    if columns.labelled is None:
        columns.labelled = TASKS[declared.task](declared, columns)
    return columns.labelled


def _regression(declared: Label, columns: Columns) -> Labelled:
    value = columns.number(declared.column)
    return fill_remaining_with_zero(value), ~tf.math.is_nan(value)


def _binary(declared: Label, columns: Columns) -> Labelled:
    if declared.classes is not None:
        column = columns.token(declared.column)
        index = TokenTable([declared.classes]).find(column.values)
        return tf.cast(tf.equal(index, 1), tf.float32), column.present & (index >= 0)
    column = columns.token(declared.column)
    if declared.positive is None:
        ids = boolean_ids(column, TRUE, FALSE)
        is_positive, usable = tf.equal(ids, 2), ids > 0
    elif isinstance(declared.positive, str):
        is_positive, usable = tf.equal(column.values, declared.positive), column.present
    else:
        value = columns.number(declared.column)
        is_positive, usable = tf.equal(value, declared.positive), ~tf.math.is_nan(value)
    # The file names the classes: two values are enough, and a third shows that there are more; see `names_of_values`.
    counted_vocabulary(tf.where(usable, column.values, ""), Limits(top_k=3), LABEL_VOCABULARY)
    return tf.cast(is_positive, tf.float32), usable


def _multiclass(declared: Label, columns: Columns) -> Labelled:
    column = columns.token(declared.column)
    table = _class_table(declared, column.values)
    index = table.find(column.values)
    usable = column.present & (index >= 0)
    return with_domain(tf.where(usable, index, 0), table.highest_ids(-1)[0]), usable


def _multilabel(declared: Label, columns: Columns) -> Labelled:
    column = columns.string(declared.column)
    cells = separated_tokens(columns, declared.column, declared.separator).to_sparse()
    table = _class_table(declared, cells.values)
    index = table.find(cells.values)
    known = tf.sparse.retain(tf.SparseTensor(cells.indices, index, cells.dense_shape), index >= 0)
    # A cell of separators alone means that no class applies. A cell of unknown classes is not usable.
    usable = column.present & (_row_lengths(known) > 0) | column.present & (_row_lengths(cells) == 0)
    if declared.classes is None:
        return with_domain(known, table.highest_ids(-1)[0]), usable
    ids = rows_of_sparse(known).to_tensor(-1)
    return tf.reduce_max(tf.one_hot(ids, len(declared.classes)), axis=1), usable


def _row_lengths(rows: tf.SparseTensor) -> tf.Tensor:
    return tf.math.unsorted_segment_sum(tf.ones_like(rows.indices[:, 0]), rows.indices[:, 0], rows.dense_shape[0])


def _class_table(declared: Label, tokens: tf.Tensor) -> TokenTable:
    return TokenTable([declared.classes or counted_vocabulary(tokens, Limits(), LABEL_VOCABULARY)])


TASKS: Mapping[Task, Callable[[Label, Columns], Labelled]] = {
    "regression": _regression,
    "binary": _binary,
    "multiclass": _multiclass,
    "multilabel": _multilabel,
}
"""Task -> function that transforms its label."""
