"""Runs the rounds in which boosted trees grow, and measures metrics after every tenth round."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import keras
import lightgbm
import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.processes import usable_cores
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import TrainingConfig, Trees
from fullpass.trainer.fit.epoch_metrics import metrics_of, monitored, sums_of
from fullpass.trainer.fit.fit import Fitted, OnEpoch, Report, StoppedError
from fullpass.trainer.fit.sampled_rows import mean_and_reach
from fullpass.trainer.loss_config import Huber, LossConfig, Tweedie, levels_of, variance_power
from fullpass.trainer.models.losses import Loss
from fullpass.trainer.trees.tree_rows import BinnedRows
from fullpass.trainer.trees.work import ROUNDS

_LOG = logging.getLogger(__name__)
_MIN_OUTPUT = 1e-15
"""Probabilities and counts are at least this, so that their logarithm is finite."""
_CELLS_OF_THREAD = 500_000
"""Minimum numbers (rows times columns) per thread: with fewer, threads wait for each other longer than they work."""
_MAX_MEASURED = 100_000
"""Maximum number of train rows that the loss of an epoch is measured on."""


def threads_for(rows: int, columns: int) -> int:
    """Returns the number of threads that grow a tree of a table."""
    return max(1, min(usable_cores(), rows * columns // _CELLS_OF_THREAD))


def boosters_at_once(threads: int) -> int:
    """Returns the number of boosters that grow at the same time on all cores, in so many threads each."""
    return max(1, usable_cores() // threads)


def booster_parameters(
    model: Trees, training: TrainingConfig, task: Task, classes: int, threads: int
) -> list[dict[str, Any]]:
    """Returns the parameters of each booster; `loss: quantile` has one per level, all else one.

    Those that `growth` chooses are not among them.
    """
    common = {
        "bagging_fraction": model.row_share,
        "bagging_freq": 1,
        "feature_fraction": model.feature_share,
        "lambda_l2": model.l2,
        "metric": "None",
        "seed": training.seed,
        "deterministic": True,
        "force_row_wise": True,
        "feature_pre_filter": False,
        "num_threads": threads,
        "verbosity": -1,
    }
    if task == "binary":
        return [{**common, "objective": "binary"}]
    if task == "multiclass":
        return [{**common, "objective": "multiclass", "num_class": classes}]
    objective = {**common, "objective": training.loss.objective}
    if isinstance(training.loss, Huber):
        return [{**objective, "alpha": training.loss.delta}]
    if isinstance(training.loss, Tweedie):
        return [{**objective, "tweedie_variance_power": training.loss.power}]
    return [{**objective, "alpha": level} for level in levels_of(training.loss)] or [objective]


def ignore(*_: object) -> None:
    """Takes the reports of rounds that nobody watches."""


def choose_thresholds(best: "Rounds", random: "Rounds") -> list["Rounds"]:
    """Returns the grown boosters that come closest to the labels of the validation rows: one of both, or their mean.

    Trees whose thresholds are drawn at random fit noise less, and follow a smooth effect in smaller steps. The mean
    takes twice the time of a prediction, so it must be better by more than a standard error.
    """
    alone = min(best, random, key=lambda one: one.best_loss)
    both = best.judge.row_losses(best.validation, np.mean([best.logits, random.logits], axis=0))
    kept = [best, random] if gains(alone.row_losses(), both) else [alone]
    losses = [best.best_loss, random.best_loss, best.loss_of([best, random])]
    _LOG.info("trees: best, random thresholds and their mean lose %s; %d are kept", losses, len(kept))
    return kept


def gains(losses: np.ndarray, others: np.ndarray) -> bool:
    """Whether other losses of the same rows are smaller by more than a standard error."""
    gain, reach = mean_and_reach(losses - others)
    return gain > reach / 2


def regrow(
    settings: Sequence[Mapping[str, Any]], rows: lightgbm.Dataset, rounds: int, seed: int, stops: Sequence[int]
) -> list[dict[str, Any]]:
    """Returns dumps of boosters with these parameters and another seed, after a given number of rounds.

    Raises:
        StoppedError: This process received a stop signal.
    """
    dumps = []
    for parameters in settings:
        booster = lightgbm.Booster({**parameters, "seed": seed}, rows)
        for _ in range(rounds):
            booster.update()
            _check_stops(stops)
        dumps.append(booster.dump_model())
    return dumps


def _check_stops(stops: Sequence[int]) -> None:
    if stops:
        raise StoppedError(
            "Training received a stop signal. Trees are not saved while they grow: the next run grows the same trees "
            "from the start."
        )


def logits_of(predictions: np.ndarray, task: Task, loss: LossConfig) -> np.ndarray:
    """Returns the sums of leaf values, float64 [rows, columns], from LightGBM's predictions after its link function.

    Args:
        predictions: The predictions of a booster, [rows] or [rows, classes].
    """
    predictions = predictions.reshape(len(predictions), -1)
    if task == "binary":
        probability = np.clip(predictions, _MIN_OUTPUT, 1 - _MIN_OUTPUT)
        return np.log(probability) - np.log1p(-probability)
    if task == "multiclass" or variance_power(loss):
        return np.log(np.maximum(predictions, _MIN_OUTPUT))
    return predictions


@dataclass(frozen=True, eq=False)
class Judge:
    """Measures the sums of leaf values of rows."""

    head: keras.Model
    loss: Loss
    task: Task
    training: TrainingConfig

    @property
    def monitor(self) -> str:
        """The metric of the validation rows that growth watches."""
        return monitored(self.task, self.training.loss)

    def metrics(self, rows: BinnedRows, logits: np.ndarray) -> dict[str, float]:
        """Returns the metrics of rows, given their sums of leaf values, [rows, columns]."""
        return metrics_of(self.task, self.sums(rows, logits), levels_of(self.training.loss), self.loss.unit)

    def sums(self, rows: BinnedRows, logits: np.ndarray, step: int = 1) -> dict[str, np.ndarray]:
        """Returns the sums of an epoch's statistics over every `step`-th row."""
        given = (rows.label[::step], logits[::step].astype(np.float32), rows.weight[::step])
        return {name: value.numpy() for name, value in self._graph(*map(tf.constant, given)).items()}

    def row_losses(self, rows: BinnedRows, logits: np.ndarray) -> np.ndarray:
        """Returns the weighted loss of each row, float64 [rows]."""
        found = self.loss(tf.constant(rows.label), self.head(tf.constant(logits.astype(np.float32))))
        return found.numpy().astype(np.float64) * rows.weight

    @cached_property
    def _graph(self) -> Callable[..., dict[str, tf.Tensor]]:
        return tf.function(self._sums_of, autograph=False, reduce_retracing=True)

    def _sums_of(self, label: tf.Tensor, logits: tf.Tensor, weight: tf.Tensor) -> dict[str, tf.Tensor]:
        return sums_of(self.task, self.loss, label, self.head(logits), weight, levels_of(self.training.loss))


@dataclass(eq=False, repr=False)
class Rounds:
    """Boosters that grow together.

    Attributes:
        growers: Threads in which boosters grow; LightGBM does not hold the GIL.
        folds: The fold of each train row, int [rows], or None. With folds the train rows are the validation rows too:
            boosters grow for each fold on the rows of the others, and are judged by its own.
        best_epoch: The epoch with the lowest validation loss so far, counted from 1; 0 before the first.
        best_loss: The validation loss of that epoch.
        seconds: The seconds of all epochs.
        logits: The sums of leaf values of the validation rows after that epoch, float64 [rows, columns].
    """

    settings: Sequence[dict[str, Any]]
    train: BinnedRows
    validation: BinnedRows
    judge: Judge
    growers: Executor
    folds: np.ndarray | None = None
    best_epoch: int = 0
    best_loss: float = math.inf
    seconds: float = 0.0
    logits: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    _history: dict[str, list[float]] = field(default_factory=dict)
    _grown: list[list[int]] = field(default_factory=list)
    """The number of rounds with trees of each booster, after each epoch; in some rounds no tree may grow."""
    _full: bool = False
    """Whether no tree could grow in the last epoch."""

    def __post_init__(self) -> None:
        pairs = [(self.train.dataset, self.validation.dataset)]
        if self.folds is not None:
            masks = [self.folds == fold for fold in np.unique(self.folds)]
            pairs = [(self._part(~own), self._part(own)) for own in masks]
        self._boosters = [[self._booster(own, *pair) for own in self.settings] for pair in pairs]

    def _part(self, rows: np.ndarray) -> lightgbm.Dataset:
        """Returns the train rows of a mask."""
        return self.train.dataset.subset(np.flatnonzero(rows).tolist())

    @staticmethod
    def _booster(settings: Mapping[str, Any], learned: lightgbm.Dataset, judging: lightgbm.Dataset) -> lightgbm.Booster:
        booster = lightgbm.Booster(dict(settings), learned)
        return booster.add_valid(judging, "validation")

    @property
    def epochs(self) -> int:
        """The number of epochs that have grown."""
        return len(self._grown)

    def loss_after(self, epochs: int, stops: Sequence[int]) -> float:
        """Grows up to a number of epochs, and returns the smallest loss on the validation rows."""
        self.run((epochs, epochs), ignore, ignore, stops)
        return self.best_loss

    def row_losses(self) -> np.ndarray:
        """Returns the loss of each validation row after the best epoch, float64 [rows]."""
        return self.judge.row_losses(self.validation, self.logits)

    def run(self, epochs: tuple[int, int], report: Report, on_epoch: OnEpoch, stops: Sequence[int]) -> Fitted:
        """Grows trees until the validation rows no longer improve, all epochs are done, or the time limit is reached.

        Boosters that have grown already grow on.

        Args:
            epochs: The number of epochs, of ten rounds each, and that up to which growth goes on until it stops early.
            stops: The stop signals that this process has received; the list grows while trees grow.

        Raises:
            UserError: A metric is NaN or infinite.
            StoppedError: This process received a stop signal.
        """
        began, training = time.monotonic(), self.judge.training
        limit = training.seconds
        ends_at = None if limit is None else time.time() + limit
        for epoch in range(1, self.epochs + 1):
            on_epoch(epoch, {name: values[epoch - 1] for name, values in self._history.items()})
        ended_by = "epochs"
        while self.epochs < epochs[1] and not self._stopped_early():
            self._grow_epoch(on_epoch, stops)
            most = ROUNDS * epochs[self.epochs > epochs[0]]
            report(self.epochs * ROUNDS, most, "rounds", f"trees, at most {most:,} rounds", ends_at)
            if limit is not None and time.monotonic() - began >= limit and not self._stopped_early():
                ended_by = "time"
                break
        self.seconds += time.monotonic() - began
        ended_by = "early_stopping" if self._stopped_early() else ended_by
        return Fitted(self._history, self.best_epoch, self.seconds, ended_by=ended_by)

    def _stopped_early(self) -> bool:
        stopping = self.judge.training.early_stopping
        return self._full or (stopping is not None and self.epochs - self.best_epoch >= stopping.usual_patience)

    def _grow_epoch(self, on_epoch: OnEpoch, stops: Sequence[int]) -> None:
        started, stopping = time.monotonic(), self.judge.training.early_stopping
        self._full = self._grow(stops)
        logits = self._logits(train=False)
        found = self._measure(logits) | {"step_ms": 1000 * (time.monotonic() - started) / ROUNDS}
        for name, value in found.items():
            self._history.setdefault(name, []).append(value)
        on_epoch(self.epochs, found)
        judged = found[f"val_{self.judge.monitor}"]
        if judged < self.best_loss - (stopping.min_delta if stopping else 0.0):
            self.best_loss, self.best_epoch, self.logits = judged, self.epochs, logits

    def loss_of(self, members: Sequence["Rounds"]) -> float:
        """Returns the metric that growth watches, of the mean of boosters that have grown, on the validation rows."""
        mean = np.mean([one.logits for one in members], axis=0)
        return self.judge.metrics(self.validation, mean)[self.judge.monitor]

    def dumps(self) -> list[dict[str, Any]]:
        """Returns the trees that each booster had after the best epoch, as dumps of LightGBM."""
        grown = zip(self._boosters[0], self._grown[self.best_epoch - 1], strict=True)
        return [booster.dump_model(num_iteration=max(1, rounds)) for booster, rounds in grown]

    def _grow(self, stops: Sequence[int]) -> bool:
        """Grows an epoch; returns whether no tree could grow."""

        def grow(booster: lightgbm.Booster) -> bool:
            full = True
            for _ in range(ROUNDS):
                full = booster.update() and full
                _check_stops(stops)
            return full

        boosters = [booster for part in self._boosters for booster in part]
        full = all(list(self.growers.map(grow, boosters)))
        self._grown.append([booster.current_iteration() for booster in boosters])
        return full

    def _measure(self, logits: np.ndarray) -> dict[str, float]:
        """Returns the loss of train, on up to 100,000 rows, and the metrics of the validation rows' `logits`."""
        step = -(-len(self.train.weight) // _MAX_MEASURED)
        sums = self.judge.sums(self.train, self._logits(train=True), step)
        found = {"loss": float(sums["loss"] / sums["weight"])}
        found |= {f"val_{name}": value for name, value in self.judge.metrics(self.validation, logits).items()}
        for name, value in found.items():
            if not math.isfinite(value):
                raise UserError(
                    f"{name} is {value} after {len(self._history.get('loss', ())) * ROUNDS + ROUNDS} rounds: lower "
                    "model.learning_rate, or check the largest values of the label."
                )
        return found

    def _logits(self, *, train: bool) -> np.ndarray:
        """Returns the sums of leaf values of the train or the validation rows, float64 [rows, columns].

        With folds, those of a train row are the mean of the boosters that learned from it, and those of a validation
        row are of the others.
        """
        parts = [
            np.concatenate([self._raw_scores(booster, train=train) for booster in part], axis=1)
            for part in self._boosters
        ]
        if self.folds is None:
            return parts[0]
        found = np.zeros((len(self.folds), parts[0].shape[1]))
        for fold, part in zip(np.unique(self.folds), parts, strict=True):
            found[(self.folds != fold) if train else (self.folds == fold)] += part
        return found / (len(parts) - 1 if train else 1)

    def _raw_scores(self, booster: lightgbm.Booster, *, train: bool) -> np.ndarray:
        """Returns the sums of a booster's leaf values, float64 [rows, columns]."""
        kept: list[np.ndarray] = []

        def keep(predictions: np.ndarray, _: lightgbm.Dataset) -> tuple[str, float, bool]:
            kept.append(np.array(predictions))
            return "kept", 0.0, False

        (booster.eval_train if train else booster.eval_valid)(keep)
        return logits_of(kept[0], self.judge.task, self.judge.training.loss)
