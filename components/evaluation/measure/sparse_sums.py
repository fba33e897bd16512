"""Sums of weights in many numbered cells of many sets of rows, of which only those with rows are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np


@dataclass(frozen=True)
class SparseSums:
    """Sums of one or more columns of weights per cell of a set; a subclass says how many there are.

    Attributes:
        CELLS: Number of cells of a set.
        COLUMNS: Number of columns of weights.
        keys: Set * CELLS + cell, int64 [cells], ascending and distinct.
        weights: Float64 [COLUMNS, cells].
    """

    CELLS: ClassVar[int]
    COLUMNS: ClassVar[int]
    keys: np.ndarray
    weights: np.ndarray

    @classmethod
    def sums(cls, keys: np.ndarray, *weights: np.ndarray) -> Self:
        """Returns the sums of the weights of each key.

        Args:
            keys: Int64 [n], in any order.
            weights: Float64 [n] for each column.
        """
        distinct, indices = np.unique(keys, return_inverse=True)
        sums = [np.bincount(indices, weights=column, minlength=len(distinct)) for column in weights]
        return cls(distinct, np.stack(sums))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Returns the sum of several; if there are none, one without rows."""
        keys = np.concatenate([np.zeros(0, np.int64), *(part.keys for part in parts)])
        return cls.sums(keys, *np.concatenate([np.zeros((cls.COLUMNS, 0)), *(part.weights for part in parts)], axis=1))

    def moved(self, indices: np.ndarray) -> Self:
        """Returns the sums with renumbered sets.

        Args:
            indices: Int64 [sets], the new number of each set; -1 removes a set.
        """
        number, cell = np.divmod(self.keys, self.CELLS)
        kept = indices[number] >= 0
        return self.sums(indices[number[kept]] * self.CELLS + cell[kept], *self.weights[:, kept])

    def of_sets(self, first: int, count: int) -> Self:
        """Returns the sums of `count` sets from `first` on, which are numbered from 0."""
        start, end = np.searchsorted(self.keys, np.array([first, first + count]) * self.CELLS)
        return type(self)(self.keys[start:end] - first * self.CELLS, self.weights[:, start:end])
