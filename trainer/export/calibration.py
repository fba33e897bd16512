"""Probabilities that mean what they say: the head of a trained network is corrected by rows it was not trained on.

Class weights move the log odds by the logarithm of the weights, which is taken back exactly (prior correction; Elkan,
The Foundations of Cost-Sensitive Learning, 2001). Then the logits are stretched (temperature scaling; Guo et al., On
Calibration of Modern Neural Networks, 2017) and, of two classes, shifted too (Platt scaling), if that pays on rows that
the stretch was not fitted on, beyond chance. The stretch is fitted to targets that are not quite 0 and 1 (Platt,
Probabilistic Outputs for Support Vector Machines, 1999), so that classes that a network tells apart without an error do
not stretch its logits without end.

A model of logarithms predicts the median of a log-normal distribution; half of the variance of its errors makes that
the mean.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from scipy import optimize

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.insight.sampled_rows import SampledRows
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network

HEAD = "head"
_BEYOND_CHANCE = 2.0
_BINS = 10
_LARGEST = 10.0
"""By how much logits are stretched or pressed together, at most."""


@dataclass(frozen=True, eq=False)
class Correction:
    """logits * scale + shift. shift: float [columns of the logits]."""

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
        task: The task of the label; a regression has no probabilities, and is left as it is.
        class_weights: The factor of the training weight per class, float [classes]; empty for none.

    Returns:
        scale, shift; log_loss and gap before and after, where gap is the mean distance between the probability said
        and the share that came true, over ten groups of rows of neighbouring probabilities.
    """
    if task == "regression" or len(rows) < 2:
        return {}
    logits = rows.logits(network)
    prior = Correction(1.0, prior_shift(task, class_weights, logits.shape[1]))
    fitted = fit_correction(prior(logits), rows.labels, rows.weights, task)
    whole = Correction(fitted.scale, prior.shift * fitted.scale + fitted.shift)
    head = network.model.get_layer(HEAD)
    head.scale, head.offset = head.scale * whole.scale, whole(head.offset)
    before, after = (_quality(z, rows, task) for z in (logits, whole(logits)))
    return {"scale": whole.scale, "shift": whole.shift.tolist(), "before": before, "after": after}


def predict_mean(network: Network, rows: SampledRows) -> dict[str, Any]:
    """Shifts the head of a network of logarithms, so that it predicts means; returns the entry `calibration`.

    Example: errors of the logarithm of deviation 1 raise the predictions by e ** 0.5 = 1.65.

    Args:
        network: The trained network of `loss: log_normal`; its head is changed.
        rows: Rows that it was not trained on.

    Returns:
        shift, of the logarithm; deviation, of its errors.
    """
    errors = np.log(rows.labels) - np.log(rows.logits(network)[:, 0])
    mean = np.average(errors, weights=rows.weights)
    variance = float(np.average((errors - mean) ** 2, weights=rows.weights))
    head = network.model.get_layer(HEAD)
    head.offset = (head.offset + variance / 2).astype(np.float32)
    return {"shift": [variance / 2], "deviation": variance**0.5}


def prior_shift(task: Task, class_weights: np.ndarray, columns: int) -> np.ndarray:
    """Returns what takes class weights back, float64 [columns].

    Example: balanced weights of 0.556 and 5 for one class in ten shift its log odds by log(0.556 / 5) = -2.2.
    """
    if not len(class_weights):
        return np.zeros(columns)
    logs = np.log(class_weights)
    return logs[:1] - logs[1:] if task == "binary" else -logs


def fit_correction(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray, task: Task) -> Correction:
    """Returns the correction of least log loss; none where it does not pay beyond chance.

    It is fitted on each half of the rows and tried on the other: the mean gain must exceed two standard errors.

    Args:
        logits: float32 [rows, columns].
        labels: As batches hold them.
        weights: float32 [rows].
        task: binary, multiclass or multilabel.
    """
    none = Correction(1.0, np.zeros(logits.shape[1]))
    half = np.random.default_rng(len(logits)).permutation(len(logits)) % 2 == 0
    gains = np.zeros(len(logits))
    for fold in (half, ~half):
        found = _least_loss(logits[~fold], labels[~fold], weights[~fold], task)
        losses = [_losses(z, labels[fold], task) for z in (logits[fold], found(logits[fold]))]
        gains[fold] = (losses[0] - losses[1]) * weights[fold]
    pays = gains.mean() > _BEYOND_CHANCE * gains.std() / len(gains) ** 0.5
    return _least_loss(logits, labels, weights, task) if pays else none


def _least_loss(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray, task: Task) -> Correction:
    """Returns the stretch of least log loss to Platt's targets; of two classes, with a shift."""
    columns = logits.shape[1]
    smoothing = 0.0 if task == "binary" else max(columns, 2) / (len(labels) + max(columns, 2))
    targets = platt_targets(labels) if task == "binary" else labels

    def correction(of: np.ndarray) -> Correction:
        scale = float(np.exp(np.clip(of[0], -np.log(_LARGEST), np.log(_LARGEST))))
        return Correction(scale, of[1:] if task == "binary" else np.zeros(columns))

    def loss(of: np.ndarray) -> float:
        return float(np.average(_losses(correction(of)(logits), targets, task, smoothing), weights=weights))

    start = np.zeros(2 if task == "binary" else 1)
    return correction(optimize.minimize(loss, start, method="Nelder-Mead", options={"maxiter": 200}).x)


def platt_targets(labels: np.ndarray) -> np.ndarray:
    """Returns what the probabilities of labels 0 and 1 are fitted to: as if one row more of each class were seen.

    Example: of 8 rows of class 1 and 3 of class 0, these are 9 / 10 and 1 / 5.
    """
    positive = int((labels > 0).sum())
    negative = len(labels) - positive
    return np.where(labels > 0, (positive + 1) / (positive + 2), 1 / (negative + 2)).astype(np.float32)


def _losses(logits: np.ndarray, labels: np.ndarray, task: Task, smoothing: float = 0.0) -> np.ndarray:
    """Returns the log loss of each row, float64 [rows]."""
    loss = loss_of(task, label_smoothing=smoothing)
    return loss(tf.constant(labels), tf.constant(logits)).numpy().astype(np.float64)


def _quality(logits: np.ndarray, rows: SampledRows, task: Task) -> dict[str, float]:
    loss = np.average(_losses(logits, rows.labels, task), weights=rows.weights)
    said, true = _said_and_true(probabilities_of(task, tf.constant(logits)).numpy(), rows.labels, task)
    return {"log_loss": float(loss), "gap": calibration_gap(said, true)}


def _said_and_true(probabilities: np.ndarray, labels: np.ndarray, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities and whether they came true: of class 1, of the likeliest class, or of every class."""
    if task == "binary":
        return probabilities[:, 1], labels
    if task == "multilabel":
        return probabilities.ravel(), labels.ravel()
    likeliest = probabilities.argmax(axis=1)
    return probabilities.max(axis=1), (likeliest == labels).astype(float)


def calibration_gap(said: np.ndarray, true: np.ndarray) -> float:
    """Returns the mean distance of probability and share over ten groups of equally many rows (Naeini et al., 2015).

    Args:
        said: float [rows], 0 to 1.
        true: float [rows], 0 or 1.
    """
    groups = np.array_split(np.argsort(said, kind="stable"), _BINS)
    distances = [abs(said[group].mean() - true[group].mean()) * len(group) for group in groups if len(group)]
    return float(np.sum(distances) / len(said))
