"""Metrics as functions of the sums of terms over rows, and of the moments of labels and scores.

Formulas are those of TFMA and Keras.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

COUNT = "rows"
"""The number of rows, which weights do not change."""

Sums = Mapping[str, np.ndarray]
"""COUNT, term or moment -> its value for each set of rows, float64 [sets]: the sum of a term, by weight."""


@dataclass(frozen=True)
class Formula:
    """A metric as a function of sums.

    Attributes:
        terms: The needed terms.
        value: Sums -> float64 [sets], NaN where undefined.
        trials: Term of the rows that the metric is a share of; "" if it is no share.
        rests_on: Term of the rows without which the metric tells little; "" for those of `trials`.
        tail: Term whose large values may decide the metric; "" if it has limits.
        relative: Whether the metric compares with a constant guess, which is wrong in the same rows.
    """

    terms: tuple[str, ...]
    value: Callable[[Sums], np.ndarray]
    trials: str = ""
    rests_on: str = ""
    tail: str = ""
    relative: bool = False


def share_of(above: str, below: str) -> Formula:
    """Returns the share of the rows of one term in those of another."""
    return replace(ratio_of(above, below), trials=below)


def ratio_of(above: str, below: str) -> Formula:
    """Returns the quotient of two sums that have limits."""
    return Formula((above, below), lambda sums: divided(sums[above], sums[below]))


def mean_of_term(above: str, below: str) -> Formula:
    """Returns the mean of a term without limits, which a few large values may decide."""
    return replace(ratio_of(above, below), tail=above)


def root_of_mean(above: str, below: str) -> Formula:
    """Returns the root of such a mean."""
    return Formula((above, below), lambda sums: np.sqrt(divided(sums[above], sums[below])), tail=above)


def divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Returns above / below, NaN where below is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below != 0, above / below, np.nan)


def _squared_correlation(sums: Sums) -> np.ndarray:
    """Returns the squared correlation of labels and scores, float64 [sets], from their moments."""
    covariance = sums["covariance"]
    product = divided(covariance, sums["score_variance"]) * divided(covariance, sums["label_variance"])
    return np.minimum(product, 1.0)


F1 = Formula(
    ("true_positive", "said_positive", "label"),
    lambda sums: divided(2 * sums["true_positive"], sums["said_positive"] + sums["label"]),
    trials="mentioned",
    rests_on="label",
)
WAPE = Formula(
    ("absolute_error", "absolute_label"),
    lambda sums: 100 * divided(sums["absolute_error"], sums["absolute_label"]),
    tail="absolute_error",
)
R2 = Formula(("label_variance", "score_variance", "covariance"), _squared_correlation, tail="squared_error")
EXPLAINED = Formula(
    ("weight", "squared_error", "label_variance"),
    lambda sums: 1 - divided(divided(sums["squared_error"], sums["weight"]), sums["label_variance"]),
    tail="squared_error",
    relative=True,
)
"""1 - squared error / that of the mean label of the same rows; the best constant has 0."""
