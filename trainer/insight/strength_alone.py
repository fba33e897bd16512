"""How well each feature alone predicts the label: it finds the one that a model which is too good relies on."""

from typing import Any

import numpy as np
from sklearn import metrics, tree

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.models.weight_semantics import Network

_MOST_LEAVES, _FEWEST_ROWS = 1000, 5
_WIDEST, _SHOWN = 64, 3


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
