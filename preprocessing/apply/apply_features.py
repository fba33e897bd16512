"""Transforms every feature with the function for its type."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import tensorflow as tf

from fullpass.base.errors import prefix_errors
from fullpass.preprocessing.apply.category import boolean, category, count, cross
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.custom import apply_function, custom
from fullpass.preprocessing.apply.date import date, elapsed
from fullpass.preprocessing.apply.image import image
from fullpass.preprocessing.apply.lists import numbers
from fullpass.preprocessing.apply.number_chains import Quantity, apply_quantities
from fullpass.preprocessing.apply.text import text
from fullpass.preprocessing.apply.vector import vector
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import DurationFeature, NumberFeature, transformed_name

Transformed: TypeAlias = tf.Tensor | tf.SparseTensor


def apply_features(config: PreprocessingConfig, columns: Columns) -> dict[str, Transformed]:
    """Returns every transformed feature that `outputs.outputs(config)` lists.

    Raises:
        UserError: A feature cannot be traced; the message begins with its YAML path.
    """
    if config.function is not None:
        with prefix_errors("function"):
            return apply_function(config.function, columns)
    results: dict[str, Transformed | Quantity] = {}
    for name, feature in config.features.items():
        with prefix_errors(config.path_of(name)):
            results |= FEATURES[feature.type](name, feature, columns)
    results |= apply_quantities({key: value for key, value in results.items() if isinstance(value, Quantity)})
    for index, declared in enumerate(config.crosses):
        with prefix_errors(f"crosses[{index}]"):
            results |= cross(declared, config, columns, results)
    return results


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
    named = [getattr(spec, "key", None) for spec in feature.transforms]
    keys = {key: columns.token(key).values for key in named if key is not None}
    result: dict[str, Transformed | Quantity] = {
        transformed_name(name): Quantity(f"features.{name}", values, feature.missing, feature.transforms, keys)
    }
    if feature.indicator:
        result[transformed_name(name, "missing")] = tf.cast(tf.math.is_nan(values), tf.float32)
    return result


FEATURES: Mapping[str, Callable[..., Mapping[str, Transformed | Quantity]]] = {
    "number": number,
    "duration": duration,
    "category": category,
    "boolean": boolean,
    "count": count,
    "date": date,
    "text": text,
    "vector": vector,
    "image": image,
    "custom": custom,
}
"""Feature type -> function from (name, feature, columns) to transformed features; numbers are still a `Quantity`."""
