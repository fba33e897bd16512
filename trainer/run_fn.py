"""The entry point of TFX's Trainer: transformed examples and the transform graph in, a served model out."""

import json
import logging
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from preprocessing.columns import serving_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.outputs import ROW_ID
from preprocessing.progress import report
from preprocessing.raw_text import RawText
from preprocessing.stable_ids import FOLDER as LEDGERS
from trainer.axes import Network
from trainer.checkpoints import folder_for, prune, remove
from trainer.config import InputConfig, Module, TrainerConfig, TrainingConfig
from trainer.curves import Curves
from trainer.damage import check_features
from trainer.export import export_model
from trainer.fit import Batches, Fit, Fitted, OnEpoch, Report
from trainer.input_fn import STREAM_SHUFFLE_ROWS, Decode, decoder, list_files
from trainer.input_plan import graph_digest, plan_reading
from trainer.inputs import feature_names, model_inputs, same_shapes, transformed_outputs
from trainer.labels import check_label, class_factors, class_names
from trainer.models.build import build_model
from trainer.optimizer import make_optimizer, replica_batch_size, scaled_learning_rate
from trainer.order import Order
from trainer.placement import InModel, Placement, placement_of, refuse_text, with_preprocessing
from trainer.profiling import Profile
from trainer.run_facts import TRAINING_FILE
from trainer.samples import read_samples
from trainer.scores import SCORES_FILE, write_scores
from trainer.sharing import Share, share_of
from trainer.signatures import Served
from trainer.split import Split, load_split
from trainer.strategy import choose_strategy, describe, needs_fixed_shapes, precision, use_xla
from trainer.tasks import logit_columns, loss_of, with_head
from trainer.tuning.config import TuningConfig
from trainer.tuning.space import best_values, with_values
from trainer.warm_start import FILE as WEIGHTS_FILE
from trainer.warm_start import (
    Base,
    Began,
    begin_from,
    describe_weights,
    keep_encodings,
    read_base,
    warm_start_record,
)
from trainer.workers import Workers

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs

_LOG = logging.getLogger(__name__)
EVAL_BATCH = 4096


@dataclass(frozen=True)
class Data:
    """What a model is trained on.

    Attributes:
        placement: where each feature is made.
        in_model: makes those whose place is the model; None without any.
        train: this worker's share of the train split.
        evaluation: of the eval split.
        names: class names in id order; empty for regression.
        factors: of the training weight per class; empty for none.
        batch_size: examples per update, over all replicas.
        replica_batch_size: on each replica.
    """

    placement: Placement
    in_model: InModel | None
    train: Share
    evaluation: Share
    names: tuple[str, ...]
    factors: np.ndarray
    batch_size: int
    replica_batch_size: int

    @property
    def steps_per_epoch(self) -> int:
        """Updates per epoch."""
        return self.train.steps(self.replica_batch_size)


@dataclass(frozen=True)
class Trained:
    """A trained model, and how it came about.

    Attributes:
        model: gives logits, with the weights of the best epoch, for what batches hold.
        network: the part of it that reads transformed features only.
        fitted: the epochs.
        devices: in words.
        precision: name of the Keras dtype policy.
        began: how each weight began, where there was a model to begin from.
    """

    model: keras.Model
    network: Network
    fitted: Fitted
    devices: str
    precision: str
    began: tuple[Began, ...] = ()


def run_fn(fn_args: "FnArgs") -> None:
    """Trains the model of `custom_config`, exports it, and writes `training.json` and TensorBoard logs.

    `custom_config` holds `preprocessing` and `trainer`, the dumps of PreprocessingConfig and TrainerConfig; also `name`
    of the pipeline, and `source`, the dump of RawText.

    Args:
        fn_args: TFX's; read are train_files, eval_files, transform_output, custom_config; written are
            serving_model_dir and model_run_dir.

    Raises:
        UserError: The data or the configuration do not let a model be trained.
    """
    started = time.monotonic()
    custom = fn_args.custom_config
    found, sections, declared = tuned(fn_args)
    preprocessing = PreprocessingConfig.model_validate(declared)
    config = TrainerConfig.model_validate(sections)
    strategy = choose_strategy(config.training)
    workers = Workers(strategy)
    tft_output = tft.TFTransformOutput(fn_args.transform_output)
    data = load_data(fn_args.train_files, fn_args.eval_files, preprocessing, config, tft_output, workers)
    read = time.monotonic()
    logs = fn_args.model_run_dir if workers.index == 0 else tempfile.mkdtemp()
    curves = Curves(logs)
    base = _base(fn_args, config.training)
    unfinished = _checkpoint_folder(fn_args, config, data, base)
    trained = train(
        data,
        preprocessing,
        config,
        tft_output,
        strategy=strategy,
        report=report,
        on_epoch=curves.write,
        base=base,
        checkpoints=unfinished,
        logs=logs,
    )
    curves.close()
    fitted = time.monotonic()
    served = Served(
        model=trained.network.model,
        tft_output=tft_output,
        columns=serving_columns(preprocessing),
        features=feature_names(transformed_outputs(preprocessing, tft_output)),
        label=preprocessing.label,
        names=data.names,
    )
    export_model(
        served,
        _export_directory(fn_args.serving_model_dir, chief=workers.index == 0),
        name=custom.get("name", "model"),
        text=RawText.model_validate(custom.get("source", {})),
        samples=read_samples(fn_args.transform_output),
        facts={"made_from": custom.get("made_from")},
        extras={WEIGHTS_FILE: json.dumps(describe_weights(trained.network)), **_ledgers(fn_args.transform_output)},
    )
    seconds = {"read": read - started, "train": fitted - read, "export": time.monotonic() - fitted}
    if workers.index == 0:
        began = {"warm_start": warm_start_record(config.training, base, trained.began)}
        decode = decoder(tft_output, data.placement, [*data.placement.read, ROW_ID], len(data.names))
        all_eval_files = list_files(fn_args.eval_files, "eval")
        scores = f"{fn_args.model_run_dir}/{SCORES_FILE}"
        write_scores(scores, trained.model, all_eval_files, decode, preprocessing.label.task)
        write_json(f"{fn_args.model_run_dir}/{TRAINING_FILE}", training_record(data, trained, seconds) | began | found)
        if unfinished is not None:
            remove(unfinished)
            prune(unfinished)


def load_data(
    train_files: list[str],
    eval_files: list[str],
    preprocessing: PreprocessingConfig,
    config: TrainerConfig,
    tft_output: tft.TFTransformOutput,
    workers: Workers,
) -> Data:
    """Reads this worker's share of both splits, and checks that there is something to learn.

    Args:
        train_files: patterns.
        eval_files: patterns.
        preprocessing: decides the features and the label.
        config: decides how they are read.
        tft_output: the transform graph's output.
        workers: that train together.

    Raises:
        UserError: A split is empty, damaged, or has too few usable labels.
    """
    label = preprocessing.label
    names = class_names(label, tft_output)
    placement = placement_of(preprocessing, transformed_outputs(preprocessing, tft_output))
    for name, patterns in (("train", train_files), ("eval", eval_files)):
        check_features(list_files(patterns, name), placement, tft_output)
    in_model = InModel(placement, tft_output) if placement.in_model else None
    decode = decoder(tft_output, placement, placement.read, len(names))
    options: dict[str, Any] = {
        "decode": decode,
        "config": config.input,
        "task": label.task,
        "classes": len(names),
        "complete": in_model.complete if in_model else None,
        "key": {
            "transform graph": graph_digest(tft_output),
            "features": list(placement.read),
            "places": repr(placement),
            "label": [label.task, len(names)],
        },
    }

    def share(name: str, patterns: list[str]) -> Share:
        return share_of(list_files(patterns, name), workers, partial(_load, name, **options), len(names))

    train_share = share("train", train_files)
    check_label(label, names, train_share.counts)
    read = Data(
        placement=placement,
        in_model=in_model,
        train=train_share,
        evaluation=share("eval", eval_files),
        names=names,
        factors=class_factors(label, names, train_share.counts),
        batch_size=0,
        replica_batch_size=0,
    )
    return sized(read, config.training)


def sized(data: Data, training: TrainingConfig) -> Data:
    """Returns the same data in the batches of a section `training:`."""
    workers = data.train.workers
    replicas = workers.count * workers.replicas
    used = data.train.counts.used
    per_replica = replica_batch_size(training, used, replicas)
    size = per_replica * replicas
    if used < size:
        _LOG.warning("input: split train has %d rows, not one batch of %d: an epoch is one update", used, size)
    return replace(data, batch_size=size, replica_batch_size=per_replica)


def tuned(fn_args: "FnArgs") -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns what training.json says of a Tuner, and the sections trainer and preprocessing with what it found."""
    custom = fn_args.custom_config
    if not getattr(fn_args, "hyperparameters", None):
        return {}, custom["trainer"], custom["preprocessing"]
    values = best_values(fn_args.hyperparameters, TuningConfig.model_validate_json(custom["tuning"]))
    return {"hyperparameters": values}, *with_values(values, custom["trainer"], custom["preprocessing"])


def train(
    data: Data,
    preprocessing: PreprocessingConfig,
    config: TrainerConfig,
    tft_output: tft.TFTransformOutput,
    *,
    strategy: tf.distribute.Strategy,
    report: Report,
    on_epoch: OnEpoch,
    base: Base | None = None,
    checkpoints: str | None = None,
    logs: str | None = None,
    until: int | None = None,
    keep_checkpoint: bool = False,
) -> Trained:
    """Builds and fits the model.

    Args:
        data: the splits.
        preprocessing: decides the inputs.
        config: decides model and training.
        tft_output: knows the sizes.
        strategy: the devices.
        report: told while epochs run.
        on_epoch: given the number of an epoch and its metrics.
        base: the model that the weights begin from; a checkpoint goes before it.
        checkpoints: folder of this training's; None saves nothing.
        logs: folder that a trace for TensorBoard goes to.
        until: epochs of `training.epochs` after which to end; the learning rate falls over all of them.
        keep_checkpoint: save at the end too, so that a training until a later epoch goes on from there.
    """
    training = config.training
    task = preprocessing.label.task
    counts = data.train.counts
    deviation = counts.label_deviation if task == "regression" else 1.0
    if isinstance(strategy, tf.distribute.TPUStrategy) or training.xla is True:
        refuse_text(data.placement, "XLA" if training.xla is True else "a TPU")
    keras.utils.set_random_seed(training.seed)
    with strategy.scope(), precision(training) as policy:
        inputs = model_inputs(keep_encodings(transformed_outputs(preprocessing, tft_output), base), tft_output)
        columns = logit_columns(task, len(data.names))
        built = build_model(inputs, task=task, classes=columns, config=config.model)
        built = with_head(built, task, counts, data.factors)
        classes = data.names if columns > 1 else ()
        network = Network(built, inputs, preprocessing, classes, own=isinstance(config.model, Module))
        began = tuple(begin_from(base, network, tft_output.transform_savedmodel_dir)) if base else ()
        model = with_preprocessing(built, data.in_model)
        scaled = scaled_learning_rate(training, strategy.num_replicas_in_sync)
        optimizer = make_optimizer(scaled, data.steps_per_epoch * training.epochs, policy)
        optimizer.build(model.trainable_variables)
    xla = use_xla(training, strategy, data.in_model is None and same_shapes(inputs))
    saving = training.checkpoint
    steps = training.steps_per_execution
    training_run = Fit(
        model=model,
        optimizer=optimizer,
        loss=loss_of(task, label_smoothing=training.label_smoothing, label_deviation=deviation),
        task=task,
        strategy=strategy,
        epochs=until or training.epochs,
        early_stopping=training.early_stopping,
        report=report,
        on_epoch=on_epoch,
        accumulate=training.accumulate,
        xla=xla,
        steps_per_call=None if steps == "auto" else steps,
        checkpoints=(checkpoints, saving) if checkpoints and saving else None,
        save_at_end=keep_checkpoint,
        profile=Profile(logs, training.profile.steps if training.profile else None),
    )
    fixed = xla or needs_fixed_shapes(strategy)
    fitted = training_run.run(_train_batches(data, config, fixed=fixed), _evaluation_batches(data, fixed=fixed))
    return Trained(model, network, fitted, describe(strategy), policy, began)


def _base(fn_args: "FnArgs", training: TrainingConfig) -> Base | None:
    """Returns the model that the weights begin from, or None for a cold start.

    Raises:
        UserError: The folder named is no export to begin from. A blessed model that is none is no error.
    """
    if training.warm_start == "none":
        return None
    if training.warm_start != "blessed":
        return read_base(training.warm_start)
    if not getattr(fn_args, "base_model", None):
        _LOG.info("warm start: no model was blessed before; the weights begin anew")
        return None
    try:
        return read_base(fn_args.base_model)
    except UserError as error:
        _LOG.warning("warm start: the weights begin anew. %s", error)
        return None


def _ledgers(transform_output: str) -> dict[str, str]:
    """Returns what the transform graph knows of stable ids, by path in an export."""
    folder = f"{transform_output}/{LEDGERS}"
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    found = {}
    for name in names:
        with tf.io.gfile.GFile(f"{folder}/{name}") as file:
            found[f"{LEDGERS}/{name}"] = file.read()
    return found


def _train_batches(data: Data, config: TrainerConfig, *, fixed: bool) -> Batches:
    order = Order(batch_size=data.replica_batch_size, shuffle=_shuffle(config), seed=config.training.seed, fixed=fixed)
    return data.train.batches(order, data.factors.tolist())


def _evaluation_batches(data: Data, *, fixed: bool) -> Batches:
    return data.evaluation.batches(Order(batch_size=max(EVAL_BATCH, data.replica_batch_size), fixed=fixed))


def _checkpoint_folder(fn_args: "FnArgs", config: TrainerConfig, data: Data, base: Base | None) -> str | None:
    """Returns the folder of this training's checkpoints, or None where nobody named a place for unfinished work.

    When and how often it is saved, traced and looked at, and where an input service is, decide nothing of a training,
    and may change before a retry.
    """
    work = fn_args.custom_config.get("work")
    if work is None:
        return None
    apart: Any = {
        "training": {"checkpoint", "profile", "steps_per_execution"},
        "input": {"service": {"address", "wait_seconds"}},
    }
    custom = {**fn_args.custom_config, "trainer": config.model_dump(mode="json", exclude=apart)}
    custom["found"] = tuned(fn_args)[0]
    custom["base"] = base and base.digest
    # How much memory there is decides where rows are kept, and with that their order.
    split = data.train.split
    kept = "memory" if split.in_memory else "disk" if split.on_disk else "files"
    custom["order"] = [kept, 0 if split.in_memory else split.window_rows(_shuffle(config))]
    return folder_for(
        work, input_files(fn_args), custom, fn_args.transform_output, data.batch_size, data.train.workers.count
    )


def _shuffle(config: TrainerConfig) -> int:
    return STREAM_SHUFFLE_ROWS if config.input.shuffle_buffer == "auto" else config.input.shuffle_buffer


def input_files(fn_args: "FnArgs") -> list[str]:
    """Returns the files of both splits."""
    return [*list_files(fn_args.train_files, "train"), *list_files(fn_args.eval_files, "eval")]


def training_record(data: Data, trained: Trained, seconds: Mapping[str, float]) -> dict[str, Any]:
    """Returns what `training.json` says."""
    fitted, counts = trained.fitted, data.train.counts
    return {
        "rows": {"train": counts.rows, "eval": data.evaluation.counts.rows},
        "rows_without_weight": {"train": counts.weightless, "eval": data.evaluation.counts.weightless},
        "rows_damaged": {"train": counts.damaged},
        "classes": dict(zip(data.names, counts.class_rows.tolist(), strict=True)),
        "class_weights": dict(zip(data.names, data.factors.tolist(), strict=False)),
        "in_memory": data.train.split.in_memory is not None,
        "input": {"train": data.train.split.kept, "eval": data.evaluation.split.kept},
        "input_shared_by": "file" if data.train.by_file else "batch",
        "batch_size": data.batch_size,
        "steps_per_epoch": data.steps_per_epoch,
        "parameters": trained.model.count_params(),
        "epochs": fitted.epochs,
        "best_epoch": fitted.best_epoch,
        "history": fitted.history,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "examples_per_second": round(counts.used * fitted.epochs / fitted.seconds),
        "devices": trained.devices,
        "precision": trained.precision,
        "input_wait": round(float(np.mean(fitted.history["input_wait"])), 4),
        # The first epoch builds the graph.
        "step_ms": round(float(np.median(fitted.history["step_ms"])), 4),
        "resumed_at_update": fitted.resumed_at,
        "checkpoints": {"written": fitted.saves, "seconds": round(fitted.save_seconds, 3)},
    }


def write_json(path: str, record: Mapping[str, Any]) -> None:
    """Writes a JSON file whole: a reader finds all of it, or none."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(f"{path}.tmp", "w") as file:
        file.write(json.dumps(record, indent=2))
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)


def _load(
    name: str,
    files: tuple[str, ...],
    *,
    decode: Decode,
    config: InputConfig,
    key: Mapping[str, Any],
    **options: Any,
) -> Split:
    split = load_split(name, files, decode, **plan_reading(config, name, files, key), **options)
    _LOG.info("input: split %s is %s", name, split.kept)
    return split


def _export_directory(directory: str, *, chief: bool) -> str:
    """All workers must write, since that reads the variables of all; but only what the chief writes is kept."""
    return directory if chief else os.path.join(tempfile.mkdtemp(), "export")
