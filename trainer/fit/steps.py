"""Computes updates and evaluation steps on all devices, with the loop over batches around them.

An update is exactly the gradient of the weighted mean over the whole batch, however the batch is spread over devices or
cut into micro-batches. The loop over batches is in the graph: Python takes no part in an update.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.label import Task
from fullpass.trainer.fit.epoch_metrics import Sums, monitored, shapes_of, sums_of
from fullpass.trainer.fit.optimizer import WarmupDecay
from fullpass.trainer.loss_config import LossConfig, levels_of
from fullpass.trainer.models.losses import AUTO, Loss
from fullpass.trainer.models.model_inputs import apply_model

_MOST_REPLICAS = 4096
"""Factor that keeps the seeds of the replicas of an update apart; no strategy has as many."""


class Blended(NamedTuple):
    """The two labels of each blended example, with their weights, float32 [batch]."""

    label: tf.Tensor
    weight: tf.Tensor
    other_label: tf.Tensor
    other_weight: tf.Tensor

    def pairs(self) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Yields each of the two labels with its weight."""
        yield self.label, self.weight
        yield self.other_label, self.other_weight


@dataclass(frozen=True)
class Blend:
    """Blends every example of a batch with the next one; all use one share, which is drawn anew for every update.

    Attributes:
        alpha: The share is drawn from Beta(alpha, alpha).
        seed: The seed of the draws. A draw depends on the seed and the number of the update, so that a resumed training
            draws the same shares.
    """

    images: tuple[str, ...]
    alpha: float
    seed: int

    def __call__(
        self, features: Mapping[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor, update: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Blended]:
        """Returns the features and labels of a batch blended.

        Args:
            features: The features by input name; images are uint8 [batch, h, w, c] and keep dtype and shape.
            weight: The weights of the rows, float32 [rows]; the weights of all parts have the same total.
            update: The number of the update, integer [].
        """
        share = self._share(update)
        found = dict(features)
        for name in self.images:
            pixels = tf.cast(features[name], tf.float32)
            mixed = share * pixels + (1.0 - share) * tf.roll(pixels, 1, axis=0)
            found[name] = tf.cast(tf.round(mixed), features[name].dtype)
        other = tf.roll(label, 1, axis=0), tf.roll(weight, 1, axis=0)
        return found, Blended(label, share * weight, other[0], (1.0 - share) * other[1])

    def _share(self, update: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        seed = tf.stack(
            [tf.constant(self.seed, tf.int64), tf.cast(update, tf.int64) * _MOST_REPLICAS + tf.cast(replica, tf.int64)]
        )
        one, other = tf.unstack(tf.random.stateless_gamma([2], seed, self.alpha))
        return tf.math.divide_no_nan(one, one + other)


Step = Callable[..., Sums]
"""(features, label, weight) on one replica -> statistics, to be added up over replicas and batches."""


@dataclass(frozen=True)
class FineTunedVariable:
    """How the optimizer updates a variable of a fine-tuned network.

    Attributes:
        frozen_updates: The number of initial updates in which the variable does not change.
        share: The share of the optimizer's update that is applied afterwards.
    """

    frozen_updates: int
    share: float


@dataclass(frozen=True)
class LoopResult:
    """The result of one call of a loop over batches.

    Attributes:
        sums: The sum of each statistic over the batches, float64.
        waited: The seconds between the end of a step and the arrival of its next batch, summed.
    """

    sums: dict[str, np.ndarray]
    waited: float


Loop = Callable[[Any, int], LoopResult]
"""Runs a number of batches from an iterator: (iterator, number of batches) -> LoopResult."""


@dataclass(frozen=True)
class Steps:
    """The computations of a training.

    Attributes:
        optimizer: The optimizer, built for the model's weights in the scope of the strategy.
        accumulate: The micro-batches of a device's part of a batch, whose gradients are computed one after the other.
        rate: The learning-rate schedule of the optimizer, if the training loop may reduce it.
        blend: How examples of a batch are blended with one another; None does not blend them.
        fine_tuned: The variables of fine-tuned networks, by id.
        declared: The key `training.loss`, whose function is `loss`.
        clip_norm: The largest global norm of the gradient of an update; None for any.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    loss: Loss
    task: Task
    strategy: tf.distribute.Strategy
    accumulate: int = 1
    xla: bool = False
    rate: WarmupDecay | None = None
    blend: Blend | None = None
    fine_tuned: Mapping[int, FineTunedVariable] = field(default_factory=dict)
    declared: LossConfig = AUTO
    clip_norm: float | None = None

    @property
    def monitor(self) -> str:
        """The metric whose smallest value marks the best epoch."""
        return monitored(self.task, self.declared)

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels of the quantiles that the model outputs; empty without any."""
        return levels_of(self.declared)

    def training(self) -> Loop:
        """Returns the loop that makes one update per batch; statistics: loss, weight."""
        gradients = tf.function(self.gradients, jit_compile=True, autograph=False) if self.xla else self.gradients

        def update(features: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor) -> Sums:
            devices = tf.distribute.get_replica_context()
            mass = devices.all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(weight))
            targets: Any = label
            if self.blend is not None:
                features, targets = self.blend(features, label, weight, self.optimizer.iterations)
            data, found = gradients(features, targets, weight, mass)
            if self.clip_norm is not None:
                found = self._clipped(found, self.clip_norm)
            with self._scaled_update():
                # The optimizer adds up the gradients of all replicas.
                self.optimizer.apply(found, self.model.trainable_variables)
            # The loss is available before the gradient; a step ends when its weights are updated.
            with tf.control_dependencies([tf.convert_to_tensor(v.value) for v in self.model.trainable_variables]):
                return {"loss": tf.identity(data), "weight": tf.reduce_sum(weight)}

        return self._loop(update, {"loss": (), "weight": ()})

    def evaluation(self) -> Loop:
        """Returns the loop that evaluates batches; statistics: those of the task."""

        def measure(features: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor) -> Sums:
            logits = apply_model(self.model, features, training=False)
            return sums_of(self.task, self.loss, label, logits, weight, self.levels)

        return self._loop(measure, shapes_of(self.task, len(self.levels)))

    def gradients(
        self, features: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor, mass: tf.Tensor
    ) -> tuple[tf.Tensor, list[Any]]:
        """Returns the weighted loss of one device's part of a batch, and its share of the gradient.

        Args:
            weight: The weights of the rows, float32 [rows].
            mass: The total weight of the batch on all devices, by which the loss is divided.
        """
        if self.accumulate == 1:
            return self._gradients_of(features, label, weight, mass, tf.constant(1.0))
        rows = tf.shape(weight)[0]
        micro_rows = -(-rows // self.accumulate)
        micro_batches = tf.cast(-(-rows // micro_rows), tf.float32)

        def add(first: tf.Tensor, data: tf.Tensor, totals: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, list[Any]]:
            part: Any = tf.nest.map_structure(
                lambda value: value[first : first + micro_rows], (features, label, weight)
            )
            here, found = self._gradients_of(part[0], part[1], part[2], mass, micro_batches)
            return first + micro_rows, data + here, [total + f for total, f in zip(totals, found, strict=True)]

        nothing = [tf.zeros(variable.shape, variable.dtype) for variable in self.model.trainable_variables]
        start = (tf.constant(0), tf.constant(0.0), nothing)
        _, data, totals = tf.while_loop(lambda first, *_: first < rows, add, start, parallel_iterations=1)
        return data, totals

    def _gradients_of(
        self, features: Any, label: tf.Tensor, weight: tf.Tensor, mass: tf.Tensor, micro_batches: tf.Tensor
    ) -> tuple[tf.Tensor, list[Any]]:
        with tf.GradientTape() as tape:
            logits = apply_model(self.model, features, training=True)
            if isinstance(label, Blended):
                data = tf.add_n([tf.reduce_sum(part * _mean_loss(self.loss, y, logits)) for y, part in label.pairs()])
            else:
                data = tf.reduce_sum(weight * _mean_loss(self.loss, label, logits))
            penalty = tf.add_n([tf.constant(0.0), *self.model.losses])
            target = tf.math.divide_no_nan(data, mass) + penalty / (micro_batches * self.strategy.num_replicas_in_sync)
            target = self.optimizer.scale_loss(target)
        variables = [variable.value for variable in self.model.trainable_variables]
        found = tape.gradient(target, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        # For a sparse gradient, Keras' optimizers would sum the squares of an id's parts instead of squaring their sum.
        return data, [tf.convert_to_tensor(gradient) for gradient in found]

    def _clipped(self, gradients: list[Any], most: float) -> list[Any]:
        """Returns one device's share of the gradient, scaled so that the whole gradient has at most a norm.

        Keras' optimizers limit the share of each device instead.
        """
        whole = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        norm, scaled = tf.linalg.global_norm(whole), self.optimizer.scale_loss(tf.constant(most))
        return [gradient * tf.cast(scaled / tf.maximum(norm, scaled), gradient.dtype) for gradient in gradients]

    @contextmanager
    def _scaled_update(self) -> Iterator[None]:
        """Scales down the update that the block makes to fine-tuned variables; initially to zero."""
        fine_tuned = [v for v in self.model.trainable_variables if id(v) in self.fine_tuned]
        done = self.optimizer.iterations + 0
        before = [tf.identity(v.value) for v in fine_tuned]
        yield
        for variable, start in zip(fine_tuned, before, strict=True):
            how = self.fine_tuned[id(variable)]
            share = tf.where(done < how.frozen_updates, 0.0, how.share)
            variable.assign(start + tf.cast(share, start.dtype) * (variable.value - start))

    def _loop(self, step: Step, shapes: Mapping[str, tuple[int, ...]]) -> Loop:
        def on_replica(*batch: Any) -> Sums:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, step(*batch))

        @tf.function(autograph=False, reduce_retracing=True)
        def run(batches: Any, count: tf.Tensor) -> tuple[Sums, tf.Tensor]:
            def one(done: tf.Tensor, ended: tf.Tensor, waited: tf.Tensor, sums: Sums) -> tuple[Any, ...]:
                batch = batches.get_next()
                arrived = _time_after(batch)
                found = self.strategy.run(on_replica, args=batch)
                here = {name: self.strategy.experimental_local_results(value)[0] for name, value in found.items()}
                sums = {name: value + tf.cast(here[name], tf.float64) for name, value in sums.items()}
                return done + 1, _time_after(here), waited + tf.maximum(arrived - ended, 0.0), sums

            nothing = {name: tf.zeros(shape, tf.float64) for name, shape in shapes.items()}
            start = (tf.constant(0), tf.timestamp(), tf.constant(0.0, tf.float64), nothing)
            _, _, waited, sums = tf.while_loop(lambda done, *_: done < count, one, start)
            return sums, waited

        def loop(batches: Any, count: int) -> LoopResult:
            sums, waited = run(batches, tf.constant(count))
            return LoopResult({name: value.numpy() for name, value in sums.items()}, float(waited))

        return loop


def _mean_loss(loss: Loss, label: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each example; for logits [batch, members, columns], the mean over the members."""
    if logits.shape.rank == 2:
        return loss(label, logits)
    members = [loss(label, of_member) for of_member in tf.unstack(logits, axis=1)]
    return tf.add_n(members) / len(members)


def _time_after(values: Any) -> tf.Tensor:
    """Returns the time in seconds at which all of `values` are available, float64 []."""
    with tf.control_dependencies(tf.nest.flatten(values, expand_composites=True)):
        return tf.timestamp()
