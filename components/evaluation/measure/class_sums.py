"""Metrics of classes as functions of the weights per class.

The rules where a quotient is 0 / 0 are those of scikit-learn: in an average, a class that is never predicted has a
precision of 0, and a class without rows that is predicted has a recall of 0. A class that has neither is in no average.
Without such a pair of classes, the correlation is 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fullpass.components.evaluation.measure.formulas import divided

ClassMetric = Literal["precision", "recall", "f1"]


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

    def of(self, metric: ClassMetric) -> tuple[np.ndarray, np.ndarray]:
        """Returns a metric of each class and its denominator; the metric is NaN where that is 0.

        A class that is never predicted has no precision, one without rows no recall, and one with neither no F1.
        """
        above, below = {
            "precision": (self.hits, self.said),
            "recall": (self.hits, self.labels),
            "f1": (2 * self.hits, self.said + self.labels),
        }[metric]
        return divided(above, below), below

    def macro(self, metric: ClassMetric) -> np.ndarray:
        """Returns the mean of a metric over the classes that have rows or are predicted, float64 [sets]."""
        values, below = self.of(metric)
        absent = (self.labels == 0) & (self.said == 0)
        return divided(np.where(below == 0, 0.0, values).sum(axis=1), (~absent).sum(axis=1))

    def weighted(self, metric: ClassMetric) -> np.ndarray:
        """Returns the mean of a metric over the classes, weighted by the rows of each, float64 [sets]."""
        values, below = self.of(metric)
        shares = divided(self.labels, self.labels.sum(axis=1, keepdims=True))
        return (shares * np.where(below == 0, 0.0, values)).sum(axis=1)

    def balanced_accuracy(self) -> np.ndarray:
        """Returns the mean recall of the classes that have rows, float64 [sets]."""
        absent = self.labels == 0
        return divided(np.where(absent, 0.0, self.of("recall")[0]).sum(axis=1), (~absent).sum(axis=1))

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


@dataclass(frozen=True)
class OfClasses:
    """A metric of one class, or an average over the classes.

    Attributes:
        share: The metric of a class that it is, or is the average of; `auc` is an area, which needs a histogram of each
            class.
        average: Returns the average, float64 [sets], NaN where undefined; None for the metric of one class and for
            areas.
        weights: What a class counts in the average: the same if it has rows (`rows`) or is also only predicted
            (`mentioned`), as its share of the rows (`shares`), or as the variance of that share (`spread`).
        lowest: The smallest value of the metric. The largest is 1.
    """

    share: ClassMetric | Literal["auc"]
    average: Callable[[ClassSums], np.ndarray] | None = None
    weights: Literal["rows", "mentioned", "shares", "spread"] = "rows"
    lowest: float = 0.0


def macro_of(metric: ClassMetric) -> OfClasses:
    """Returns the mean over the classes that have rows or are predicted."""
    return OfClasses(metric, lambda sums: sums.macro(metric), "mentioned")


def weighted_of(metric: ClassMetric) -> OfClasses:
    """Returns the mean over the classes, weighted by their rows."""
    return OfClasses(metric, lambda sums: sums.weighted(metric), "shares")
