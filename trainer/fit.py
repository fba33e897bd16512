"""Fits a model: runs the epochs on the devices of a strategy, and keeps the best one.

A loop of its own rather than `keras.Model.fit`, which in Keras 3 does not run on several workers, averages losses over
replicas and batches without regard to weights, and traces every step twice. Here an update is exactly the gradient of
the weighted mean over the whole batch, however it is spread.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from preprocessing.errors import UserError
from preprocessing.label import Task
from trainer.config import EarlyStopping
from trainer.inputs import apply_model
from trainer.measures import MONITOR, Sums, measures, shapes_of, sums_of
from trainer.tasks import Loss

Report = Callable[[int, int, str, str], None]
"""Says (done, total, unit, note) while training runs."""

OnEpoch = Callable[[int, dict[str, float]], None]
"""Given the number of an epoch, from 1, and its metrics; those of the eval split begin with `val_`."""

# One call runs so many updates on the device before Python looks at the clock again.
_STEPS_PER_CALL = 200


@dataclass(frozen=True)
class Batches:
    """An endless dataset, of which `steps` batches are one pass."""

    dataset: tf.data.Dataset
    steps: int


@dataclass(frozen=True)
class Fitted:
    """How training went.

    Attributes:
        history: metric -> one value per epoch; those of the eval split begin with `val_`.
        best_epoch: the epoch whose weights the model now has, counted from 1.
        seconds: of the epochs, building the graph included.
    """

    history: dict[str, list[float]]
    best_epoch: int
    seconds: float

    @property
    def epochs(self) -> int:
        """Epochs run."""
        return len(self.history["loss"])


@dataclass(frozen=True)
class Fit:
    """A training about to run.

    Attributes:
        model: gives logits.
        optimizer: built for the model's weights, in the scope of the strategy.
        loss: (label, logits) -> loss of each example.
        task: of the label.
        strategy: the devices.
        epochs: at most.
        early_stopping: when to stop before; None never.
        report: told while epochs run.
        on_epoch: given the number of an epoch, from 1, and its metrics.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    loss: Loss
    task: Task
    strategy: tf.distribute.Strategy
    epochs: int
    early_stopping: EarlyStopping | None
    report: Report
    on_epoch: OnEpoch

    def run(self, train: Batches, evaluation: Batches) -> Fitted:
        """Trains; afterwards the model has the weights of the best epoch.

        Raises:
            UserError: The loss is NaN or infinite.
        """
        started = time.monotonic()
        history: dict[str, list[float]] = {}
        best, best_epoch, best_weights = math.inf, 0, self.model.get_weights()
        for epoch, found in enumerate(self._epochs(train, evaluation), start=1):
            for name, value in found.items():
                history.setdefault(name, []).append(value)
            monitored = found[f"val_{MONITOR[self.task]}"]
            if monitored < best - (self.early_stopping.min_delta if self.early_stopping else 0.0):
                best, best_epoch, best_weights = monitored, epoch, self.model.get_weights()
            self.on_epoch(epoch, found)
            if self.early_stopping is not None and epoch - best_epoch >= self.early_stopping.patience:
                break
        self.model.set_weights(best_weights)
        return Fitted(history, best_epoch, time.monotonic() - started)

    def _epochs(self, train: Batches, evaluation: Batches) -> Iterator[dict[str, float]]:
        run_train = self._on_devices(self._train_step, {"loss": (), "weight": ()})
        run_evaluation = self._on_devices(self._evaluation_step, shapes_of(self.task))
        train_batches, evaluation_batches = (iter(self._distribute(data.dataset)) for data in (train, evaluation))
        for epoch in range(self.epochs):
            sums = self._run(run_train, train_batches, train.steps, epoch)
            found = {"loss": float(sums["loss"]) / float(sums["weight"])}
            sums = self._run(run_evaluation, evaluation_batches, evaluation.steps)
            found |= {f"val_{name}": value for name, value in measures(self.task, sums).items()}
            _check(found, epoch)
            yield found

    def _distribute(self, dataset: tf.data.Dataset) -> Any:
        # Text stays on the host: no other device holds it.
        text = any(spec.dtype == tf.string for spec in tf.nest.flatten(dataset.element_spec))
        options = tf.distribute.InputOptions(experimental_fetch_to_device=not text)
        return self.strategy.experimental_distribute_dataset(dataset, options)

    def _run(
        self, steps: Callable[..., Any], batches: Any, count: int, epoch: int | None = None
    ) -> dict[str, np.ndarray]:
        """Runs `count` steps, a few hundred at a time, and returns the sums over all of them."""
        totals: dict[str, np.ndarray] = {}
        for first in range(0, count, _STEPS_PER_CALL):
            here = min(_STEPS_PER_CALL, count - first)
            sums = steps(batches, tf.constant(here))
            totals = {name: totals.get(name, 0.0) + value.numpy().astype(np.float64) for name, value in sums.items()}
            if epoch is not None:
                note = f"epoch {epoch + 1} of {self.epochs}"
                self.report(epoch * count + first + here, self.epochs * count, "updates", note)
        return totals

    def _on_devices(self, step: Callable[..., Sums], shapes: Mapping[str, tuple[int, ...]]) -> Callable[..., Sums]:
        """Returns a function that runs `step` on a number of batches, on all replicas, and adds up what it returns.

        The loop over batches is in the graph, and `step` in it once: Python takes no part in an update.
        """

        def on_replica(*batch: Any) -> Sums:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, step(*batch))

        @tf.function(autograph=False, reduce_retracing=True)
        def steps(batches: Any, count: tf.Tensor) -> Sums:
            def one(done: tf.Tensor, sums: Sums) -> tuple[tf.Tensor, Sums]:
                found = self.strategy.run(on_replica, args=batches.get_next())
                here = {name: self.strategy.experimental_local_results(value)[0] for name, value in found.items()}
                return done + 1, {name: value + here[name] for name, value in sums.items()}

            nothing = {name: tf.zeros(shape) for name, shape in shapes.items()}
            return tf.while_loop(lambda done, _: done < count, one, (tf.constant(0), nothing))[1]

        return steps

    def _train_step(self, features: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor) -> Sums:
        replicas = tf.distribute.get_replica_context()
        mass = replicas.all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(weight))
        with tf.GradientTape() as tape:
            losses = self.loss(label, apply_model(self.model, features, training=True))
            data = tf.reduce_sum(weight * losses)
            penalty = tf.add_n([tf.constant(0.0), *self.model.losses])
            # The optimizer adds up the gradients of all replicas.
            target = tf.math.divide_no_nan(data, mass) + penalty / replicas.num_replicas_in_sync
            target = self.optimizer.scale_loss(target)
        variables = self.model.trainable_variables
        self.optimizer.apply(tape.gradient(target, variables), variables)
        return {"loss": data, "weight": tf.reduce_sum(weight)}

    def _evaluation_step(self, features: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor) -> Sums:
        logits = apply_model(self.model, features, training=False)
        return sums_of(self.task, self.loss, label, logits, weight)


def _check(metrics: dict[str, float], epoch: int) -> None:
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise UserError(
                f"{name} is {value} after epoch {epoch + 1}. All features and labels are finite, so training diverged: "
                "lower training.learning_rate, or set training.clip_norm (1.0, say)."
            )
