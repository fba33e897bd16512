"""A batch of rows with what one or two models say of them, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

SliceValue = bytes | float
"""The value of a raw column: text as in the records, or a number."""


@dataclass(frozen=True)
class Scored:
    """What one model says of a batch of rows.

    Attributes:
        labels: float64 [rows] or, of several labels per row, [rows, classes]; int64 [rows] of class ids.
        weights: float64 [rows].
        scores: float64 [rows], or [rows, classes].
        quantiles: float64 [rows, levels], rising; None where the model gives none.
        levels: of which share of the labels each quantile is the upper bound, float64 [levels].
    """

    labels: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    quantiles: np.ndarray | None = None
    levels: np.ndarray | None = None

    def chosen(self, rows: np.ndarray) -> "Scored":
        """Returns some of the rows, those where a bool [rows] is true."""
        quantiles = None if self.quantiles is None else self.quantiles[rows]
        return Scored(self.labels[rows], self.weights[rows], self.scores[rows], quantiles, self.levels)


@dataclass(frozen=True)
class Codes:
    """A column as integer codes.

    Attributes:
        codes: position of the value of each row in `values`, int64 [rows]; -1 where it is missing.
        values: the distinct values.
    """

    codes: np.ndarray
    values: tuple[SliceValue, ...]


@dataclass(frozen=True)
class ScoredRows:
    """A batch of rows.

    Attributes:
        row_ids: int64 [rows].
        spans: the number of each row's span as row ids hold it, int64 [rows].
        columns: raw column -> its codes, for those that slices are made of.
        models: what each model says of the rows; the new one first.
    """

    row_ids: np.ndarray
    spans: np.ndarray
    columns: Mapping[str, Codes]
    models: tuple[Scored, ...]
