"""Transforms quantities: numbers, durations and vectors."""

from collections.abc import Mapping

import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.date import elapsed
from fullpass.preprocessing.apply.lists import numbers, quantity_of
from fullpass.preprocessing.apply.number_chains import MISSING, Quantity, analyze_chain, fill_remaining_with_zero
from fullpass.preprocessing.apply.statistics import Statistics, principal_components
from fullpass.preprocessing.apply.token_ids import Transformed
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.expressions.tensor_ops import number_tensor
from fullpass.preprocessing.features.feature import DurationFeature, NumberFeature, OrdinalFeature, VectorFeature
from fullpass.preprocessing.features.number_features import QuantityFeature
from fullpass.preprocessing.features.output import transformed_name
from fullpass.preprocessing.features.transforms import Pca, TransformSpec, VectorZScore, ZScore

_ABOUT_AS_LARGE = 0.99
"""Share of the largest entry of an eigenvector from which an entry is taken as equal to it."""
COMPONENTWISE: Mapping[type[TransformSpec], TransformSpec] = {VectorZScore: ZScore()}
"""Vector transform -> the number transform of each component; `pca` is absent because it mixes components."""


def number(name: str, feature: NumberFeature, columns: Columns) -> dict[str, Transformed | Quantity]:
    """Transforms a number or a list: float32 [batch], or int64 ids [batch] after bucketize; and its indicator."""
    if feature.list is not None:
        return {**numbers(name, feature, feature.list, columns)}
    column = feature.column or name
    if feature.format is None:
        return _quantity(name, feature, columns.number(column), columns)
    return _quantity(name, feature, number_tensor(columns.string(column).values, feature.format), columns)


def duration(name: str, feature: DurationFeature, columns: Columns) -> dict[str, Transformed | Quantity]:
    """Transforms the time between two dates like any other number."""
    return _quantity(name, feature, elapsed(name, feature, columns), columns)


def ordinal(name: str, feature: OrdinalFeature, columns: Columns) -> dict[str, Transformed | Quantity]:
    """Transforms the rank of a word, 1 for the first one of the order, like any other number."""
    found = tf.equal(columns.token(feature.column or name).values[:, tf.newaxis], tf.constant([feature.order]))
    ranks = tf.reduce_sum(tf.where(found, tf.range(1.0, len(feature.order) + 1), 0.0), axis=1)
    return _quantity(name, feature, tf.where(ranks > 0, ranks, MISSING), columns)


def _quantity(
    name: str, feature: QuantityFeature, values: tf.Tensor, columns: Columns
) -> dict[str, Transformed | Quantity]:
    result: dict[str, Transformed | Quantity] = {transformed_name(name): quantity_of(name, feature, values, columns)}
    if feature.indicator:
        result[transformed_name(name, "missing")] = tf.cast(tf.math.is_nan(values), tf.float32)
    return result


def vector(name: str, feature: VectorFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a vector: float32 [batch, width], or [batch, dimensions] after pca."""
    if feature.columns is not None:
        values = tf.stack([columns.number(column) for column in feature.columns], axis=1)
    else:
        values = columns.vector(RawColumn(feature.column or name, "vector", feature.size))
    raw = Statistics(values)
    of_components = [[COMPONENTWISE[type(t)]] * feature.size for t in feature.transforms if not isinstance(t, Pca)]
    chain, transformed = analyze_chain(of_components, raw, keys={})
    fill = chain(tf.cast(raw.mean, tf.float32)[tf.newaxis, :])
    filled = fill_remaining_with_zero(tf.where(tf.math.is_nan(transformed.values), fill, transformed.values))
    last = feature.transforms[-1] if feature.transforms else None
    return {transformed_name(name): _project(filled, last) if isinstance(last, Pca) else filled}


def _project(values: tf.Tensor, spec: Pca) -> tf.Tensor:
    values = tf.cast(values, tf.float64)
    components, mean = principal_components(values, spec.dimensions)
    # The sign of an eigenvector is arbitrary and depends on the machine: make its largest entry positive. Of several
    # that are about as large it is the first: those of two standardized columns are equal but for rounding.
    across = tf.transpose(components)
    size = tf.abs(across)
    large = size > _ABOUT_AS_LARGE * tf.reduce_max(size, axis=1, keepdims=True)
    first = tf.gather(across, tf.argmax(tf.cast(large, tf.int32), axis=1), batch_dims=1)
    return tf.cast(tf.matmul(values - mean, components * tf.sign(first)), tf.float32)
