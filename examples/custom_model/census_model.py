"""A residual network for the census example: what a `model: {kind: module}` looks like."""

from collections.abc import Mapping
from typing import Any

import keras

from fullpass.trainer.models.model_inputs import ModelInput, encode, keras_inputs


def build_model(inputs: Mapping[str, ModelInput], task: str, classes: int, options: dict[str, Any]) -> keras.Model:
    """Returns a model of `inputs` to logits float32 [batch, classes].

    Args:
        inputs: by name of transformed feature. `encode` makes one float32 [batch, width] of each: numbers as they
            are, ids one-hot or embedded, as the YAML says. A model that wants its own way reads `keras_input`, `size`
            and `output.kind` of each instead.
        task: the label's task; this model fits any, since the loss is chosen outside.
        classes: columns of the logits, 1 for a binary label.
        options: `units` of each layer and number of `blocks`, from the YAML.
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
