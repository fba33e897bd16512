"""A batch of rows with the outputs of one or two models, as arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

_THRESHOLD = 0.5
"""Probability from which on a label is the likelier answer."""

SliceValue = bytes | float
"""The value of a raw column: text as bytes, as in the records, or a number."""


@dataclass(frozen=True)
class Scored:
    """Labels, weights and one model's outputs for a batch of rows.

    Attributes:
        labels: Float64 [rows]; for several labels per row, [rows, classes]; for several classes, class ids.
        weights: Float64 [rows].
        scores: Float64 [rows], or [rows, classes].
        quantiles: Float64 [rows, levels], increasing; None if the model predicts no quantiles.
        levels: Level of each quantile, which is the share of labels below it; empty if the model predicts none.
        positive: Whether a binary model predicts class 1, bool [rows]; None if it does for every score above 0.5.
        classes: The names of the classes in id order; empty if they are unknown.
    """

    labels: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    quantiles: np.ndarray | None = None
    levels: tuple[float, ...] = ()
    positive: np.ndarray | None = None
    classes: tuple[str, ...] = ()

    def chosen(self, rows: np.ndarray) -> "Scored":
        """Returns the rows selected by a mask, bool [rows], or by their indices."""
        parts: dict[str, Any] = {
            name: None if (of := getattr(self, name)) is None else of[rows]
            for name in ("labels", "weights", "scores", "quantiles", "positive")
        }
        return replace(self, **parts)

    @property
    def predicted(self) -> np.ndarray:
        """Whether each score is a positive prediction, float64 of the scores' shape; NaN if it is no number.

        Of several labels, those of at least 0.5 are predicted, as in the export.
        """
        if self.labels.ndim == 2:
            return (self.scores >= _THRESHOLD) + 0.0 * self.scores
        positive = self.scores > _THRESHOLD if self.positive is None else self.positive
        return positive + 0.0 * self.scores


@dataclass(frozen=True)
class Codes:
    """A column as integer codes.

    Attributes:
        codes: Index of the value of each row in `values`, int64 [rows]; -1 if it is missing.
    """

    codes: np.ndarray
    values: tuple[SliceValue, ...]


@dataclass(frozen=True)
class ScoredRows:
    """A batch of rows.

    Attributes:
        spans: The number of each row's span, as in row ids, int64 [rows].
        columns: Raw column -> its codes, for the columns that slices use.
        models: Outputs of each model for the rows; the new model first.
    """

    row_ids: np.ndarray
    spans: np.ndarray
    columns: Mapping[str, Codes]
    models: tuple[Scored, ...]
