"""Wide and deep: a linear part over ids and crosses, and a deep part over all features."""

from collections.abc import Mapping

import keras

from fullpass.trainer.config import WideDeep
from fullpass.trainer.models.linear import concatenate, id_logits
from fullpass.trainer.models.mlp import hidden_layers, logits_of, sum_of_logits
from fullpass.trainer.models.model_inputs import ModelInput, encode, encoded_axis, keras_inputs


def build(inputs: Mapping[str, ModelInput], classes: int, config: WideDeep) -> keras.Model:
    """Returns a model that maps `inputs` to logits float32 [batch, classes]; without ids it is the deep part alone.

    The wide part memorizes single ids and combinations (crosses), the deep part generalizes over all features.
    Source: Cheng et al. 2016, Wide & Deep Learning for Recommender Systems.
    """
    deep = logits_of(hidden_layers(concatenate(encode(inputs)), config, encoded_axis(inputs)), classes)
    logits = sum_of_logits([*id_logits(inputs, classes), deep])
    return keras.Model(keras_inputs(inputs), logits, name="wide_deep")
