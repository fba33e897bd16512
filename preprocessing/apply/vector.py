"""Transforms vectors: each component separately, then, with pca, all components together."""

from collections.abc import Mapping

import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.number_chains import analyze_chain, fill_remaining_with_zero
from fullpass.preprocessing.apply.statistics import Statistics, principal_components
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.feature import VectorFeature, transformed_name
from fullpass.preprocessing.features.transforms import Pca, Transform, VectorZScore, ZScore


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
    # The sign of an eigenvector is arbitrary and depends on the machine: make its largest entry positive.
    across = tf.transpose(components)
    largest = tf.gather(across, tf.argmax(tf.abs(across), axis=1), batch_dims=1)
    return tf.cast(tf.matmul(values - mean, components * tf.sign(largest)), tf.float32)


COMPONENTWISE: Mapping[type[Transform], Transform] = {VectorZScore: ZScore()}
"""Vector transform -> the number transform of each component; `pca` is absent because it mixes components."""
