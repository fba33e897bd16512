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
from fullpass.components.evaluation.measure.intervals import (
    FEWEST_ROWS,
    Evidence,
    area_rows,
    effective_rows,
    mean_rows,
)
from fullpass.components.evaluation.measure.metric_terms import divided
from fullpass.components.evaluation.measure.sampling_error import sums_without_each
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.measure.sparse_sums import SparseSums
from fullpass.components.evaluation.metrics import class_of

_BITS = 16
NO_CLASS = (1 << _BITS) - 1
"""The id of "none": the label or the prediction of a multilabel class that is only predicted, or only in the label.
Metrics of a model of more classes than this are undefined."""


class ConfusionCells(SparseSums):
    """Confusion matrices of sets of rows: weight and number of the rows of a class, by predicted class."""

    CELLS, COLUMNS = 1 << 2 * _BITS, 2

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
        weights = self.weights[kept]
        return ConfusionCells.sums(sets[kept] * ConfusionCells.CELLS + self.cells[kept], weights, np.ones_like(weights))


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


@dataclass(frozen=True)
class ClassRows:
    """Effective number of rows per class of a slice, float64 [classes].

    Attributes:
        labels: Rows of the class.
        others: Rows of all other classes.
        said: Rows that are predicted as the class.
        mentioned: Twice the rows that are of the class or predicted as it.
        shares: Share of the class in the weight of all rows.
    """

    labels: np.ndarray
    others: np.ndarray
    said: np.ndarray
    mentioned: np.ndarray
    shares: np.ndarray

    @property
    def by_metric(self) -> dict[str, np.ndarray]:
        """Metric of a class -> number of rows of which it is a share, or varies as one."""
        areas = area_rows(self.labels, self.others)
        return {"precision": self.said, "recall": self.labels, "f1": self.mentioned, "auc": areas}

    def evidence(self, name: str, classes: Sequence[str]) -> tuple[float, float]:
        """Returns `rows` and `edge` of the evidence of a metric of classes."""
        metric, wanted = class_of(name) or (name.rpartition("_")[2], None)
        rows = self.by_metric.get(metric, self.labels)
        few = (self.labels if metric in ("f1", "auc") else rows) < FEWEST_ROWS
        weights = ((self.labels > 0) | (self.said > 0) if name in _ALSO_SAID else self.labels > 0) * 1.0
        if name.startswith("weighted_"):
            weights = self.shares
        if name == "mcc":
            weights = self.shares * (1 - self.shares)
        if wanted is not None:
            weights = np.array([known == wanted for known in classes[: len(rows)]], np.float64)
            rows, few = rows[: len(weights)], few[: len(weights)]
        return mean_rows(rows, weights, few)


_ALSO_SAID = ("macro_precision", "macro_recall", "macro_f1")
"""Averages over the classes that have rows or are predicted; others are over those that have rows."""


def class_sums(cells: ConfusionCells, index: int, classes: int = 0) -> tuple[ClassSums, ClassSums, ClassRows]:
    """Returns the sums per class of a slice, [1, classes], and those without each group of rows, [GROUPS, classes].

    Args:
        cells: Matrices of each group of each slice; the number of a matrix is slice * GROUPS + group.
        index: Number of the slice.
        classes: Number of classes, if it is more than those with rows.
    """
    of_slice = cells.of_sets(index * GROUPS, GROUPS)
    groups, labels, said, _ = of_slice.pairs()
    known = np.concatenate([labels[labels != NO_CLASS], said[said != NO_CLASS]])
    width = max(classes, known.max(initial=-1) + 1)
    sums = np.zeros((2, 3, GROUPS, width + 1))
    for of, ids, rows in ((0, labels, labels >= 0), (1, said, said >= 0), (2, labels, labels == said)):
        for column, values in enumerate(of_slice.weights):
            np.add.at(sums[column, of], (groups[rows], np.minimum(ids[rows], width)), values[rows])
    sums = sums[..., :width]
    weights = sums[0]
    whole = ClassSums(*weights.sum(axis=1, keepdims=True))
    return whole, ClassSums(*sums_without_each(weights, axis=1)), _class_rows(sums, whole)


def _class_rows(sums: np.ndarray, whole: ClassSums) -> ClassRows:
    """Returns the effective rows per class.

    Args:
        sums: Weights and rows by label, by prediction, and of hits, float64 [2, 3, GROUPS, classes].
        whole: The sums of the weights over the groups.
    """
    labels, said, hits = np.swapaxes(sums, 0, 1)

    def effective(of: np.ndarray) -> np.ndarray:
        return effective_rows(*np.swapaxes(of, 1, 2))

    return ClassRows(
        effective(labels),
        effective(labels.sum(axis=-1, keepdims=True) - labels),
        effective(said),
        2 * effective(labels + said - hits),
        divided(whole.labels, whole.labels.sum(axis=1, keepdims=True))[0],
    )


def class_metrics(
    metrics: Sequence[str], cells: ConfusionCells, slices: int, classes: Sequence[str], areas: Sequence[str] = ()
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Evidence]]:
    """Returns metrics of each slice, [slices], those without each group of rows, [slices, GROUPS], and evidence.

    Args:
        metrics: Names for which `needs_class_counts` holds.
        areas: Names of areas of classes, of which only the evidence is returned.
        cells: As in `class_sums`.
        slices: Number of slices.
        classes: Names of the classes in id order.
    """
    values = {name: np.full(slices, np.nan) for name in metrics}
    without = {name: np.full((slices, GROUPS), np.nan) for name in metrics}
    found = np.zeros((len(metrics) + len(areas), 2, slices))
    for index in range(slices if len(found) else 0):
        whole, less, rows = class_sums(cells, index, len(classes))
        for place, name in enumerate((*metrics, *areas)):
            found[place, :, index] = rows.evidence(name, classes)
        for name in metrics:
            values[name][index] = _value(name, whole, classes)[0]
            without[name][index] = _value(name, less, classes)
    evidence = {
        name: Evidence(of[0], of[1], area=name in areas, lowest=-1.0 if name == "mcc" else 0.0)
        for name, of in zip((*metrics, *areas), found, strict=True)
    }
    return values, without, evidence


def _value(name: str, sums: ClassSums, classes: Sequence[str]) -> np.ndarray:
    """Returns a metric, float64 [sets]; NaN if there is no such class."""
    of_class = class_of(name)
    if of_class is None:
        return CLASS_FORMULAS[name](sums)
    metric, wanted = of_class
    if wanted not in classes:
        return np.full(len(sums.labels), np.nan)
    return PER_CLASS[metric](sums)[:, list(classes).index(wanted)]
