"""Loss functions of the label and the model's output."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer import loss_config
from fullpass.trainer.loss_config import LossConfig, levels_of, variance_power

LossOfRows = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""(label, output of the model) -> float32 [batch]."""


@dataclass(frozen=True)
class Loss:
    """The loss of each example, and the unit in which all errors of a regression are computed.

    Attributes:
        of_rows: Its function.
        unit: The standard deviation of the labels; 1 for classes. The square of an error in the unit of the label may
            be beyond float32, or vanish in it.
    """

    of_rows: LossOfRows
    unit: float = 1.0

    def __call__(self, label: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """Returns the loss of each example, float32 [batch]."""
        return self.of_rows(label, output)


AUTO = loss_config.Auto()
_MIN_LABEL = float(np.finfo(np.float32).tiny)
"""The smallest normal float32, whose logarithm is finite."""


def loss_of(task: Task, loss: LossConfig = AUTO, *, label_smoothing: float = 0.0, label_deviation: float = 1.0) -> Loss:
    """Returns the function that maps (label, output) to the loss of each example, float32 [batch].

    Args:
        label_smoothing: The share of every label that is spread over all classes.
        label_deviation: The standard deviation of the labels, which is the unit of the errors of a regression.
    """
    if task == "regression":
        return Loss(_regression_loss(loss, label_deviation), label_deviation)
    gamma = loss.gamma if isinstance(loss, loss_config.Focal) else 0.0
    losses: Mapping[Task, LossOfRows] = {
        "binary": lambda y, z: _sigmoid_loss(_smooth(tf.reshape(y, [-1, 1]), label_smoothing, 2), z, gamma),
        "multiclass": lambda y, z: _softmax_loss(_smooth(_one_hot(y, z), label_smoothing, z.shape[-1]), z, gamma),
        "multilabel": lambda y, z: _sigmoid_loss(_smooth(y, label_smoothing, 2), z, gamma),
    }
    return Loss(losses[task])


def _regression_loss(loss: LossConfig, unit: float) -> LossOfRows:
    """Returns the loss of a regression, whose first column is the prediction in the label's unit."""

    def squared(y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        return tf.square((y - z[:, 0]) / unit)

    delta = loss.delta if isinstance(loss, loss_config.Huber) else 1.0
    losses: Mapping[type, LossOfRows] = {
        loss_config.Auto: squared,
        loss_config.Squared: squared,
        loss_config.Absolute: lambda y, z: tf.abs((y - z[:, 0]) / unit),
        loss_config.Huber: lambda y, z: _huber((y - z[:, 0]) / unit, delta),
        loss_config.Poisson: lambda y, z: _deviance(y / unit, z[:, 0] / unit),
        loss_config.Tweedie: lambda y, z: _tweedie(y / unit, z[:, 0] / unit, variance_power(loss) or 0.0),
        loss_config.LogNormal: lambda y, z: tf.square(_logarithm(y) - _logarithm(z[:, 0])),
        loss_config.Quantile: lambda y, z: tf.reduce_mean(
            pinball((y[:, None] - z[:, 1:]) / unit, levels_of(loss)), axis=1
        ),
    }
    return losses[type(loss)]


def _huber(error: tf.Tensor, delta: float) -> tf.Tensor:
    size = tf.abs(error)
    return tf.where(size <= delta, 0.5 * tf.square(error), delta * (size - 0.5 * delta))


def _deviance(label: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    return 2.0 * (tf.math.xlogy(label, label / mean) - label + mean)


def _tweedie(label: tf.Tensor, mean: tf.Tensor, power: float) -> tf.Tensor:
    one, two = 1.0 - power, 2.0 - power
    return 2.0 * (tf.pow(label, two) / (one * two) - label * tf.pow(mean, one) / one + tf.pow(mean, two) / two)


def _logarithm(value: tf.Tensor) -> tf.Tensor:
    """Returns the logarithm, finite for 0: rows of weight 0 have the label 0, and 0 times infinity would be NaN."""
    return tf.math.log(tf.maximum(value, _MIN_LABEL))


def pinball(error: tf.Tensor, levels: Sequence[float]) -> tf.Tensor:
    """Returns the pinball loss of the quantile of each level, for errors label - quantile, float32 [batch, levels]."""
    shares = tf.constant(levels, tf.float32)
    return tf.maximum(shares * error, (shares - 1.0) * error)


def _smooth(labels: tf.Tensor, smoothing: float, classes: int) -> tf.Tensor:
    return labels * (1.0 - smoothing) + smoothing / classes if smoothing else labels


def _one_hot(ids: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.one_hot(ids, logits.shape[-1])


def _sigmoid_loss(labels: tf.Tensor, logits: tf.Tensor, gamma: float) -> tf.Tensor:
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    if gamma:
        probability = tf.sigmoid(logits)
        losses *= tf.pow(tf.abs(labels - probability), gamma)
    return tf.reduce_mean(losses, axis=1)


def _softmax_loss(labels: tf.Tensor, logits: tf.Tensor, gamma: float) -> tf.Tensor:
    losses = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
    if gamma:
        losses *= tf.pow(1.0 - tf.reduce_sum(labels * tf.nn.softmax(logits), axis=1), gamma)
    return losses
