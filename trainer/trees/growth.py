"""Chooses how trees grow: leaves, rows on a leaf, treatment of categories and learning rate, and bounds the work.

Validation rows choose by successive halving (Jamieson and Talwalkar 2016): all candidates grow some rounds, and the
better half of them grows on, beside the usual one, which another must beat by more than a standard error. Work is
counted, not timed, so that the same data grows the same trees on any machine.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fullpass.trainer.config import Trees
from fullpass.trainer.trees.rounds import ROUNDS, Rounds, gains

_LOG = logging.getLogger(__name__)
_RATE, _FASTEST = 0.05, 0.2
"""The learning rate, and the one in a hurry: trees that learn four times as fast rank alike."""
_RACES = (200, 400)
"""Rounds at `_RATE` after which the worse half of the candidates ends."""
_USUAL_ROUNDS = 1_500
"""Rounds at `_RATE` to expect of trees that still improve when the last race ends."""
BUDGET = 6e10
"""The most work of all that may be left out (choices, random thresholds, growing again): about a minute."""
_MOST_LEAVES = 100_000
"""Leaves of a forest to aim at, and half of the most: a prediction looks through all of them."""
_CHOICES_SHARE = 0.25
"""The share of it that choices at `_RATE` may take; else trees race at `_FASTEST`."""
_SECONDS = 1.3e-9
"""Processor seconds of a unit of work, on a processor of 2024."""
_BINS = 256
"""Bins of a column, which each leaf looks through."""
_WIDE, _LEAST_ROUNDS = 10_000, 100
"""Columns times outputs from which a network is many times as fast, and the fewest rounds of trees of any use."""
_MANY_ROWS = 40_000
"""Rows from which larger trees pay."""
_LEAVES = {False: (31, 15, 7, 63), True: (63, 31, 127, 15)}
_MIN_ROWS = {False: (10, 40), True: (20, 100)}
"""The candidates, with fewer and with more rows than `_MANY_ROWS`; the first one is the usual one."""
CATEGORIES: Sequence[Mapping[str, float]] = (
    {"cat_smooth": 5.0, "cat_l2": 1.0, "min_data_per_group": 20},
    {"cat_smooth": 50.0, "cat_l2": 10.0, "min_data_per_group": 20},
    {"cat_smooth": 200.0, "cat_l2": 30.0, "min_data_per_group": 20},
)
"""How much categories with few rows are drawn to the mean: little, which is usually best, to much. No value suits all
data (docs/decisions/trees.md), LightGBM's defaults neither."""

Parameters = Mapping[str, Any]


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
        return max(1, 2 * _MOST_LEAVES // (leaves * self.outputs * ROUNDS))

    @property
    def budget(self) -> float:
        """The most work of all that may be left out."""
        return BUDGET if self.seconds is None else min(BUDGET, self.seconds / _SECONDS)

    @property
    def too_long(self) -> float:
        """About how many processor seconds trees of any use take; 0 if that pays.

        With many classes beside many columns it does not: a network learns as much in a small part of the time.
        """
        least = self.of(_LEAVES[False][0], _LEAST_ROUNDS)
        return seconds_of_work(least) if self.columns * self.outputs > _WIDE and least > BUDGET else 0.0


def seconds_of_work(work: float) -> float:
    """Returns about how many processor seconds some work takes."""
    return work * _SECONDS


@dataclass
class NumbersChoice:
    """The parameters that are chosen one after the other; numbers of the user are kept.

    Attributes:
        rounds_of: Returns boosters with some parameters that have not grown yet.
        at_once: How many boosters grow at the same time.
        epochs: The most epochs of any.
        spent: The work of the choices.
    """

    model: Trees
    work: Work
    rounds_of: Callable[[Parameters], Rounds]
    at_once: int
    stops: Sequence[int]
    epochs: int
    spent: float = 0.0
    chosen: dict[str, Any] = field(default_factory=dict)
    _best: Rounds | None = None

    def __post_init__(self) -> None:
        many = self.work.rows >= _MANY_ROWS
        self._leaves = _LEAVES[many] if self.model.leaves == "auto" else (self.model.leaves,)
        self._least = _MIN_ROWS[many] if self.model.min_rows == "auto" else (self.model.min_rows,)
        self.chosen |= {"num_leaves": self._leaves[0], "min_data_in_leaf": self._least[0], **CATEGORIES[0]}
        usual = _RATE if self.model.learning_rate == "auto" else self.model.learning_rate
        wanted = (len(self._leaves) + len(self._least) + len(CATEGORIES)) * _RACES[0]
        hurried = self.work.of(self._leaves[0], wanted) > _CHOICES_SHARE * self.work.budget
        self.chosen["learning_rate"], self._usual = max(usual, _FASTEST) if hurried else usual, usual

    def run(self, *, categories: bool) -> Rounds:
        """Returns boosters with the best parameters, which may have grown already.

        Args:
            categories: Whether the treatment of categories matters.
        """
        if self.work.budget > 0:
            self._race(list(CATEGORIES) if categories else [])
            self._race([{"num_leaves": own} for own in self._leaves])
            self._race([{"min_data_in_leaf": own} for own in self._least])
        rate = self._rate()
        if self._best is None or rate != self.chosen["learning_rate"]:
            self.chosen["learning_rate"] = rate
            self._best = self.rounds_of(self.chosen)
        _LOG.info("trees: %s are chosen for about %.0f s of processor", self.chosen, seconds_of_work(self.spent))
        return self._best

    def _race(self, candidates: Sequence[Parameters]) -> None:
        """Chooses one of several by the loss on the validation rows."""
        if len(candidates) < 2:  # noqa: PLR2004 - nothing to choose
            return
        racing = [self._grower(own) for own in candidates]
        named = dict(zip(map(id, racing), candidates, strict=True))
        for rounds in _RACES:
            epochs = min(self.epochs, max(1, round(rounds * _RATE / self.chosen["learning_rate"] / ROUNDS)))
            before = [one.epochs for one in racing]
            with ThreadPoolExecutor(self.at_once) as threads:
                losses = list(threads.map(lambda one, most=epochs: one.loss_after(most, self.stops), racing))
            self.spent += sum(self._work(one, one.epochs - done) for one, done in zip(racing, before, strict=True))
            _LOG.info("trees: after %d epochs %s lose %s", epochs, [named[id(one)] for one in racing], losses)
            order = sorted(range(len(racing)), key=losses.__getitem__)[: -(-len(racing) // 2)]
            racing = [racing[i] for i in sorted({0, *order})]
        usual, best = racing[0], min(racing, key=lambda one: one.best_loss)
        self._best = best if gains(usual.row_losses(), best.row_losses()) else usual
        self.chosen |= named[id(self._best)]

    def _grower(self, own: Parameters) -> Rounds:
        """Returns boosters with other parameters, or the best ones so far if they have them."""
        if self._best is not None and own.items() <= self.chosen.items():
            return self._best
        return self.rounds_of({**self.chosen, **own})

    def _rate(self) -> float:
        """Returns the learning rate: higher where all rounds at the usual one are too much work."""
        rate = self._usual
        if self.model.learning_rate == "auto" and self._best is not None:
            peaked = self._best.best_epoch < self._best.epochs
            faster = self.chosen["learning_rate"] / _RATE
            rounds = faster * ROUNDS * self._best.best_epoch if peaked else _USUAL_ROUNDS
            while rate < _FASTEST and self._is_long(int(rounds * _RATE / rate)):
                rate *= 2
        return rate

    def _is_long(self, rounds: int) -> bool:
        leaves = self.chosen["num_leaves"]
        return self.work.of(leaves, rounds) > BUDGET or rounds * self.work.outputs * leaves > _MOST_LEAVES

    def _work(self, one: Rounds, epochs: int) -> float:
        return self.work.of(one.settings[0]["num_leaves"], ROUNDS * epochs)
