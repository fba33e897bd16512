"""Areas under the ROC curve of each class against all others, and their averages."""

from collections.abc import Mapping, Sequence

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.class_counts import chosen_class
from fullpass.components.evaluation.measure.class_sums import OfClasses
from fullpass.components.evaluation.measure.intervals import ModelMetrics
from fullpass.components.evaluation.measure.sampling_error import areas_without, sums_without_each
from fullpass.components.evaluation.measure.score_buckets import CurveAreas, SparseHistograms

MOST_CURVES = 50
"""Largest number of classes that have curves. Beyond, the areas are undefined: every row would add to every class."""


def class_areas(
    metrics: Mapping[str, OfClasses],
    histograms: SparseHistograms,
    grouped: SparseHistograms,
    slices: int,
    classes: Sequence[str],
) -> ModelMetrics:
    """Returns the areas of each slice, without their evidence.

    Averages are over the classes that have rows and are not those of all rows, as in scikit-learn on these classes.
    Without a group, an average is undefined if the area of one of these classes is.

    Args:
        metrics: Areas of classes and their averages.
        histograms, grouped: As in `ModelState`.
        slices: Number of slices.
        classes: Names of the classes in id order.
    """
    found = ModelMetrics.undefined([*metrics], slices)
    for index in range(slices if metrics else 0):
        areas = CurveAreas(histograms.of_sets(index * MOST_CURVES, MOST_CURVES), MOST_CURVES)
        cells = grouped.of_sets(index * MOST_CURVES * GROUPS, MOST_CURVES * GROUPS)
        left = areas_without(cells, MOST_CURVES, lambda some: some.roc)
        rows = np.bincount(cells.keys // SparseHistograms.CELLS, weights=cells.positive, minlength=MOST_CURVES * GROUPS)
        rows = rows.reshape(MOST_CURVES, GROUPS)
        rows_left = sums_without_each(rows, axis=1)
        for name, how in metrics.items():
            chosen, weights = _chosen(name, areas, classes), None
            if how.weights == "shares":
                weights = (areas.totals[0][chosen, None], rows_left[chosen])
            found.values[name][index] = _mean(areas.roc[chosen, None], weights and weights[0])[0]
            found.without[name][index] = _mean(left[chosen], weights and weights[1])
    return found


def _chosen(name: str, areas: CurveAreas, classes: Sequence[str]) -> np.ndarray:
    """Returns the ids of the classes that a metric is the average of."""
    of_class = chosen_class(name, classes[:MOST_CURVES])
    if of_class is None:
        positive, negative = areas.totals
        return np.flatnonzero((positive != 0) & (negative != 0))
    return np.flatnonzero(of_class)


def _mean(areas: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Returns the mean over the classes, float64 [n], of areas [classes, n]; NaN without classes."""
    weights = np.ones_like(areas) if weights is None else weights
    with np.errstate(divide="ignore", invalid="ignore"):
        return (areas * weights).sum(axis=0) / weights.sum(axis=0)
