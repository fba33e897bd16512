"""Standard errors of metrics, by a jackknife over groups of rows.

A row's group depends only on its row id. Each metric is computed without each of the groups, and the spread of these
values gives its standard error (Efron and Stein, The Jackknife Estimate of Variance, 1981). The groups are the same for
both models, so the standard error of their difference is that of paired rows.
"""

from collections.abc import Callable

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS, quantile
from fullpass.components.evaluation.metrics import TOP, level_of
from fullpass.components.evaluation.score_buckets import BUCKETS, CurveAreas, SparseHistograms
from fullpass.preprocessing.values.row_sample import mixed

COARSE = 64
"""Number of adjacent score buckets that are merged to one in the histograms of groups."""
_SHARES = ("accuracy", "multiclass_accuracy", "interval_coverage", *(f"top_{k}_accuracy" for k in TOP))
"""Metrics that are a share of the rows, besides the coverage of one quantile."""
_FEWEST = 8
"""A standard error from rows of fewer groups is too uncertain to be one."""


def is_share(metric: str) -> bool:
    """Returns whether a metric is a share of the rows."""
    return metric in _SHARES or level_of(metric) is not None


def group_of(row_ids: np.ndarray) -> np.ndarray:
    """Returns the group of each row, int64 [rows]. Row ids are hashed first, because files and spans leave patterns."""
    return (mixed(row_ids) % np.uint64(GROUPS)).astype(np.int64)


def standard_errors(without: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Returns the standard error of a metric on each set of rows, float64 [sets].

    Args:
        without: The metric without each group, float64 [sets, GROUPS].
        present: Whether the set has rows of each group, bool [sets, GROUPS].

    Returns:
        NaN if a set has rows of fewer than _FEWEST groups, or if the metric is undefined without some group.
    """
    count = present.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(present, without, 0.0)
        mean = values.sum(axis=1) / count
        squares = np.where(present, (without - mean[:, None]) ** 2, 0.0).sum(axis=1)
        return np.where(count >= _FEWEST, np.sqrt((count - 1) / count * squares), np.nan)


def at_least(errors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the standard errors of a share of rows, but at least those that are known of a share that never failed.

    If none of n rows fails, up to 3 / n of all rows may (the rule of three, with 95 % confidence).
    """
    return np.maximum(errors, 3 / np.maximum(rows, 1) / quantile(0.95))


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
    bounds = np.searchsorted(cells.keys, np.arange(sets + 1) * GROUPS * BUCKETS)
    for number, (first, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        if first == end:
            continue
        group, bucket = np.divmod(cells.keys[first:end] - number * GROUPS * BUCKETS, BUCKETS)
        buckets, columns = np.unique(bucket, return_inverse=True)
        weights = np.zeros((2, GROUPS, len(buckets)))
        weights[0, group, columns], weights[1, group, columns] = cells.positive[first:end], cells.negative[first:end]
        if (np.any(weights > 0, axis=2).sum(axis=1) < _FEWEST).any():
            continue
        left = sums_without_each(weights, axis=1)
        keys = np.arange(GROUPS)[:, None] * BUCKETS + buckets
        without[number] = area(CurveAreas(SparseHistograms(keys.ravel(), left.reshape(2, -1)), GROUPS))
    return without
