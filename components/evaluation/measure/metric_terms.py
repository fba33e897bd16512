"""Computes metrics from sums over rows: the terms of each row, and the metrics as formulas of sums and moments.

Formulas are those of TFMA and Keras. A score of exactly 0 or 1 has a finite log loss, as in Keras: it is clipped to
1e-7 or 1 - 1e-7.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.metrics import TOP, level_of

MOMENTS = ("weight", "label_mean", "score_mean", "label_variance", "score_variance", "covariance")
"""The rows of an array of moments, float64 [MOMENTS, ...]."""
_MEANS, _SQUARES = slice(1, 3), slice(3, 6)


def moments_of(rows: Scored, sets: np.ndarray, count: int) -> np.ndarray:
    """Returns the moments of sets of rows, float64 [MOMENTS, count]; a set without rows has zeros.

    Args:
        rows: Rows of a weight above 0, with one label each.
        sets: Set of each row, int64 [rows].
    """
    total = np.bincount(sets, weights=rows.weights, minlength=count)
    shares = rows.weights / total[sets]

    def mean(values: np.ndarray) -> np.ndarray:
        return np.bincount(sets, weights=shares * values, minlength=count)

    def centered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rough = mean(values)
        exact = rough + mean(values - rough[sets])  # exactly the value if all values are equal
        return exact, values - exact[sets]

    with np.errstate(invalid="ignore"):
        (label_mean, label), (score_mean, score) = centered(rows.labels), centered(rows.scores)
        return np.stack([total, label_mean, score_mean, mean(label**2), mean(score**2), mean(label * score)])


def merged(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the moments of the rows of both, float64 [MOMENTS, ...]."""
    weight = left[0] + right[0]
    part = np.divide(right[0], weight, out=np.zeros_like(weight), where=weight > 0)
    step = right[_MEANS] - left[_MEANS]
    squares = np.stack([step[0] ** 2, step[1] ** 2, step[0] * step[1]])
    squares = left[_SQUARES] * (1 - part) + right[_SQUARES] * part + squares * part * (1 - part)
    return np.concatenate([weight[None], left[_MEANS] + step * part, squares])


def all_and_without_each(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the moments of all groups together, and those without each group.

    Args:
        groups: Moments of each group, float64 [MOMENTS, sets, GROUPS].

    Returns:
        float64 [MOMENTS, sets], and float64 [MOMENTS, sets, GROUPS].
    """
    every = np.moveaxis(groups, -1, 0)
    before, after = [np.zeros_like(every[0])], [np.zeros_like(every[0])]
    for first, last in zip(every, every[::-1], strict=True):
        before.append(merged(before[-1], first))
        after.append(merged(last, after[-1]))
    without = [merged(*pair) for pair in zip(before[:-1], after[-2::-1], strict=True)]
    return before[-1], np.stack(without, axis=-1)


_EPSILON = 1e-7
_THRESHOLD = 0.5
_NEARLY_EQUAL = 1e-3

COUNT = "rows"
"""The number of rows, which weights do not change."""
_OF = f"{COUNT} of "

Sums = Mapping[str, np.ndarray]
"""COUNT, term or moment -> its value for each set of rows, float64 [sets]: the sum of a term, by weight."""


def _classes_summed(values: np.ndarray) -> np.ndarray:
    """Returns the sum over the classes of each row if rows have several labels; otherwise the values."""
    return values.sum(axis=1) if values.ndim == 2 else values


def _among_first(rows: Scored, k: int) -> np.ndarray:
    """Returns whether the label is one of the k likeliest classes; of equally likely ones, the first are."""
    ids = rows.labels[:, None].astype(np.int64)
    of_label = np.take_along_axis(rows.scores, ids, axis=1)
    ahead = (rows.scores > of_label) | ((rows.scores == of_label) & (np.arange(rows.scores.shape[1]) < ids))
    return (ahead.sum(axis=1) < k) + 0.0 * rows.scores.sum(axis=1)


def _binary_loss(rows: Scored) -> np.ndarray:
    scores = np.clip(rows.scores, _EPSILON, 1 - _EPSILON)
    losses = -(rows.labels * np.log(scores) + (1 - rows.labels) * np.log1p(-scores))
    return losses.mean(axis=1) if losses.ndim == 2 else losses


def _class_loss(rows: Scored) -> np.ndarray:
    predicted = np.take_along_axis(rows.scores, rows.labels[:, None].astype(np.int64), axis=1)[:, 0]
    return -np.log(np.clip(predicted / rows.scores.sum(axis=1), _EPSILON, 1 - _EPSILON))


def _symmetric_percentage(rows: Scored) -> np.ndarray:
    """Returns the error as a percentage of the mean size of label and score; 0 if both are 0."""
    size = (np.abs(rows.labels) + np.abs(rows.scores)) / 2
    return 100 * np.abs(rows.labels - rows.scores) / np.where(size == 0, 1.0, size)


def _deviance(rows: Scored) -> np.ndarray:
    """Returns the Poisson deviance 2 * (label * log(label / score) - label + score); NaN where it is undefined.

    Where label and score are nearly equal, the difference of the large terms is computed by its series.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(rows.labels == 0, 0.0, rows.labels * np.log(rows.labels / rows.scores))
        off = (rows.labels - rows.scores) / rows.scores
        series = rows.scores * off**2 * (1 / 2 - off / 6 + off**2 / 12 - off**3 / 20)
        half = np.where(np.abs(off) < _NEARLY_EQUAL, series, logs - rows.labels + rows.scores)
        return np.where((rows.scores > 0) & (rows.labels >= 0), 2 * half, np.nan)


def _squared_log(rows: Scored) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.log1p(rows.scores) - np.log1p(rows.labels)) ** 2


def _pinball(rows: Scored) -> np.ndarray:
    """Returns the mean pinball loss over the levels; NaN if the model predicts no quantiles."""
    if rows.quantiles is None:
        return np.full(len(rows.labels), np.nan)
    errors, levels = rows.labels[:, None] - rows.quantiles, np.array(rows.levels)
    return np.maximum(levels * errors, (levels - 1) * errors).mean(axis=1)


def _outer(rows: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lowest and the highest quantile of each row; NaN if the model predicts fewer than two."""
    if rows.quantiles is None or rows.quantiles.shape[1] < 2:
        return (np.full(len(rows.labels), np.nan),) * 2
    return rows.quantiles[:, 0], rows.quantiles[:, -1]


def _covered(rows: Scored) -> np.ndarray:
    low, high = _outer(rows)
    return np.where(np.isnan(low), np.nan, (low <= rows.labels) & (rows.labels <= high))


def _below(rows: Scored, level: float) -> np.ndarray:
    """Returns whether the label is at most the quantile of a level; NaN if the model does not predict it."""
    of_level = np.isclose(rows.levels, level)
    if rows.quantiles is None or not of_level.any():
        return np.full(len(rows.labels), np.nan)
    return (rows.labels <= rows.quantiles[:, of_level.argmax()]) * 1.0


TERMS: Mapping[str, Callable[[Scored], np.ndarray]] = {
    "weight": lambda rows: np.ones(len(rows.labels)),
    "pairs": lambda rows: _classes_summed(np.ones_like(rows.labels)),
    "score": lambda rows: _classes_summed(rows.scores),
    "label": lambda rows: _classes_summed(rows.labels),
    "said_positive": lambda rows: _classes_summed(rows.predicted),
    "true_positive": lambda rows: _classes_summed(rows.predicted * rows.labels),
    "mentioned": lambda rows: _classes_summed(2.0 * np.maximum(rows.predicted, rows.labels)),
    "agreed": lambda rows: _classes_summed(1.0 - np.abs(rows.predicted - (rows.labels > _THRESHOLD))),
    "binary_loss": _binary_loss,
    "hit": lambda rows: (rows.scores.argmax(axis=1) == rows.labels) + 0.0 * rows.scores.sum(axis=1),
    **{f"in_{k}": partial(_among_first, k=k) for k in TOP},
    "class_loss": _class_loss,
    "squared_error": lambda rows: (rows.scores - rows.labels) ** 2,
    "absolute_error": lambda rows: np.abs(rows.scores - rows.labels),
    "percentage_error": lambda rows: (
        100 * np.abs((rows.labels - rows.scores) / np.where(rows.labels, rows.labels, np.inf))
    ),
    "symmetric_percentage": _symmetric_percentage,
    "error": lambda rows: rows.scores - rows.labels,
    "absolute_label": lambda rows: np.abs(rows.labels),
    "label_not_zero": lambda rows: (rows.labels != 0) * 1.0,
    "deviance": _deviance,
    "squared_log_error": _squared_log,
    "pinball": _pinball,
    "covered": _covered,
    "width": lambda rows: np.subtract(*_outer(rows)[::-1]),
}
"""Term -> function that returns its unweighted value in each row, float64 [rows]."""


def count_of(term: str) -> str:
    """Returns the name of the unweighted sum of a term."""
    return f"{_OF}{term}"


def term_of_rows(term: str, rows: Scored) -> np.ndarray:
    """Returns what each row adds to a sum, float64 [rows]. `coverage[LEVEL]` is a term, too."""
    if term == COUNT:
        return np.ones(len(rows.labels))
    if term.startswith(_OF):
        return TERMS[term.removeprefix(_OF)](rows)
    level = level_of(term)
    return rows.weights * (TERMS[term](rows) if level is None else _below(rows, level))


@dataclass(frozen=True)
class Formula:
    """A metric as a function of sums.

    Attributes:
        terms: The needed terms.
        value: Sums -> float64 [sets], NaN where undefined.
        trials: Term of the rows that the metric is a share of; "" if it is no share.
        rests_on: Term of the rows without which the metric tells little; "" for those of `trials`.
        tail: Term whose large values may decide the metric; "" if it has limits.
    """

    terms: tuple[str, ...]
    value: Callable[[Sums], np.ndarray]
    trials: str = ""
    rests_on: str = ""
    tail: str = ""


def _share(above: str, below: str) -> Formula:
    return replace(_ratio(above, below), trials=below)


def _ratio(above: str, below: str) -> Formula:
    return Formula((above, below), lambda sums: divided(sums[above], sums[below]))


def _mean(above: str, below: str) -> Formula:
    return replace(_ratio(above, below), tail=above)


def _root(above: str, below: str) -> Formula:
    return Formula((above, below), lambda sums: np.sqrt(divided(sums[above], sums[below])), tail=above)


def divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Returns above / below, NaN where below is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below != 0, above / below, np.nan)


def _correlation(sums: Sums) -> np.ndarray:
    covariance = sums["covariance"]
    product = divided(covariance, sums["score_variance"]) * divided(covariance, sums["label_variance"])
    return np.minimum(product, 1.0)


FORMULAS: Mapping[str, Formula] = {
    "example_count": Formula((COUNT,), lambda sums: sums[COUNT]),
    "accuracy": _share("agreed", "pairs"),
    "precision": _share("true_positive", "said_positive"),
    "recall": _share("true_positive", "label"),
    "f1": Formula(
        ("true_positive", "said_positive", "label"),
        lambda sums: divided(2 * sums["true_positive"], sums["said_positive"] + sums["label"]),
        trials="mentioned",
        rests_on="label",
    ),
    "log_loss": _ratio("binary_loss", "weight"),
    "calibration": replace(_ratio("score", "label"), rests_on="label"),
    "multiclass_accuracy": _share("hit", "weight"),
    **{f"top_{k}_accuracy": _share(f"in_{k}", "weight") for k in TOP},
    "multiclass_log_loss": _ratio("class_loss", "weight"),
    "mse": _mean("squared_error", "weight"),
    "rmse": _root("squared_error", "weight"),
    "mae": _mean("absolute_error", "weight"),
    "mape": replace(_mean("percentage_error", "label_not_zero"), rests_on="label_not_zero"),
    "smape": _ratio("symmetric_percentage", "weight"),
    "wape": Formula(
        ("absolute_error", "absolute_label"),
        lambda sums: 100 * divided(sums["absolute_error"], sums["absolute_label"]),
        tail="absolute_error",
    ),
    "bias": _mean("error", "weight"),
    "r2": Formula(("label_variance", "score_variance", "covariance"), _correlation, tail="squared_error"),
    "poisson_deviance": _mean("deviance", "weight"),
    "rmsle": _root("squared_log_error", "weight"),
    "pinball": _mean("pinball", "weight"),
    "interval_coverage": _share("covered", "weight"),
    "interval_width": _mean("width", "weight"),
    "explained": Formula(  # 1 - squared error / that of the mean label of the same rows; the best constant has 0
        ("weight", "squared_error", "label_variance"),
        lambda sums: 1 - divided(divided(sums["squared_error"], sums["weight"]), sums["label_variance"]),
        tail="squared_error",
    ),
}
"""Metrics that are functions of sums, without those of one quantile. Others need sums per class (`class_counts.py`) or
histograms (`score_buckets.py`)."""


def formula_of(name: str) -> Formula | None:
    """Returns the formula of a metric; None if it is no function of sums."""
    return FORMULAS.get(name) if level_of(name) is None else _share(name, "weight")
