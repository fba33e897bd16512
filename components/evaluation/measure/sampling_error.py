"""Standard errors of metrics, by a jackknife over groups of rows.

A row's group depends only on its row id. Each metric is computed without each of the groups, and the spread of these
values gives its standard error (Efron and Stein, The Jackknife Estimate of Variance, 1981). The groups are the same for
both models, so the standard error of their difference is that of paired rows.
"""

from collections.abc import Callable

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS, quantile
from fullpass.components.evaluation.measure.score_buckets import CurveAreas, SparseHistograms
from fullpass.preprocessing.values.row_sample import mixed

_FEWEST = 8
"""A standard error from rows of fewer groups is too uncertain to be one."""
_MOST_SCORES = 512
"""Number of parts of the distinct scores, by rank, by which the areas without each group are computed."""
_ROUNDING = 1e-13
"""Values that differ by less, as a share of their size, are equal."""
_QUANTILES = np.array([np.nan] * _FEWEST + [quantile(0.975, groups - 1) for groups in range(_FEWEST, GROUPS + 1)])
"""Quantile of Student's t by the number of groups."""


def group_of(row_ids: np.ndarray) -> np.ndarray:
    """Returns the group of each row, int64 [rows]. Row ids are hashed first, because files and spans leave patterns."""
    return (mixed(row_ids) % np.uint64(GROUPS)).astype(np.int64)


def standard_errors(without: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Returns the standard error of a metric on each set of rows, float64 [sets].

    It is that of the farther end of an interval for as many groups, corrected for the skewness of the metric by the
    expansion of Student's t (Hall, On the Removal of Skewness by Transformation, 1992).

    Args:
        without: The metric without each group, float64 [sets, GROUPS].
        present: Whether the set has rows of each group, bool [sets, GROUPS].

    Returns:
        NaN if a set has rows of fewer than _FEWEST groups, or if the metric is undefined without some group.
    """
    errors, skewness = spread_and_skewness(without, present)
    t = _QUANTILES[present.sum(axis=1)]
    return errors * (t + np.abs(skewness) * (2 * t**2 + 1) / 6) / quantile(0.975)


def spread_and_skewness(without: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the jackknife's standard error of a metric, and its skewness, float64 [sets] each.

    The skewness is 0 where chance explains it, and below 0 where the metric hangs on a few groups that raise it.

    Args:
        without, present: As in `standard_errors`.
    """
    count = present.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(present, without, 0.0).sum(axis=1) / count
        off = np.where(present, without - mean[:, None], 0.0)
        size = np.abs(off).max(axis=1)  # moments of values around 1, so that none overflows
        second, third = (((off / size[:, None]) ** power).sum(axis=1) / count for power in (2, 3))
        skewness = third / second**1.5 * np.sqrt(count - 1) / (count - 2)
        skewness = np.sign(skewness) * np.sqrt(np.maximum(skewness**2 - 6 / count**2, 0.0))  # less what chance makes
        errors = np.sqrt((count - 1) * second) * size
        same = size <= _ROUNDING * np.abs(mean)
        return np.where(same, 0.0, errors), np.where(same, 0.0, skewness)


def sums_without_each(parts: np.ndarray, axis: int) -> np.ndarray:
    """Returns the sum of all other parts, for each part along an axis.

    Nothing is subtracted, so a part of large values leaves the sums of the others exact.
    """
    none = np.zeros_like(parts.take([0], axis))
    all_but_last = np.arange(parts.shape[axis] - 1)
    before, after = (
        np.concatenate([none, np.cumsum(order.take(all_but_last, axis), axis)], axis)
        for order in (parts, np.flip(parts, axis))
    )
    return before + np.flip(after, axis)


def areas_without(cells: SparseHistograms, sets: int, area: Callable[[CurveAreas], np.ndarray]) -> np.ndarray:
    """Returns the area under a curve of each set without each group, float64 [sets, GROUPS].

    It is NaN if a class has rows of fewer than _FEWEST groups.

    Args:
        cells: Histograms of the sets; the number of a histogram is set * GROUPS + group.
    """
    without = np.full((sets, GROUPS), np.nan)
    bounds = np.searchsorted(cells.keys, np.arange(sets + 1) * GROUPS * SparseHistograms.CELLS)
    for number, (first, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        if first == end:
            continue
        group, cell = np.divmod(cells.keys[first:end], SparseHistograms.CELLS)
        group -= number * GROUPS
        distinct, columns = np.unique(cell, return_inverse=True)
        if len(distinct) > _MOST_SCORES:
            columns = columns * _MOST_SCORES // len(distinct)
            distinct = np.arange(_MOST_SCORES)
        weights = np.zeros((2, GROUPS, len(distinct)))
        for of_class, added in zip(weights, (cells.positive[first:end], cells.negative[first:end]), strict=True):
            np.add.at(of_class, (group, columns), added)
        if (np.any(weights > 0, axis=2).sum(axis=1) < _FEWEST).any():
            continue
        left = sums_without_each(weights, axis=1)
        keys = np.arange(GROUPS)[:, None] * SparseHistograms.CELLS + distinct
        without[number] = area(CurveAreas(SparseHistograms(keys.ravel(), left.reshape(2, -1)), GROUPS))
    return without
