"""Chooses how trees grow: leaves, rows on a leaf, treatment of categories and learning rate, and bounds the work.

Rows that trees did not learn from choose by successive halving (Jamieson and Talwalkar 2016): all candidates grow some
rounds, and the better half of them grows on, beside the usual one until another beats it by more than a standard error.
These rows are those of folds of train where that is cheap, else those of the split validation. Work is counted,
not timed, so that the same data grows the same trees on any machine.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fullpass.trainer.config import SMALL_UP_TO, Trees
from fullpass.trainer.trees.folds import FOLDS
from fullpass.trainer.trees.rounds import Rounds, gains
from fullpass.trainer.trees.work import BUDGET, CATEGORIES, MOST_LEAVES, ROUNDS, USUAL_LEAVES, Work, seconds_of_work

_LOG = logging.getLogger(__name__)
_RATE, _OF_FOLDS, _FASTEST = 0.05, 0.1, 0.2
"""The learning rate, that of choices by folds, and the one in a hurry: trees that learn faster rank about alike."""
_RACES = (200, 400)
"""Rounds at `_RATE` after which the worse half of the candidates ends."""
_USUAL_ROUNDS = 1_500
"""Rounds at `_RATE` to expect of trees that still improve when the last race ends."""
_CHOICES_SHARE = 0.25
"""The share of the budget that choices may take on folds, or else at `_RATE`; else trees race at `_FASTEST`."""
_MANY_ROWS = 40_000
"""Rows from which larger trees pay."""
_LEAVES = {False: (USUAL_LEAVES, 15, 7, 63), True: (63, 31, 127, 15)}
_LEAVES_OF_FEW = (USUAL_LEAVES, 15, 7)
"""The candidates up to `SMALL_UP_TO` train rows, which chose 63 leaves on no table tried (docs/decisions/trees.md)."""
_MIN_ROWS = {False: (10, 40), True: (20, 100)}
"""The candidates, with fewer and with more rows than `_MANY_ROWS`; the first one is the usual one."""
Parameters = Mapping[str, Any]


@dataclass
class NumbersChoice:
    """The parameters that are chosen one after the other; numbers of the user are kept.

    Attributes:
        rows: The train rows of the table.
        rounds_of: Returns boosters with some parameters that have not grown yet.
        of_folds: Likewise, of boosters of folds, that choose; None if those of `rounds_of` do.
        at_once: How many boosters grow at the same time.
        epochs: The most epochs of any.
        spent: The work of the choices.
    """

    model: Trees
    work: Work
    rows: int
    rounds_of: Callable[[Parameters], Rounds]
    at_once: int
    stops: Sequence[int]
    epochs: int
    of_folds: Callable[[Parameters], Rounds] | None = None
    spent: float = 0.0
    chosen: dict[str, Any] = field(default_factory=dict)
    _best: Rounds | None = None

    def __post_init__(self) -> None:
        many = self.rows >= _MANY_ROWS
        sizes = _LEAVES_OF_FEW if self.rows <= SMALL_UP_TO else _LEAVES[many]
        self._leaves = sizes if self.model.leaves == "auto" else (self.model.leaves,)
        self._least = _MIN_ROWS[many] if self.model.min_rows == "auto" else (self.model.min_rows,)
        self.chosen |= {"num_leaves": self._leaves[0], "min_data_in_leaf": self._least[0], **CATEGORIES[0]}
        usual = _RATE if self.model.learning_rate == "auto" else self.model.learning_rate
        wanted = (len(self._leaves) + len(self._least) + len(CATEGORIES)) * _RACES[0]
        race, allowed = self.work.of(self._leaves[0], wanted), _CHOICES_SHARE * self.work.budget
        if self._parts * race * _RATE / _OF_FOLDS > allowed:
            self.of_folds = None
        fastest = _FASTEST if race > allowed else usual if self.of_folds is None else _OF_FOLDS
        self.chosen["learning_rate"], self._usual = max(usual, fastest), usual

    @property
    def _parts(self) -> int:
        """How many times a race reads the train rows: each of the folds learns from the rows of the others."""
        return 1 if self.of_folds is None else FOLDS - 1

    def run(self, *, categories: bool) -> Rounds:
        """Returns boosters with the best parameters, which may have grown already.

        Args:
            categories: Whether the treatment of categories matters.
        """
        if self.work.budget > 0:
            self._race([{"num_leaves": own} for own in self._leaves])
            self._race(list(CATEGORIES) if categories else [])
            self._race([{"min_data_in_leaf": own} for own in self._least])
        rate = self._rate()
        if self._best is None or self.of_folds is not None or rate != self.chosen["learning_rate"]:
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
        usual = racing[0]
        for rounds in _RACES:
            epochs = min(self.epochs, max(1, round(rounds * _RATE / self.chosen["learning_rate"] / ROUNDS)))
            before = [one.epochs for one in racing]
            with ThreadPoolExecutor(self.at_once) as threads:
                losses = list(threads.map(lambda one, most=epochs: one.loss_after(most, self.stops), racing))
            self.spent += sum(self._work(one, one.epochs - done) for one, done in zip(racing, before, strict=True))
            _LOG.info("trees: after %d epochs %s lose %s", epochs, [named[id(one)] for one in racing], losses)
            ahead = sorted(racing, key=lambda one: one.best_loss)[: -(-len(racing) // 2)]
            if usual in racing and not gains(usual.row_losses(), ahead[0].row_losses()):
                ahead.append(usual)
            racing = [one for one in racing if one in ahead]
        best = min(racing, key=lambda one: one.best_loss)
        self._best = best if gains(usual.row_losses(), best.row_losses()) else usual
        self.chosen |= named[id(self._best)]

    def _grower(self, own: Parameters) -> Rounds:
        """Returns boosters with other parameters, or the best ones so far if they have them."""
        if self._best is not None and own.items() <= self.chosen.items():
            return self._best
        return (self.of_folds or self.rounds_of)({**self.chosen, **own})

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
        return self.work.of(leaves, rounds) > BUDGET or rounds * self.work.outputs * leaves > MOST_LEAVES

    def _work(self, one: Rounds, epochs: int) -> float:
        return self._parts * self.work.of(one.settings[0]["num_leaves"], ROUNDS * epochs)
