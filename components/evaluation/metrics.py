"""The metrics of the YAML: their tasks, and their direction."""

from collections.abc import Mapping
from dataclasses import dataclass

from fullpass.preprocessing.features.label import Task


@dataclass(frozen=True)
class Metric:
    """The properties of a metric.

    Attributes:
        higher_is_better: None if the best value is in between. Such a metric can have bounds, and cannot be compared as
            better or worse.
        needs: Rows without which the metric is undefined for any model; None if it is defined on all rows.
    """

    tasks: tuple[Task, ...]
    higher_is_better: bool | None
    needs: str | None = None


METRICS: Mapping[str, Metric] = {
    "auc": Metric(("binary", "multilabel"), True, needs="rows of both classes"),
    "auc_pr": Metric(("binary", "multilabel"), True, needs="rows of both classes"),
    "accuracy": Metric(("binary",), True),
    "precision": Metric(("binary", "multilabel"), True),
    "recall": Metric(("binary", "multilabel"), True, needs="positive rows"),
    "log_loss": Metric(("binary", "multilabel"), False),
    "calibration": Metric(("binary",), None, needs="positive rows"),
    "multiclass_accuracy": Metric(("multiclass",), True),
    "multiclass_log_loss": Metric(("multiclass",), False),
    "mse": Metric(("regression",), False),
    "rmse": Metric(("regression",), False),
    "mae": Metric(("regression",), False),
    "mape": Metric(("regression",), False, needs="labels other than 0"),
    "r2": Metric(("regression",), True, needs="labels that differ"),
    "explained": Metric(("regression",), True, needs="labels that differ"),
    "poisson_deviance": Metric(("regression",), False),
    "rmsle": Metric(("regression",), False),
    "pinball": Metric(("regression",), False),
    "interval_coverage": Metric(("regression",), None),
    "interval_width": Metric(("regression",), False),
}

OF_QUANTILES = ("pinball", "interval_coverage", "interval_width")
"""Metrics of the quantiles predicted with `training.loss: {kind: quantile}`, and defaults of such a pipeline."""

DEFAULT_METRICS: Mapping[Task, tuple[str, ...]] = {
    "binary": ("auc", "auc_pr", "accuracy", "log_loss"),
    "multiclass": ("multiclass_accuracy", "multiclass_log_loss"),
    "multilabel": ("auc", "log_loss"),
    "regression": ("rmse", "mae"),
}
