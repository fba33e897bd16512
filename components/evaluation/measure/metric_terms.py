"""The terms of which metrics are made: what each row adds to a sum."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from fullpass.components.evaluation.measure.formulas import COUNT
from fullpass.components.evaluation.measure.metrics import TOP, level_of
from fullpass.components.evaluation.measure.scored_rows import Scored

_EPSILON = 1e-7
"""A probability of 0 or 1 is moved by as much, so that its log loss is finite: the number of Keras."""
_THRESHOLD = 0.5
"""A label of several above it is a 1; weighted or smoothed labels are numbers in between."""
_NEARLY_EQUAL = 1e-3
"""Share of the score by which a label may be off for the series of the deviance. There, the first term that the series
leaves out is below 1e-13 of the deviance, and the difference of the logarithms has lost six digits."""

_OF = f"{COUNT} of "


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
