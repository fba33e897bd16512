"""The logits of each task: their number, their initial values and their probabilities."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.loss_config import LossConfig, levels_of
from fullpass.trainer.models.layers import Affine
from fullpass.trainer.models.losses import AUTO
from fullpass.trainer.models.regression_heads import regression_head

_MIN_PROBABILITY = 1e-7


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
        model: Outputs logits.
        task: The task of the label.
        counts: The counts of the train split.
        class_weights: The factor of the weight per class, float [classes]; empty for none.
        loss: The key `training.loss`.
    """
    inputs = {tensor.name: tensor for tensor in model.inputs}
    if task == "regression":
        output = regression_head(model.outputs[0], counts, loss)
    else:
        output = Affine(1.0, _start(task, counts, class_weights), name="head")(model.outputs[0])
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
