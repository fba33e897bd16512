"""Builds a model and fits it to loaded data."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.processes import usable_cores
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.config import (
    InputConfig,
    Linear,
    SeveralModels,
    TrainingConfig,
    TrainingSpec,
    Trees,
)
from fullpass.trainer.fit.blend import Choice, blend, choose_weights, choose_with_folds
from fullpass.trainer.fit.build_training import BuiltTraining, build_training
from fullpass.trainer.fit.calibration import prior_shift
from fullpass.trainer.fit.epoch_metrics import metrics_of_rows, monitored
from fullpass.trainer.fit.fit import Fit, Fitted, OnEpoch, Report
from fullpass.trainer.fit.sampled_rows import SampledRows, rows_to_sample, sample_rows
from fullpass.trainer.fit.strategy import describe_devices
from fullpass.trainer.fit.tensorboard import Profile
from fullpass.trainer.fit.training_data import TrainingData
from fullpass.trainer.fit.warm_start import BaseExport, WeightOrigin
from fullpass.trainer.input.epochs import STREAM_SHUFFLE_ROWS, BatchOrder
from fullpass.trainer.input.sharding import Batches, SplitShard
from fullpass.trainer.linear.fit_linear import fit_linear
from fullpass.trainer.loss_config import LossConfig, levels_of
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.tasks import HEAD
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.planned import plan_models, plan_words

_LOG = logging.getLogger(__name__)
EVAL_BATCH = 4096
"""Rows of a batch of evaluation at most; it needs no memory for gradients."""
_BLEND_ROWS = 20_000
"""Validation rows that choose the share of each of several models at most: a bound of the time."""
_EVAL_PIXELS = 4 << 20
"""Pixels of a batch of evaluation at most, twice those of a batch of training."""
_EVAL_BYTES = 8 << 20
"""Bytes of its rows with their padding at most."""
_PIXEL_SECONDS = 0.8e-6
"""Seconds in which the default network learns from a pixel, on two cores of 2024."""
_LONG_EPOCH = 5.0
"""Seconds from which an epoch of images must pay for its time."""
_PAYS = 0.005 / 60
"""The share of the loss of a constant guess that a second of it must gain: half a percent a minute."""
_AGAIN_ROWS = 100_000
"""The most train rows with which a linear model trains again, as trees."""
_OF_TREES = ("trees", "leaves", "forests", "random")

OnAnyEpoch = Callable[[str, int, dict[str, float]], None]
"""Called with the kind of model, the number of an epoch, and its metrics."""
_Epochs = list[tuple[int, dict[str, float]]]
"""The numbers of epochs, with their metrics."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a training in addition to its configuration; only `base` changes the weights.

    Attributes:
        on_begun: Called with a network that is trained alone, after its first updates.
        on_any_epoch: Called with the kind of model too, for the epochs of every model that is tried.
        base: The export that initializes the weights; a checkpoint takes precedence.
        checkpoints: The folder of this training's checkpoints; None saves nothing.
        logs: The folder of the trace for TensorBoard.
        until: The number of epochs after which to end; the learning rate decays over all epochs of `training.epochs`.
        most_epochs: The most epochs with `training.epochs: auto`; their work was counted before.
        keep_checkpoint: Whether to save at the end too, so that a training until a later epoch resumes from there.
    """

    report: Report = lambda *_: None
    on_epoch: OnEpoch = lambda *_: None
    on_any_epoch: OnAnyEpoch = lambda *_: None
    on_begun: Callable[[Network], object] = lambda _: None
    base: BaseExport | None = None
    checkpoints: str | None = None
    logs: str | None = None
    until: int | None = None
    most_epochs: int = sys.maxsize
    keep_checkpoint: bool = False

    def epochs(self, training: TrainingConfig) -> tuple[int, int]:
        """Returns the number of epochs, and that up to which training goes on while it improves."""
        if self.until is not None:
            return self.until, self.until
        most = self.most_epochs if training.epochs == "auto" else sys.maxsize
        return min(training.max_epochs, most), min(training.goes_on_to, most)


class TrainedPart(Protocol):
    """What each kind of model is trained to; `Grown` and `LinearFit` are such parts, too.

    Attributes:
        loss: The monitored metric on the validation rows; None for networks, whose history has it.
        again: Trains the same model on the validation rows too; None if that is not worth its time, or has been done.
        held: With folds, the output for each train row of a model that did not learn from it, float32 [rows, columns],
            in the order of the split; None without folds.
    """

    @property
    def network(self) -> Network: ...
    @property
    def fitted(self) -> Fitted: ...
    @property
    def loss(self) -> float | None: ...
    @property
    def again(self) -> "Callable[[], TrainedPart] | None": ...
    @property
    def held(self) -> np.ndarray | None: ...


@dataclass(frozen=True)
class Learned:
    """A network that learned in steps. Its history has its loss.

    Attributes:
        weight_origins: How a warm start initialized each weight; empty for a cold start.
    """

    network: Network
    fitted: Fitted
    weight_origins: tuple[WeightOrigin, ...]
    again: "Callable[[], Learned] | None" = None
    loss = held = None


@dataclass(frozen=True)
class Trained:
    """A trained model with the record of its training.

    Attributes:
        network: Maps transformed features to logits, with the weights of the best epoch.
        parts: Kind of model -> what was trained; several if their blend pays.
        fitted: The record of training; of a blend, that of the part with the smallest metric.
        compared: Kind of model -> its metric on the validation rows, if several models were tried, else empty.
        blend: The weights of these models and what their blend gains; None if there is none. Only a blend that pays is
            kept, else the model with the smallest metric.
        limited: Kind of model -> the rounds or epochs after which a limit ended its training while it still improved.
        left_out: Kind of model -> about how many processor seconds it would take, if that is too long.
        tried: Kind of model -> its network and the seconds of its training, if several were tried, else empty.
    """

    network: Network
    parts: Mapping[str, TrainedPart]
    fitted: Fitted
    devices: str
    precision: str
    compared: Mapping[str, float] = field(default_factory=dict)
    blend: Choice | None = None
    limited: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, float] = field(default_factory=dict)
    tried: Mapping[str, tuple[Network, float]] = field(default_factory=dict)

    @property
    def learned(self) -> Learned | None:
        """The network whose weights the next warm start may take; None without one."""
        return next((part for part in self.parts.values() if isinstance(part, Learned)), None)

    @property
    def weight_origins(self) -> tuple[WeightOrigin, ...]:
        """How a warm start initialized each weight; empty for a cold start."""
        return self.learned.weight_origins if self.learned else ()

    @property
    def trees(self) -> dict[str, int]:
        """The numbers of trees and leaves, of forests that grew again, and of those with random thresholds, if any."""
        return {name: getattr(self.parts["trees"], name) for name in _OF_TREES} if "trees" in self.parts else {}

    @property
    def parameters(self) -> int:
        """The number of trained values; of trees they are the thresholds and the leaf values."""
        of_trees = 2 * self.trees["leaves"] - self.trees["trees"] if self.trees else 0
        networks = [part.network for kind, part in self.parts.items() if kind != "trees"]
        return of_trees + sum(network.model.count_params() for network in networks)


def train(
    data: TrainingData, spec: TrainingSpec, strategy: tf.distribute.Strategy, options: RunOptions | None = None
) -> Trained:
    """Builds and fits the model of `spec`.

    Raises:
        UserError: The data or the configuration do not allow training.
    """
    options, training = options or RunOptions(), spec.config.training
    if isinstance(spec.config.model, SeveralModels):
        return _train_several(data, spec, strategy, options)
    options = replace(options, on_epoch=_telling(spec.config.model.kind, options))
    if isinstance(spec.config.model, Trees):
        return _grow(data, spec, options)
    updates = data.steps_per_epoch * training.max_epochs

    def build() -> BuiltTraining:
        begun = {"updates": updates, "strategy": strategy, "base": options.base}
        return build_training(spec, data.statistics, data.in_model, **begun)

    def train_batches(rows: SplitShard) -> Batches:
        shuffled = {"shuffle": shuffle_rows(spec.config.input), "seed": training.seed}
        order = BatchOrder(batch_size=size, fixed=built.fixed_shapes, **shuffled)
        return rows.batches(order, data.statistics.factors.tolist())

    built, size = build(), data.replica_batch_size
    epochs, goes_on_to = options.epochs(training)
    steps, saving = training.steps_per_execution, training.checkpoint
    fit = Fit(
        steps=built.steps,
        epochs=epochs,
        goes_on_to=goes_on_to,
        early_stopping=training.early_stopping,
        least_gain=_least_gain(built.network, data, training),
        seconds=training.seconds,
        report=options.report,
        on_epoch=options.on_epoch,
        on_begun=lambda: options.on_begun(built.network),
        steps_per_call=None if steps == "auto" else steps,
        checkpoints=(options.checkpoints, saving) if options.checkpoints and saving else None,
        save_at_end=options.keep_checkpoint,
        profile=Profile(options.logs, training.profile.steps if training.profile else None),
    )
    eval_size = _eval_batch(built.network, size, data.validation.split.padded_row_bytes)
    validation = data.validation.batches(BatchOrder(batch_size=eval_size, fixed=built.fixed_shapes))
    fitted = fit.run(train_batches(data.train), validation)

    def again() -> Learned:
        spans, anew = fitted.spans(fit.steps.monitor), build()
        limits: dict[str, Any] = {"epochs": sum(spans), "goes_on_to": 0, "early_stopping": None, "checkpoints": None}
        rest = replace(fit, steps=anew.steps, profile=Profile(), **limits)
        rest.run_again(train_batches(data.train.joined(data.validation)), spans)
        return Learned(anew.network, fitted, anew.weight_origins)

    pays = _again_pays(data, spec, fitted)
    learned = Learned(built.network, fitted, built.weight_origins, again if pays else None)
    parts: dict[str, TrainedPart] = {spec.config.model.kind: learned}
    return Trained(built.network, parts, fitted, describe_devices(strategy), built.precision)


def _again_pays(data: TrainingData, spec: TrainingSpec, fitted: Fitted) -> bool:
    """Returns whether a model trains again, on train and the split validation, for the epochs that were best.

    Only a linear one does: the best epoch of a network with hidden layers is partly luck, which is not repeated
    (docs/training.md). It does not where `training.time` leaves too little.
    """
    training = spec.config.training
    own_validation = data.validation is not data.evaluation and data.train.can_join(data.validation)
    in_time = training.seconds is None or 2 * fitted.seconds < training.seconds
    few = data.train.counts.weighted_rows <= _AGAIN_ROWS
    return isinstance(spec.config.model, Linear) and training.epochs == "auto" and own_validation and in_time and few


def final(trained: Trained, data: TrainingData, spec: TrainingSpec) -> Trained:
    """Returns the model that is exported: if a part is trained again, with the corrections of the first one's head."""
    if all(part.again is None for part in trained.parts.values()):
        return trained
    parts = {kind: part.again() if part.again else part for kind, part in trained.parts.items()}
    found = _of_parts(trained, parts, data, spec)
    head, corrected = (one.network.model.get_layer(HEAD) for one in (found, trained))
    head.correct(corrected.scale, corrected.offset)
    return found


def _of_parts(trained: Trained, parts: Mapping[str, TrainedPart], data: TrainingData, spec: TrainingSpec) -> Trained:
    """Returns a model with other parts: the only one, or the blend of several."""
    networks = {kind: part.network for kind, part in parts.items()}
    network = next(iter(networks.values()))
    if trained.blend is not None and trained.blend.pays:
        task, loss = spec.preprocessing.label.task, spec.config.training.loss
        network = blend(networks, trained.blend.parts, task, loss)
    return replace(trained, network=network, parts=parts)


def _train_several(
    data: TrainingData, spec: TrainingSpec, strategy: tf.distribute.Strategy, options: RunOptions
) -> Trained:
    """Returns the blend of trees, a network and a linear model, or the best one on the validation rows.

    The best one is kept if a blend does not pay. `on_epoch` is called for its epochs only.
    """
    task, loss = spec.preprocessing.label.task, spec.config.training.loss
    metric = f"val_{monitored(task, loss)}"
    tried: dict[str, Trained] = {}
    epochs_of: dict[str, _Epochs] = {}
    compared: dict[str, float] = {}

    seconds: dict[str, float] = {}

    def try_model(kind: str, trained: Trained, epochs: _Epochs) -> None:
        fitted, loss = trained.fitted, trained.parts[kind].loss
        compared[kind] = fitted.history[metric][fitted.best_epoch - 1] if loss is None else loss
        tried[kind], epochs_of[kind] = trained, epochs
        seconds[kind] = time.monotonic() - began - sum(seconds.values())

    work = _import_trees().work_of(data, spec)
    plan = plan_models(data, spec, work)
    left_out = {"trees": work.too_long} if work.too_long else {}
    _LOG.info("model: %s; left out: %s", plan_words(plan), left_out)
    options.report(0, None, "", plan_words(plan), None)
    began = time.monotonic()
    for one in plan:
        if one.model is not None:
            own = replace(spec, config=spec.config.model_copy(update={"model": one.model}))
            epochs: _Epochs = []
            bounded = replace(
                options, on_epoch=_into(epochs), on_begun=RunOptions.on_begun, most_epochs=one.most_epochs
            )
            try_model(one.kind, train(data, own, strategy, bounded), epochs)
    if (linear := fit_linear(data, spec, in_place_of_trees=bool(left_out))) is not None:
        of_epoch = {name: values[0] for name, values in linear.fitted.history.items()}
        try_model("linear", _on_cpu("linear", linear, data), [(1, of_epoch)])
    if data.folds is not None and not left_out:  # trees were judged by train rows
        compared["trees"] = _judged(data, spec, tried["trees"].network)
    best = min(compared, key=lambda kind: compared[kind])
    for number, found in epochs_of[best]:
        options.on_epoch(number, found)
    fits = {kind: one.fitted for kind, one in tried.items()}
    limited = {kind: one.epochs for kind, one in fits.items() if kind != best and one.limited}
    blend = _weights(data, tried, best, task, loss) if len(tried) > 1 else None
    networks = {kind: (one.network, seconds[kind]) for kind, one in tried.items()}
    kept = replace(tried[best], compared=compared, blend=blend, limited=limited, left_out=left_out, tried=networks)
    if kept.blend is None or not kept.blend.pays:
        return kept
    return _of_parts(kept, {kind: tried[kind].parts[kind] for kind in kept.blend.parts}, data, spec)


def _weights(
    data: TrainingData, tried: Mapping[str, Trained], better: str, task: Task, loss: LossConfig
) -> Choice | None:
    rows = sample_rows(data.validation.split, data.in_model, rows_to_sample(tried[better].network, _BLEND_ROWS))
    outputs = {kind: rows.logits(trained.network) for kind, trained in tried.items()}
    shift = prior_shift(task, data.statistics.factors, outputs[better].shape[1])
    outputs = {kind: output + shift for kind, output in outputs.items()}
    parts = {kind: trained.parts[kind] for kind, trained in tried.items()}
    held = {kind: part.held + shift for kind, part in parts.items() if part.held is not None}
    if not held:
        return choose_weights(outputs, outputs[better], rows, task, loss)
    count = data.train.counts.weighted_rows
    order = np.argsort(data.train.split.sampled_numbers(count))
    sampled = sample_rows(data.train.split, None, count)
    train = SampledRows({}, sampled.labels[order], sampled.weights[order])
    return choose_with_folds(outputs, held, better, rows, train, task, loss)


def _judged(data: TrainingData, spec: TrainingSpec, network: Network) -> float:
    """Returns the metric that training watches, of a model on the validation rows."""
    task, loss = spec.preprocessing.label.task, spec.config.training.loss
    rows = sample_rows(data.validation.split, data.in_model, data.validation.counts.weighted_rows)
    losses = loss_of(task, loss, label_deviation=data.train.counts.error_unit)
    found = metrics_of_rows(task, losses, rows.labels, rows.logits(network), rows.weights, levels_of(loss))
    return found[monitored(task, loss)]


def _telling(kind: str, options: RunOptions) -> OnEpoch:
    """Returns a callback that tells both receivers of an epoch."""

    def tell(number: int, found: dict[str, float]) -> None:
        options.on_epoch(number, found)
        options.on_any_epoch(kind, number, found)

    return tell


def _into(epochs: _Epochs) -> OnEpoch:
    """Returns a callback that appends epochs to a list."""

    def note(number: int, found: dict[str, float]) -> None:
        epochs.append((number, found))

    return note


def _grow(data: TrainingData, spec: TrainingSpec, options: RunOptions) -> Trained:
    """Grows boosted trees on the CPU, whatever devices there are."""
    epochs = options.epochs(spec.config.training)
    grown = _import_trees().grow_trees(data, spec, epochs=epochs, report=options.report, on_epoch=options.on_epoch)
    return _on_cpu("trees", grown, data)


def _import_trees() -> ModuleType:
    """Returns the module that grows trees, which loads LightGBM."""
    try:
        from fullpass.trainer.trees import grow_trees
    except OSError as error:
        raise UserError(
            f"model: kind: trees needs LightGBM, which cannot be loaded: {error}. It runs on OpenMP: install libgomp1 "
            "(Debian, Ubuntu), libgomp (Fedora) or libomp (macOS)."
        ) from error
    return grow_trees


def _on_cpu(kind: str, part: TrainedPart, data: TrainingData) -> Trained:
    return Trained(part.network, {kind: part}, part.fitted, f"CPU, {usable_cores()} threads", "float32")


def _least_gain(network: Network, data: TrainingData, training: TrainingConfig) -> float:
    """Returns how much an epoch of images must lower the validation loss to pay for its time; 0 if it is short.

    The time is counted from pixels, so that the same data trains the same model on any machine.
    """
    counts, stopping = data.train.counts, training.early_stopping
    seconds = counts.weighted_rows * _pixels_after_stride(network) * _PIXEL_SECONDS
    if stopping is None or stopping.patience != "auto" or training.epochs != "auto" or seconds < _LONG_EPOCH:
        return 0.0
    shares = counts.class_rows[counts.class_rows > 0] / max(1, counts.class_rows.sum())
    chance = -float(shares @ np.log(shares)) if len(shares) > 1 else counts.error_unit
    _LOG.info(
        "training: an epoch takes about %.0f s on two cores, and should gain %.2g", seconds, chance * seconds * _PAYS
    )
    return chance * seconds * _PAYS


def _pixels_after_stride(network: Network) -> float:
    """Returns the pixels of a row; a network with a stride learns from so many times fewer."""
    images = [item for item in network.inputs.values() if item.output.image is not None]
    strides = [getattr(item.output.image.encoder, "stride", 1) for item in images]
    return sum(item.width / stride**2 for item, stride in zip(images, strides, strict=True))


def _eval_batch(network: Network, batch_size: int, row_bytes: int) -> int:
    """Returns the batch size of evaluation: EVAL_BATCH, less for large images and long texts, whose rows are padded.

    It is at least that of an update.
    """
    fitting = min(_EVAL_PIXELS // max(1, network.pixels), _EVAL_BYTES // max(1, row_bytes))
    return max(batch_size, min(EVAL_BATCH, fitting))


def shuffle_rows(config: InputConfig) -> int:
    """Returns the size of the shuffle buffer in rows, with `auto` resolved."""
    return STREAM_SHUFFLE_ROWS if config.shuffle_buffer == "auto" else config.shuffle_buffer


def training_record(data: TrainingData, trained: Trained, seconds: Mapping[str, float]) -> dict[str, Any]:
    """Returns the content of `training.json`."""
    fitted, counts, shards = trained.fitted, data.train.counts, data.shards
    return {
        "rows": {name: shard.counts.rows for name, shard in shards.items()},
        "rows_without_weight": {name: shard.counts.weightless for name, shard in shards.items()},
        "classes": dict(zip(data.statistics.names, counts.class_rows.tolist(), strict=True)),
        "class_weights": dict(zip(data.statistics.names, data.statistics.factors.tolist(), strict=False)),
        "in_memory": data.train.split.in_memory is not None,
        "input": {name: shard.split.storage_note for name, shard in shards.items()},
        "input_shared_by": "file" if data.train.by_file else "batch",
        "batch_size": data.batch_size,
        "steps_per_epoch": data.steps_per_epoch,
        "parameters": trained.parameters,
        "trees": trained.trees,
        "compared": dict(trained.compared),
        "blend": trained.blend and trained.blend.record(),
        "limited": dict(trained.limited),
        "left_out": dict(trained.left_out),
        "folds": 0 if data.folds is None else len(np.unique(data.folds)),
        "epochs": fitted.epochs,
        "best_epoch": fitted.best_epoch,
        "ended_by": fitted.ended_by,
        "restarts": list(fitted.restarts),
        "history": fitted.history,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "examples_per_second": round(counts.weighted_rows * fitted.epochs / fitted.seconds),
        "devices": trained.devices,
        "precision": trained.precision,
        "input_wait": round(float(np.mean(fitted.history.get("input_wait", [0.0]))), 4),
        # The median, because the first epoch builds the graph. For trees a step is a round.
        "step_ms": round(float(np.median(fitted.history["step_ms"])), 4),
        "resumed_at_update": fitted.resumed_at,
        "checkpoints": {"written": fitted.saves, "seconds": round(fitted.save_seconds, 3)},
    }
