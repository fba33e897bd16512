"""A model: a Keras network from the transformed features to logits."""

from collections.abc import Mapping
from typing import Any

import keras

from fullpass.trainer.models.model_inputs import ModelInput, encode, keras_inputs


def build_model(inputs: Mapping[str, ModelInput], task: str, classes: int, options: dict[str, Any]) -> keras.Model:
    """Returns an uncompiled model with outputs [batch, classes], without sigmoid or softmax.

    Args:
        inputs: Transformed feature -> input. `encode` makes each of them float32 [batch, width].
        task: The task of the label.
        classes: The number of outputs; 1 for a binary label.
        options: `model.options` of the YAML.
    """
    x = keras.layers.Concatenate()(encode(inputs))
    x = keras.layers.Dense(options["units"], activation="relu")(x)
    return keras.Model(keras_inputs(inputs), keras.layers.Dense(classes)(x))
