"""Measures a trained model beyond its metrics: against a simple reference, and the importance of its features."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn import metrics, tree

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, rows_of, sample_rows
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.insight.permutation_importance import measure_importance
from fullpass.trainer.insight.simple_reference import measure_reference
from fullpass.trainer.models.weight_semantics import Network

TRAIN_ROWS, EVAL_ROWS = 20_000, 10_000
_ALMOST = 0.99
_MOST_LEAVES, _FEWEST_ROWS = 1000, 5
_WIDEST, _SHOWN = 64, 3


def measure_insight(network: Network, data: TrainingData) -> dict[str, Any]:
    """Returns the entries `reference`, `importance` and `alone` of training.json.

    `alone` is measured only if the model is so good that one feature may give the label away.

    Args:
        data: The data that it was trained on; with several workers, the rows of this one.
    """
    task = network.config.label.task
    train = sample_rows(data.train.split, data.in_model, rows_of(network, TRAIN_ROWS))
    evaluation = sample_rows(data.evaluation.split, data.in_model, rows_of(network, EVAL_ROWS))
    reference = measure_reference(network, train, evaluation, task)
    suspicious = reference is not None and _almost_perfect(reference, evaluation, task)
    return {
        "reference": reference,
        "alone": measure_alone(network, train, evaluation, task) if suspicious else [],
        "importance": measure_importance(network, evaluation, task),
    }


def _almost_perfect(reference: Mapping[str, Any], evaluation: SampledRows, task: Task) -> bool:
    """Returns whether the network is so good on the sample that a metric of all rows may be too good."""
    if task != "regression":
        return reference["network"] >= _ALMOST
    mean = np.average(evaluation.labels, weights=evaluation.weights)
    variance = np.average((evaluation.labels - mean) ** 2, weights=evaluation.weights)
    return bool(1 - reference["network"] ** 2 / variance >= _ALMOST)


def measure_alone(network: Network, train: SampledRows, evaluation: SampledRows, task: Task) -> list[dict[str, Any]]:
    """Returns the features that alone predict the label best, the best first.

    A decision tree is fitted on the transformed numbers and ids of each feature. Images, texts and lists have none.

    Returns:
        Up to three entries: feature, column (of the raw data), value (AUC, accuracy, or the explained share of the
        variance), rows; empty for a multilabel task.
    """
    if task == "multilabel" or min(len(np.unique(rows.labels)) for rows in (train, evaluation)) < 2:
        return []
    inputs: dict[str, list[str]] = {}
    for item in network.inputs.values():
        if item.output.kind != "image" and not item.output.multi and item.width <= _WIDEST:
            inputs.setdefault(item.output.feature, []).append(item.keras_input.name)
    found: list[dict[str, Any]] = []
    for feature, names in inputs.items():
        value = _strength(_matrix(train, names), _matrix(evaluation, names), train, evaluation, task)
        column = getattr(network.config.features.get(feature), "column", None) or feature
        found.append({"feature": feature, "column": column, "value": value, "rows": len(evaluation)})
    return sorted(found, key=lambda one: one["value"], reverse=True)[:_SHOWN]


def _matrix(rows: SampledRows, names: list[str]) -> np.ndarray:
    return np.concatenate([rows.features[name].reshape(len(rows), -1).astype(np.float64) for name in names], axis=1)


def _strength(x: np.ndarray, x_eval: np.ndarray, train: SampledRows, evaluation: SampledRows, task: Task) -> float:
    kind = tree.DecisionTreeRegressor if task == "regression" else tree.DecisionTreeClassifier
    fitted = kind(max_leaf_nodes=_MOST_LEAVES, min_samples_leaf=_FEWEST_ROWS, random_state=0)
    fitted.fit(x, train.labels, sample_weight=train.weights)
    labels, weights = evaluation.labels, evaluation.weights
    if task == "binary":
        return float(metrics.roc_auc_score(labels, fitted.predict_proba(x_eval)[:, 1], sample_weight=weights))
    measure = metrics.r2_score if task == "regression" else metrics.accuracy_score
    return float(measure(labels, fitted.predict(x_eval), sample_weight=weights))
