"""Judges representations: small boosters predict the rows of each fold from the others; the gain has an interval."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from fullpass.base.processes import usable_cores
from fullpass.pipeline.authoring.init.search.encodings import Encoding
from fullpass.pipeline.authoring.profile.strength import ranks
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.loss_config import LOSSES
from fullpass.trainer.trees.work import CATEGORIES, USUAL_LEAVES, Work

FOLDS = 5
"""Each booster learns from four fifths of the rows."""
_REACH = 1.96
"""Half of a 95 % interval, in standard errors."""
_RATE, _ROUNDS, _PATIENCE = 0.15, 130, 12
_SORTING = 15
"""Work of a value of a category in each leaf, which sorts them."""
_OVERHEAD = 2
"""How many times the counted work small tables take, as each round and each fold begins anew."""
USUAL_ROUNDS = 60
"""Rounds that boosters of classes take, for an estimate of the work."""
_FEATURE_PRICE = 0.0002
"""The share of what can be gained at most that a feature must gain: a request pays for each."""


@dataclass(frozen=True)
class Gain:
    """A paired difference of a metric over the rows of all folds, and half its 95 % interval."""

    mean: float
    reach: float
    metric: str

    def pays(self, price: float) -> bool:
        """Returns whether the gain is beyond its interval and at least a price."""
        return self.mean > max(self.reach, price)

    @property
    def text(self) -> str:
        """The gain as it is written beside what it pays for."""
        digits = min(6, max(3, -math.floor(math.log10(max(self.reach, 1e-9)))))
        return f"{self.mean:+.{digits}f} ± {self.reach:.{digits}f} {self.metric} in five folds"


def gain_of(gains: np.ndarray, metric: str) -> Gain:
    """Returns the mean of the gain of each row, float64 [rows], with its interval."""
    return Gain(float(gains.mean()), float(_REACH * gains.std() / len(gains) ** 0.5), metric)


@dataclass(frozen=True, eq=False)
class Judged:
    """What the boosters of some columns reach.

    Attributes:
        scores: float64 [rows], whose mean is the metric; more is better.
        predicted: float64 [rows] or [rows, classes], by the boosters that did not learn from a row.
        rounds: The rounds of a fold, on average.
    """

    scores: np.ndarray
    predicted: np.ndarray
    rounds: int


def _explained(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return 1 - (y - predicted) ** 2 / y.var()


def _likelihood(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(predicted[np.arange(len(y)), y.astype(int)], 1e-15))


def areas(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Returns numbers with the AUC as their mean, and the variance of DeLong et al. (1988) as that of their mean."""
    areas = np.empty(len(y))
    for own in (0, 1):
        rows, others = y == own, np.sum(y != own)
        below = (ranks(predicted)[rows] - ranks(predicted[rows])) / others
        area = below if own else 1 - below
        areas[rows] = area.mean() + (area - area.mean()) * len(y) / rows.sum()
    return areas


def relative_errors(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Returns the size of the relative error of each row, of labels of 0 and above; those below the median count less.

    They are not decided by a few large labels.
    """
    usual = np.median(y[y > 0])
    return np.abs(np.log((y + usual) / (np.maximum(predicted, 0) + usual)))


_MEASURES: Mapping[Task, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "binary": ("AUC", areas),
    "multiclass": ("log likelihood", _likelihood),
    "regression": ("explained variance", _explained),
}
"""Task -> the name of what is compared, and its parts by row for labels and predictions, with the value as the mean."""


@dataclass(frozen=True, eq=False)
class FoldJudge:
    """Measures columns on rows with a label.

    Attributes:
        y: float64 [rows], the label as numbers.
        folds: int64 [rows], the fold of each row.
        classes: The number of classes of a multiclass label, else 1.
    """

    y: np.ndarray
    folds: np.ndarray
    task: Task
    classes: int = 1
    smoothing: Mapping[str, float] = field(default_factory=lambda: CATEGORIES[0])

    @property
    def targets(self) -> np.ndarray:
        """The label, or of several classes whether it is each of them, float64 [rows, columns]."""
        return self.y[:, None] if self.classes == 1 else np.equal(self.y[:, None], np.arange(self.classes)) * 1.0

    def width(self, columns: Sequence[Encoding]) -> int:
        """Returns the number of columns that boosters read."""
        return sum(self.classes if one.kind == "means" else one.values[:1].size for one in columns)

    def work(self, columns: Sequence[Encoding], more: int = 0, rounds: int = USUAL_ROUNDS) -> float:
        """Returns the work of a judgement of columns, and so many more, with so many rounds in each fold."""
        values = sum(int(one.values.max()) for one in columns if one.kind == "category")
        sorting = rounds * self.classes * USUAL_LEAVES * values * _SORTING
        work = Work(len(self.y) * (FOLDS - 1) // FOLDS, self.width(columns) + more, self.classes)
        return FOLDS * _OVERHEAD * (work.of(USUAL_LEAVES, rounds) + sorting)

    def judged(self, columns: Sequence[Encoding], loss: str = "auto") -> Judged:
        """Returns the scores of boosters with a loss of `training.loss`, on the scale of the label."""
        with ThreadPoolExecutor(usable_cores()) as threads:
            parts = list(threads.map(lambda fold: self._of_fold(fold, columns, loss), range(FOLDS)))
        predicted, scores = np.empty((len(self.y), *parts[0][0].shape[1:])), np.empty(len(self.y))
        for fold, (part, _) in enumerate(parts):
            rows = self.folds == fold
            predicted[rows], scores[rows] = part, _MEASURES[self.task][1](self.y[rows], part)
        return Judged(scores, predicted, sum(rounds for _, rounds in parts) // FOLDS)

    def smoothed(self, columns: Sequence[Encoding]) -> "FoldJudge":
        """Returns the judge with the trainer's treatment of categories that predicts the first fold best."""
        judges = [replace(self, smoothing=own) for own in CATEGORIES]
        with ThreadPoolExecutor(usable_cores()) as threads:
            found = list(threads.map(lambda judge: judge._of_fold(0, columns, "auto")[0], judges))
        measure, rows = _MEASURES[self.task][1], self.folds == 0
        return judges[int(np.argmax([measure(self.y[rows], predicted).mean() for predicted in found]))]

    def gain(self, before: Judged, after: Judged) -> Gain:
        """Returns by how much one judgement is better than another of the same rows."""
        return gain_of(after.scores - before.scores, _MEASURES[self.task][0])

    def price(self, features: int) -> float:
        """Returns what so many more features in each request must gain."""
        shares = np.unique(self.y, return_counts=True)[1] / len(self.y)
        entropy = float(-(shares * np.log(shares)).sum())
        span = {"binary": 0.5, "multiclass": entropy}.get(self.task, 1.0)
        return _FEATURE_PRICE * features * span

    def _of_fold(self, fold: int, columns: Sequence[Encoding], loss: str) -> tuple[np.ndarray, int]:
        import lightgbm

        learns = self.folds != fold
        table = np.column_stack([one.numbers(self.targets, learns) for one in columns])
        categories = [self.width(columns[:i]) for i, one in enumerate(columns) if one.kind == "category"]
        label = np.log(self.y) if loss == "log_normal" else self.y
        parameters = {**self.smoothing, **_objective(self.task, self.classes, loss), "learning_rate": _RATE}
        parameters |= {"num_leaves": USUAL_LEAVES, "verbosity": -1, "num_threads": 1, "seed": 1, "deterministic": True}
        learned = lightgbm.Dataset(table[learns], label[learns], categorical_feature=categories, params=parameters)
        judging = learned.create_valid(table[~learns], label[~learns])
        stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
        grown = lightgbm.train({**parameters, "force_row_wise": True}, learned, _ROUNDS, [judging], callbacks=[stop])
        predicted = np.asarray(grown.predict(table[~learns], num_threads=1))
        if loss == "log_normal":  # as in a run, the median is raised to the mean
            predicted = np.exp(predicted + np.var(label[~learns] - predicted) / 2)
        return predicted, grown.current_iteration()


def _objective(task: Task, classes: int, loss: str) -> dict[str, object]:
    if task == "regression":
        return {"objective": LOSSES[loss].objective}
    return {"objective": "binary"} if classes == 1 else {"objective": "multiclass", "num_class": classes}
