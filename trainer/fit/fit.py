"""Fits a model: runs the epochs on the devices of a strategy, keeps the best one, and can be interrupted anywhere.

This module has its own training loop instead of `keras.Model.fit`. In Keras 3, `fit` does not run on several workers,
averages losses over replicas and batches regardless of weights, traces every step twice, and restarts an epoch after a
crash.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.processes import stop_requests
from fullpass.trainer.config import CheckpointConfig, EarlyStopping
from fullpass.trainer.fit.beside import beside
from fullpass.trainer.fit.checkpoints import Checkpoints, TrainingState
from fullpass.trainer.fit.epoch_metrics import metrics_of
from fullpass.trainer.fit.steps import Loop, LoopResult, Steps
from fullpass.trainer.fit.tensorboard import Profile
from fullpass.trainer.input.sharding import Batches
from fullpass.trainer.input.split_counts import rows_not_finite
from fullpass.trainer.input.workers import TrainingWorkers

Report = Callable[[int, int | None, str, str, float | None], None]
"""Is called like `progress.report` while training runs."""

OnEpoch = Callable[[int, dict[str, float]], None]
"""Is called with the number of an epoch, from 1, and its metrics; those of the validation rows begin with `val_`."""

_SECONDS_PER_CALL = 0.5
"""The target duration of a call on the device with `steps_per_execution: auto`; after it Python checks the clock."""
_FIRST_CALL = 20
"""Updates of the first call, whose duration is unknown."""
_LONGEST_CALL = 2000
"""Updates of a call at most, whatever they take: a stop signal waits for its end."""
_HURRIED_PATIENCE = 2
"""Epochs that do not pay for their time after which the learning rate falls, once, and then training ends."""
_MAX_NAMES = 10
"""Features that an error names at most."""
_DIVERGED = "so training diverged: lower training.learning_rate, or set training.clip_norm (1.0, say)."


class StoppedError(UserError):
    """Training has stopped on request; it was saved if checkpoints are configured."""


@dataclass(frozen=True)
class Fitted:
    """The history of a training.

    Attributes:
        history: One value per epoch, by metric; the names of their metrics on validation rows begin with `val_`.
        best_epoch: The epoch whose weights the model now has, counted from 1.
        seconds: The seconds of all epochs, tracing included, summed over interrupted runs.
        resumed_at: The updates made by earlier, interrupted runs; 0 without any.
        save_seconds: The seconds spent on writing them.
        ended_by: The limit that ended the training: epochs, early_stopping or time.
        restarts: The epochs after which the learning rate was reduced, and training went on from the best weights.
    """

    history: dict[str, list[float]]
    best_epoch: int
    seconds: float
    resumed_at: int = 0
    saves: int = 0
    save_seconds: float = 0.0
    ended_by: str = "epochs"
    restarts: tuple[int, ...] = ()

    @property
    def epochs(self) -> int:
        """The number of epochs that were run."""
        return len(self.history["loss"])

    @property
    def limited(self) -> bool:
        """Whether a limit ended the training while it still improved."""
        return self.ended_by != "early_stopping" and self.best_epoch == self.epochs > 1

    def spans(self, monitor: str) -> list[int]:
        """Returns the epochs with each learning rate that led to the best weights; the others were taken back."""
        found, begun, best = [0], 0, math.inf
        for epoch, value in enumerate(self.history[f"val_{monitor}"][: self.best_epoch], 1):
            if value < best:
                best, found[-1] = value, epoch - begun
            if epoch in self.restarts:
                found, begun = [*found, 0], epoch
        return found


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The configuration of a training run.

    Attributes:
        early_stopping: When to stop early; None never stops early.
        least_gain: How much an epoch must lower the validation loss to pay for its time; 0 if any gain pays.
        on_begun: Is called once, after the first updates.
        goes_on_to: The number of epochs up to which training goes on after `epochs` until it stops early.
        seconds: The seconds after which to stop; None sets no limit.
        steps_per_call: The updates per call on the device; None takes as many as run in about half a second.
        checkpoints: The folder, and when to save; None saves nothing.
        save_at_end: Whether to save after the last epoch too, so that a training with more epochs resumes from there.
    """

    steps: Steps
    epochs: int
    early_stopping: EarlyStopping | None
    report: Report
    on_epoch: OnEpoch
    on_begun: Callable[[], object] = lambda: None
    least_gain: float = 0.0
    goes_on_to: int = 0
    seconds: float | None = None
    steps_per_call: int | None = None
    checkpoints: tuple[str, CheckpointConfig] | None = None
    save_at_end: bool = False
    profile: Profile = field(default_factory=Profile)

    def run(self, train: Batches, evaluation: Batches) -> Fitted:
        """Trains; afterwards the model has the weights of the best epoch.

        Raises:
            UserError: The loss is NaN or infinite, a batch does not fit into memory, a worker fails, or workers find
                different checkpoints.
            StoppedError: This process or another worker received a stop signal; SIGTERM and SIGINT then have their
                usual effect in this process.
        """
        with stop_requests() as stops:
            return _Run(self, train, evaluation, stops).run()

    def run_again(self, train: Batches, spans: Sequence[int]) -> None:
        """Trains so many epochs with each learning rate, judged by nothing; otherwise as `run`."""
        with stop_requests() as stops:
            _Run(self, train, train, stops).run_again(spans)


class _Run:
    """One run of a Fit."""

    def __init__(self, fit: Fit, train: Batches, evaluation: Batches, stops: list[int]):
        self._fit, self._train, self._evaluation, self._stops = fit, train, evaluation, stops
        self._steps, self._model = fit.steps, fit.steps.model
        self._workers = TrainingWorkers(fit.steps.strategy)
        self._state = TrainingState()
        with tf.device("CPU"):
            self._best = [tf.Variable(weight, trainable=False) for weight in self._model.get_weights()]
        self._checkpoints = self._make_checkpoints()
        self._call = fit.steps_per_call or _FIRST_CALL
        self._traced = False
        self._evaluation_begun: Callable[[], Callable[[int], LoopResult]] | None = None
        self._began = 0.0
        self._ends_at: float | None = None
        self._time_over = False

    def run(self) -> Fitted:
        """Trains to the end."""
        resumed = self._restore()
        self._began = time.monotonic() - self._state.seconds
        limit = self._fit.seconds
        self._ends_at = None if limit is None else time.time() - self._state.seconds + limit
        fit, state = self._fit, self._state
        run, batches = self._steps.training(), self._iterate(self._train, state.epoch, state.step)
        evaluation: Callable[[int], LoopResult] | None = None
        while state.epoch < max(fit.epochs, fit.goes_on_to) and not self._time_over and not self._stopped_early():
            self._train_epoch(run, batches, self._begin_beside)
            evaluation = evaluation or self._begin_beside()()
            self._end_epoch(self._evaluate(evaluation))
        fit.profile.close()
        if fit.save_at_end:
            self._save()
        self._model.set_weights([weight.numpy() for weight in self._best])
        seconds = time.monotonic() - self._began
        saves, save_seconds = (self._checkpoints.saves, self._checkpoints.seconds) if self._checkpoints else (0, 0.0)
        ended_by = "time" if self._time_over else "early_stopping" if self._stopped_early() else "epochs"
        restarts = tuple(state.restarts)
        return Fitted(state.history, state.best_epoch, seconds, resumed, saves, save_seconds, ended_by, restarts)

    def run_again(self, spans: Sequence[int]) -> None:
        """Trains so many epochs with each learning rate."""
        self._began = time.monotonic()
        run, batches = self._steps.training(), self._iterate(self._train, 0, 0)
        for reductions, epochs in enumerate(spans):
            if reductions and self._steps.rate is not None:
                self._steps.rate.reduce(reductions)
            for _ in range(epochs):
                self._train_epoch(run, batches)
                self._state.end_epoch({})

    @property
    def _done(self) -> int:
        return self._state.epoch * self._train.steps + self._state.step

    def _iterate(self, batches: Batches, epoch: int, step: int) -> Any:
        dataset = batches.begin(epoch, step)
        # Text stays on the host, because no other device supports it.
        text = any(spec.dtype == tf.string for spec in tf.nest.flatten(dataset.element_spec))
        options = tf.distribute.InputOptions(experimental_fetch_to_device=not text)
        return iter(self._steps.strategy.distribute_datasets_from_function(lambda _: dataset, options))

    def _begin_beside(self) -> Callable[[], Callable[[int], LoopResult]]:
        """Begins what takes Python a while and waits for no weights; returns what waits for the evaluation loop."""
        if self._evaluation_begun is None:
            self._evaluation_begun = beside(self._workers, self._prepare_evaluation)
            self._fit.on_begun()
        return self._evaluation_begun

    def _prepare_evaluation(self) -> Callable[[int], LoopResult]:
        """Returns the function that evaluates a number of batches, with its graph built."""
        evaluate = partial(self._steps.evaluation(), self._iterate(self._evaluation, 0, 0))
        evaluate(0)
        return evaluate

    def _train_epoch(self, run: Loop, batches: Any, on_call: Callable[[], Any] = lambda: None) -> None:
        """Makes the remaining updates of the epoch; `on_call` is called after each call."""
        state, steps = self._state, self._train.steps
        while state.step < steps and not (self._time_over and state.step):
            count = self._fit.profile.until_boundary(self._done, min(self._call, steps - state.step))
            started = time.monotonic()
            ran = self._call_of(run, batches, count)
            spent = time.monotonic() - started
            on_call()
            if not math.isfinite(ran.sums["loss"]):
                raise explain_not_finite(self._train.begin, state.epoch, state.step, count * self._workers.replicas)
            state.add(ran.sums, steps=count, waited=ran.waited, spent=spent)
            self._fit.profile.at(self._done)
            most = "at most " if self._fit.early_stopping else ""
            epochs = self._fit.epochs if state.epoch < self._fit.epochs else self._fit.goes_on_to
            note = f"epoch {state.epoch + 1} of {most}{epochs}"
            self._fit.report(self._done, epochs * steps, "updates", note, self._ends_at)
            self._after_call(count, spent)

    def _call_of(self, run: Loop, batches: Any, count: int) -> LoopResult:
        try:
            return run(batches, count)
        except tf.errors.ResourceExhaustedError as error:
            dataset = self._train.begin(self._state.epoch, self._state.step)
            raise explain_memory(self._steps, dataset, error) from error
        except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError) as error:
            if self._workers.count == 1:
                raise
            raise UserError(
                f"another one of the {self._workers.count} workers stopped after {self._done:,} updates: "
                f"{str(error.message).splitlines()[0][:200]}. Its log shows why. Run all workers again: they "
                "resume from the last checkpoint."
            ) from error

    def _evaluate(self, run: Callable[[int], LoopResult]) -> dict[str, np.ndarray]:
        totals: dict[str, np.ndarray] = {}
        done, steps = 0, self._evaluation.steps
        while done < steps:
            count = min(self._call, steps - done)
            started = time.monotonic()
            for name, value in run(count).sums.items():
                totals[name] = totals.get(name, 0.0) + value
            done += count
            self._after_call(count, time.monotonic() - started)
        return totals

    def _end_epoch(self, sums: dict[str, np.ndarray]) -> None:
        fit, state = self._fit, self._state
        found = {"loss": state.sums["loss"] / state.sums["weight"]}
        measured = metrics_of(fit.steps.task, sums, fit.steps.levels, fit.steps.loss.unit)
        found |= {f"val_{name}": value for name, value in measured.items()}
        for name, value in found.items():
            if not math.isfinite(value):
                raise UserError(
                    f"{name} is {value} after epoch {state.epoch + 1}. All features and labels are finite, {_DIVERGED}"
                )
        monitored = found[f"val_{fit.steps.monitor}"]
        if monitored < state.best - (fit.early_stopping.min_delta if fit.early_stopping else 0.0):
            state.best, state.best_epoch = monitored, state.epoch + 1
            for kept, weight in zip(self._best, self._model.get_weights(), strict=True):
                kept.assign(weight)
        if state.paid - state.best > fit.least_gain * (state.stale + 1):
            state.paid, state.stale = state.best, 0
        else:
            state.stale += 1
            self._reduce_on_plateau()
        found["input_wait"] = state.waited / state.spent if state.spent else 0.0
        found["step_ms"] = 1000 * state.spent / state.step
        state.end_epoch(found)
        fit.on_epoch(state.epoch, found)

    def _reduce_on_plateau(self) -> None:
        """Restores the best weights and reduces the learning rate, if schedule and patience require it."""
        rate, state = self._steps.rate, self._state
        most = rate.max_reductions if rate is not None else 0
        if (
            rate is not None
            and len(state.restarts) < (min(most, 1) if self._fit.least_gain else most)
            and self._stopped_early()
        ):
            state.restarts.append(state.epoch + 1)
            state.stale = 0
            rate.reduce(len(state.restarts))
            self._model.set_weights([weight.numpy() for weight in self._best])

    def _stopped_early(self) -> bool:
        stopping, state = self._fit.early_stopping, self._state
        if stopping is None or state.best_epoch == 0:
            return False
        return state.stale >= (_HURRIED_PATIENCE if self._fit.least_gain else stopping.usual_patience)

    def _out_of_time(self) -> bool:
        limit = self._fit.seconds
        return limit is not None and time.monotonic() - self._began >= limit

    def _after_call(self, count: int, spent: float) -> None:
        """Saves if a checkpoint is due, stops if any worker received a stop signal, and sizes the next call."""
        due = self._checkpoints is not None and self._checkpoints.due(self._done)
        own = [due, bool(self._stops), self._next_call(count, spent), self._out_of_time()]
        gathered = self._workers.all_gather(own)
        self._call, self._time_over = int(gathered[0, 2]), self._time_over or bool(gathered[:, 3].any())
        stop = bool(gathered[:, 1].any())
        if stop or gathered[0, 0]:
            self._save()
        if stop:
            raise StoppedError(self._stop_message(np.flatnonzero(gathered[:, 1]).tolist()))

    def _next_call(self, count: int, spent: float) -> int:
        if self._fit.steps_per_call is not None:
            return self._fit.steps_per_call
        if not self._traced:
            # The first call includes tracing, so its time does not predict the time of the next call.
            self._traced = True
            return self._call
        wanted = round(_SECONDS_PER_CALL * count / max(spent, 1e-6))
        return min(max(wanted, self._call // 2, 1), 4 * self._call, _LONGEST_CALL)

    def _stop_message(self, who: list[int]) -> str:
        saved = "It was saved, and the next run resumes from there." if self._checkpoints else "Nothing was saved."
        others = f" (worker {', '.join(map(str, who))})" if self._workers.count > 1 else ""
        return f"Training received a stop signal{others} after {self._done:,} updates. {saved}"

    def _make_checkpoints(self) -> Checkpoints | None:
        if self._fit.checkpoints is None:
            return None
        folder, config = self._fit.checkpoints
        variables = {
            "model": [variable.value for variable in self._model.variables],
            "optimizer": [variable.value for variable in self._steps.optimizer.variables],
            "best": self._best,
        }
        return Checkpoints(folder, config, variables, chief=self._workers.index == 0)

    def _restore(self) -> int:
        """Restores the state of an interrupted run; returns the number of updates it made."""
        text = self._checkpoints.restore() if self._checkpoints else None
        if text is not None:
            self._state = TrainingState.from_json(text)
            if self._steps.rate is not None:
                self._steps.rate.reduce(len(self._state.restarts))
        positions = self._workers.all_gather([self._done])[:, 0]
        if len(set(positions)) > 1:
            raise UserError(
                f"workers found checkpoints of different updates: {', '.join(f'{p:.0f}' for p in positions)}. All must "
                "see the same folder of artifacts: put `root` on storage that every worker mounts."
            )
        for epoch in range(self._state.epoch):
            self._fit.on_epoch(epoch + 1, {name: values[epoch] for name, values in self._state.history.items()})
        return self._done

    def _save(self) -> None:
        """Saves, unless an update has just made a weight NaN or infinite; then the previous checkpoint stays."""
        if self._checkpoints is None:
            return
        weights = [value for value in self._model.get_weights() if np.issubdtype(value.dtype, np.floating)]
        if all(np.isfinite(value).all() for value in weights):
            self._state.seconds = time.monotonic() - self._began
            self._checkpoints.save(self._state.to_json(), self._done)


def explain_not_finite(begin: Callable[[int, int], tf.data.Dataset], epoch: int, step: int, batches: int) -> UserError:
    """Returns the error for a loss that is NaN or infinite, and names the values in its batches that are not finite.

    Args:
        begin: Returns the batches again, from an epoch and step on.
        epoch: The epoch of these updates, from 0.
        step: The updates of the epoch before them.
        batches: The number of batches to check.
    """
    for number, (features, label, weight) in enumerate(begin(epoch, step).take(batches)):
        bad = rows_not_finite({**features, "the label": label, "the weight": weight})
        if bad:
            named = ", ".join(f"{name} in {rows:,} rows" for name, rows in list(bad.items())[:_MAX_NAMES])
            return UserError(
                f"the loss is not finite in epoch {epoch + 1}, update {step + number + 1}: its batch of "
                f"{len(weight):,} rows contains NaN or infinity: {named}. Check how the function or transform that "
                "computes them handles missing and extreme values. The last checkpoint was written before this update."
            )
    return UserError(
        f"the loss is not finite in epoch {epoch + 1}, after update {step + 1}. All features and labels of its "
        f"batches are finite, {_DIVERGED} The last checkpoint was written before this update."
    )


def explain_memory(steps: Steps, dataset: tf.data.Dataset, error: tf.errors.ResourceExhaustedError) -> UserError:
    """Returns the error for a batch that does not fit into memory; the largest part that fits is found by halving."""
    lines = str(error.message).splitlines()
    message = next((line for line in lines if "OOM" in line), lines[0])[:200]
    batch = next(iter(dataset))
    rows = int(tf.shape(batch[2])[0])
    parts = 2
    while rows // parts and not _fits(steps, batch, -(-rows // parts)):
        parts *= 2
    if rows // parts == 0:
        return UserError(
            f"out of memory, even with a batch of one row: {message}. The model is too large for the device."
        )
    fits = -(-rows // parts)
    return UserError(
        f"out of memory with {rows:,} rows of a batch on one device; {fits:,} fit (tried on one of its batches). Set "
        f"training.accumulate to {parts * steps.accumulate}, which computes the same updates in micro-batches, or "
        f"divide training.batch_size by {parts}. TensorFlow reported: {message}"
    )


def _fits(steps: Steps, batch: Any, rows: int) -> bool:
    def try_gradient() -> tf.Tensor:
        part: Any = tf.nest.map_structure(lambda value: value[:rows], batch)
        return steps.gradients(part[0], part[1], part[2], tf.constant(1.0))[0]

    try:
        steps.strategy.run(tf.function(try_gradient, autograph=False))
    except tf.errors.ResourceExhaustedError:
        return False
    return True
