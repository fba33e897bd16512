"""The curves of an evaluation: ROC, precision-recall and calibration, with standard errors.

They are computed from the histograms of scores, over all rows together. If a row has several labels, each counts
separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fullpass.base.json_text import Number, read_parsed
from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.sampling_error import standard_errors, sums_without_each
from fullpass.components.evaluation.measure.score_buckets import (
    BUCKETS,
    CELLS_OF_BUCKET,
    COARSE,
    EDGES,
    SparseHistograms,
)

FILE = "curves.json"
_GRID = np.linspace(0.0, 1.0, 101)
"""Shares at which curves are known, and thresholds whose decisions are: each percent, two pixels of a chart."""
_RECALLS = _GRID[1:]
"""A recall of 0 is omitted, because its precision would be that of a single row."""
_CALIBRATION_POINTS = 10
"""Groups of rows of equal number: tenths, as in the reliability diagrams of the literature."""


@dataclass(frozen=True)
class Curve:
    """Points of a curve. x, y: [points]. error: standard errors of y, [points]; NaN where unknown."""

    x: tuple[Number, ...]
    y: tuple[Number, ...]
    error: tuple[Number, ...]


@dataclass(frozen=True)
class Decisions:
    """What each threshold decides: rows with at least that score are predicted as positive.

    Attributes:
        positive, negative: Weights of all rows of each class.
        thresholds: Ascending from 0 to 1, [thresholds].
        true, false: Weights of the positive and of the negative rows that are predicted as positive, [thresholds];
            of a threshold inside a bucket of scores, the whole bucket counts.
    """

    positive: float
    negative: float
    thresholds: tuple[float, ...]
    true: tuple[float, ...]
    false: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """The curves of one model's scores of all rows.

    Attributes:
        roc: Share of the negative rows above a threshold -> share of the positive rows above it.
        precision_recall: Share of the positive rows above a threshold -> share of positive rows among those above it.
        thresholds: The threshold of each point of `roc`.
        decisions: None in a file of an earlier version.
        calibration: Mean score of a tenth of the rows -> share of positive rows among them.
    """

    roc: Curve
    precision_recall: Curve
    calibration: Curve
    thresholds: tuple[Number, ...]
    decisions: Decisions | None = None


def curves_of(cells: SparseHistograms, grouped: SparseHistograms, index: int) -> Curves | None:
    """Returns the curves of one set of rows; None if it lacks one of the classes.

    Args:
        grouped: Histograms per group; the number of a histogram is set * GROUPS + group.
    """
    whole = _dense(cells, index, 1)[:, 0]
    if not (whole.sum(axis=1) > 0).all():
        return None
    groups = np.add.reduceat(_dense(grouped, index, GROUPS), np.arange(0, BUCKETS, COARSE), axis=2)
    without = sums_without_each(groups, axis=1)
    present = groups.sum(axis=(0, 2)) > 0

    def curve(x: np.ndarray, y: np.ndarray, of_groups: Sequence[np.ndarray]) -> Curve:
        errors = standard_errors(np.stack(of_groups, axis=1), np.broadcast_to(present, (len(y), GROUPS)))
        return Curve(*(tuple(map(float, values)) for values in (x, y, errors)))

    left = [without[:, group] for group in range(GROUPS)]
    tenths = _tenths(whole)
    return Curves(
        curve(_GRID, _roc(whole), [_roc(one) for one in left]),
        curve(_RECALLS, _precision(whole), [_precision(one) for one in left]),
        curve(
            _mean_scores(whole, tenths), _positive(whole, tenths), [_positive(one, tenths // COARSE) for one in left]
        ),
        tuple(map(float, _thresholds(whole))),
        _decisions(whole),
    )


def read_curves(evaluation_uri: str) -> list[Curves | None]:
    """Returns the curves of each model; empty if the metrics need no histograms."""
    return read_parsed(list[Curves | None], f"{evaluation_uri}/{FILE}") or []


def _dense(cells: SparseHistograms, index: int, groups: int) -> np.ndarray:
    """Returns the weights of the positive and the negative rows in each bucket, float64 [2, groups, BUCKETS]."""
    of_set = cells.of_sets(index * groups, groups)
    group, cell = np.divmod(of_set.keys, SparseHistograms.CELLS)
    buckets = group * BUCKETS + cell // CELLS_OF_BUCKET
    weights = [np.bincount(buckets, weights=of_class, minlength=groups * BUCKETS) for of_class in of_set.weights]
    return np.stack(weights).reshape(2, groups, BUCKETS)


def _above(weights: np.ndarray) -> np.ndarray:
    """Returns the weight of each class above each threshold, highest threshold first, float64 [2, BUCKETS + 1]."""
    return np.pad(np.cumsum(weights[:, ::-1], axis=1), [(0, 0), (1, 0)])


def _roc(weights: np.ndarray) -> np.ndarray:
    positive, negative = _above(weights)
    return np.interp(_GRID, _shares(negative, negative[-1]), _shares(positive, positive[-1]))


def _thresholds(weights: np.ndarray) -> np.ndarray:
    """Returns the threshold at each share of the negative rows above it; of several, the lowest."""
    negative = _above(weights)[1]
    return np.interp(_GRID, _shares(negative, negative[-1]), np.concatenate([[1.0], EDGES[::-1]]))


def _decisions(weights: np.ndarray) -> Decisions:
    above = _above(weights)
    buckets = BUCKETS + 1 - np.searchsorted(EDGES, _GRID, side="right")
    true, false = above[:, buckets]
    positive, negative = map(float, above[:, -1])
    return Decisions(positive, negative, *(tuple(map(float, one)) for one in (_GRID, true, false)))


def _precision(weights: np.ndarray) -> np.ndarray:
    """Returns the precision at each recall. Between thresholds, true and false positives are interpolated."""
    positive, negative = _above(weights)
    true = _RECALLS * positive[-1]
    end = positive.argmax() + 1  # below this threshold, only negative rows are left
    return _shares(true, true + np.interp(true, positive[:end], negative[:end]))


def _tenths(weights: np.ndarray) -> np.ndarray:
    """Returns the first bucket of each tenth of the rows, aligned to the coarse buckets of the groups, int64 [n]."""
    rows = np.cumsum(weights.sum(axis=0))
    wanted = np.arange(_CALIBRATION_POINTS) / _CALIBRATION_POINTS * rows[-1]
    return np.unique(np.searchsorted(rows, wanted, side="right") // COARSE * COARSE)


def _positive(weights: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    positive, negative = np.add.reduceat(weights, firsts, axis=1)
    return _shares(positive, positive + negative)


def _mean_scores(weights: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    rows = weights.sum(axis=0)
    middle = (EDGES + np.append(EDGES[1:], 1.0)) / 2
    return _shares(np.add.reduceat(rows * middle, firsts), np.add.reduceat(rows, firsts))


def _shares(parts: np.ndarray, of: np.ndarray | float | None = None) -> np.ndarray:
    """Returns parts as shares of `of`; by default, of their sum."""
    whole = parts.sum() if of is None else of
    with np.errstate(divide="ignore", invalid="ignore"):
        return parts / whole
