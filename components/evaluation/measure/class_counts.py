"""Counts per class: the confusion matrix of each slice, and the metrics that are functions of it.

Only cells with rows are kept, so a matrix has no more cells than rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.class_sums import ClassSums, OfClasses
from fullpass.components.evaluation.measure.formulas import divided
from fullpass.components.evaluation.measure.intervals import (
    FEWEST_ROWS,
    Evidence,
    ModelMetrics,
    area_rows,
    effective_rows,
    mean_rows,
)
from fullpass.components.evaluation.measure.metrics import class_of
from fullpass.components.evaluation.measure.sampling_error import sums_without_each
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.measure.sparse_sums import SparseSums

_BITS = 16
"""Bits of the id of a class: label and prediction take 32 of the 63 bits of a key; sets of rows have the rest."""
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

    def evidence(self, how: OfClasses, of_class: np.ndarray | None) -> tuple[float, float]:
        """Returns `rows` and `edge` of the evidence of a metric.

        Args:
            of_class: Whether each class is that of the metric, bool [classes]; None for an average.
        """
        rows = self.by_metric[how.share]
        few = (self.labels if how.share in ("f1", "auc") else rows) < FEWEST_ROWS
        if of_class is not None:
            width = min(len(rows), len(of_class))
            return mean_rows(rows[:width], of_class[:width] * 1.0, few[:width])
        weights = {
            "rows": (self.labels > 0) * 1.0,
            "mentioned": ((self.labels > 0) | (self.said > 0)) * 1.0,
            "shares": self.shares,
            "spread": self.shares * (1 - self.shares),
        }[how.weights]
        return mean_rows(rows, weights, few)


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
    metrics: Mapping[str, OfClasses], cells: ConfusionCells, slices: int, classes: Sequence[str]
) -> ModelMetrics:
    """Returns the metrics of each slice; of areas under curves, the evidence alone.

    Args:
        cells: As in `class_sums`.
        slices: Number of slices.
        classes: Names of the classes in id order.
    """
    found = ModelMetrics.undefined([name for name, how in metrics.items() if how.share != "auc"], slices)
    chosen = {name: chosen_class(name, classes) for name in metrics}
    evidence = np.zeros((len(metrics), 2, slices))
    for index in range(slices if metrics else 0):
        whole, less, rows = class_sums(cells, index, len(classes))
        for place, (name, how) in enumerate(metrics.items()):
            evidence[place, :, index] = rows.evidence(how, chosen[name])
            if name in found.values:
                found.values[name][index] = _value(how, chosen[name], whole)[0]
                found.without[name][index] = _value(how, chosen[name], less)
    for (name, how), of in zip(metrics.items(), evidence, strict=True):
        found.evidence[name] = Evidence(of[0], of[1], area=how.share == "auc", lowest=how.lowest)
    return found


def chosen_class(metric: str, classes: Sequence[str]) -> np.ndarray | None:
    """Returns whether each class is that of a metric of one class, bool [classes]; None for an average."""
    of_class = class_of(metric)
    return None if of_class is None else np.array([known == of_class[1] for known in classes], bool)


def _value(how: OfClasses, of_class: np.ndarray | None, sums: ClassSums) -> np.ndarray:
    """Returns a metric, float64 [sets]; NaN if there is no such class."""
    if how.average is not None:
        return how.average(sums)
    if of_class is None or how.share == "auc" or not of_class.any():
        return np.full(len(sums.labels), np.nan)
    return sums.of(how.share)[0][:, of_class.argmax()]
