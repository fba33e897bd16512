"""The entry point of TF Transform: raw columns in, transformed features out."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from fullpass.base.errors import prefix_errors
from fullpass.preprocessing.apply.category import boolean, category, count, cross, crossed_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.custom import apply_function, custom
from fullpass.preprocessing.apply.date import date, elapsed
from fullpass.preprocessing.apply.image import image
from fullpass.preprocessing.apply.label import label
from fullpass.preprocessing.apply.lists import numbers, quantity_of
from fullpass.preprocessing.apply.number_chains import (
    Quantity,
    analyze_chain,
    apply_quantities,
    fill_remaining_with_zero,
)
from fullpass.preprocessing.apply.stable_ids import BaseModelRef
from fullpass.preprocessing.apply.statistics import Statistics, principal_components
from fullpass.preprocessing.apply.target import target, target_of_values
from fullpass.preprocessing.apply.text import text
from fullpass.preprocessing.apply.token_ids import TokenIds, Transformed, apply_token_ids
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import (
    DurationFeature,
    NumberFeature,
    TargetFeature,
    VectorFeature,
    transformed_name,
)
from fullpass.preprocessing.features.transforms import Pca, TransformSpec, VectorZScore, ZScore


def preprocessing_fn(inputs: Mapping[str, tf.SparseTensor], custom_config: Mapping[str, Any]) -> dict[str, Transformed]:
    """Returns the transformed features, the label, the weight and the row number of a batch of raw examples.

    Args:
        inputs: Raw columns, parsed by `column_tensors.raw_feature_spec`. An absent column is missing in every row.
        custom_config: `{"preprocessing": PreprocessingConfig.model_dump(mode="json")}`; and `base_model`, the fields
            of a `stable_ids.BaseModelRef`, if ids are based on those of a base model.

    Returns:
        The outputs that `outputs.outputs` lists, and LABEL, EXAMPLE_WEIGHT and ROW_ID of that module. The features
        depend on no training-only column.

    Raises:
        UserError: A feature, the label or a derived column cannot be built; the message begins with its YAML path.
    """
    config = PreprocessingConfig.model_validate(custom_config["preprocessing"])
    columns = Columns(inputs, config, BaseModelRef(**custom_config.get("base_model", {})))
    features = apply_features(config, columns)
    with prefix_errors("label"):
        return {**features, **label(config.label, columns), ROW_ID: columns.row_id}


def apply_features(config: PreprocessingConfig, columns: Columns) -> dict[str, Transformed]:
    """Returns every transformed feature that `outputs.outputs(config)` lists.

    Raises:
        UserError: A feature cannot be traced; the message begins with its YAML path.
    """
    if config.function is not None:
        with prefix_errors("function"):
            return apply_function(config.function, columns)
    results: dict[str, Any] = {}
    of_crosses: dict[str, TargetFeature] = {}
    for name, feature in config.features.items():
        if isinstance(feature, TargetFeature) and feature.cross is not None:
            of_crosses[name] = feature
            continue
        with prefix_errors(config.path_of(name)):
            results |= FEATURES[feature.type](name, feature, columns)
    results |= apply_quantities({key: value for key, value in results.items() if isinstance(value, Quantity)})
    for name, feature in of_crosses.items():
        with prefix_errors(config.path_of(name)):
            results |= target_of_values(
                name, feature, columns, crossed_tokens(config.cross_of(feature), columns, results)
            )
    for index, declared in enumerate(config.crosses):
        with prefix_errors(path := f"crosses[{index}]"):
            results |= cross(path, declared, columns, results)
    return results | apply_token_ids([value for value in results.values() if isinstance(value, TokenIds)], columns)


def number(name: str, feature: NumberFeature, columns: Columns) -> dict[str, Transformed | Quantity]:
    """Transforms a number or a list: float32 [batch], or int64 ids [batch] after bucketize; and its indicator."""
    if feature.list is not None:
        return {**numbers(name, feature, feature.list, columns)}
    return _quantity(name, feature, columns.number(feature.column or name), columns)


def duration(name: str, feature: DurationFeature, columns: Columns) -> dict[str, Transformed | Quantity]:
    """Transforms the time between two dates like any other number."""
    return _quantity(name, feature, elapsed(name, feature, columns), columns)


def _quantity(
    name: str, feature: NumberFeature | DurationFeature, values: tf.Tensor, columns: Columns
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
    large = size > 0.99 * tf.reduce_max(size, axis=1, keepdims=True)
    first = tf.gather(across, tf.argmax(tf.cast(large, tf.int32), axis=1), batch_dims=1)
    return tf.cast(tf.matmul(values - mean, components * tf.sign(first)), tf.float32)


COMPONENTWISE: Mapping[type[TransformSpec], TransformSpec] = {VectorZScore: ZScore()}
"""Vector transform -> the number transform of each component; `pca` is absent because it mixes components."""
FEATURES: Mapping[str, Callable[..., Mapping[str, Transformed | Quantity | TokenIds]]] = {
    "number": number,
    "duration": duration,
    "category": category,
    "boolean": boolean,
    "count": count,
    "target": target,
    "date": date,
    "text": text,
    "vector": vector,
    "image": image,
    "custom": custom,
}
"""Feature type -> function from (name, feature, columns) to transformed features; numbers are still a `Quantity`, and
categories with a vocabulary `TokenIds`."""
