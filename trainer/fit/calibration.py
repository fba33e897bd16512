"""Calibrates a trained network: corrects its head with rows that it was not trained on.

Class weights shift the log odds by the logarithm of the weights. This shift is removed exactly (prior correction;
Elkan, The Foundations of Cost-Sensitive Learning, 2001). Then the logits are scaled (temperature scaling; Guo et al.,
On Calibration of Modern Neural Networks, 2017) and, for two classes, also shifted (Platt scaling). The scale is applied
only if it lowers the log loss beyond chance on rows that it was not fitted on. It is fitted to targets that are not
quite 0 and 1 (Platt, Probabilistic Outputs for Support Vector Machines, 1999). Otherwise the scale would grow without
bound for classes that a network separates without an error.

A model of logarithms predicts the median of a log-normal distribution. Adding half of the variance of its errors gives
the mean.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from scipy import optimize, special

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, halves
from fullpass.trainer.models.tasks import HEAD, probabilities_of
from fullpass.trainer.models.weight_semantics import Network

_BEYOND_CHANCE = 2.0
"""Standard errors that a gain must exceed: about 95 % confidence."""
_BINS = 10
"""Groups of the calibration error."""
_ITERATIONS = 200
"""Steps of the optimizer at most, for one or two numbers."""
_LARGEST = 10.0
"""The largest factor by which logits are scaled up or down."""


@dataclass(frozen=True, eq=False)
class Correction:
    """The correction logits * scale + shift; `shift` is float [columns of the logits]."""

    scale: float
    shift: np.ndarray

    def __call__(self, logits: np.ndarray) -> np.ndarray:
        """Returns corrected logits, float32 [rows, columns]."""
        return (logits * self.scale + self.shift).astype(np.float32)


def calibrate(network: Network, rows: SampledRows, task: Task, class_weights: np.ndarray) -> dict[str, Any]:
    """Corrects the head of a network, and returns the entry `calibration` of training.json.

    Args:
        network: The trained network; its head is changed.
        rows: Rows that it was not trained on.
        task: The task of the label; a regression has no probabilities and is not changed.
        class_weights: The factor of the training weight per class, float [classes]; empty for none.

    Returns:
        scale and shift; log_loss and gap before and after. gap is the mean distance between the predicted probability
        and the observed share, over ten groups of rows with similar probabilities.
    """
    if task == "regression" or len(rows) < 2:
        return {}
    logits = rows.logits(network)
    prior = Correction(1.0, prior_shift(task, class_weights, logits.shape[1]))
    fitted = fit_correction(prior(logits), rows.labels, rows.weights, task)
    whole = Correction(fitted.scale, prior.shift * fitted.scale + fitted.shift)
    head = network.model.get_layer(HEAD)
    head.correct(head.scale * whole.scale, whole(head.offset))
    before, after = (_quality(z, rows, task) for z in (logits, whole(logits)))
    return {"scale": whole.scale, "shift": whole.shift.tolist(), "before": before, "after": after}


def predict_mean(network: Network, rows: SampledRows) -> dict[str, Any]:
    """Shifts the head of a network of logarithms, so that it predicts means; returns the entry `calibration`.

    Example: if the errors of the logarithm have a standard deviation of 1, predictions grow by the factor
    e ** 0.5 = 1.65.

    Args:
        network: The trained network of `loss: log_normal`; its head is changed.
        rows: Rows that it was not trained on.

    Returns:
        shift, which is added to the logarithm; deviation, the standard deviation of its errors.
    """
    errors = np.log(rows.labels) - np.log(rows.logits(network)[:, 0])
    mean = np.average(errors, weights=rows.weights)
    variance = float(np.average((errors - mean) ** 2, weights=rows.weights))
    head = network.model.get_layer(HEAD)
    head.correct(head.scale, head.offset + variance / 2)
    return {"shift": [variance / 2], "deviation": variance**0.5}


def prior_shift(task: Task, class_weights: np.ndarray, columns: int) -> np.ndarray:
    """Returns the shift of the logits that removes the effect of class weights, float64 [columns].

    Example: for a class of one row in ten, the balanced weights 0.556 and 5 shift its log odds by
    log(0.556 / 5) = -2.2.
    """
    if not len(class_weights):
        return np.zeros(columns)
    logs = np.log(class_weights)
    return logs[:1] - logs[1:] if task == "binary" else -logs


def fit_correction(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray, task: Task) -> Correction:
    """Returns the correction with the lowest log loss, or the identity if the gain is not beyond chance.

    It is fitted on each half of the rows and evaluated on the other. The mean gain must exceed two standard errors.

    Args:
        logits: float32 [rows, columns].
        labels: The labels in the form of the batches.
        weights: float32 [rows].
        task: binary, multiclass or multilabel.
    """
    none = Correction(1.0, np.zeros(logits.shape[1]))
    gains = np.zeros(len(logits))
    for rest, fold in halves(len(logits)):
        found = _least_loss(logits[rest], labels[rest], weights[rest], task)
        losses = [_losses(z, labels[fold], task) for z in (logits[fold], found(logits[fold]))]
        gains[fold] = (losses[0] - losses[1]) * weights[fold]
    pays = gains.mean() > _BEYOND_CHANCE * gains.std() / len(gains) ** 0.5
    return _least_loss(logits, labels, weights, task) if pays else none


def _least_loss(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray, task: Task) -> Correction:
    """Returns the scale with the lowest log loss against Platt's targets; for two classes, also a shift."""
    columns = logits.shape[1]
    smoothing = 0.0 if task == "binary" else max(columns, 2) / (len(labels) + max(columns, 2))
    targets = platt_targets(labels) if task == "binary" else labels

    def correction(of: np.ndarray) -> Correction:
        scale = float(np.exp(np.clip(of[0], -np.log(_LARGEST), np.log(_LARGEST))))
        return Correction(scale, of[1:] if task == "binary" else np.zeros(columns))

    def loss(of: np.ndarray) -> float:
        return float(np.average(_losses(correction(of)(logits), targets, task, smoothing), weights=weights))

    start = np.zeros(2 if task == "binary" else 1)
    return correction(optimize.minimize(loss, start, method="Nelder-Mead", options={"maxiter": _ITERATIONS}).x)


def platt_targets(labels: np.ndarray) -> np.ndarray:
    """Returns Platt's target probabilities for labels 0 and 1, as if one more row of each class had been seen.

    Example: 8 rows of class 1 and 3 rows of class 0 give 9 / 10 and 1 / 5.
    """
    positive = int((labels > 0).sum())
    negative = len(labels) - positive
    return np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (negative + 2)).astype(np.float32)


def _losses(logits: np.ndarray, labels: np.ndarray, task: Task, smoothing: float = 0.0) -> np.ndarray:
    """Returns the log loss of each row, float64 [rows].

    The optimizer calls it two hundred times, each of which would take eager TensorFlow a millisecond.

    Args:
        smoothing: The share of every label that is spread over all classes.
    """
    if task == "multiclass":
        own = np.take_along_axis(logits, labels.astype(np.int64)[:, None], axis=1)[:, 0]
        losses = special.logsumexp(logits, axis=1) - (1 - smoothing) * own - smoothing * logits.mean(axis=1)
    else:
        targets = labels.reshape(logits.shape) * (1 - smoothing) + smoothing / 2
        losses = (np.logaddexp(0, logits) - targets * logits).mean(axis=1)
    return losses.astype(np.float64)


def _quality(logits: np.ndarray, rows: SampledRows, task: Task) -> dict[str, float]:
    loss = np.average(_losses(logits, rows.labels, task), weights=rows.weights)
    probabilities = probabilities_of(task, tf.constant(logits)).numpy()
    predicted, observed = _predicted_and_observed(probabilities, rows.labels, task)
    return {"log_loss": float(loss), "gap": calibration_gap(predicted, observed)}


def _predicted_and_observed(probabilities: np.ndarray, labels: np.ndarray, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Returns predicted probabilities and outcomes: of class 1, of the likeliest class, or of every class."""
    if task == "binary":
        return probabilities[:, 1], labels
    if task == "multilabel":
        return probabilities.ravel(), labels.ravel()
    likeliest = probabilities.argmax(axis=1)
    return probabilities.max(axis=1), (likeliest == labels).astype(float)


def calibration_gap(predicted: np.ndarray, observed: np.ndarray) -> float:
    """Returns the expected calibration error over ten groups with equally many rows (Naeini et al., 2015).

    It is the mean distance between the mean probability and the observed share of a group.

    Args:
        predicted: The predicted probabilities, float [rows], 0 to 1.
        observed: The outcomes, float [rows], 0 or 1.
    """
    groups = np.array_split(np.argsort(predicted, kind="stable"), _BINS)
    distances = [abs(predicted[group].mean() - observed[group].mean()) * len(group) for group in groups if len(group)]
    return float(np.sum(distances) / len(predicted))
