"""Histograms of scores from 0 to 1, from which the areas under curves are computed.

The width of a bucket is at most 2**-14, and at most a 256th of its distance from 0 or 1. Scores of rare events, which
are all near 0, are therefore distinguished as well as others, down to the smallest normal float32. Of scores in a
narrow band, the cells inside a bucket tell apart what float32 tells apart. Only cells with rows are kept; where a set
has too many, adjacent ones are merged, until buckets are left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fullpass.components.evaluation.measure.formulas import divided
from fullpass.components.evaluation.measure.sparse_sums import SparseSums

_SMALLEST, _NEAREST_TO_ONE = 126, 24
"""The distance of any other edge from 0, or from 1, is at least 2 to the power of minus this, as of float32 scores."""
_PER_OCTAVE = 256
"""Buckets from a distance to twice that distance. A score of a rare event is known to 0.4 %."""
_STEP = 2.0**-14
"""Width of the widest buckets: scores in the middle are known to four digits."""
_LINEAR_FROM = _STEP * _PER_OCTAVE
"""From here to 0.5, all buckets have the width `_STEP`, because a 256th of the distance would be wider."""


def _edges() -> np.ndarray:
    octaves = np.exp2(np.arange(-_SMALLEST, np.log2(_LINEAR_FROM)))
    near_zero = (octaves[:, None] * (1 + np.arange(_PER_OCTAVE) / _PER_OCTAVE)).ravel()
    lower = np.concatenate([[0.0], near_zero, np.arange(_LINEAR_FROM, 0.5, _STEP)])
    from_one = lower[lower >= 2.0**-_NEAREST_TO_ONE]
    return np.concatenate([lower, [0.5], 1.0 - from_one[::-1]])


EDGES = _edges()
"""The lower edge of each bucket, float64 [buckets], ascending."""
BUCKETS = len(EDGES)
_INSIDE = 15
"""2 to this power is the number of cells in a bucket."""
CELLS_OF_BUCKET = 1 << _INSIDE
_WIDTHS = np.diff(EDGES, append=1.0)
_COARSEST = 21
"""2 to this power is the largest number of adjacent cells that are merged to one."""
COARSE = 1 << _COARSEST - _INSIDE
"""Largest number of adjacent buckets that are merged to one."""


def cell_of(scores: np.ndarray) -> np.ndarray:
    """Returns the cell of each score, int64 of the same shape; scores outside 0 to 1 are in the outermost buckets."""
    inside = np.clip(np.nan_to_num(scores), 0.0, 1.0)
    bucket = np.clip(np.searchsorted(EDGES, inside, side="right") - 1, 0, BUCKETS - 1)
    part = ((inside - EDGES[bucket]) / _WIDTHS[bucket] * CELLS_OF_BUCKET).astype(np.int64)
    return bucket * CELLS_OF_BUCKET + np.minimum(part, CELLS_OF_BUCKET - 1)


class SparseHistograms(SparseSums):
    """Histograms of some sets of rows, without empty buckets; the two columns are the weights of the classes."""

    CELLS, COLUMNS = -(-BUCKETS * CELLS_OF_BUCKET // (1 << _COARSEST)) << _COARSEST, 2

    def limited(self, sets: int, most: int) -> "SparseHistograms":
        """Returns the histograms with at most about `most` cells in every `sets` adjacent sets: adjacent cells merged.

        How many are merged depends on all cells alone, and not on the order in which parts were joined.
        """
        # The keys are sorted, also without their last bits, so that distinct ones are counted without a search.
        ends = np.append(np.flatnonzero(np.diff(self.keys // (self.CELLS * sets))) + 1, len(self.keys))
        keys = self.keys.copy()
        for first, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            some, level = self.keys[first:end], 0
            while level < _COARSEST and 1 + np.count_nonzero(np.diff(some >> level)) > most:
                level += 1
            keys[first:end] = some >> level << level
        return self if (keys == self.keys).all() else SparseHistograms.sums(keys, *self.weights)

    @property
    def positive(self) -> np.ndarray:
        """Weight of the positive rows in a bucket, float64 [cells]."""
        return self.weights[0]

    @property
    def negative(self) -> np.ndarray:
        """Weight of the negative rows in a bucket, float64 [cells]."""
        return self.weights[1]


class CurveAreas:
    """Areas under the curves of each set of rows; NaN if a set lacks one of the classes."""

    def __init__(self, cells: SparseHistograms, sets: int):
        self._cells = cells
        self._sets = sets
        self._set = cells.keys // SparseHistograms.CELLS

    @cached_property
    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """Weight of the positive and of the negative rows, float64 [sets] each."""
        return self._sum(self._cells.positive), self._sum(self._cells.negative)

    @property
    def roc(self) -> np.ndarray:
        """Area under the ROC curve, float64 [sets].

        It is the share of pairs of rows, one of each class, in which the positive row has the higher score. Pairs in
        the same bucket count half, like pairs with equal scores.
        """
        all_positive, all_negative = (total[self._set] for total in self.totals)
        # The weight of each cell is a share of its class in its set, so that no product overflows.
        positive, negative = divided(self._cells.positive, all_positive), divided(self._cells.negative, all_negative)
        return self._defined(self._sum(positive * (_before(self._set, negative) + negative / 2)))

    @property
    def precision_recall(self) -> np.ndarray:
        """Area under the precision-recall curve, float64 [sets].

        Between thresholds, true and false positives are interpolated rather than precision: Davis and Goadrich, The
        Relationship Between Precision-Recall and ROC Curves, ICML 2006.
        """
        here = self._cells.positive + self._cells.negative
        above_positive, above = (_before(self._set[::-1], one[::-1])[::-1] for one in (self._cells.positive, here))
        slope = np.where(here > 0, divided(self._cells.positive, here), 0.0)  # cells of weight 0 add nothing
        grown = np.log(np.where(above > 0, divided(above + here, above), 1.0))
        area = self._sum(slope * (self._cells.positive + (above_positive - slope * above) * grown))
        return self._defined(divided(area, self.totals[0]))

    def _defined(self, areas: np.ndarray) -> np.ndarray:
        positive, negative = self.totals
        return np.where((positive > 0) & (negative > 0), areas, np.nan)

    def _sum(self, weights: np.ndarray) -> np.ndarray:
        return np.bincount(self._set, weights=weights, minlength=self._sets)


@dataclass(frozen=True)
class Area:
    """A metric that is an area under a curve of the scores of two classes.

    Attributes:
        value: Returns the area of each set of rows, float64 [sets].
        of_pairs: Whether it is a share of pairs of a positive and a negative row; otherwise of positive rows.
    """

    value: Callable[[CurveAreas], np.ndarray]
    of_pairs: bool


def _before(sets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the sum over the earlier cells of the same set, float64 [cells].

    Cells of different sets are never added, so that a set of large weights leaves the others exact.

    Args:
        sets: Set of each cell, int64 [cells]; equal sets are adjacent.
        weights: Float64 [cells].
    """
    sums, step = weights.copy(), 1
    while (same := sets[step:] == sets[:-step]).any():
        sums[step:] += np.where(same, sums[:-step], 0.0)
        step *= 2
    return np.concatenate([np.zeros(min(1, len(sums))), np.where(sets[1:] == sets[:-1], sums[:-1], 0.0)])
