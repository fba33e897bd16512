"""Measures a trained model beyond its metrics: against a simple reference, and the importance of its features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.sampled_rows import SampledRows, rows_of, sample_rows
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.insight.permutation_importance import measure_importance
from fullpass.trainer.insight.shown_images import show_images
from fullpass.trainer.insight.simple_reference import measure_reference
from fullpass.trainer.insight.strength_alone import measure_alone
from fullpass.trainer.models.weight_semantics import Network

TRAIN_ROWS, EVAL_ROWS = 20_000, 10_000
_ALMOST = 0.99


def measure_insight(network: Network, data: TrainingData) -> dict[str, Any]:
    """Returns the entries `reference`, `importance`, `alone` and `images` of training.json.

    `alone` is measured only if the model is so good that one feature may give the label away.

    Args:
        network: The trained network.
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
        "images": show_images(network, evaluation, task, data.statistics.names),
    }


def _almost_perfect(reference: Mapping[str, Any], evaluation: SampledRows, task: Task) -> bool:
    """Returns whether the network is so good on the sample that a metric of all rows may be too good."""
    if task != "regression":
        return reference["network"] >= _ALMOST
    mean = np.average(evaluation.labels, weights=evaluation.weights)
    variance = np.average((evaluation.labels - mean) ** 2, weights=evaluation.weights)
    return bool(1 - reference["network"] ** 2 / variance >= _ALMOST)
