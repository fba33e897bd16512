"""The numbers of a representation on a sample, made without the labels of the rows that judge."""

from dataclasses import dataclass

import numpy as np

SMOOTHING = 5.0
"""Rows with the mean of all that are added to those of each value: fewer than usual, as trees limit what they trust."""
_PARTS = 5
"""Parts of the rows that learn; each is encoded by the others, as in a run."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """One column that boosters read, or several, as one per class.

    Attributes:
        values: float64 [rows] or [rows, columns], NaN for missing; or int64 [rows], groups of rows whose mean of the
            label is read, or shares of the classes.
        kind: How boosters read it.
    """

    values: np.ndarray
    kind: str = "number"

    def numbers(self, y: np.ndarray, learns: np.ndarray) -> np.ndarray:
        """Returns the columns, float64 [rows, columns].

        Args:
            y: float64 [rows, columns], the label as numbers, of several classes whether it is each of them.
            learns: bool [rows], whether boosters learn from a row; the labels of the others are not read.
        """
        found = [means_of_others(self.values, one, learns) for one in y.T] if self.kind == "means" else [self.values]
        return np.column_stack(found)

    def told(self, errors: np.ndarray) -> float:
        """Returns how much of the squares of errors, float64 [rows, columns], a mean per value tells; 0 for numbers."""
        if self.kind == "number":
            return 0.0
        groups, every = self.values.astype(np.int64), np.ones(len(errors), dtype=bool)
        by_value = np.column_stack([means_of_others(groups, one, every) for one in errors.T])
        return float((errors**2 - (errors - by_value) ** 2).sum(axis=1).mean())


def means_of_others(groups: np.ndarray, y: np.ndarray, learns: np.ndarray) -> np.ndarray:
    """Returns the mean label of a row's group over rows that learn, without those of its own part, float64 [rows]."""
    part = np.random.default_rng(len(y)).integers(0, _PARTS, len(y))
    cells, size = groups * _PARTS + part, int(groups.max()) + 1
    sums = np.bincount(cells, np.where(learns, y, 0.0), size * _PARTS).reshape(size, _PARTS)
    rows = np.bincount(cells, learns, size * _PARTS).reshape(size, _PARTS)
    others = sums.sum(axis=1)[groups] - np.where(learns, sums[groups, part], 0.0)
    count = rows.sum(axis=1)[groups] - np.where(learns, rows[groups, part], 0)
    return (others + SMOOTHING * y[learns].mean()) / (count + SMOOTHING)
