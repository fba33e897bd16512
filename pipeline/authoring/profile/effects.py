"""Measures the shape of an effect on the label: a jump per value, or a trend over time, against a simpler model."""

from collections.abc import Sequence

import numpy as np

from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile
from fullpass.pipeline.authoring.profile.date_formats import Dates, repeating_groups
from fullpass.pipeline.authoring.profile.strength import (
    ROWS_PER_GROUP,
    Target,
    by_quantile,
    cross_fitted,
    group_means,
    most_groups,
    two_halves,
)
from fullpass.pipeline.authoring.rules import rule

_LEAST_GAIN = 0.005
"""Share of the variance that another encoding must explain beyond the simpler one to be worth it."""
_BEYOND_CHANCE = 3.0
"""Standard errors of a gain: of hundreds of columns, hardly one passes by chance."""
_CLASSES_COMPARED = 5
"""Commonest classes that are predicted one by one: they hold most rows."""
_MOST_BENDS = 6
"""Degree of the polynomial that stands for a smooth effect."""
_USUAL = (0.005, 0.995)
"""Quantiles of a label within which its numbers count as usual."""


def _within_usual(y: np.ndarray) -> np.ndarray:
    """Returns numbers clipped to their 0.005 and 0.995 quantiles, so that a few far values do not decide."""
    return np.clip(y, *np.quantile(y, _USUAL))


@rule("codes by measurement", otherwise=False)
def is_better_by_value(column: ColumnProfile, target: Target) -> bool:
    """Returns whether a number with few distinct values predicts the label better by a mean per value than by a curve.

    The effect of a code (a department, an hour) jumps between values; the effect of an amount rises or falls smoothly.
    Both are tested on rows that they were not fitted on. The gain must be beyond chance, and at least 0.5 % of the
    variance.
    """
    known, x = _known_numbers(column, target)
    if known.sum() < ROWS_PER_GROUP * max(2, column.values.distinct):
        return False
    outcomes = _outcomes_of(target, known)
    return any(_is_gain(*_errors_by_curve_and_value(x, y), _LEAST_GAIN * y.var()) for y in outcomes)


@rule("trend of the label", otherwise=False)
def has_trend(dates: Dates, column: ColumnProfile, target: Target) -> bool:
    """Returns whether the label changes over time beyond what month, day of the week and hour explain.

    Means per part are compared with means per part and per period of equally many rows.
    """
    moments = column.values.per_row(dates.moments)
    known = ~np.isnan(moments) & ~np.isnan(target.y)
    if known.sum() < 2 * ROWS_PER_GROUP:
        return False
    parts = repeating_groups(moments[known])
    periods = by_quantile(moments[known], most_groups(target))
    return any(
        _is_gain(_errors_by_groups(parts, y), _errors_by_groups([*parts, periods], y), _LEAST_GAIN * y.var())
        for y in _outcomes_of(target, known)
    )


def _errors_by_groups(groupings: Sequence[np.ndarray], y: np.ndarray) -> np.ndarray:
    """Returns the errors of means per group, fitted one grouping after the other, on the half not fitted on.

    Args:
        groupings: int64 [rows] each.
        y: float64 [rows].
    """
    errors = np.empty(len(y))
    for fitted, others in two_halves(len(y)):
        rest = y - y[fitted].mean()
        for groups in groupings:
            rest -= group_means(groups[fitted], rest[fitted], groups.max() + 1)[groups]
        errors[others] = rest[others]
    return errors


def _outcomes_of(target: Target, known: np.ndarray) -> list[np.ndarray]:
    """Returns the labels of the known rows as numbers to predict: one for each of the five commonest of many classes.

    Returns:
        float64 [known rows] each; empty for a multilabel.
    """
    y = target.y[known]
    if target.task == "multilabel" or not len(y):
        return []
    if target.task == "multiclass":
        commonest = np.bincount(y.astype(int)).argsort()[::-1][:_CLASSES_COMPARED]
        return [(y == number).astype(float) for number in commonest]
    return [_within_usual(y) if target.task == "regression" else y]


def _known_numbers(column: ColumnProfile, target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Returns which rows have a number and a label, bool [rows], and their numbers: no rows if they are all equal."""
    x = column.values.row_numbers
    known = ~np.isnan(x) & ~np.isnan(target.y)
    if not known.any() or np.ptp(x[known]) == 0:
        known = np.zeros(len(x), dtype=bool)
    return known, x[known]


def _is_gain(before: np.ndarray, after: np.ndarray, least: float) -> bool:
    """Returns whether the squares of errors became smaller, in the mean beyond chance and by at least `least`."""
    gain = before**2 - after**2
    return bool(gain.mean() > max(least, _BEYOND_CHANCE * gain.std() / len(gain) ** 0.5))


def _errors_by_curve_and_value(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the errors of a smooth curve and of a mean per value, on the rows that they were not fitted on."""
    groups = np.unique(x, return_inverse=True)[1]
    degree = min(_MOST_BENDS, (groups.max() + 1) // 2)
    curve = np.polynomial.legendre.legvander(2 * (x - x.min()) / np.ptp(x) - 1, degree)
    by_curve = np.empty(len(y))
    for fitted, rest in two_halves(len(y)):
        by_curve[rest] = curve[rest] @ np.linalg.lstsq(curve[fitted], y[fitted], rcond=None)[0]
    return y - by_curve, y - cross_fitted(groups, y)
