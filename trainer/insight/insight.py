"""Measures a trained model beyond its metrics: against a simple reference, and the importance of its features."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn import metrics, tree

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, rows_to_sample, sample_rows
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.insight.permutation_importance import measure_importance
from fullpass.trainer.insight.simple_reference import Reference, fit_reference, measure_reference
from fullpass.trainer.models.model_inputs import inputs_by_feature
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network

TRAIN_ROWS = 20_000
"""Train rows that the simple reference learns from at most."""
EVAL_ROWS = 10_000
"""Eval rows that a training is explained with at most."""
_ALMOST = 0.99
"""Share of right answers, or of explained variance, from which a model is almost perfect."""
_MOST_LEAVES = 1000
"""Leaves of the tree that shows what one column alone tells; each has at least `_FEWEST_ROWS` train rows."""
_FEWEST_ROWS = 5
"""Train rows of a leaf at least: leaves of single rows would tell any label."""
_WIDEST = 64
"""Values per row of a column at most for such a tree."""
_SHOWN = 3
"""Columns that are named."""
_MAX_IMAGES = 12
"""Images that the report shows of wrong answers, and of right ones."""
_SIDE = 96
"""Pixels of a side of such an image."""
_MAX_BYTES = 500_000
"""Bytes of all images of the report."""


@dataclass(frozen=True, eq=False)
class ComparedRows:
    """The rows that a model is measured on, and the simple model that it is compared with; None without any."""

    train: SampledRows
    evaluation: SampledRows
    reference: Reference | None


def compared_rows(network: Network, data: TrainingData) -> ComparedRows:
    """Samples the rows and fits the simple model to them, whatever the weights of a network are.

    Args:
        data: The data that it is trained on; with several workers, the rows of this one.
    """
    train = sample_rows(data.train.split, data.in_model, rows_to_sample(network, TRAIN_ROWS))
    evaluation = sample_rows(data.evaluation.split, data.in_model, rows_to_sample(network, EVAL_ROWS))
    inputs = list(network.inputs.values())
    return ComparedRows(train, evaluation, fit_reference(inputs, train, evaluation, network.config.label.task))


def measure_insight(
    network: Network, rows: ComparedRows, names: Sequence[str], threshold: float | None = None
) -> dict[str, Any]:
    """Returns the entries `reference`, `importance`, `alone` and `images` of training.json.

    `alone` is measured only if the model is so good that one feature may give the label away.

    Args:
        names: The names of the classes in id order.
        threshold: The probability above which the export predicts class 1; None if it predicts the likeliest class.
    """
    task, train, evaluation = network.config.label.task, rows.train, rows.evaluation
    simple = rows.reference
    reference = None if simple is None else measure_reference(network, simple, evaluation, task)
    suspicious = reference is not None and _almost_perfect(reference, evaluation, task)
    return {
        "reference": reference,
        "alone": measure_alone(network, train, evaluation, task) if suspicious else [],
        "importance": measure_importance(network, evaluation, task),
        "images": show_images(network, evaluation, task, names, threshold),
    }


def _almost_perfect(reference: Mapping[str, Any], evaluation: SampledRows, task: Task) -> bool:
    """Returns whether the network is so good on the sample that a metric of all rows may be too good."""
    if task != "regression":
        return reference["network"] >= _ALMOST
    unit, weights = evaluation.label_deviation, evaluation.weights
    labels = evaluation.numbers(unit)
    variance = np.average((labels - np.average(labels, weights=weights)) ** 2, weights=weights)
    return bool(1 - (reference["network"] / unit) ** 2 / variance >= _ALMOST)


def measure_alone(network: Network, train: SampledRows, evaluation: SampledRows, task: Task) -> list[dict[str, Any]]:
    """Returns the features that alone predict the label best, the best first.

    A decision tree is fitted on the transformed numbers and ids of each feature. Images, texts and lists have none.

    Returns:
        Up to three entries: feature, column (of the raw data), value (AUC, accuracy, or the explained share of the
        variance), rows; empty for a multilabel task.
    """
    if task == "multilabel" or min(len(np.unique(rows.labels)) for rows in (train, evaluation)) < 2:
        return []
    inputs = [
        item
        for item in network.inputs.values()
        if item.output.kind != "image" and not item.output.multi and item.width <= _WIDEST
    ]
    found: list[dict[str, Any]] = []
    for feature, items in inputs_by_feature(inputs).items():
        names = [item.keras_input.name for item in items]
        value = _strength(_matrix(train, names), _matrix(evaluation, names), train, evaluation, task)
        column = getattr(network.config.features.get(feature), "column", None) or feature
        found.append({"feature": feature, "column": column, "value": value, "rows": len(evaluation)})
    return sorted(found, key=lambda one: one["value"], reverse=True)[:_SHOWN]


def _matrix(rows: SampledRows, names: list[str]) -> np.ndarray:
    return np.concatenate([rows.padded(name).reshape(len(rows), -1).astype(np.float64) for name in names], axis=1)


def _strength(x: np.ndarray, x_eval: np.ndarray, train: SampledRows, evaluation: SampledRows, task: Task) -> float:
    kind = tree.DecisionTreeRegressor if task == "regression" else tree.DecisionTreeClassifier
    fitted = kind(max_leaf_nodes=_MOST_LEAVES, min_samples_leaf=_FEWEST_ROWS, random_state=0)
    unit = train.label_deviation if task == "regression" else 1.0
    fitted.fit(x, train.numbers(unit), sample_weight=train.weights)
    labels, weights = evaluation.numbers(unit), evaluation.weights
    if task == "binary":
        return float(metrics.roc_auc_score(labels, fitted.predict_proba(x_eval)[:, 1], sample_weight=weights))
    measure = metrics.r2_score if task == "regression" else metrics.accuracy_score
    return float(measure(labels, fitted.predict(x_eval), sample_weight=weights))


def show_images(
    network: Network, evaluation: SampledRows, task: Task, names: Sequence[str], threshold: float | None = None
) -> list[dict[str, Any]]:
    """Returns images that the model classifies wrongly, the most confident first, and some that it classifies right.

    Returns:
        Per image: feature, png (base64), label, prediction, probability, right. At most 24 of each feature, half a
        megabyte in all.
    """
    images = [item for item in network.inputs.values() if item.output.kind == "image"]
    if not images or task not in ("binary", "multiclass") or not len(evaluation):
        return []
    probabilities = probabilities_of(task, tf.constant(evaluation.logits(network))).numpy()
    predicted, truth = probabilities.argmax(axis=1), evaluation.labels.astype(np.int64)
    if threshold is not None:
        predicted = (probabilities[:, 1] > threshold).astype(np.int64)
    sure = probabilities[np.arange(len(predicted)), predicted]
    wrong = np.flatnonzero(predicted != truth)
    chosen = [*wrong[np.argsort(-sure[wrong])][:_MAX_IMAGES], *np.flatnonzero(predicted == truth)[:_MAX_IMAGES]]
    found: list[dict[str, Any]] = []
    for item in images:
        for row in chosen:
            shown = _png(evaluation.features[item.keras_input.name][row])
            if sum(len(one["png"]) for one in found) + len(shown) > _MAX_BYTES:
                return found
            about = {"label": names[truth[row]], "prediction": names[predicted[row]], "probability": float(sure[row])}
            found.append(
                {"feature": item.output.feature, "png": shown, **about, "right": bool(predicted[row] == truth[row])}
            )
    return found


def _png(pixels: np.ndarray) -> str:
    """Returns a picture, at most 96 pixels a side, as base64."""
    step = -(-max(pixels.shape[:2]) // _SIDE)
    return base64.b64encode(tf.io.encode_png(pixels[::step, ::step]).numpy()).decode("ascii")
