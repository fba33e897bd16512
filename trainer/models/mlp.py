"""A multilayer perceptron over all encoded features."""

from collections.abc import Mapping

import keras

from fullpass.trainer.config import Dcn, Mlp, WideDeep
from fullpass.trainer.models.linear import concatenate
from fullpass.trainer.models.model_inputs import ModelInput, encode, encoded_axis, keras_inputs
from fullpass.trainer.models.weight_axes import LOGITS, Axis, stands_for

# Scaled to the activation, so that the signal neither dies nor explodes: He et al. 2015 for the rectifiers,
# Klambauer et al. 2017 for selu, Glorot and Bengio 2010 for tanh.
_INITIALIZERS = {"selu": "lecun_normal", "tanh": "glorot_uniform"}


def build(inputs: Mapping[str, ModelInput], classes: int, config: Mlp) -> keras.Model:
    """Returns a model of `inputs` to logits float32 [batch, classes]."""
    deep = hidden_layers(concatenate(encode(inputs)), config, encoded_axis(inputs))
    return keras.Model(keras_inputs(inputs), logits_of(deep, classes), name="mlp")


def hidden_layers(x: keras.KerasTensor, config: Mlp | WideDeep | Dcn, columns: Axis = None) -> keras.KerasTensor:
    """Returns x [batch, n] after the hidden layers, [batch, last of config.hidden].

    Args:
        x: The input.
        config: Decides the layers.
        columns: What the columns of x stand for.
    """
    penalty = keras.regularizers.L2(config.l2) if config.l2 else None
    initializer = _INITIALIZERS.get(config.activation, "he_normal")
    dropout = keras.layers.AlphaDropout if config.activation == "selu" else keras.layers.Dropout
    for i, units in enumerate(config.hidden):
        layer = keras.layers.Dense(
            units,
            kernel_initializer=initializer,
            kernel_regularizer=penalty,
            use_bias=not config.batch_norm,
            name=f"hidden_{i}",
        )
        x = stands_for(layer, kernel=(None if i else columns, None))(x)
        if config.batch_norm:
            x = stands_for(keras.layers.BatchNormalization(name=f"norm_{i}"))(x)
        x = keras.layers.Activation(config.activation)(x)
        if config.dropout:
            x = dropout(config.dropout)(x)
    return x


def logits_of(x: keras.KerasTensor, classes: int, *, name: str = "logits", columns: Axis = None) -> keras.KerasTensor:
    """Returns logits [batch, classes] of x [batch, n], whose columns stand for `columns`."""
    return stands_for(keras.layers.Dense(classes, name=name), kernel=(columns, LOGITS), bias=(LOGITS,))(x)
