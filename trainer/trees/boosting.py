"""Converts the sections `model:` and `training:` to LightGBM's parameters, and LightGBM's predictions to logits."""

from typing import Any

import numpy as np

from fullpass.base.processes import usable_cores
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import TrainingConfig, Trees
from fullpass.trainer.loss_config import Huber, LossConfig, levels_of

_MIN_OUTPUT = 1e-15
# LightGBM's defaults suppress categories with few rows; these values are better on the data sets of docs/training.md.
_CATEGORIES = {"cat_smooth": 5.0, "cat_l2": 1.0, "min_data_per_group": 20}
_CELLS_OF_THREAD = 500_000
"""Minimum numbers (rows times columns) per thread: with fewer, threads wait for each other longer than they work."""


def threads_for(rows: int, columns: int) -> int:
    """Returns the number of threads that grow the trees of a table."""
    return max(1, min(usable_cores(), rows * columns // _CELLS_OF_THREAD))


def parameters(model: Trees, training: TrainingConfig, task: Task, classes: int, threads: int) -> list[dict[str, Any]]:
    """Returns the parameters of each booster; `loss: quantile` has one per level, all else one."""
    common = {
        "num_leaves": model.leaves,
        "learning_rate": model.learning_rate,
        "min_data_in_leaf": model.min_rows,
        "bagging_fraction": model.row_share,
        "bagging_freq": 1,
        "feature_fraction": model.feature_share,
        "lambda_l2": model.l2,
        **_CATEGORIES,
        "metric": "None",
        "seed": training.seed,
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        "num_threads": threads,
        "verbosity": -1,
    }
    if task == "binary":
        return [{**common, "objective": "binary"}]
    if task == "multiclass":
        return [{**common, "objective": "multiclass", "num_class": classes}]
    objective = {**common, "objective": training.loss.objective}
    if isinstance(training.loss, Huber):
        return [{**objective, "alpha": training.loss.delta}]
    return [{**objective, "alpha": level} for level in levels_of(training.loss)] or [objective]


def logits_of(predictions: np.ndarray, task: Task, loss: LossConfig) -> np.ndarray:
    """Returns the sums of leaf values, float64 [rows, columns], from LightGBM's predictions after its link function.

    Args:
        predictions: The predictions of a booster, [rows] or [rows, classes].
        task: The task of the label.
        loss: The key `training.loss`.
    """
    predictions = predictions.reshape(len(predictions), -1)
    if task == "binary":
        probability = np.clip(predictions, _MIN_OUTPUT, 1 - _MIN_OUTPUT)
        return np.log(probability) - np.log1p(-probability)
    if task == "multiclass" or loss.kind == "poisson":
        return np.log(np.maximum(predictions, _MIN_OUTPUT))
    return predictions
