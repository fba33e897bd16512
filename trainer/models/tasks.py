"""What each task makes of logits: where they start, their loss, their probabilities."""

from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.models.layers import Affine

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""(label, logits) -> float32 [batch]."""

_LEAST = 1e-7


def logit_columns(task: Task, classes: int) -> int:
    """Returns the columns of the logits: one for binary and regression, else one per class."""
    return classes if task in ("multiclass", "multilabel") else 1


def with_head(model: keras.Model, task: Task, counts: SplitCounts, class_weights: np.ndarray) -> keras.Model:
    """Returns `model` with logits that start at the labels of train: their mean, or the log odds of the classes.

    A regression's logits are in units of the label. So a new network, whose output is about 0, predicts the mean, and
    its gradient does not depend on the unit.

    Args:
        model: gives logits.
        task: of the label.
        counts: of the train split.
        class_weights: factor of the weight per class, float [classes]; empty for none.
    """
    scale, offset = 1.0, np.zeros(1)
    if task == "regression":
        scale, offset = counts.label_deviation or 1.0, np.array([counts.label_mean])
    elif task == "multilabel":
        offset = _log_odds(counts.class_weight, counts.weight - counts.class_weight)
    else:
        mass = counts.class_weight * class_weights if len(class_weights) else counts.class_weight
        offset = _log_odds(mass[1:], mass[:1]) if task == "binary" else np.log(_floor(mass) / mass.sum())
    inputs = {tensor.name: tensor for tensor in model.inputs}
    return keras.Model(inputs, Affine(scale, offset, name="head")(model.outputs[0]), name=model.name)


def loss_of(task: Task, *, label_smoothing: float = 0.0, label_deviation: float = 1.0) -> Loss:
    """Returns the function of (label, logits) to the loss of each example, float32 [batch].

    Args:
        task: of the label.
        label_smoothing: share of every label that is spread over all classes.
        label_deviation: standard deviation of the labels of a regression, in which the error is measured.
    """
    losses: Mapping[Task, Loss] = {
        "binary": lambda y, z: _sigmoid_loss(_smooth(_column(y), label_smoothing, 2), z),
        "multiclass": lambda y, z: _softmax_loss(_smooth(_one_hot(y, z), label_smoothing, z.shape[-1]), z),
        "multilabel": lambda y, z: _sigmoid_loss(_smooth(y, label_smoothing, 2), z),
        "regression": lambda y, z: tf.square((y - z[:, 0]) / (label_deviation or 1.0)),
    }
    return losses[task]


def probabilities_of(task: Task, logits: tf.Tensor) -> tf.Tensor:
    """Returns float32 [batch, classes]: per class, in id order; binary has two columns, 0 and 1.

    They add up to 1, except in a multilabel task. None is exactly 0 or 1, which would make a log loss infinite.
    """
    if task == "multiclass":
        return tf.nn.softmax(logits)
    positive = tf.clip_by_value(tf.nn.sigmoid(logits), _LEAST, 1.0 - _LEAST)
    return positive if task == "multilabel" else tf.concat([1.0 - positive, positive], axis=1)


def _column(labels: tf.Tensor) -> tf.Tensor:
    return tf.reshape(labels, [-1, 1])


def _smooth(labels: tf.Tensor, smoothing: float, classes: int) -> tf.Tensor:
    return labels * (1.0 - smoothing) + smoothing / classes if smoothing else labels


def _one_hot(ids: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.one_hot(ids, logits.shape[-1])


def _sigmoid_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits), axis=1)


def _softmax_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax_cross_entropy_with_logits(labels, logits)


def _floor(mass: np.ndarray) -> np.ndarray:
    """A class that train lacks starts as if it had half a row's weight, not at minus infinity."""
    return np.maximum(mass, 0.5 * mass[mass > 0].min(initial=1.0))


def _log_odds(mass: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.log(_floor(mass)) - np.log(_floor(other))
