"""The metrics of the YAML: their tasks, and their direction."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fullpass.preprocessing.features.label import Task
from fullpass.preprocessing.token_spelling import as_token


@dataclass(frozen=True)
class Metric:
    """The properties of a metric.

    Attributes:
        higher_is_better: None if the best value is in between. Such a metric can have bounds, and cannot be compared as
            better or worse.
        needs: Rows without which the metric is undefined for any model; None if it is defined on all rows. With or
            without bounds, rows that lack them bless no model: they cannot show whether it is better than chance.
        tells_all: Whether the best value means that nearly every row is predicted right, unlike a recall of 1.
    """

    tasks: tuple[Task, ...]
    higher_is_better: bool | None
    needs: str | None = None
    tells_all: bool = False


TOP = (2, 3, 5, 10)
"""Numbers of likeliest classes among which the label may be, of the metrics `top_K_accuracy`."""
METRICS: Mapping[str, Metric] = {
    "auc": Metric(("binary", "multilabel"), True, needs="rows of both classes", tells_all=True),
    "auc_pr": Metric(("binary", "multilabel"), True, needs="rows of both classes", tells_all=True),
    "accuracy": Metric(("binary",), True, tells_all=True),
    "precision": Metric(("binary", "multilabel"), True),
    "recall": Metric(("binary", "multilabel"), True, needs="positive rows"),
    "f1": Metric(("binary", "multilabel"), True),
    "balanced_accuracy": Metric(("binary", "multiclass"), True, tells_all=True),
    "mcc": Metric(("binary", "multiclass"), True, tells_all=True),
    "log_loss": Metric(("binary", "multilabel"), False),
    "calibration": Metric(("binary",), None, needs="positive rows"),
    "multiclass_accuracy": Metric(("multiclass",), True, tells_all=True),
    **{f"top_{k}_accuracy": Metric(("multiclass",), True) for k in TOP},
    "macro_precision": Metric(("multiclass", "multilabel"), True),
    "macro_recall": Metric(("multiclass", "multilabel"), True),
    "macro_f1": Metric(("multiclass", "multilabel"), True),
    "weighted_precision": Metric(("multiclass", "multilabel"), True),
    "weighted_recall": Metric(("multiclass", "multilabel"), True),
    "weighted_f1": Metric(("multiclass", "multilabel"), True),
    "macro_auc": Metric(("multiclass",), True, needs="rows of two classes", tells_all=True),
    "weighted_auc": Metric(("multiclass",), True, needs="rows of two classes", tells_all=True),
    "multiclass_log_loss": Metric(("multiclass",), False),
    "mse": Metric(("regression",), False),
    "rmse": Metric(("regression",), False),
    "mae": Metric(("regression",), False),
    "mape": Metric(("regression",), False, needs="labels other than 0"),
    "smape": Metric(("regression",), False),
    "wape": Metric(("regression",), False, needs="labels other than 0"),
    "bias": Metric(("regression",), None),
    "r2": Metric(("regression",), True, needs="labels that differ", tells_all=True),
    "explained": Metric(("regression",), True, needs="labels that differ", tells_all=True),
    "poisson_deviance": Metric(("regression",), False),
    "rmsle": Metric(("regression",), False),
    "pinball": Metric(("regression",), False),
    "interval_coverage": Metric(("regression",), None),
    "interval_width": Metric(("regression",), False),
    "example_count": Metric(("binary", "multiclass", "multilabel", "regression"), None),
}

OF_A_CLASS: Mapping[str, Metric] = {
    "precision": Metric(("multiclass", "multilabel"), True),
    "recall": Metric(("multiclass", "multilabel"), True, needs="rows of the class"),
    "f1": Metric(("multiclass", "multilabel"), True, needs="rows of the class"),
    "auc": Metric(("multiclass",), True, needs="rows of the class and of others"),
}
"""Metrics of one class against all others, written as `recall[CLASS]`."""

_OF_A_CLASS = re.compile(rf"({'|'.join(OF_A_CLASS)})\[(.+)\]", re.DOTALL)


def class_of(name: str) -> tuple[str, str] | None:
    """Returns metric and class of a metric of one class, the class as its token; None for any other name.

    Example:
        >>> class_of("recall[large cat]")
        ('recall', 'large cat')
        >>> class_of("recall[3.0]")
        ('recall', '3')
    """
    found = _OF_A_CLASS.fullmatch(name)
    return (found[1], as_token(found[2])) if found else None


_COVERAGE = re.compile(r"coverage\[(0\.\d+)\]")

METRIC_PATTERNS: Mapping[str, str] = {
    _OF_A_CLASS.pattern: "the metric of one class, such as recall[CLASS]",
    _COVERAGE.pattern: "the coverage of one quantile, such as coverage[0.9]",
}
"""Regular expression of metrics that are named with an argument -> description."""


def level_of(name: str) -> float | None:
    """Returns the level of a metric of one quantile, `coverage[LEVEL]`; None for any other name.

    Example:
        >>> level_of("coverage[0.9]")
        0.9
    """
    found = _COVERAGE.fullmatch(name)
    return float(found[1]) if found else None


def metric_named(name: str) -> Metric | None:
    """Returns the properties of a metric, or None if there is no such metric."""
    if level_of(name) is not None:
        return Metric(("regression",), None)
    of_class = class_of(name)
    return OF_A_CLASS[of_class[0]] if of_class else METRICS.get(name)


def metric_of(name: str) -> Metric:
    """Returns the properties of a metric that the YAML was checked for."""
    metric = metric_named(name)
    assert metric is not None  # noqa: S101
    return metric


OF_QUANTILES = ("pinball", "interval_coverage", "interval_width")
"""Metrics of the quantiles predicted with `training.loss: {kind: quantile}`, and defaults of such a pipeline. They
depend on the levels: of models with other levels they measure different things."""

DEFAULT_METRICS: Mapping[Task, tuple[str, ...]] = {
    "binary": ("auc", "auc_pr", "accuracy", "log_loss"),
    "multiclass": ("multiclass_accuracy", "balanced_accuracy", "macro_f1", "mcc", "macro_auc", "multiclass_log_loss"),
    "multilabel": ("auc", "log_loss"),
    "regression": ("rmse", "mae"),
}
