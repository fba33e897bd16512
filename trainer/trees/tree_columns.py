"""Converts transformed features to the input of trees: a matrix of numbers, some of which are ids."""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import keras
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.output import transformed_name
from fullpass.trainer.models.layers import MultiHot
from fullpass.trainer.models.model_inputs import ModelInput, as_matrix, keras_inputs
from fullpass.trainer.trees.text_scores import TextScores

_MOST_COLUMNS = 256
"""The most ids of a list or text for a column per id; one of more ids has scores."""
_MAX_IDS = 1 << 24
"""A float32 holds every whole number up to here."""


@dataclass(frozen=True)
class TreeColumns:
    """The columns of all features.

    Attributes:
        matrix: float32 [batch, columns]: numbers, NaN where missing, and ids.
        unseen: The number of ids of missing and unknown values, which begin at 0, by column of ids.
        scores: The first column of the scores of a list or text, by name of transformed feature.
    """

    matrix: keras.KerasTensor
    unseen: Mapping[int, int]
    width: int
    scores: Mapping[str, int] = field(default_factory=dict)


def scored_inputs(inputs: Mapping[str, ModelInput]) -> list[ModelInput]:
    """Returns the lists and texts of too many ids for a column each.

    Raises:
        UserError: Trees do not support a feature: it is an image or a sequence, or a category of too many ids.
    """
    for item in inputs.values():
        _refuse(item)
    return [item for item in inputs.values() if item.output.multi and item.size > _MOST_COLUMNS]


def tree_columns(inputs: Mapping[str, ModelInput], texts: Mapping[str, TextScores]) -> TreeColumns:
    """Returns the columns of `inputs`, in their order.

    A number has one column, which is NaN where its indicator marks it as missing; the indicator has no column of its
    own. A vector has one column per number, a category one column with its id. A list or a text has one column per id,
    with the count or the weight of the id in the row; those of `texts` have their scores and components instead.
    """
    indicators = {
        item.name: inputs[missing]
        for item in inputs.values()
        if item.name == transformed_name(item.output.feature)
        and (missing := transformed_name(item.output.feature, "missing")) in inputs
    }
    taken = {item.name for item in indicators.values()}
    parts: list[keras.KerasTensor] = []
    unseen: dict[int, int] = {}
    scores: dict[str, int] = {}
    width = 0
    columns = [item for item in inputs.values() if item.name not in taken]
    # Neighbours of one kind share operations: with one each, hundreds of columns take seconds whenever a model is
    # traced.
    for _, run in itertools.groupby(columns, lambda item: _kind(item, indicators)):
        items = list(run)
        if items[0].name in texts:
            scores[items[0].name] = width
            part = texts[items[0].name].columns(items[0])
        else:
            if items[0].output.kind == "ids" and not items[0].output.multi:
                unseen |= {width + i: item.output.unseen for i, item in enumerate(items)}
            part = _matrix(items)
            if marks := [indicators[item.name] for item in items if item.name in indicators]:
                part = WithMissing()(part, _matrix(marks))
        parts.append(part)
        width += part.shape[1]
    return TreeColumns(SideBySide()(parts), unseen, width, scores)


def columns_model(inputs: Mapping[str, ModelInput], columns: TreeColumns) -> keras.Model:
    """Returns the model that maps `inputs` to their columns; it converts the rows that trees are grown on."""
    return keras.Model(keras_inputs(inputs), columns.matrix, name="tree_columns")


class WithMissing(keras.layers.Layer):
    """(numbers, indicator), both float32 [batch, width] -> the numbers, NaN where the indicator is 1."""

    def __init__(self, **options):
        super().__init__(dtype="float32", **options)

    def call(self, numbers, indicator):
        return tf.where(indicator > 0.5, float("nan"), numbers)


class SideBySide(keras.layers.Layer):
    """A list of numbers or ids [batch, width of each] -> float32 [batch, all widths]."""

    def __init__(self, **options):
        super().__init__(dtype="float32", autocast=False, **options)

    def call(self, parts):
        return tf.concat([tf.cast(part, tf.float32) for part in parts], axis=1)


def _kind(item: ModelInput, indicators: Mapping[str, ModelInput]) -> Hashable:
    """Returns what neighbours have in common whose columns are made together; the name if a feature has its own."""
    if item.output.multi or len(item.keras_input.shape) > 1:
        return item.name
    return item.keras_input.dtype, item.name in indicators


def _matrix(items: Sequence[ModelInput]) -> keras.KerasTensor:
    """Returns single numbers or ids, or one vector, list or text, as [batch, width]."""
    first = items[0]
    if first.output.multi:
        return MultiHot(first.size, first.output.pooling or "sum")(*first.tensors)
    return as_matrix(items)


def _refuse(item: ModelInput) -> None:
    """Raises UserError for a feature that trees do not support."""
    path = f"features.{item.output.feature}"
    if item.output.kind == "image" or item.output.sequence is not None:
        what = "an image" if item.output.kind == "image" else "a column of a sequence"
        raise UserError(f"{path}: is {what}, which trees cannot read. {_INSTEAD}")
    if item.size > _MAX_IDS:
        raise UserError(f"{path}: has {item.size:,} ids; trees take up to {_MAX_IDS:,}. Set vocabulary.top_k.")


_INSTEAD = "Remove the feature, or use model: {kind: wide_deep}."
