"""What the rows of a batch add to the sums, moments, histograms and matrices of slices."""

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.class_counts import ConfusionCells, RowCells
from fullpass.components.evaluation.measure.long_tails import TailCells
from fullpass.components.evaluation.measure.metric_plan import MetricPlan
from fullpass.components.evaluation.measure.metric_terms import term_of_rows
from fullpass.components.evaluation.measure.moments import moments_of
from fullpass.components.evaluation.measure.score_buckets import SparseHistograms, cell_of
from fullpass.components.evaluation.measure.scored_rows import Scored


class BatchContributions:
    """The contributions of the rows of a batch for one model. Rows of weight 0 contribute nothing, for any label.

    Attributes:
        plan: What the metrics need.
    """

    def __init__(self, scored: Scored, plan: MetricPlan):
        self.plan = plan
        self._weights = scored.weights
        counted = scored.weights > 0
        self._terms = np.zeros((len(plan.terms), len(counted)))
        some = scored.chosen(counted)
        for row, term in zip(self._terms, plan.terms, strict=True):
            row[counted] = term_of_rows(term, some)
        self._scored = scored
        if plan.classes:
            self._cells = RowCells.of(scored)
        if plan.curves:
            self._cell_of_score = cell_of(scored.scores)
            labels = scored.labels
            if plan.curves > 1:
                labels = (labels[:, None] == np.arange(scored.scores.shape[1])) * 1.0
            self._labels = labels + 0 * scored.scores  # NaN if the score is NaN

    def sums(self, rows: np.ndarray, sets: np.ndarray, slices: int) -> np.ndarray:
        """Returns the sum of each term over each slice and group, float64 [terms, slices, GROUPS]."""
        count = slices * GROUPS
        sums = [np.bincount(sets, weights=term[rows], minlength=count) for term in self._terms]
        return np.stack(sums).reshape(-1, slices, GROUPS)

    def moments(self, rows: np.ndarray, sets: np.ndarray, slices: int) -> np.ndarray:
        """Returns the moments of each slice and group, float64 [MOMENTS, slices, GROUPS]."""
        rows, sets = (x[self._weights[rows] > 0] for x in (rows, sets))
        return moments_of(self._scored.chosen(rows), sets, slices * GROUPS).reshape(-1, slices, GROUPS)

    def tails(self, rows: np.ndarray, sets: np.ndarray) -> TailCells:
        """Returns how large the terms with tails of sets of rows are. rows and sets: int64 [n]."""
        terms = self.plan.tails
        rows, sets = (x[self._weights[rows] > 0] for x in (rows, sets))
        values = np.concatenate([term_of_rows(term, self._scored.chosen(rows)) for term in terms])
        return TailCells.of(values, (sets * len(terms) + np.arange(len(terms))[:, None]).ravel())

    def confusion(self, rows: np.ndarray, sets: np.ndarray) -> ConfusionCells:
        """Returns the confusion matrices of sets of rows; rows and sets: int64 [n]."""
        return self._cells.summed(rows, sets)

    def histogram(self, rows: np.ndarray, slices: np.ndarray, groups: np.ndarray | None = None) -> SparseHistograms:
        """Returns the histograms of slices; if a row has several labels, each counts separately.

        If a slice has several curves, each score of a row belongs to another. More classes than curves have none.

        Args:
            rows: Indices of the rows, int64 [n].
            slices: Slice of each row, int64 [n].
            groups: Group of each row, int64 [n], for histograms per group.
        """
        some = self._weights[rows] > 0
        rows, sets = rows[some], slices[some]
        labels, weights = self._labels[rows], self._weights[rows]
        sets = sets.reshape(-1, *[1] * (labels.ndim - 1))
        if self.plan.curves > 1:
            if labels.shape[1] > self.plan.curves:
                return SparseHistograms.joined([])
            sets = sets * self.plan.curves + np.arange(labels.shape[1])
        if groups is not None:
            sets = sets * GROUPS + groups[some].reshape(-1, *[1] * (labels.ndim - 1))
        keys = sets * SparseHistograms.CELLS + self._cell_of_score[rows]
        weights = np.broadcast_to(weights.reshape(-1, *[1] * (labels.ndim - 1)), labels.shape)
        return SparseHistograms.sums(keys.ravel(), (weights * labels).ravel(), (weights * (1 - labels)).ravel())
