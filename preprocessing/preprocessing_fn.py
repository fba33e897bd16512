"""The entry point of TF Transform: raw columns in, transformed features out."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import tensorflow as tf

from fullpass.base.errors import prefix_errors
from fullpass.base.user_modules import import_function, own_code
from fullpass.preprocessing.apply.category import cross, crossed_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.custom import apply_function
from fullpass.preprocessing.apply.label import label
from fullpass.preprocessing.apply.number_chains import Quantity, apply_quantities
from fullpass.preprocessing.apply.stable_ids import BaseModelRef
from fullpass.preprocessing.apply.target import target_of_values
from fullpass.preprocessing.apply.token_ids import TokenIds, Transformed, apply_token_ids
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.base_feature import BaseFeature
from fullpass.preprocessing.features.feature import TargetFeature


def preprocessing_fn(inputs: Mapping[str, tf.SparseTensor], custom_config: Mapping[str, Any]) -> dict[str, Transformed]:
    """Returns the transformed features, the label, the weight and the row number of a batch of raw examples.

    Args:
        inputs: Raw columns, parsed by `column_tensors.raw_feature_spec`. An absent column is missing in every row.
        custom_config: `{"preprocessing": PreprocessingConfig.model_dump(mode="json")}`; and `base_model`, the fields
            of a `stable_ids.BaseModelRef`, if ids are based on those of a base model.

    Returns:
        The outputs that `outputs.outputs` lists, and LABEL, EXAMPLE_WEIGHT and ROW_ID of that module. The features
        depend on no training-only column. If `whole`, what the user's function returns.

    Raises:
        UserError: A feature, the label or a derived column cannot be built; the message begins with its YAML path.
    """
    config = PreprocessingConfig.model_validate(custom_config["preprocessing"])
    if config.whole and config.function is not None:
        with own_code(config.function):
            return dict(import_function(config.function)(inputs))
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
            results |= function_of(type(feature))(name, feature, columns)
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


def function_of(kind: type[BaseFeature]) -> Callable[..., Mapping[str, Transformed | Quantity | TokenIds]]:
    """Returns the function that computes the features of a type; see `BaseFeature.computed_by`."""
    module, _, function = kind.computed_by.partition(".")
    return getattr(import_module(f"fullpass.preprocessing.apply.{module}"), function)
