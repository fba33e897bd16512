"""Counts per class: the confusion matrix of each slice, and the metrics that are functions of it.

Only cells with rows are kept, so a matrix has no more cells than rows. The rules where a quotient is 0 / 0 are those of
scikit-learn: in an average, a class that is never predicted has a precision of 0, and a class without rows that is
predicted has a recall of 0. A class that has neither is in no average. Without such a pair of classes, the correlation
is 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.metric_terms import divided
from fullpass.components.evaluation.metrics import class_of
from fullpass.components.evaluation.sampling_error import sums_without_each
from fullpass.components.evaluation.scored_rows import Scored
from fullpass.components.evaluation.sparse_sums import SparseSums

_BITS = 16
NO_CLASS = (1 << _BITS) - 1
"""The id of "none": the label or the prediction of a multilabel class that is only predicted, or only in the label.
Metrics of a model of more classes than this are undefined."""


class ConfusionCells(SparseSums):
    """Confusion matrices of sets of rows: the weight of the rows of a class, by predicted class."""

    CELLS, COLUMNS = 1 << 2 * _BITS, 1

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns set, label, predicted class, int64 [cells], and the weight, float64 [cells]."""
        sets, cell = np.divmod(self.keys, self.CELLS)
        labels, predicted = np.divmod(cell, 1 << _BITS)
        return sets, labels, predicted, self.weights[0]


@dataclass(frozen=True)
class RowCells:
    """The cells that rows add to. rows, cells: int64 [n]. weights: float64 [n]; NaN if a score is no number."""

    rows: np.ndarray
    cells: np.ndarray
    weights: np.ndarray

    @staticmethod
    def of(scored: Scored) -> "RowCells":
        """Returns the cells of the rows of a batch that have a weight."""
        rows = np.flatnonzero(scored.weights > 0)
        some = scored.chosen(rows)
        weights = some.weights + 0.0 * (some.scores.sum(axis=1) if some.scores.ndim == 2 else some.scores)
        if some.labels.ndim == 2:
            label, predicted = some.labels > 0, some.predicted == 1.0
            at, classes = np.nonzero(label | predicted)
            labels = np.where(label[at, classes], classes, NO_CLASS)
            said = np.where(predicted[at, classes], classes, NO_CLASS)
        else:
            at, labels = np.arange(len(rows)), some.labels.astype(np.int64)
            said = some.scores.argmax(axis=1) if some.scores.ndim == 2 else (some.predicted == 1.0).astype(np.int64)
        beyond = np.maximum(labels, said) > NO_CLASS
        cells = np.where(beyond, 0, (labels << _BITS) + said)
        return RowCells(rows[at], cells, np.where(beyond, np.nan, weights[at]))

    def summed(self, rows: np.ndarray, sets: np.ndarray) -> ConfusionCells:
        """Returns the sums over sets of rows.

        Args:
            rows: Distinct indices of rows, int64 [n].
            sets: Set of each row, int64 [n].
        """
        set_of_row = np.full(max(self.rows.max(initial=-1), rows.max(initial=-1)) + 1, -1)
        set_of_row[rows] = sets
        sets = set_of_row[self.rows]
        kept = sets >= 0
        return ConfusionCells.sums(sets[kept] * ConfusionCells.CELLS + self.cells[kept], self.weights[kept])


@dataclass(frozen=True)
class ClassSums:
    """Weights per class in several sets of rows, float64 [sets, classes].

    Attributes:
        labels: Of the rows of the class.
        said: Of the rows that are predicted as the class.
        hits: Of the rows of the class that are predicted as such.
    """

    labels: np.ndarray
    said: np.ndarray
    hits: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        """Precision of each class, NaN if it is never predicted."""
        return divided(self.hits, self.said)

    @property
    def recall(self) -> np.ndarray:
        """Recall of each class, NaN if it has no rows."""
        return divided(self.hits, self.labels)

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall of each class, NaN if it has no rows and is never predicted."""
        return divided(2 * self.hits, self.said + self.labels)

    def macro(self, values: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Returns the mean of a metric over the classes that have rows or are predicted, float64 [sets].

        Args:
            values, below: The metric and its denominator, float64 [sets, classes].
        """
        absent = (self.labels == 0) & (self.said == 0)
        return divided(np.where(below == 0, 0.0, values).sum(axis=1), (~absent).sum(axis=1))

    def weighted(self, values: np.ndarray, below: np.ndarray) -> np.ndarray:
        """Returns the mean of a metric over the classes, weighted by the rows of each, float64 [sets]."""
        shares = divided(self.labels, self.labels.sum(axis=1, keepdims=True))
        return (shares * np.where(below == 0, 0.0, values)).sum(axis=1)

    def balanced_accuracy(self) -> np.ndarray:
        """Returns the mean recall of the classes that have rows, float64 [sets]."""
        absent = self.labels == 0
        return divided(np.where(absent, 0.0, self.recall).sum(axis=1), (~absent).sum(axis=1))

    def correlation(self) -> np.ndarray:
        """Returns the Matthews correlation coefficient of any number of classes, float64 [sets].

        Source: Gorodkin, Comparing Two K-Category Assignments by a K-Category Correlation Coefficient, 2004.
        """
        total = self.labels.sum(axis=1, keepdims=True)
        labels, said, hits = (divided(sums, total) for sums in (self.labels, self.said, self.hits))
        covariance = hits.sum(axis=1) - (labels * said).sum(axis=1)
        spread = np.sqrt((1 - (labels**2).sum(axis=1)) * (1 - (said**2).sum(axis=1)))
        one_class = ((self.labels > 0).sum(axis=1) == 1) | ((self.said > 0).sum(axis=1) == 1)
        return np.where(one_class, 0.0, divided(covariance, spread)) + 0.0 * total[:, 0]


CLASS_FORMULAS: Mapping[str, Callable[[ClassSums], np.ndarray]] = {
    "balanced_accuracy": ClassSums.balanced_accuracy,
    "mcc": ClassSums.correlation,
    "macro_precision": lambda sums: sums.macro(sums.precision, sums.said),
    "macro_recall": lambda sums: sums.macro(sums.recall, sums.labels),
    "macro_f1": lambda sums: sums.macro(sums.f1, sums.said + sums.labels),
    "weighted_precision": lambda sums: sums.weighted(sums.precision, sums.said),
    "weighted_recall": lambda sums: sums.weighted(sums.recall, sums.labels),
    "weighted_f1": lambda sums: sums.weighted(sums.f1, sums.said + sums.labels),
}
"""Metric -> function of the sums per class: float64 [sets], NaN where undefined."""
PER_CLASS: Mapping[str, Callable[[ClassSums], np.ndarray]] = {
    "precision": lambda sums: sums.precision,
    "recall": lambda sums: sums.recall,
    "f1": lambda sums: sums.f1,
}
"""Metric of one class -> function of the sums per class: float64 [sets, classes]."""


def needs_class_counts(name: str) -> bool:
    """Returns whether a metric is a function of the sums per class."""
    of_class = class_of(name)
    return name in CLASS_FORMULAS or (of_class is not None and of_class[0] in PER_CLASS)


def class_sums(cells: ConfusionCells, index: int, classes: int = 0) -> tuple[ClassSums, ClassSums]:
    """Returns the sums per class of a slice, [1, classes], and those without each group of rows, [GROUPS, classes].

    Args:
        cells: Matrices of each group of each slice; the number of a matrix is slice * GROUPS + group.
        index: Number of the slice.
        classes: Number of classes, if it is more than those with rows.
    """
    groups, labels, said, weights = cells.of_sets(index * GROUPS, GROUPS).pairs()
    known = np.concatenate([labels[labels != NO_CLASS], said[said != NO_CLASS]])
    width = max(classes, known.max(initial=-1) + 1)
    sums = np.zeros((3, GROUPS, width + 1))
    for of, ids, rows in ((0, labels, labels >= 0), (1, said, said >= 0), (2, labels, labels == said)):
        np.add.at(sums[of], (groups[rows], np.minimum(ids[rows], width)), weights[rows])
    sums = sums[:, :, :width]
    return ClassSums(*sums.sum(axis=1, keepdims=True)), ClassSums(*sums_without_each(sums, axis=1))


def class_metrics(
    metrics: Sequence[str], cells: ConfusionCells, slices: int, classes: Sequence[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns metrics of each slice, float64 [slices], and those without each group of rows, float64 [slices, GROUPS].

    Args:
        metrics: Names for which `needs_class_counts` holds.
        cells: As in `class_sums`.
        slices: Number of slices.
        classes: Names of the classes in id order.
    """
    values = {name: np.full(slices, np.nan) for name in metrics}
    without = {name: np.full((slices, GROUPS), np.nan) for name in metrics}
    for index in range(slices if metrics else 0):
        whole, less = class_sums(cells, index, len(classes))
        for name in metrics:
            values[name][index] = _value(name, whole, classes)[0]
            without[name][index] = _value(name, less, classes)
    return values, without


def _value(name: str, sums: ClassSums, classes: Sequence[str]) -> np.ndarray:
    """Returns a metric, float64 [sets]; NaN if there is no such class."""
    of_class = class_of(name)
    if of_class is None:
        return CLASS_FORMULAS[name](sums)
    metric, wanted = of_class
    if wanted not in classes:
        return np.full(len(sums.labels), np.nan)
    return PER_CLASS[metric](sums)[:, list(classes).index(wanted)]
