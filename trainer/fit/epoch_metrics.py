"""Computes the metrics of an epoch from sums over batches and devices.

Every statistic is a sum over examples, so that the sums of batches and replicas add up, whatever their sizes and
weights.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.loss_config import LossConfig
from fullpass.trainer.models.losses import Loss, loss_of, pinball

_MONITOR: Mapping[Task, str] = {
    "binary": "log_loss",
    "multiclass": "log_loss",
    "multilabel": "log_loss",
    "regression": "rmse",
}
"""The metric whose smallest value marks the best epoch unless the loss does. It excludes penalties, label
smoothing and class weights."""

Sums = dict[str, tf.Tensor]
"""Statistic -> its sum over examples, float32."""

_BINS = 4096
"""Bins of the scores with which an epoch's AUC is measured; rows in one bin count as equal."""


def monitored(task: Task, loss: LossConfig) -> str:
    """Returns the metric of the validation rows whose smallest value marks the best epoch."""
    return "loss" if loss.judged_by_itself else _MONITOR[task]


def shapes_of(task: Task, quantiles: int = 0) -> dict[str, tuple[int, ...]]:
    """Returns the statistics of a task: name -> shape."""
    if task == "regression":
        numbers: dict[str, tuple[int, ...]] = dict.fromkeys(("weight", "loss", "square", "absolute"), ())
        return numbers | (dict.fromkeys(("below", "pinball"), (quantiles,)) if quantiles else {})
    scalars: dict[str, tuple[int, ...]] = dict.fromkeys(("weight", "loss", "log_loss", "right"), ())
    return scalars | ({"positive": (_BINS,), "negative": (_BINS,)} if task == "binary" else {})


def sums_of(
    task: Task,
    loss: Loss,
    label: tf.Tensor,
    logits: tf.Tensor,
    weight: tf.Tensor,
    levels: Sequence[float] = (),
) -> Sums:
    """Returns the statistics of a batch, by the names of `shapes_of`; errors of a regression in `loss.unit`.

    Args:
        label: The output of the transform graph; for multilabel a matrix.
        logits: The output of the model, float32 [batch, columns]; for a regression the prediction, then quantiles.
        weight: The weights of the rows, float32 [batch].
    """
    sums = {"weight": tf.reduce_sum(weight), "loss": tf.reduce_sum(weight * loss(label, logits))}
    if task == "regression":
        error = (label - logits[:, 0]) / loss.unit
        sums |= {"square": tf.reduce_sum(weight * error**2), "absolute": tf.reduce_sum(weight * tf.abs(error))}
        if levels:
            errors = (label[:, None] - logits[:, 1:]) / loss.unit
            sums["below"] = tf.reduce_sum(weight[:, None] * tf.cast(errors <= 0, tf.float32), axis=0)
            sums["pinball"] = tf.reduce_sum(weight[:, None] * pinball(errors, levels), axis=0)
        return sums
    sums["log_loss"] = tf.reduce_sum(weight * loss_of(task)(label, logits))
    sums["right"] = tf.reduce_sum(weight * _share_right(task, label, logits))
    if task == "binary":
        sums["positive"] = _histogram(logits[:, 0], weight * label)
        sums["negative"] = _histogram(logits[:, 0], weight * (1.0 - label))
    return sums


def metrics_of(
    task: Task, sums: Mapping[str, np.ndarray], levels: Sequence[float] = (), unit: float = 1.0
) -> dict[str, float]:
    """Returns the metrics: loss; log_loss, accuracy and, if binary, auc; or rmse and mae.

    Each quantile level adds `coverage_<level>`, the share of labels that are not larger than its quantile, and
    `pinball_<level>`, the pinball loss. Errors are in the label's unit.

    Args:
        unit: That of the errors in `sums`.
    """
    weight = float(sums["weight"])
    found = {"loss": float(sums["loss"]) / weight}
    if task == "regression":
        return found | {
            "rmse": unit * float(np.sqrt(sums["square"] / weight)),
            "mae": unit * float(sums["absolute"]) / weight,
            **{f"coverage_{level:g}": float(sums["below"][i]) / weight for i, level in enumerate(levels)},
            **{f"pinball_{level:g}": unit * float(sums["pinball"][i]) / weight for i, level in enumerate(levels)},
        }
    found |= {"log_loss": float(sums["log_loss"]) / weight, "accuracy": float(sums["right"]) / weight}
    if task == "binary":
        found["auc"] = area_under_curve(np.asarray(sums["positive"]), np.asarray(sums["negative"]))
    return found


def metrics_of_rows(
    task: Task, loss: Loss, label: np.ndarray, logits: np.ndarray, weight: np.ndarray, levels: Sequence[float] = ()
) -> dict[str, float]:
    """Returns the metrics of rows that are in memory; the arrays are those of `sums_of`."""
    sums = sums_of(task, loss, tf.constant(label), tf.constant(logits), tf.constant(weight), levels)
    return metrics_of(task, {name: value.numpy() for name, value in sums.items()}, levels, loss.unit)


def area_under_curve(positive: np.ndarray, negative: np.ndarray) -> float:
    """Returns the share of (positive, negative) pairs in which the positive scores higher; equal scores count half.

    0.5 if there are no such pairs.

    Args:
        positive: The weight of the positive examples per bin of rising score, float [bins].
        negative: The weight of the negative examples per bin, float [bins].
    """
    positive, negative = positive.astype(np.float64), negative.astype(np.float64)
    pairs = positive.sum() * negative.sum()
    below = np.cumsum(negative) - negative
    return float(positive @ (below + negative / 2) / pairs) if pairs else 0.5


def _share_right(task: Task, label: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    if task == "multiclass":
        return tf.cast(tf.argmax(logits, axis=1) == tf.cast(label, tf.int64), tf.float32)
    label = tf.reshape(label, tf.shape(logits))
    return tf.reduce_mean(tf.cast((logits > 0) == (label > 0), tf.float32), axis=1)


def _histogram(score: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Returns the weight per bin of rising score; bins are narrow around 0 and cover all numbers."""
    index = tf.cast(tf.sigmoid(score / 4.0) * (_BINS - 1), tf.int32)
    return tf.math.unsorted_segment_sum(weight, index, _BINS)
