"""The parameters of LightGBM. No TensorFlow here: `fullpass init` grows boosters with them, too."""

from collections.abc import Mapping, Sequence
from typing import Any

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import TrainingConfig, Trees
from fullpass.trainer.loss_config import Huber, levels_of

CATEGORIES: Sequence[Mapping[str, float]] = (
    {"cat_smooth": 5.0, "cat_l2": 1.0, "min_data_per_group": 20},
    {"cat_smooth": 50.0, "cat_l2": 10.0, "min_data_per_group": 20},
    {"cat_smooth": 200.0, "cat_l2": 30.0, "min_data_per_group": 20},
)
"""How much categories with few rows are drawn to the mean: little, which is usually best, to much. No value suits all
data (docs/decisions/trees.md), LightGBM's defaults neither."""


def booster_parameters(
    model: Trees, training: TrainingConfig, task: Task, classes: int, threads: int
) -> list[dict[str, Any]]:
    """Returns the parameters of each booster; `loss: quantile` has one per level, all else one."""
    common = {
        "num_leaves": model.leaves,
        "learning_rate": model.learning_rate,
        "min_data_in_leaf": model.min_rows,
        "bagging_fraction": model.row_share,
        "bagging_freq": 1,
        "feature_fraction": model.feature_share,
        "lambda_l2": model.l2,
        **CATEGORIES[0],
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
