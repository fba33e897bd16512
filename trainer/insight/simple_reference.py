"""The simple reference: a linear model on the same transformed rows, as a baseline for the network."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from scipy import sparse
from sklearn import linear_model, metrics

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.linear.design import Design
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network

_GROUPS = 20
"""Groups of the jackknife, each of which is left out once."""
_ITERATIONS = 100
"""Steps of the solver at most."""
_REACH = 2.093
"""The half-width of a 95 % interval in standard errors: Student's t with 19 degrees of freedom."""
_METRICS: Mapping[Task, tuple[str, str]] = {
    "binary": ("auc", "logistic regression"),
    "multiclass": ("multiclass_accuracy", "logistic regression"),
    "regression": ("rmse", "ridge regression"),
}


@dataclass(frozen=True, eq=False)
class Reference:
    """A fitted linear model.

    Attributes:
        scores: Its predictions for the eval rows: probabilities of class 1, numbers of classes, or numbers; [rows].
        train_rows: The rows that it learned from.
        seconds: The seconds that it took.
    """

    scores: np.ndarray
    train_rows: int
    seconds: float


def fit_reference(
    inputs: Sequence[ModelInput], train: SampledRows, evaluation: SampledRows, task: Task
) -> Reference | None:
    """Fits logistic regression (C 1) or ridge regression (alpha 1) on one-hot ids and standardized numbers.

    Returns:
        None if there is nothing to compare.
    """
    if task == "multilabel" or len(np.unique(train.labels)) < 2 or len(np.unique(evaluation.labels)) < 2:
        return None
    began = time.monotonic()
    columns = Design(inputs, train)
    scores = _fitted_scores(columns(train), train, columns(evaluation), task)
    return Reference(scores, len(train), time.monotonic() - began)


def measure_reference(network: Network, reference: Reference, evaluation: SampledRows, task: Task) -> dict[str, Any]:
    """Returns the metric of a linear model and of the network on the same rows.

    The standard error of the difference is a jackknife over 20 groups of the eval rows.

    Args:
        evaluation: The rows of the scores of the reference.

    Returns:
        kind, metric, reference, network, reach (the half-width of the 95 % interval of their difference), train_rows,
        eval_rows, seconds.
    """
    began = time.monotonic()
    simple, ours = reference.scores, _network_scores(network, task, evaluation)
    name, kind = _METRICS[task]
    return {
        "kind": kind,
        "metric": name,
        "reference": _metric(task, evaluation, simple, np.arange(len(evaluation))),
        "network": _metric(task, evaluation, ours, np.arange(len(evaluation))),
        "reach": _reach(task, evaluation, simple, ours),
        "train_rows": reference.train_rows,
        "eval_rows": len(evaluation),
        "seconds": round(reference.seconds + time.monotonic() - began, 2),
    }


def _fitted_scores(
    of_train: sparse.csr_matrix, train: SampledRows, columns: sparse.csr_matrix, task: Task
) -> np.ndarray:
    if task == "regression":
        unit = train.label_deviation
        ridge = linear_model.Ridge().fit(of_train, train.numbers(unit), sample_weight=train.weights)
        return unit * ridge.predict(columns)
    model: Any = linear_model.LogisticRegression(max_iter=_ITERATIONS)
    model.fit(of_train, train.labels, sample_weight=train.weights)
    return model.predict_proba(columns)[:, 1] if task == "binary" else model.predict(columns)


def _network_scores(network: Network, task: Task, rows: SampledRows) -> np.ndarray:
    logits = rows.logits(network)
    if task == "regression":
        return logits[:, 0]
    probabilities = probabilities_of(task, tf.constant(logits)).numpy()
    return probabilities[:, 1] if task == "binary" else probabilities.argmax(axis=1)


def _metric(task: Task, rows: SampledRows, scores: np.ndarray, chosen: np.ndarray) -> float:
    labels, weights, scores = rows.labels[chosen], rows.weights[chosen], scores[chosen]
    if task == "binary":
        # Equals roc_auc_score, which scans all rows four more times before it computes the same.
        false, true, _ = metrics.roc_curve(labels, scores, sample_weight=weights)
        return float(metrics.auc(false, true))
    if task == "multiclass":
        return float(metrics.accuracy_score(labels, scores, sample_weight=weights))
    return float(np.sqrt(np.average((labels.astype(np.float64) - scores) ** 2, weights=weights)))


def _reach(task: Task, rows: SampledRows, simple: np.ndarray, ours: np.ndarray) -> float | None:
    """Returns the half-width of the interval of the difference; None if it is undefined without some rows."""
    groups = np.random.default_rng(len(rows)).permutation(len(rows)) % _GROUPS
    differences = []
    for group in range(_GROUPS):
        kept = np.flatnonzero(groups != group)
        if len(kept) < 2 or (task == "binary" and len(np.unique(rows.labels[kept])) < 2):
            return None
        differences.append(_metric(task, rows, ours, kept) - _metric(task, rows, simple, kept))
    spread = np.sum((np.array(differences) - np.mean(differences)) ** 2)
    return float(_REACH * np.sqrt((_GROUPS - 1) / _GROUPS * spread))
