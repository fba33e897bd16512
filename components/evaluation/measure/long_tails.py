"""Finds means that hang on a few large values: how fast the largest values of a term become rare.

The estimate is Hill's (A Simple General Approach to Inference About the Tail of a Distribution, 1975), over the values
above a quantile that lies further out the more rows there are. Its inverse is the mean of log(value / quantile). Values
are counted in buckets of their logarithm, of which only those with rows are kept.
"""

import numpy as np

from fullpass.components.evaluation.measure.sparse_sums import SparseSums

_PER_OCTAVE = 8
"""Buckets between a size and twice as much: the mean of logarithms of hundreds of values needs no finer ones."""
_SMALLEST, _LARGEST = -1080, 1030
"""Exponents of 2 between which all positive float64 are."""
_QUANTILE = 1.5
"""The quantile is that which this number times the root of the number of rows are above."""
_FEW_ROWS = 300
"""Number of rows up to which the limit of the index is the same, since fewer show no rarer values."""
_LEAST_INDEX, _MORE_PER_DECADE, _MOST_INDEX = 1.45, 0.15, 1.95
"""Index of the tail above which intervals of a mean hold in simulations: that of up to _FEW_ROWS rows, how much more
ten times the rows need, since they show rarer values, and where that ends: a finite variance has an index above 2."""


class TailCells(SparseSums):
    """Number of rows by the size of a term, for sets of rows."""

    CELLS, COLUMNS = (_LARGEST - _SMALLEST) * _PER_OCTAVE, 1

    @staticmethod
    def of(values: np.ndarray, sets: np.ndarray) -> "TailCells":
        """Returns the counts of values. values: float64 [n], of any sign. sets: int64 [n]."""
        sizes = np.abs(values)
        some = (sizes > 0) & np.isfinite(sizes)
        buckets = np.floor((np.log2(sizes[some]) - _SMALLEST) * _PER_OCTAVE).astype(np.int64)
        return TailCells.sums(sets[some] * TailCells.CELLS + buckets, np.ones(len(buckets)))

    def too_long(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether the mean of each set hangs on a few values, bool [sets].

        Args:
            rows: Number of rows of each set, float64 [sets], with those whose term is 0.
        """
        return np.array([_is_long(self.of_sets(index, 1), count) for index, count in enumerate(rows)], bool)


def _is_long(cells: TailCells, rows: float) -> bool:
    """Returns whether the largest of the values of a set are too large."""
    above = np.cumsum(cells.weights[0][::-1])
    wanted = _QUANTILE * np.sqrt(rows)
    if not len(above) or above[-1] < wanted:
        return False
    end = int(np.searchsorted(above, wanted)) + 1
    buckets, counts = cells.keys[::-1][:end], cells.weights[0][::-1][:end]
    excess = (counts * (buckets - buckets[-1])).sum() / counts.sum() / _PER_OCTAVE * np.log(2)
    index = _LEAST_INDEX + _MORE_PER_DECADE * np.log10(max(rows, _FEW_ROWS) / _FEW_ROWS)
    return bool(excess * min(index, _MOST_INDEX) > 1)
