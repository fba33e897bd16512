"""The logits of each task: their number, their initial values, their probabilities, and their unit.

The head of a regression converts the output of a network to predictions in the label's unit, which are its first
column. A network whose output is about 0 predicts a typical label of train, whatever its unit.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from scipy import special

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.loss_config import LossConfig, Quantile, levels_of, variance_power
from fullpass.trainer.models.layers import Affine
from fullpass.trainer.models.losses import AUTO

HEAD = "head"
"""The name of the layer that converts the output of a network to logits, or to the unit of the label."""
_MIN_PROBABILITY = 1e-7
"""Probabilities are at least this far from 0 and 1, as Keras's epsilon."""
_MIN_COUNT = 1e-6
"""What a network of counts predicts at first if all counts of train are 0."""
LARGEST_LOGARITHM = 87.0
"""A float32 holds e to the power of this, and of minus this with all its digits."""


def logit_names(task: Task, classes: Sequence[str], loss: LossConfig = AUTO) -> tuple[str, ...]:
    """Returns the names of the columns of a network's logits; `("",)` for a single column without a name."""
    if task in ("multiclass", "multilabel"):
        return tuple(classes)
    if levels := levels_of(loss):
        return tuple(f"quantile {level:g}" for level in levels)
    return ("logarithm",) if loss.logarithmic else ("",)


def add_head(
    model: keras.Model, task: Task, counts: SplitCounts, class_weights: np.ndarray, loss: LossConfig = AUTO
) -> keras.Model:
    """Returns `model` with an output initialized from the train labels: their mean, or the log odds of the classes.

    The output of a regression is in the unit of the label. So a new network, whose logits are about 0, predicts the
    mean, and its gradient does not depend on the unit.

    Args:
        class_weights: The factor of the weight per class, float [classes]; empty for none.
    """
    inputs = {tensor.name: tensor for tensor in model.inputs}
    if task == "regression":
        output = _regression_head(model.outputs[0], counts, loss)
    else:
        output = Affine(1.0, _start(task, counts, class_weights), name=HEAD)(model.outputs[0])
    return keras.Model(inputs, output, name=model.name)


def _start(task: Task, counts: SplitCounts, class_weights: np.ndarray) -> np.ndarray:
    """Returns the logits that correspond to the share of each class."""
    if task == "multilabel":
        return _log_odds(counts.class_weight, counts.weight - counts.class_weight)
    mass = counts.class_weight * class_weights if len(class_weights) else counts.class_weight
    return _log_odds(mass[1:], mass[:1]) if task == "binary" else np.log(_floor(mass) / mass.sum())


def probabilities_of(task: Task, logits: tf.Tensor) -> tf.Tensor:
    """Returns float32 [batch, classes]: per class, in id order; binary has two columns, 0 and 1.

    They add up to 1, except in a multilabel task. None is exactly 0 or 1, which would make a log loss infinite.
    """
    if task == "multiclass":
        return tf.nn.softmax(logits)
    positive = tf.clip_by_value(tf.nn.sigmoid(logits), _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
    return positive if task == "multilabel" else tf.concat([1.0 - positive, positive], axis=1)


def _floor(mass: np.ndarray) -> np.ndarray:
    """Returns masses above 0, so that a class without train rows starts as if it had half a row's weight.

    Its logit would otherwise start at minus infinity.
    """
    return np.maximum(mass, 0.5 * mass[mass > 0].min(initial=1.0))


def _log_odds(mass: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.log(_floor(mass)) - np.log(_floor(other))


def label_unit(counts: SplitCounts, loss: LossConfig) -> tuple[float, float]:
    """Returns the scale and the offset of a network's output: deviation and mean of the label.

    With `loss: log_normal` they are those of the label's logarithm; with poisson and tweedie the scale is 1 and the
    offset is the logarithm of the mean.
    """
    mean, deviation = counts.label_mean, counts.error_unit
    if variance_power(loss):
        return 1.0, float(np.log(mean or _MIN_COUNT))
    if loss.kind == "log_normal":
        # Converts mean and deviation of a log-normal distribution to those of its logarithm.
        spread = np.log1p((deviation / mean) ** 2)
        return float(np.sqrt(spread)), float(np.log(mean) - spread / 2)
    return deviation, mean


def target_unit(task: Task, loss: LossConfig, counts: SplitCounts) -> tuple[float, float]:
    """Returns scale and offset of what trees and linear models are fitted to: those of `label_unit`, or 1 and 0.

    For classes and counts these models have a constant of their own, the log odds or the logarithm of the mean. Counts
    are fitted in their deviation, whose logarithm is the offset.
    """
    if task != "regression":
        return 1.0, 0.0
    return (1.0, float(np.log(counts.error_unit))) if variance_power(loss) else label_unit(counts, loss)


def targets_of(labels: np.ndarray, scale: float, offset: float, loss: LossConfig) -> np.ndarray:
    """Returns what a model with the head `headed` is fitted to, float64 [rows]."""
    labels = labels.astype(np.float64)
    if variance_power(loss):
        return labels / np.exp(offset)
    return ((np.log(labels) if loss.kind == "log_normal" else labels) - offset) / scale


def headed(output: keras.KerasTensor, task: Task, scale: float, offset: float, loss: LossConfig) -> keras.KerasTensor:
    """Returns logits, or predictions in the unit of the label, after the layer `head`."""
    if task != "regression":
        return Affine(1.0, np.zeros(output.shape[-1]), name=HEAD)(output)
    return to_label_unit(output, scale, offset, loss)


def _regression_head(logits: keras.KerasTensor, counts: SplitCounts, loss: LossConfig) -> keras.KerasTensor:
    """Returns the output of a regression: float32 [batch, 1], with quantiles [batch, 1 + levels].

    Args:
        logits: The logits of the network, [batch, columns], or [batch, members, columns].
    """
    scale, offset = label_unit(counts, loss)
    if isinstance(loss, Quantile):
        logits = RisingQuantiles(loss.levels, name="rising")(logits)
    return to_label_unit(logits, scale, offset, loss)


def to_label_unit(output: keras.KerasTensor, scale: float, offset: float, loss: LossConfig) -> keras.KerasTensor:
    """Returns a regression's output in the unit of the label, after the layer `head`: float32 [batch, 1 or more].

    Args:
        output: [..., columns].
        loss: The key `training.loss`: logarithms are exponentiated; with quantiles, the prediction comes first.
    """
    columns = len(loss.levels) if isinstance(loss, Quantile) else 1
    headed = Affine(scale, np.full(columns, offset), name=HEAD)(output)
    if isinstance(loss, Quantile):
        return WithPrediction(loss.middle, name="prediction_first")(headed)
    return Exponential(name="mean")(headed) if loss.logarithmic else headed


class Exponential(keras.layers.Layer):
    """x -> e ** x, float32; x is clipped, so that the result is always finite."""

    def __init__(self, **options):
        super().__init__(dtype="float32", **options)

    def call(self, x):
        return keras.ops.exp(keras.ops.clip(x, -LARGEST_LOGARITHM, LARGEST_LOGARITHM))


class RisingQuantiles(keras.layers.Layer):
    """x float [..., levels] -> quantiles that rise, float32 [..., levels], in deviations from the mean.

    The first quantile is a column of its own. Each other quantile is a softplus above the previous one, so that they
    cannot cross. x = 0 gives the quantiles of the normal distribution.
    """

    def __init__(self, levels, **options):
        super().__init__(dtype="float32", **options)
        normal = special.ndtri(levels)
        # softplus(log(e ** step - 1)) is the step.
        self._start = np.concatenate([normal[:1], np.log(np.expm1(np.diff(normal)))]).astype(np.float32)

    def call(self, x):
        x = x + self._start
        return keras.ops.cumsum(keras.ops.concatenate([x[..., :1], keras.ops.softplus(x[..., 1:])], axis=-1), axis=-1)


class WithPrediction(keras.layers.Layer):
    """Quantiles [..., levels] -> [..., 1 + levels]: the quantile at `index`, the prediction, is put before them."""

    def __init__(self, index: int, **options):
        super().__init__(dtype="float32", **options)
        self._index = index

    def call(self, quantiles):
        return keras.ops.concatenate([quantiles[..., self._index : self._index + 1], quantiles], axis=-1)
