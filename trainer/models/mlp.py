"""A multilayer perceptron over all encoded features."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from fullpass.trainer.config import Dcn, Mlp, WideDeep
from fullpass.trainer.models.linear import concatenate
from fullpass.trainer.models.members import MeanOfMembers, MemberDense, MemberLogits
from fullpass.trainer.models.model_inputs import ModelInput, encode, encoded_axis, keras_inputs
from fullpass.trainer.models.weight_axes import LOGITS, Axis, declare_axes

# Initializers match the activation, so that the signal neither vanishes nor explodes: He et al. 2015 for the
# rectifiers, Klambauer et al. 2017 for selu, Glorot and Bengio 2010 for tanh.
_INITIALIZERS = {"selu": "lecun_normal", "tanh": "glorot_uniform"}


def build(inputs: Mapping[str, ModelInput], classes: int, config: Mlp) -> keras.Model:
    """Returns a model that maps `inputs` to logits float32 [batch, classes]."""
    deep = hidden_layers(concatenate(encode(inputs)), config, encoded_axis(inputs))
    return keras.Model(keras_inputs(inputs), sum_of_logits([logits_of(deep, classes)]), name="mlp")


def hidden_layers(x: keras.KerasTensor, config: Mlp | WideDeep | Dcn, columns: Axis = None) -> keras.KerasTensor:
    """Returns x [batch, n] after the hidden layers, [batch, last of config.hidden].

    With `config.members` it is [batch, members, last of config.hidden].
    """
    dropout = keras.layers.AlphaDropout if config.activation == "selu" else keras.layers.Dropout
    for i, units in enumerate(config.hidden):
        x = declare_axes(_hidden(config, units, f"hidden_{i}"), kernel=(None if i else columns, None))(x)
        if config.batch_norm:
            x = declare_axes(keras.layers.BatchNormalization(name=f"norm_{i}"))(x)
        x = keras.layers.Activation(config.activation)(x)
        if config.dropout:
            x = dropout(config.dropout)(x)
    return x


def _hidden(config: Mlp | WideDeep | Dcn, units: int, name: str) -> keras.layers.Layer:
    start = _INITIALIZERS.get(config.activation, "he_normal")
    penalty = keras.regularizers.L2(config.l2) if config.l2 else None
    given: dict[str, Any] = {"kernel_initializer": start, "kernel_regularizer": penalty}
    if config.members > 1:
        return MemberDense(units, config.members, name=name, **given)
    return keras.layers.Dense(units, use_bias=not config.batch_norm, name=name, **given)


def logits_of(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    """Returns logits [batch, classes] of x [batch, n], or [batch, members, classes] of x [batch, members, n]."""
    if len(x.shape) == 3:
        layer = MemberLogits(classes, name="logits")
        return declare_axes(layer, kernel=(None, None, LOGITS), bias=(None, LOGITS))(x)
    return declare_axes(keras.layers.Dense(classes, name="logits"), kernel=(None, LOGITS), bias=(LOGITS,))(x)


def sum_of_logits(parts: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    """Returns the sum of logits, [batch, classes] or [batch, members, classes] each; with members, their mean."""
    if all(len(part.shape) == 2 for part in parts):
        return keras.layers.Add()(list(parts)) if len(parts) > 1 else parts[0]
    together = [part if len(part.shape) == 3 else keras.layers.Reshape((1, -1))(part) for part in parts]
    total = keras.layers.Add()(together) if len(parts) > 1 else together[0]
    return MeanOfMembers(name="mean_of_members")(total)
