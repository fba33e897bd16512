"""Measures how well one column predicts the label: target means per group, cross-fitted.

A column is cut into groups (its values, or quantiles of its numbers). The label's mean per group, shrunk towards the
overall mean, is fitted on one half of the rows and predicts the other half, and vice versa. For several classes, a row
is predicted by the other rows of its group. So a column with a unique value in every row predicts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile
from fullpass.preprocessing.features.label import Task

_GROUPS = 200
"""Most groups of one column: finer quantiles add less than the noise of their means."""
_FEWEST_GROUPS = 10
"""Groups of a column of few rows: deciles still show a curve."""
ROWS_PER_GROUP = 50
"""Labelled rows per group: the mean of a binary label is then known to about 0.07."""
_GROUPS_OF_PAIRS = 40
"""Most groups of each of two columns, so that 20,000 rows have some ten in each of 1,600 pairs."""
_FEWEST_OF_PAIRS = 5
"""Groups of each of two columns of few rows."""
_ROWS_PER_PAIR = 10
"""Labelled rows per pair of groups: only labels that are told nearly always matter here."""
_PRIOR_ROWS = 2.0
"""Rows of the overall mean that are added to each group, so that a group of one row says little."""
FEWEST_ROWS = 50
"""Labelled rows below which no strength is measured: chance alone would look strong."""
_FEWEST_OF_CLASS = 10
"""Rows of the second largest class, likewise."""
_LEAK = {"binary": 0.99, "multiclass": 0.98, "regression": 0.98}
"""Strength from which on `check --data` warns: few honest columns reach it."""
_GIVEN_AWAY = {"binary": 0.999, "multiclass": 0.998, "regression": 0.998}
"""Strength that only the label itself has, under another name."""
_SUSPECT = {"binary": 0.95, "multiclass": 0.9, "regression": 0.9}
"""Strength from which on `init` asks whether the column is known in use."""


@dataclass(frozen=True, eq=False)
class Target:
    """The label of every row.

    Attributes:
        y: float64 [rows]: 0 or 1, the number of the class, or the value; NaN where it is missing.
        texts: The values of a label of classes as text; for several classes in the order of their numbers.
    """

    task: Task
    y: np.ndarray
    name: str = "the label"
    texts: Sequence[str] = ()

    @cached_property
    def known(self) -> np.ndarray:
        """bool [rows], whether a row has a label."""
        return ~np.isnan(self.y)

    @cached_property
    def known_codes(self) -> np.ndarray:
        """int64 [known rows], the position of each label among the sorted different ones."""
        return np.unique(self.y[self.known], return_inverse=True)[1]

    @cached_property
    def known_ranks(self) -> np.ndarray:
        """float64 [known rows], the rank of each label."""
        return ranks(self.y[self.known])


@dataclass(frozen=True)
class Strength:
    """How well one column alone predicts the label.

    Attributes:
        value: AUC for binary; for multiclass the share of the majority class's errors that it corrects; for regression
            R² of the label's ranks, which a few far values do not decide.
        by: What predicts the label: the column alone, or one aspect of it.
    """

    task: Task
    value: float
    shown: str
    by: str = "alone"

    @property
    def gives_label_away(self) -> bool:
        """Whether the column must hold the label itself: no honest measurement predicts so well."""
        return self.value >= _GIVEN_AWAY[self.task]

    @property
    def is_leak(self) -> bool:
        """Whether the column predicts so well that it may hold the label itself."""
        return self.value >= _LEAK[self.task]

    @property
    def is_suspect(self) -> bool:
        """Whether the column predicts so well that it may be unknown at serving time."""
        return self.value >= _SUSPECT[self.task]


def strength_of(column: ColumnProfile, target: Target) -> Strength | None:
    """Returns how well a column predicts the label; None if its kind has no groups or too few rows have a label."""
    groups = groups_of(column, most_groups(target))
    strength = None if groups is None else strength_of_groups(groups, target)
    if strength is None or target.task not in ("binary", "regression") or column.kind != "number":
        return strength
    if target.task == "binary":
        area = _auc_of_order(column.values.row_numbers[target.known], target)
        # Groups mix the smallest numbers with those beside them; only a leak is so exact that this matters.
        return _of_auc(area) if area >= max(_LEAK["binary"], strength.value) else strength
    line = _r2_of_line(column.values.row_numbers, target.y)
    return _of_r2(line) if line > strength.value else strength


def most_groups(target: Target) -> int:
    """Returns the number of groups that a column is cut into: 50 labelled rows each, from 10 to 200 groups."""
    return min(_GROUPS, max(_FEWEST_GROUPS, int(target.known.sum()) // ROWS_PER_GROUP))


def strength_of_groups(groups: np.ndarray, target: Target) -> Strength | None:
    """Returns how well groups, int [rows], predict the label; None if too few rows have a label."""
    groups = groups[target.known]
    if len(groups) < FEWEST_ROWS or target.task == "multilabel":
        return None
    if target.task == "regression":
        ranks = target.known_ranks
        error = ((ranks - cross_fitted(groups, ranks)) ** 2).mean()
        return _of_r2(1 - float(error / ranks.var())) if ranks.std() > 0 else None
    codes = target.known_codes
    sizes = np.bincount(codes)
    if len(sizes) < 2 or np.sort(sizes)[-2] < _FEWEST_OF_CLASS:
        return None
    if target.task == "binary":
        return _of_auc(auc(cross_fitted(groups, codes.astype(float)), codes))
    return _accuracy(groups, codes, len(sizes))


def groups_for_pairs(column: ColumnProfile, target: Target) -> np.ndarray | None:
    """Returns the group of each row for `strength_of_pair`, int64 [rows]; None for kinds without groups."""
    return groups_of(column, _most_groups_of_pairs(target))


def strength_of_pair(one: np.ndarray, other: np.ndarray, target: Target) -> Strength | None:
    """Returns how well two columns together predict the label, by a mean per pair of their `groups_for_pairs`."""
    return strength_of_groups(one * (_most_groups_of_pairs(target) + 2) + other, target)


def _most_groups_of_pairs(target: Target) -> int:
    return int(min(_GROUPS_OF_PAIRS, max(_FEWEST_OF_PAIRS, (target.known.sum() / _ROWS_PER_PAIR) ** 0.5)))


def groups_of(column: ColumnProfile, most: int = _GROUPS) -> np.ndarray | None:
    """Returns the group of each row, int64 [rows], 0 for missing; None for kinds without groups."""
    values = column.values
    if not values.present or column.kind in ("text", "image_path"):
        return None
    if column.kind == "date" and column.dates is not None:
        return by_quantile(values.per_row(column.dates.moments), most)
    if column.kind == "number" and values.distinct > most:
        return by_quantile(values.row_numbers, most)
    return np.minimum(values.codes.astype(np.int64) + 1, most)


def cross_fitted(groups: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns for each row the mean of y in its group, over the other half of the rows; small groups are shrunk."""
    predicted = np.empty(len(y))
    for fitted, rest in two_halves(len(y)):
        predicted[rest] = group_means(groups[fitted], y[fitted], groups.max() + 1)[groups[rest]]
    return predicted


@lru_cache(maxsize=8)
def two_halves(rows: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns a random half of the rows and the other half, as increasing indices, and the same two in reverse.

    The halves are the same for each number of rows.
    """
    half = np.random.default_rng(rows).random(rows) < 0.5
    one, other = np.flatnonzero(half), np.flatnonzero(~half)
    return (one, other), (other, one)


def group_means(groups: np.ndarray, y: np.ndarray, size: int) -> np.ndarray:
    """Returns the mean of y per group, float64 [size], each with two extra rows of the overall mean."""
    sums = np.bincount(groups, weights=y, minlength=size)
    counts = np.bincount(groups, minlength=size)
    return (sums + _PRIOR_ROWS * y.mean()) / (counts + _PRIOR_ROWS)


def by_quantile(numbers: np.ndarray, most: int) -> np.ndarray:
    present = ~np.isnan(numbers)
    groups = np.zeros(len(numbers), dtype=np.int64)
    if present.any():
        bounds = np.unique(np.quantile(numbers[present], np.linspace(0, 1, most)[1:-1]))
        groups[present] = np.searchsorted(bounds, numbers[present], side="right") + 1
    return groups


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Returns the area under the ROC curve for labels 0 and 1; ties count half (Mann-Whitney)."""
    ones = int(positive.sum())
    zeros = len(positive) - ones
    return float((ranks(scores)[positive == 1].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def ranks(numbers: np.ndarray) -> np.ndarray:
    """Returns the rank of each number, counted from 1; equal numbers have their mean rank."""
    _, codes, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[codes]


def _auc_of_order(numbers: np.ndarray, target: Target) -> float:
    """Returns the AUC of the numbers themselves, in rising or falling order; missing ones count as their median."""
    missing = np.isnan(numbers)
    if missing.all():
        return 0.0
    area = auc(np.where(missing, np.nanmedian(numbers), numbers), target.known_codes)
    return max(area, 1 - area)


def _of_auc(area: float) -> Strength:
    return Strength("binary", area, f"AUC {area:.2f}")


def _of_r2(r2: float) -> Strength:
    return Strength("regression", max(0.0, r2), f"R² of ranks {max(0.0, r2):.2f}")


def _r2_of_line(x: np.ndarray, y: np.ndarray) -> float:
    """Returns R² of a straight line through the ranks of both variables (the square of Spearman's correlation)."""
    known = ~np.isnan(x) & ~np.isnan(y)
    if known.sum() < FEWEST_ROWS:
        return 0.0
    x, y = ranks(x[known]), ranks(y[known])
    return float(np.corrcoef(x, y)[0, 1] ** 2) if x.std() > 0 and y.std() > 0 else 0.0


def _accuracy(groups: np.ndarray, codes: np.ndarray, classes: int) -> Strength:
    """Returns how often a row has the class that is commonest among the other rows of its group; ties count half.

    A row alone in its group is predicted to have the commonest class of all.
    """
    pairs, pair, rows = np.unique(groups * classes + codes, return_inverse=True, return_counts=True)
    group = np.unique(pairs // classes, return_inverse=True)[1]
    first, second = (np.zeros(group.max() + 1, dtype=np.int64) for _ in range(2))
    np.maximum.at(first, group, rows)
    leads = (rows == first[group]) & (np.bincount(group, rows == first[group])[group] == 1)
    np.maximum.at(second, group, np.where(leads, 0, rows))
    ahead = rows - 1 - np.where(leads, second[group], first[group])
    right = np.where(ahead == 0, 0.5, ahead > 0)
    sizes = np.bincount(codes)
    alone = np.bincount(group, rows)[group] == 1
    right = np.where(alone, pairs % classes == sizes.argmax(), right)
    accuracy, majority = float((right * rows).sum() / len(codes)), float(sizes.max() / len(codes))
    mended = max(0.0, (accuracy - majority) / (1 - majority))
    return Strength("multiclass", mended, f"accuracy {accuracy:.2f} (constant {majority:.2f})")
