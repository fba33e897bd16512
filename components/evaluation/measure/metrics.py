"""The table of the metrics of the YAML: their tasks, their direction, and how each is computed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fullpass.components.evaluation.measure.class_sums import ClassSums, OfClasses, macro_of, weighted_of
from fullpass.components.evaluation.measure.formulas import (
    COUNT,
    EXPLAINED,
    F1,
    R2,
    WAPE,
    Formula,
    mean_of_term,
    ratio_of,
    root_of_mean,
    share_of,
)
from fullpass.components.evaluation.measure.score_buckets import Area
from fullpass.preprocessing.features.label import Task
from fullpass.preprocessing.token_spelling import as_token


@dataclass(frozen=True)
class Metric:
    """The properties of a metric.

    Attributes:
        higher_is_better: None if the best value is in between. Such a metric can have bounds, and cannot be compared as
            better or worse.
        computed: How it follows from sums over rows, from the weights per class, or from a histogram of the scores.
        needs: Rows without which the metric is undefined for any model; None if it is defined on all rows. With or
            without bounds, rows that lack them bless no model: they cannot show whether it is better than chance.
        tells_all: Whether the best value means that nearly every row is predicted right, unlike a recall of 1.
        guessed: Whether a model that always says the largest class comes near the best value if the class is large.
        of_quantiles: Whether it is of quantiles, and depends on their levels.
    """

    tasks: tuple[Task, ...]
    higher_is_better: bool | None
    computed: Formula | OfClasses | Area
    needs: str | None = None
    tells_all: bool = False
    guessed: bool = False
    of_quantiles: bool = False


TOP = (2, 3, 5, 10)
"""Numbers of likeliest classes among which the label may be, of the metrics `top_K_accuracy`."""
_TABLE: Mapping[str, Metric] = {
    "auc": Metric(
        ("binary", "multilabel"),
        True,
        Area(lambda areas: areas.roc, of_pairs=True),
        needs="rows of both classes",
        tells_all=True,
    ),
    "auc_pr": Metric(
        ("binary", "multilabel"),
        True,
        Area(lambda areas: areas.precision_recall, of_pairs=False),
        needs="rows of both classes",
        tells_all=True,
    ),
    "accuracy": Metric(("binary",), True, share_of("agreed", "pairs"), tells_all=True, guessed=True),
    "precision": Metric(("binary", "multilabel"), True, share_of("true_positive", "said_positive")),
    "recall": Metric(("binary", "multilabel"), True, share_of("true_positive", "label"), needs="positive rows"),
    "f1": Metric(("binary", "multilabel"), True, F1),
    "balanced_accuracy": Metric(
        ("binary", "multiclass"), True, OfClasses("recall", ClassSums.balanced_accuracy), tells_all=True
    ),
    "mcc": Metric(
        ("binary", "multiclass"),
        True,
        OfClasses("recall", ClassSums.correlation, "spread", lowest=-1.0),
        tells_all=True,
    ),
    "log_loss": Metric(("binary", "multilabel"), False, ratio_of("binary_loss", "weight")),
    "calibration": Metric(
        ("binary",), None, replace(ratio_of("score", "label"), rests_on="label"), needs="positive rows"
    ),
    "multiclass_accuracy": Metric(("multiclass",), True, share_of("hit", "weight"), tells_all=True, guessed=True),
    **{f"top_{k}_accuracy": Metric(("multiclass",), True, share_of(f"in_{k}", "weight")) for k in TOP},
    "macro_precision": Metric(("multiclass", "multilabel"), True, macro_of("precision")),
    "macro_recall": Metric(("multiclass", "multilabel"), True, macro_of("recall")),
    "macro_f1": Metric(("multiclass", "multilabel"), True, macro_of("f1")),
    "weighted_precision": Metric(("multiclass", "multilabel"), True, weighted_of("precision")),
    "weighted_recall": Metric(("multiclass", "multilabel"), True, weighted_of("recall")),
    "weighted_f1": Metric(("multiclass", "multilabel"), True, weighted_of("f1")),
    "macro_auc": Metric(("multiclass",), True, OfClasses("auc"), needs="rows of two classes", tells_all=True),
    "weighted_auc": Metric(
        ("multiclass",), True, OfClasses("auc", weights="shares"), needs="rows of two classes", tells_all=True
    ),
    "multiclass_log_loss": Metric(("multiclass",), False, ratio_of("class_loss", "weight")),
    "mse": Metric(("regression",), False, mean_of_term("squared_error", "weight")),
    "rmse": Metric(("regression",), False, root_of_mean("squared_error", "weight")),
    "mae": Metric(("regression",), False, mean_of_term("absolute_error", "weight")),
    "mape": Metric(
        ("regression",),
        False,
        replace(mean_of_term("percentage_error", "label_not_zero"), rests_on="label_not_zero"),
        needs="labels other than 0",
    ),
    "smape": Metric(("regression",), False, ratio_of("symmetric_percentage", "weight")),
    "wape": Metric(("regression",), False, WAPE, needs="labels other than 0"),
    "bias": Metric(("regression",), None, mean_of_term("error", "weight")),
    "r2": Metric(("regression",), True, R2, needs="labels that differ", tells_all=True),
    "explained": Metric(("regression",), True, EXPLAINED, needs="labels that differ", tells_all=True),
    "poisson_deviance": Metric(("regression",), False, mean_of_term("deviance", "weight")),
    "rmsle": Metric(("regression",), False, root_of_mean("squared_log_error", "weight")),
    "pinball": Metric(("regression",), False, mean_of_term("pinball", "weight"), of_quantiles=True),
    "interval_coverage": Metric(("regression",), None, share_of("covered", "weight"), of_quantiles=True),
    "interval_width": Metric(("regression",), False, mean_of_term("width", "weight"), of_quantiles=True),
    "example_count": Metric(
        ("binary", "multiclass", "multilabel", "regression"), None, Formula((COUNT,), lambda sums: sums[COUNT])
    ),
    "precision[CLASS]": Metric(("multiclass", "multilabel"), True, OfClasses("precision")),
    "recall[CLASS]": Metric(("multiclass", "multilabel"), True, OfClasses("recall"), needs="rows of the class"),
    "f1[CLASS]": Metric(("multiclass", "multilabel"), True, OfClasses("f1"), needs="rows of the class"),
    "auc[CLASS]": Metric(("multiclass",), True, OfClasses("auc"), needs="rows of the class and of others"),
    "coverage[LEVEL]": Metric(("regression",), None, share_of("coverage[LEVEL]", "weight")),
}
"""All metrics. What stands in brackets is given in the YAML: a class, or the level of a quantile."""

METRICS: Mapping[str, Metric] = {name: metric for name, metric in _TABLE.items() if "[" not in name}
OF_A_CLASS: Mapping[str, Metric] = {
    name.removesuffix("[CLASS]"): metric for name, metric in _TABLE.items() if name.endswith("[CLASS]")
}
"""Metrics of one class against all others, written as `recall[CLASS]`."""
OF_QUANTILES = tuple(name for name, metric in METRICS.items() if metric.of_quantiles)
"""Metrics of the quantiles predicted with `training.loss: {kind: quantile}`, and defaults of such a pipeline. They
depend on the levels: of models with other levels they measure different things."""

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
        return replace(_TABLE["coverage[LEVEL]"], computed=share_of(name, "weight"))
    of_class = class_of(name)
    return OF_A_CLASS[of_class[0]] if of_class else METRICS.get(name)


def metric_of(name: str) -> Metric:
    """Returns the properties of a metric that the YAML was checked for."""
    metric = metric_named(name)
    assert metric is not None  # noqa: S101
    return metric


DEFAULT_METRICS: Mapping[Task, tuple[str, ...]] = {
    "binary": ("auc", "auc_pr", "accuracy", "log_loss"),
    "multiclass": ("multiclass_accuracy", "balanced_accuracy", "macro_f1", "mcc", "macro_auc", "multiclass_log_loss"),
    "multilabel": ("auc", "log_loss"),
    "regression": ("rmse", "mae"),
}
