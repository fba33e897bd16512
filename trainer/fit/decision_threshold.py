"""Chooses the probability above which a binary model predicts the positive class (`evaluation.decision`)."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from fullpass.trainer.decision_config import DecisionConfig

_LOG = logging.getLogger(__name__)
_RESAMPLES = 200
"""Bootstrap samples of the interval of a threshold."""
_TAIL = 0.025
"""Share of the samples on each side of a 95 % interval."""


def choose_threshold(
    labels: np.ndarray, scores: np.ndarray, weights: np.ndarray, decision: DecisionConfig
) -> dict[str, Any]:
    """Returns the entry `decision` of training.json.

    A threshold is halfway between two neighbouring scores. Intervals of 95 % are quantiles over 200 bootstrap resamples
    of the rows, in each of which the threshold is chosen again (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993); the value is that of the chosen threshold.

    Args:
        labels: 0 or 1, [rows].
        scores: Probability of class 1, float32 [rows].
        weights: Float [rows], above 0.
        decision: The rule.

    Returns:
        threshold and value (of `measured`, such as f1), each with low and high, and the number of rows. reached:
        whether any threshold has the precision of `recall_at`; else it is the threshold of the largest precision.
    """
    cuts = _Cuts(labels, scores)
    counts = cuts.counts(weights)
    best, measured = _best(counts, decision), counts.measured(decision)
    rng = np.random.default_rng(len(labels))
    thresholds, at_best = [], []
    for _ in range(_RESAMPLES):
        drawn = cuts.counts(weights * rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels))))
        thresholds.append(cuts.thresholds[_best(drawn, decision)])
        at_best.append(drawn.measured(decision)[best])
    reached = bool(counts.reaches(decision).any())
    if not reached:
        _LOG.warning(
            "no threshold reaches evaluation.decision.recall_at.precision on the validation rows; the largest "
            "precision is used"
        )
    low, high = np.quantile(thresholds, [_TAIL, 1 - _TAIL])
    value_low, value_high = np.nanquantile(at_best, [_TAIL, 1 - _TAIL])
    return {
        "threshold": float(cuts.thresholds[best]),
        "low": float(low),
        "high": float(high),
        "measured": decision.measured,
        "value": float(measured[best]),
        "value_low": float(value_low),
        "value_high": float(value_high),
        "reached": reached,
        "rows": len(labels),
    }


class _Cuts:
    """All thresholds that separate scores, from the one above all of them to the one below.

    Attributes:
        thresholds: float32 [cuts], descending; a score above it is positive.
    """

    def __init__(self, labels: np.ndarray, scores: np.ndarray):
        self._order = np.argsort(-scores, kind="stable")
        self._labels = labels[self._order] > 0
        ranked = scores[self._order].astype(np.float32)
        ends = np.flatnonzero(np.append(ranked[1:] < ranked[:-1], True))
        self._ends = np.append(0, ends + 1)
        upper = np.append(np.float32(1.0), ranked[ends])
        lower = np.concatenate([ranked[:1], ranked[ends[:-1] + 1], np.zeros(1, np.float32)])
        middle = ((upper.astype(np.float64) + lower) / 2).astype(np.float32)
        # Between two adjacent float32 numbers there is none, and the lower one separates them as well.
        self.thresholds = np.where(middle < upper, middle, lower)

    def counts(self, weights: np.ndarray) -> "_Counts":
        """Returns the counts at each threshold. weights: float [rows], in the order of the labels."""
        ranked = weights[self._order].astype(np.float64)
        true, false = (np.append(0.0, np.cumsum(ranked * of))[self._ends] for of in (self._labels, ~self._labels))
        return _Counts(true, false, true[-1] - true, false[-1] - false)


@dataclass(frozen=True)
class _Counts:
    """True positives, false positives, false negatives and true negatives of each threshold, float64 [cuts]."""

    true: np.ndarray
    false: np.ndarray
    missed: np.ndarray
    rest: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        return _ratio(self.true, self.true + self.false)

    def measured(self, decision: DecisionConfig) -> np.ndarray:
        """Returns what the decision measures at each threshold, float64 [cuts]."""
        true, false, missed, rest = self.true, self.false, self.missed, self.rest
        if decision.cost is not None:
            costs = decision.cost.false_positive * false + decision.cost.false_negative * missed
            return costs / (true + false + missed + rest)
        recall = _ratio(true, true + missed)
        if decision.recall_at is not None:
            return recall
        if decision.metric == "f1":
            return _ratio(2 * true, 2 * true + false + missed)
        if decision.metric == "accuracy":
            return _ratio(true + rest, true + false + missed + rest)
        if decision.metric == "balanced_accuracy":
            return (recall + _ratio(rest, rest + false)) / 2
        spread = np.sqrt((true + false) * (true + missed) * (rest + false) * (rest + missed))
        return _ratio(true * rest - false * missed, spread)

    def reaches(self, decision: DecisionConfig) -> np.ndarray:
        """Returns whether each threshold has the precision that the decision requires, bool [cuts]."""
        if decision.recall_at is None:
            return np.ones(len(self.true), bool)
        return (self.true > 0) & (self.precision >= decision.recall_at.precision)


def _best(counts: _Counts, decision: DecisionConfig) -> int:
    """Returns the number of the best threshold; if none has the required precision, that of the largest precision."""
    allowed = counts.reaches(decision)
    if not allowed.any():
        return int(np.argmax(np.where(counts.true + counts.false > 0, counts.precision, -np.inf)))
    values = counts.measured(decision)
    return int(np.argmax(np.where(allowed, -values if decision.cost is not None else values, -np.inf)))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Returns above / below, 0 where below is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
