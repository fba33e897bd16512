"""The entry point of TF Transform: raw columns in, transformed features out."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from fullpass.base.errors import prefix_errors
from fullpass.preprocessing.apply.apply_features import apply_features
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.label import label
from fullpass.preprocessing.apply.stable_ids import BaseModelRef
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.config import PreprocessingConfig


def preprocessing_fn(
    inputs: Mapping[str, tf.SparseTensor], custom_config: Mapping[str, Any]
) -> dict[str, tf.Tensor | tf.SparseTensor]:
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
