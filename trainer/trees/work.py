"""Counts the work of growing trees, so that a bound on it does not depend on the machine. No TensorFlow here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 10
"""Rounds per epoch; each round grows one tree per column of the output."""
USUAL_LEAVES = 31
"""Leaves of a tree of a table of few rows."""
BUDGET = 6e10
"""The most work of all that may be left out (choices, random thresholds, growing again): about a minute."""
MOST_LEAVES = 100_000
"""Leaves of a forest to aim at, and half of the most, also of a mean of two: a prediction looks through all of them."""
USUAL_EPOCHS = 50
"""Epochs that the estimate of the time assumes."""
AGAIN = 3
"""How many times trees grow again at most."""
_CHOICES = 3_600
"""Rounds of the candidates that choices compare, of the usual size, of all folds."""
_FEWEST = 30
"""Epochs at least of a forest that its work bounds."""
_SECONDS = 1.3e-9
"""Processor seconds of a unit of work, on a processor of 2024."""
_BINS = 256
"""Bins of a column, which each leaf looks through."""
_WIDE, _LEAST_ROUNDS = 10_000, 100
"""Columns times outputs from which a network is many times as fast, and the fewest rounds of trees of any use."""
CATEGORIES: Sequence[Mapping[str, float]] = (
    {"cat_smooth": 5.0, "cat_l2": 1.0, "min_data_per_group": 20},
    {"cat_smooth": 50.0, "cat_l2": 10.0, "min_data_per_group": 20},
    {"cat_smooth": 200.0, "cat_l2": 30.0, "min_data_per_group": 20},
)
"""How much categories with few rows are drawn to the mean: little, which is usually best, to much. No value suits all
data (docs/decisions/trees.md), LightGBM's defaults neither."""


@dataclass(frozen=True)
class Work:
    """What growth costs, counted from the table.

    Attributes:
        rows: The rows that trees learn from; with folds, those of all boosters.
        outputs: The trees of a round.
        seconds: The limit `training.time`.
    """

    rows: int
    columns: int
    outputs: int
    seconds: float | None = None

    def of(self, leaves: int, rounds: int = 1) -> float:
        """Returns the work of rounds: rows pass the levels of each tree, and each leaf looks through all bins."""
        levels = self.rows * math.log2(leaves + 1)
        return float(rounds * self.outputs * self.columns * (levels + _BINS * leaves))

    def most_epochs(self, leaves: int) -> int:
        """Returns the epochs after which a forest has too many leaves."""
        return max(1, 2 * MOST_LEAVES // (leaves * self.outputs * ROUNDS))

    @property
    def budget(self) -> float:
        """The most work of all that may be left out."""
        return BUDGET if self.seconds is None else min(BUDGET, self.seconds / _SECONDS)

    @property
    def bounded_epochs(self) -> int:
        """The epochs after which a forest of the usual size has grown for as long as all choices may take."""
        return max(_FEWEST, min(self.most_epochs(USUAL_LEAVES), int(BUDGET / self.of(USUAL_LEAVES, ROUNDS))))

    def whole(self, first: float) -> float:
        """Returns the work of a first forest with all that follows it, given the work of the first one."""
        return max(first, min(self.budget, (2 + AGAIN) * first))

    def seconds_expected(self, epochs: int) -> tuple[float, float]:
        """Returns about how many processor seconds all growth takes, and at most, with so many epochs at most."""
        usual = self.of(USUAL_LEAVES, ROUNDS * min(USUAL_EPOCHS, epochs))
        longest = self.of(USUAL_LEAVES, ROUNDS * epochs)
        choices = min(self.budget / 4, self.of(USUAL_LEAVES, _CHOICES))
        return seconds_of_work(choices + self.whole(usual)), seconds_of_work(self.budget + longest)

    @property
    def too_long(self) -> float:
        """About how many processor seconds trees of any use take; 0 if that pays.

        With many classes beside many columns it does not: a network learns as much in a small part of the time.
        """
        least = self.of(USUAL_LEAVES, _LEAST_ROUNDS)
        return seconds_of_work(least) if self.columns * self.outputs > _WIDE and least > BUDGET else 0.0


def seconds_of_work(work: float) -> float:
    """Returns about how many processor seconds some work takes."""
    return work * _SECONDS
