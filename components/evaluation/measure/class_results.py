"""What an evaluation keeps of each class, over all rows: the confusion matrix, metrics and curves one against the rest.

A matrix of many classes is kept as its most confused pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from fullpass.base.json_text import Number, read_parsed
from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.class_counts import NO_CLASS, ConfusionCells, class_sums
from fullpass.components.evaluation.measure.class_sums import ClassMetric
from fullpass.components.evaluation.measure.intervals import Evidence, errors_of
from fullpass.components.evaluation.measure.one_vs_rest import MOST_CURVES
from fullpass.components.evaluation.measure.sampling_error import sums_without_each
from fullpass.components.evaluation.measure.score_buckets import SparseHistograms
from fullpass.components.evaluation.measure.score_curves import Curve, curves_of

FILE = "classes.json"
MOST_CELLS = 20
"""Largest number of classes whose matrix is kept as a whole, and number of pairs that are kept otherwise."""
_MOST_CLASSES, _MOST_SHOWN_CURVES = 100, 10
"""Numbers of classes in the table, and of those with curves: a page that a browser opens at once, lines told apart."""


@dataclass(frozen=True)
class Cell:
    """The rows of a class that are predicted as a class. share: of the rows of the class. error: that of the share."""

    label: str
    predicted: str
    weight: float
    share: Number
    error: Number


@dataclass(frozen=True)
class OfClass:
    """A class. weight: that of its rows. metrics: metric -> value and standard error, NaN where undefined."""

    name: str
    weight: float
    metrics: Mapping[str, tuple[Number, Number]]


@dataclass(frozen=True)
class ClassResults:
    """The classes of one model.

    Attributes:
        classes: Up to 100 classes, those with the most rows first.
        count: The number of all classes.
        cells: The whole matrix by label and prediction, or of more than 20 classes the 20 pairs with the most rows that
            are predicted wrongly; empty if a row has several labels.
        roc, precision_recall: Curves of up to 10 classes against all others; empty if no metric needs them.
    """

    classes: tuple[OfClass, ...]
    count: int
    cells: tuple[Cell, ...] = ()
    roc: Mapping[str, Curve] = field(default_factory=dict)
    precision_recall: Mapping[str, Curve] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether `cells` are the whole matrix."""
        return len(self.cells) == self.count**2


def class_results(
    cells: ConfusionCells,
    names: Sequence[str],
    index: int,
    curves: tuple[SparseHistograms, SparseHistograms] | None = None,
) -> ClassResults | None:
    """Returns the results of one set of rows; None if it has no rows.

    Args:
        cells: As in `class_sums`.
        names: Names of the classes in id order.
        index: Number of the set.
        curves: Histograms per class, and those per group, if a metric needs them.
    """
    whole, left, rows = class_sums(cells, index, len(names))
    weights = whole.labels[0]
    if not names or not weights.sum() > 0:
        return None
    groups, labels, said, weight = cells.of_sets(index * GROUPS, GROUPS).pairs()
    present = np.bincount(groups, minlength=GROUPS) > 0
    order = np.argsort(-weights, kind="stable")

    def errors(of_rows: np.ndarray, values: np.ndarray, without: np.ndarray) -> np.ndarray:
        """Returns the standard errors of shares, float64 [n]. without: those without each group, [GROUPS, n]."""
        some = np.broadcast_to(present, without.T.shape)
        return errors_of(Evidence(of_rows), values, without.T, some)

    values = {}
    for metric in get_args(ClassMetric):
        of_whole = whole.of(metric)[0][0]
        values[metric] = (of_whole, errors(rows.by_metric[metric], of_whole, left.of(metric)[0]))
    classes = tuple(
        OfClass(names[k], float(weights[k]), {n: (float(v[k]), float(e[k])) for n, (v, e) in values.items()})
        for k in order[:_MOST_CLASSES]
    )
    pairs = _pairs(labels, said, weight, len(names)) if not (np.maximum(labels, said) == NO_CLASS).any() else []
    shown = []
    for label, predicted in pairs:
        chosen = (labels == label) & (said == predicted)
        of_groups = np.bincount(groups[chosen], weights=weight[chosen], minlength=GROUPS)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = of_groups.sum(keepdims=True) / weights[label]
            without = sums_without_each(of_groups, 0) / left.labels[:, label]
        error = errors(rows.labels[[label]], share, without[:, None])[0]
        shown.append(Cell(names[label], names[predicted], float(of_groups.sum()), float(share[0]), float(error)))
    lines: dict[str, dict[str, Curve]] = {"roc": {}, "precision_recall": {}}
    for k in order[:_MOST_SHOWN_CURVES] if len(names) <= MOST_CURVES else []:
        if curves and (one := curves_of(*curves, index * MOST_CURVES + int(k))) is not None:
            lines["roc"][names[k]], lines["precision_recall"][names[k]] = one.roc, one.precision_recall
    return ClassResults(classes, len(names), tuple(shown), **lines)


def _pairs(labels: np.ndarray, said: np.ndarray, weights: np.ndarray, classes: int) -> list[tuple[int, int]]:
    """Returns all pairs of label and prediction, or the most confused ones of many classes."""
    if classes <= MOST_CELLS:
        return [(label, predicted) for label in range(classes) for predicted in range(classes)]
    wrong = labels != said
    distinct, indices = np.unique(np.stack([labels[wrong], said[wrong]]), axis=1, return_inverse=True)
    sums = np.bincount(indices.ravel(), weights=weights[wrong], minlength=distinct.shape[1])
    return [(int(a), int(b)) for a, b in distinct[:, np.argsort(-sums, kind="stable")[:MOST_CELLS]].T]


def read_class_results(evaluation_uri: str) -> list[ClassResults | None]:
    """Returns the classes of each model; empty if no metric needs them."""
    return read_parsed(list[ClassResults | None], f"{evaluation_uri}/{FILE}") or []
