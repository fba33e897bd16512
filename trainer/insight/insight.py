"""Measures a trained model beyond its metrics: against a simple reference, and the importance of its features."""

from typing import Any

from fullpass.trainer.insight.permutation_importance import measure_importance
from fullpass.trainer.insight.sampled_rows import rows_of, sample_rows
from fullpass.trainer.insight.shown_images import show_images
from fullpass.trainer.insight.simple_reference import measure_reference
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.training_data import TrainingData

TRAIN_ROWS, EVAL_ROWS = 20_000, 10_000


def measure_insight(network: Network, data: TrainingData) -> dict[str, Any]:
    """Returns the entries `reference`, `importance` and `images` of training.json.

    Args:
        network: The trained network.
        data: The data that it was trained on; with several workers, the rows of this one.
    """
    task = network.config.label.task
    train = sample_rows(data.train.split, data.in_model, rows_of(network, TRAIN_ROWS))
    evaluation = sample_rows(data.evaluation.split, data.in_model, rows_of(network, EVAL_ROWS))
    return {
        "reference": measure_reference(network, train, evaluation, task),
        "importance": measure_importance(network, evaluation, task),
        "images": show_images(network, evaluation, task, data.names),
    }
