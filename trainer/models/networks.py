"""Builds the network of the section `model:`: a kind is a class of the config, a line in its union, a function here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import (
    Dcn,
    DeepNetwork,
    Linear,
    Mlp,
    ModelConfig,
    Module,
    SeveralModels,
    TrainingSpec,
    WideDeep,
)
from fullpass.trainer.models import user_model
from fullpass.trainer.models.layers import Bias, IdTable, IdWeights
from fullpass.trainer.models.members import MeanOfMembers, MemberDense, MemberLogits
from fullpass.trainer.models.model_inputs import (
    ModelInput,
    dense_part,
    encode,
    encoded_axis,
    ids_part,
    keras_inputs,
    numbers_part,
    pool_ids,
)
from fullpass.trainer.models.tasks import add_head, logit_names
from fullpass.trainer.models.train_statistics import TrainStatistics
from fullpass.trainer.models.weight_axes import LOGITS, Axis, declare_axes
from fullpass.trainer.models.weight_semantics import Network

# Initializers match the activation, so that the signal neither vanishes nor explodes: He et al. 2015 for the
# rectifiers, Klambauer et al. 2017 for selu, Glorot and Bengio 2010 for tanh.
_INITIALIZERS = {"selu": "lecun_normal", "tanh": "glorot_uniform"}

Logits = Callable[..., keras.KerasTensor]
_LOGITS: dict[str, Logits] = {}
"""Kind of network -> function from (inputs, classes, config) to logits [batch, classes]."""


def _builds(kind: str) -> Callable[[Logits], Logits]:
    """Returns a decorator that enters the function of a kind in `_LOGITS`."""

    def enter(function: Logits) -> Logits:
        _LOGITS[kind] = function
        return function

    return enter


def build_network(spec: TrainingSpec, train: TrainStatistics, inputs: Mapping[str, ModelInput]) -> Network:
    """Returns the network of the section `model:` with its head, which is initialized from the labels of train."""
    task, loss = spec.preprocessing.label.task, spec.config.training.loss
    names = logit_names(task, train.names, loss)
    model = build_model(inputs, task=task, classes=len(names), config=spec.config.model)
    model = add_head(model, task, train.counts, train.factors, loss)
    return Network(model, inputs, spec.preprocessing, names if any(names) else ())


def build_model(inputs: Mapping[str, ModelInput], *, task: Task, classes: int, config: ModelConfig) -> keras.Model:
    """Returns an uncompiled model that maps `inputs` to logits float32 [batch, classes].

    `classes` is 1 for binary and regression, and the number of levels for quantiles. For `kind: auto` the network is
    built; trees are grown instead (trainer/trees/).
    """
    if isinstance(config, Module):
        return user_model.build(inputs, classes, config, task)
    if isinstance(config, SeveralModels):
        config = WideDeep(kind="wide_deep")
    return keras.Model(keras_inputs(inputs), _LOGITS[config.kind](inputs, classes, config), name=config.kind)


@_builds("linear")
def _linear(inputs: Mapping[str, ModelInput], classes: int, config: Linear) -> keras.KerasTensor:
    """Returns one weight per number and per id, summed."""
    penalty = keras.regularizers.L1L2(l1=config.l1, l2=config.l2) if config.l1 or config.l2 else None
    parts = _id_logits(inputs, classes, penalty)
    numbers = dense_part(inputs)
    if numbers:
        layer = keras.layers.Dense(
            classes, use_bias=False, kernel_initializer="zeros", kernel_regularizer=penalty, name="numbers"
        )
        columns = [numbers_part(item) for item in inputs.values() if item.output.kind != "ids"]
        parts.append(declare_axes(layer, kernel=(columns, LOGITS))(_concatenate(numbers)))
    return declare_axes(Bias(name="bias"), bias=(LOGITS,))(_sum_of_logits(parts))


@_builds("mlp")
def _mlp(inputs: Mapping[str, ModelInput], classes: int, config: Mlp) -> keras.KerasTensor:
    deep = hidden_layers(_concatenate(encode(inputs)), config, encoded_axis(inputs))
    return _sum_of_logits([_logits_of(deep, classes)])


@_builds("wide_deep")
def _wide_deep(inputs: Mapping[str, ModelInput], classes: int, config: WideDeep) -> keras.KerasTensor:
    """Returns the sum of a linear part over ids and crosses and a deep part over all features.

    The wide part memorizes single ids and combinations (crosses), the deep part generalizes over all features. Without
    ids it is the deep part alone. Source: Cheng et al. 2016, Wide & Deep Learning for Recommender Systems.
    """
    deep = _logits_of(hidden_layers(_concatenate(encode(inputs)), config, encoded_axis(inputs)), classes)
    return _sum_of_logits([*_id_logits(inputs, classes), deep])


@_builds("dcn")
def _dcn(inputs: Mapping[str, ModelInput], classes: int, config: Dcn) -> keras.KerasTensor:
    """Returns the sum of explicit crosses of bounded degree and a deep part beside them."""
    features, columns = _concatenate(encode(inputs)), encoded_axis(inputs)
    crossed = features
    kind = "cross" if config.low_rank is None else "cross_low_rank"
    for i in range(config.cross_layers):
        cross = CrossLayer(config.low_rank, name=f"{kind}_{i}")
        rows = columns if config.low_rank is None else None
        crossed = declare_axes(cross, kernel=(rows, columns), down=(columns, None), bias=(columns,))(features, crossed)
    deep = _logits_of(hidden_layers(features, config, columns), classes)
    layer = keras.layers.Dense(classes, use_bias=False, name="logits_of_crosses")
    crosses = declare_axes(layer, kernel=(columns, LOGITS))(crossed)
    return _sum_of_logits([crosses, deep])


class CrossLayer(keras.layers.Layer):
    """One cross layer: x0, x [batch, n] -> x0 * (W x + b) + x [batch, n].

    W is n x n, or the product of n x rank and rank x n. Source: Wang et al. 2021, DCN V2, equations 1 and 4.
    """

    def __init__(self, rank: int | None, **options):
        super().__init__(**options)
        self.rank = rank

    def build(self, first_shape, x_shape):
        width = x_shape[-1]
        if self.rank is not None:
            self.down = self.add_weight(shape=(width, self.rank), initializer="glorot_uniform", name="down")
        rows = width if self.rank is None else self.rank
        self.kernel = self.add_weight(shape=(rows, width), initializer="glorot_uniform", name="kernel")
        self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")

    def call(self, first, x):
        projected = x if self.rank is None else keras.ops.matmul(x, self.down)
        return first * (keras.ops.matmul(projected, self.kernel) + self.bias) + x


def _id_logits(
    inputs: Mapping[str, ModelInput], classes: int, penalty: keras.regularizers.Regularizer | None = None
) -> list[keras.KerasTensor]:
    """Returns the linear part over ids, [batch, classes] each: one for all single ids, one per multi-valued feature.

    A multi-valued feature contributes the sum over its ids, or another `linear_pooling`, weighted if they have weights.
    """
    ids = [item for item in inputs.values() if item.output.kind == "ids"]
    single = [item for item in ids if not item.output.multi]
    found = []
    if single:
        layer = IdWeights([item.size for item in single], classes, penalty, name="ids")
        declare_axes(layer, table=([ids_part(item) for item in single], LOGITS))
        found.append(layer([item.ids for item in single]))
    for i, item in enumerate(item for item in ids if item.output.multi):
        table = IdTable(
            item.size, classes, embeddings_initializer="zeros", embeddings_regularizer=penalty, name=f"ids_{i}"
        )
        # A warm start must not take weights of another unit.
        stable_name = f"ids of {item.name}{', of length 1' * item.output.tf_idf}"
        declare_axes(table, stable_name=stable_name, embeddings=([ids_part(item)], LOGITS))
        found.append(pool_ids(table, item.keras_input, item.weights, item.linear_pooling))
    return found


def _concatenate(tensors: list[keras.KerasTensor]) -> keras.KerasTensor:
    """Returns tensors [batch, n] side by side."""
    return keras.layers.Concatenate()(tensors) if len(tensors) > 1 else tensors[0]


def hidden_layers(x: keras.KerasTensor, config: DeepNetwork, columns: Axis = None) -> keras.KerasTensor:
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


def _hidden(config: DeepNetwork, units: int, name: str) -> keras.layers.Layer:
    start = _INITIALIZERS.get(config.activation, "he_normal")
    penalty = keras.regularizers.L2(config.l2) if config.l2 else None
    given: dict[str, Any] = {"kernel_initializer": start, "kernel_regularizer": penalty}
    if config.members > 1:
        return MemberDense(units, config.members, name=name, **given)
    return keras.layers.Dense(units, use_bias=not config.batch_norm, name=name, **given)


def _logits_of(x: keras.KerasTensor, classes: int) -> keras.KerasTensor:
    """Returns logits [batch, classes] of x [batch, n], or [batch, members, classes] of x [batch, members, n]."""
    if len(x.shape) == 3:
        layer = MemberLogits(classes, name="logits")
        return declare_axes(layer, kernel=(None, None, LOGITS), bias=(None, LOGITS))(x)
    return declare_axes(keras.layers.Dense(classes, name="logits"), kernel=(None, LOGITS), bias=(LOGITS,))(x)


def _sum_of_logits(parts: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
    """Returns the sum of logits, [batch, classes] or [batch, members, classes] each; with members, their mean."""
    members = any(len(part.shape) == 3 for part in parts)
    if members:
        parts = [part if len(part.shape) == 3 else keras.layers.Reshape((1, -1))(part) for part in parts]
    total = keras.layers.Add()(list(parts)) if len(parts) > 1 else parts[0]
    return MeanOfMembers(name="mean_of_members")(total) if members else total
