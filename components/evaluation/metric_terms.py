"""Computes metrics from sums over rows: the terms of each row, and the metrics as formulas of the summed terms.

Formulas are those of TFMA and Keras. A score of exactly 0 or 1 has a finite log loss, as in Keras: it is clipped to
1e-7 or 1 - 1e-7.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fullpass.components.evaluation.scored_rows import Scored

_EPSILON = 1e-7
_THRESHOLD = 0.5

Sums = Mapping[str, np.ndarray]
"""Term -> sum of the term over each set of rows, float64 [sets]."""


def _classes_summed(values: np.ndarray) -> np.ndarray:
    """Returns the sum over the classes of each row if rows have several labels; otherwise the values."""
    return values.sum(axis=1) if values.ndim == 2 else values


def _binary_loss(rows: Scored) -> np.ndarray:
    scores = np.clip(rows.scores, _EPSILON, 1 - _EPSILON)
    losses = -(rows.labels * np.log(scores) + (1 - rows.labels) * np.log1p(-scores))
    return losses.mean(axis=1) if losses.ndim == 2 else losses


def _class_loss(rows: Scored) -> np.ndarray:
    predicted = np.take_along_axis(rows.scores, rows.labels[:, None].astype(np.int64), axis=1)[:, 0]
    return -np.log(np.clip(predicted / rows.scores.sum(axis=1), _EPSILON, 1 - _EPSILON))


def _percentage(rows: Scored) -> np.ndarray:
    return 100 * np.abs((rows.labels - rows.scores) / np.where(rows.labels == 0, np.inf, rows.labels))


def _deviance(rows: Scored) -> np.ndarray:
    """Returns the Poisson deviance 2 * (label * log(label / score) - label + score); NaN where it is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(rows.labels == 0, 0.0, rows.labels * np.log(rows.labels / rows.scores))
        return np.where((rows.scores > 0) & (rows.labels >= 0), 2 * (logs - rows.labels + rows.scores), np.nan)


def _squared_log(rows: Scored) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.log1p(rows.scores) - np.log1p(rows.labels)) ** 2


def _pinball(rows: Scored) -> np.ndarray:
    """Returns the mean pinball loss over the levels; NaN if the model predicts no quantiles."""
    if rows.quantiles is None or rows.levels is None:
        return np.full(len(rows.labels), np.nan)
    errors = rows.labels[:, None] - rows.quantiles
    return np.maximum(rows.levels * errors, (rows.levels - 1) * errors).mean(axis=1)


def _outer(rows: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lowest and the highest quantile of each row; NaN if the model predicts fewer than two."""
    if rows.quantiles is None or rows.quantiles.shape[1] < 2:
        return (np.full(len(rows.labels), np.nan),) * 2
    return rows.quantiles[:, 0], rows.quantiles[:, -1]


def _covered(rows: Scored) -> np.ndarray:
    low, high = _outer(rows)
    return np.where(np.isnan(low), np.nan, (low <= rows.labels) & (rows.labels <= high))


def _width(rows: Scored) -> np.ndarray:
    low, high = _outer(rows)
    return high - low


TERMS: Mapping[str, Callable[[Scored], np.ndarray]] = {
    "rows": lambda rows: np.ones(len(rows.labels)),
    "pairs": lambda rows: _classes_summed(np.ones_like(rows.labels)),
    "score": lambda rows: _classes_summed(rows.scores),
    "label": lambda rows: _classes_summed(rows.labels),
    "said_positive": lambda rows: _classes_summed((rows.scores > _THRESHOLD) * 1.0),
    "true_positive": lambda rows: _classes_summed((rows.scores > _THRESHOLD) * rows.labels),
    "agreed": lambda rows: _classes_summed(((rows.scores > _THRESHOLD) == (rows.labels > _THRESHOLD)) * 1.0),
    "binary_loss": _binary_loss,
    "hit": lambda rows: (rows.scores.argmax(axis=1) == rows.labels) * 1.0,
    "class_loss": _class_loss,
    "squared_error": lambda rows: (rows.scores - rows.labels) ** 2,
    "absolute_error": lambda rows: np.abs(rows.scores - rows.labels),
    "percentage_error": _percentage,
    "label_not_zero": lambda rows: (rows.labels != 0) * 1.0,
    "squared_score": lambda rows: rows.scores**2,
    "squared_label": lambda rows: rows.labels**2,
    "deviance": _deviance,
    "squared_log_error": _squared_log,
    "product": lambda rows: rows.scores * rows.labels,
    "pinball": _pinball,
    "covered": _covered,
    "width": _width,
}
"""Term -> function that returns its unweighted value in each row, float64 [rows]."""


@dataclass(frozen=True)
class Formula:
    """A metric as a function of sums. terms: the needed terms. value: sums -> float64 [sets], NaN where undefined."""

    terms: tuple[str, ...]
    value: Callable[[Sums], np.ndarray]


def _ratio(above: str, below: str) -> Formula:
    return Formula((above, below), lambda sums: divided(sums[above], sums[below]))


def _root(above: str, below: str) -> Formula:
    return Formula((above, below), lambda sums: np.sqrt(divided(sums[above], sums[below])))


def divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Returns above / below, NaN where below is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below != 0, above / below, np.nan)


def _correlation(sums: Sums) -> np.ndarray:
    rows = sums["rows"]

    def moment(product: str, left: str, right: str) -> np.ndarray:
        return sums[product] - divided(sums[left] * sums[right], rows)

    spread = moment("squared_score", "score", "score") * moment("squared_label", "label", "label")
    return np.where(spread > 0, divided(moment("product", "score", "label") ** 2, spread), np.nan)


def _explained(sums: Sums) -> np.ndarray:
    """Returns 1 - squared error / squared error of the mean label of the same rows; the best constant has 0."""
    of_mean = sums["squared_label"] - divided(sums["label"] ** 2, sums["rows"])
    return np.where(of_mean > 0, 1 - divided(sums["squared_error"], of_mean), np.nan)


FORMULAS: Mapping[str, Formula] = {
    "example_count": Formula(("rows",), lambda sums: sums["rows"]),
    "accuracy": _ratio("agreed", "pairs"),
    "precision": _ratio("true_positive", "said_positive"),
    "recall": _ratio("true_positive", "label"),
    "log_loss": _ratio("binary_loss", "rows"),
    "calibration": _ratio("score", "label"),
    "multiclass_accuracy": _ratio("hit", "rows"),
    "multiclass_log_loss": _ratio("class_loss", "rows"),
    "mse": _ratio("squared_error", "rows"),
    "rmse": _root("squared_error", "rows"),
    "mae": _ratio("absolute_error", "rows"),
    "mape": _ratio("percentage_error", "label_not_zero"),
    "r2": Formula(("rows", "score", "label", "squared_score", "squared_label", "product"), _correlation),
    "poisson_deviance": _ratio("deviance", "rows"),
    "rmsle": _root("squared_log_error", "rows"),
    "pinball": _ratio("pinball", "rows"),
    "interval_coverage": _ratio("covered", "rows"),
    "interval_width": _ratio("width", "rows"),
    "explained": Formula(("rows", "label", "squared_label", "squared_error"), _explained),
}
"""Metrics that are functions of sums. The areas under curves need histograms (`score_buckets.py`)."""
