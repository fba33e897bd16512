"""A multilayer perceptron over all encoded features."""

from collections.abc import Mapping

import keras

from trainer.config import Dcn, Mlp, WideDeep
from trainer.inputs import ModelInput, encode, keras_inputs
from trainer.models.linear import concatenate

# Scaled to the activation, so that the signal neither dies nor explodes: He et al. 2015 for the rectifiers,
# Klambauer et al. 2017 for selu, Glorot and Bengio 2010 for tanh.
_INITIALIZERS = {"selu": "lecun_normal", "tanh": "glorot_uniform"}


def build(inputs: Mapping[str, ModelInput], classes: int, config: Mlp) -> keras.Model:
    """Returns a model of `inputs` to logits float32 [batch, classes]."""
    deep = hidden_layers(concatenate(encode(inputs)), config)
    return keras.Model(keras_inputs(inputs), logits_of(deep, classes), name="mlp")


def hidden_layers(x: keras.KerasTensor, config: Mlp | WideDeep | Dcn) -> keras.KerasTensor:
    """Returns x [batch, n] after the hidden layers, [batch, last of config.hidden]."""
    penalty = keras.regularizers.L2(config.l2) if config.l2 else None
    initializer = _INITIALIZERS.get(config.activation, "he_normal")
    dropout = keras.layers.AlphaDropout if config.activation == "selu" else keras.layers.Dropout
    for i, units in enumerate(config.hidden):
        x = keras.layers.Dense(
            units,
            kernel_initializer=initializer,
            kernel_regularizer=penalty,
            use_bias=not config.batch_norm,
            name=f"hidden_{i}",
        )(x)
        if config.batch_norm:
            x = keras.layers.BatchNormalization(name=f"norm_{i}")(x)
        x = keras.layers.Activation(config.activation)(x)
        if config.dropout:
            x = dropout(config.dropout)(x)
    return x


def logits_of(x: keras.KerasTensor, classes: int, *, name: str = "logits") -> keras.KerasTensor:
    """Returns logits [batch, classes] of x [batch, n]."""
    return keras.layers.Dense(classes, name=name)(x)
