"""The metrics of the YAML: their tasks, their direction, and their TFMA classes."""

from collections.abc import Mapping
from dataclasses import dataclass

from fullpass.preprocessing.features.label import Task


@dataclass(frozen=True)
class Metric:
    """The properties of a metric.

    Attributes:
        tasks: Tasks that have the metric.
        higher_is_better: None if the best value is in between. Such a metric can have bounds, and cannot be compared as
            better or worse.
        tfma: Name of the equal class of TFMA or Keras; None if neither has one.
        needs: Rows without which the metric is undefined for any model; None if it is defined on all rows.
    """

    tasks: tuple[Task, ...]
    higher_is_better: bool | None
    tfma: str | None
    needs: str | None = None


METRICS: Mapping[str, Metric] = {
    "auc": Metric(("binary", "multilabel"), True, "AUC", needs="rows of both classes"),
    "auc_pr": Metric(("binary", "multilabel"), True, "AUCPrecisionRecall", needs="rows of both classes"),
    "accuracy": Metric(("binary",), True, "BinaryAccuracy"),
    "precision": Metric(("binary", "multilabel"), True, "Precision"),
    "recall": Metric(("binary", "multilabel"), True, "Recall", needs="positive rows"),
    "log_loss": Metric(("binary", "multilabel"), False, "BinaryCrossEntropy"),
    "calibration": Metric(("binary",), None, "Calibration", needs="positive rows"),
    "multiclass_accuracy": Metric(("multiclass",), True, "SparseCategoricalAccuracy"),
    "multiclass_log_loss": Metric(("multiclass",), False, "SparseCategoricalCrossentropy"),
    "mse": Metric(("regression",), False, "MeanSquaredError"),
    "rmse": Metric(("regression",), False, "RootMeanSquaredError"),
    "mae": Metric(("regression",), False, "MeanAbsoluteError"),
    "mape": Metric(("regression",), False, "MeanAbsolutePercentageError", needs="labels other than 0"),
    "r2": Metric(("regression",), True, "SquaredPearsonCorrelation", needs="labels that differ"),
    "explained": Metric(("regression",), True, None, needs="labels that differ"),
    "poisson_deviance": Metric(("regression",), False, None),
    "rmsle": Metric(("regression",), False, None),
    "pinball": Metric(("regression",), False, None),
    "interval_coverage": Metric(("regression",), None, None),
    "interval_width": Metric(("regression",), False, None),
}

OF_QUANTILES = ("pinball", "interval_coverage", "interval_width")
"""Metrics of the quantiles predicted with `training.loss: {kind: quantile}`, and defaults of such a pipeline."""

DEFAULT_METRICS: Mapping[Task, tuple[str, ...]] = {
    "binary": ("auc", "auc_pr", "accuracy", "log_loss"),
    "multiclass": ("multiclass_accuracy", "multiclass_log_loss"),
    "multilabel": ("auc", "log_loss"),
    "regression": ("rmse", "mae"),
}
