"""Deep & Cross Network v2: explicit crosses of bounded degree beside a deep part."""

from collections.abc import Mapping

import keras

from fullpass.trainer.config import Dcn
from fullpass.trainer.models.linear import concatenate
from fullpass.trainer.models.mlp import hidden_layers, logits_of, sum_of_logits
from fullpass.trainer.models.model_inputs import ModelInput, encode, encoded_axis, keras_inputs
from fullpass.trainer.models.weight_axes import LOGITS, declare_axes


class Cross(keras.layers.Layer):
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

    def compute_output_shape(self, first_shape, x_shape):
        return x_shape


def build(inputs: Mapping[str, ModelInput], classes: int, config: Dcn) -> keras.Model:
    """Returns a model that maps `inputs` to logits float32 [batch, classes]; cross and deep part are parallel."""
    features, columns = concatenate(encode(inputs)), encoded_axis(inputs)
    crossed = features
    kind = "cross" if config.low_rank is None else "cross_low_rank"
    for i in range(config.cross_layers):
        layer = Cross(config.low_rank, name=f"{kind}_{i}")
        rows = columns if config.low_rank is None else None
        crossed = declare_axes(layer, kernel=(rows, columns), down=(columns, None), bias=(columns,))(features, crossed)
    deep = logits_of(hidden_layers(features, config, columns), classes)
    layer = keras.layers.Dense(classes, use_bias=False, name="logits_of_crosses")
    crosses = declare_axes(layer, kernel=(columns, LOGITS))(crossed)
    return keras.Model(keras_inputs(inputs), sum_of_logits([crosses, deep]), name="dcn")
