"""A residual network for the census example, as an example of `model: {kind: module}`."""

from collections.abc import Mapping
from typing import Any

import keras

from fullpass.trainer.models.model_inputs import ModelInput, encode, keras_inputs


def build_model(inputs: Mapping[str, ModelInput], task: str, classes: int, options: dict[str, Any]) -> keras.Model:
    """Returns a model from `inputs` to logits, float32 [batch, classes].

    Args:
        inputs: Transformed feature name -> input. `encode` turns each into a float32 [batch, width]: numbers unchanged,
            ids one-hot or embedded as declared in the YAML. A model with its own encoding can use `keras_input`, `size`
            and `output.kind` of each input instead.
        task: The task of the label. This model fits every task, because the Trainer chooses the loss.
        classes: Number of columns of the logits, 1 for a binary label.
        options: `units` of each layer and the number of `blocks`, from the YAML.
    """
    x = keras.layers.Concatenate()(encode(inputs))
    x = keras.layers.Dense(options["units"])(x)
    for _ in range(options["blocks"]):
        x = keras.layers.Add()([x, _block(x, options["units"])])
    logits = keras.layers.Dense(classes)(keras.layers.LayerNormalization()(x))
    return keras.Model(keras_inputs(inputs), logits)


def _block(x: keras.KerasTensor, units: int) -> keras.KerasTensor:
    x = keras.layers.LayerNormalization()(x)
    x = keras.layers.Dense(2 * units, activation="gelu")(x)
    x = keras.layers.Dropout(0.2)(x)
    return keras.layers.Dense(units)(x)
