"""A generalised linear model: one weight per number and per id."""

from collections.abc import Mapping

import keras

from fullpass.trainer.config import Linear
from fullpass.trainer.models.layers import Bias, IdTable, IdWeights
from fullpass.trainer.models.model_inputs import ModelInput, dense_part, ids_part, keras_inputs, numbers_part, pool_ids
from fullpass.trainer.models.weight_axes import LOGITS, declare_axes


def build(inputs: Mapping[str, ModelInput], classes: int, config: Linear) -> keras.Model:
    """Returns a model that maps `inputs` to logits float32 [batch, classes]."""
    penalty = keras.regularizers.L1L2(l1=config.l1, l2=config.l2) if config.l1 or config.l2 else None
    parts = id_logits(inputs, classes, penalty)
    numbers = dense_part(inputs)
    if numbers:
        layer = keras.layers.Dense(
            classes, use_bias=False, kernel_initializer="zeros", kernel_regularizer=penalty, name="numbers"
        )
        columns = [numbers_part(item) for item in inputs.values() if item.output.kind != "ids"]
        parts.append(declare_axes(layer, kernel=(columns, LOGITS))(concatenate(numbers)))
    total = keras.layers.Add()(parts) if len(parts) > 1 else parts[0]
    bias = declare_axes(Bias(name="bias"), bias=(LOGITS,))
    return keras.Model(keras_inputs(inputs), bias(total), name="linear")


def id_logits(
    inputs: Mapping[str, ModelInput], classes: int, penalty: keras.regularizers.Regularizer | None = None
) -> list[keras.KerasTensor]:
    """Returns the linear part over ids, [batch, classes] each: one for all single ids, one per multi-valued feature.

    A multi-valued feature contributes the sum over its ids, weighted if they have weights, or uses its declared
    pooling. Attention would need embeddings; the mean is used instead.
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
        declare_axes(table, stable_name=f"ids of {item.name}", embeddings=([ids_part(item)], LOGITS))
        how = "mean" if item.output.pooling == "attention" else item.output.pooling or "sum"
        found.append(pool_ids(table, item.keras_input, item.weights, how))
    return found


def concatenate(tensors: list[keras.KerasTensor]) -> keras.KerasTensor:
    """Returns tensors [batch, n] side by side."""
    return keras.layers.Concatenate()(tensors) if len(tensors) > 1 else tensors[0]
