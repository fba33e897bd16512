"""Moments of labels and scores, which merge over parts of the rows without loss of digits far from zero."""

import numpy as np

from fullpass.components.evaluation.measure.scored_rows import Scored

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
