"""The entry point of TFX's Trainer: transformed examples and the transform graph in, a served model out."""

import json
import logging
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from preprocessing.columns import serving_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.outputs import ROW_ID
from preprocessing.progress import report
from preprocessing.raw_text import RawText
from trainer.config import InputConfig, TrainerConfig
from trainer.curves import Curves
from trainer.export import export_model
from trainer.fit import Batches, Fit, Fitted, OnEpoch, Report
from trainer.input_fn import STREAM_SHUFFLE_ROWS, Block, Decode, decoder, list_files
from trainer.input_plan import graph_digest, plan_reading
from trainer.inputs import feature_names, model_inputs, transformed_outputs
from trainer.labels import check_label, class_factors, class_names
from trainer.models.build import build_model
from trainer.optimizer import batch_size_for, make_optimizer
from trainer.order import Order
from trainer.placement import InModel, Placement, placement_of, refuse_text_on_tpu, with_preprocessing
from trainer.samples import read_samples
from trainer.scores import SCORES_FILE, write_scores
from trainer.signatures import Served
from trainer.split import Split, load_split
from trainer.strategy import choose_strategy, describe, is_chief, precision
from trainer.tasks import logit_columns, loss_of, with_head

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs

_LOG = logging.getLogger(__name__)
TRAINING_FILE = "training.json"
EVAL_BATCH = 4096


@dataclass(frozen=True)
class Data:
    """What a model is trained on.

    Attributes:
        placement: where each feature is made.
        in_model: makes those whose place is the model; None without any.
        train: the train split.
        evaluation: the eval split.
        names: class names in id order; empty for regression.
        factors: of the training weight per class; empty for none.
        batch_size: examples per update.
    """

    placement: Placement
    in_model: InModel | None
    train: Split
    evaluation: Split
    names: tuple[str, ...]
    factors: np.ndarray
    batch_size: int

    @property
    def steps_per_epoch(self) -> int:
        """Updates per epoch."""
        return self.train.steps(self.batch_size)


@dataclass(frozen=True)
class Trained:
    """A trained model, and how it came about.

    Attributes:
        model: gives logits, with the weights of the best epoch, for what batches hold.
        network: the part of it that reads transformed features only.
        fitted: the epochs.
        devices: in words.
        precision: name of the Keras dtype policy.
    """

    model: keras.Model
    network: keras.Model
    fitted: Fitted
    devices: str
    precision: str


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
    preprocessing = PreprocessingConfig.model_validate(custom["preprocessing"])
    config = TrainerConfig.model_validate(custom["trainer"])
    strategy = choose_strategy(config.training.distribution)
    tft_output = tft.TFTransformOutput(fn_args.transform_output)
    data = load_data(fn_args.train_files, fn_args.eval_files, preprocessing, config, tft_output)
    read = time.monotonic()
    curves = Curves(fn_args.model_run_dir) if is_chief(strategy) else Curves(tempfile.mkdtemp())
    trained = train(data, preprocessing, config, tft_output, strategy=strategy, report=report, on_epoch=curves.write)
    curves.close()
    fitted = time.monotonic()
    served = Served(
        model=trained.network,
        tft_output=tft_output,
        columns=serving_columns(preprocessing),
        features=feature_names(transformed_outputs(preprocessing, tft_output)),
        label=preprocessing.label,
        names=data.names,
    )
    export_model(
        served,
        _export_directory(fn_args.serving_model_dir, chief=is_chief(strategy)),
        name=custom.get("name", "model"),
        text=RawText.model_validate(custom.get("source", {})),
        samples=read_samples(fn_args.transform_output),
    )
    seconds = {"read": read - started, "train": fitted - read, "export": time.monotonic() - fitted}
    if is_chief(strategy):
        decode = decoder(tft_output, data.placement, [*data.placement.read, ROW_ID], len(data.names))
        scores = f"{fn_args.model_run_dir}/{SCORES_FILE}"
        write_scores(scores, trained.model, data.evaluation.files, decode, preprocessing.label.task)
        write_json(f"{fn_args.model_run_dir}/{TRAINING_FILE}", training_record(data, trained, seconds))


def load_data(
    train_files: list[str],
    eval_files: list[str],
    preprocessing: PreprocessingConfig,
    config: TrainerConfig,
    tft_output: tft.TFTransformOutput,
) -> Data:
    """Reads both splits, and checks that there is something to learn.

    Args:
        train_files: patterns.
        eval_files: patterns.
        preprocessing: decides the features and the label.
        config: decides how they are read.
        tft_output: the transform graph's output.

    Raises:
        UserError: A split is empty, damaged, or has too few usable labels.
    """
    label = preprocessing.label
    names = class_names(label, tft_output)
    placement = placement_of(preprocessing, transformed_outputs(preprocessing, tft_output))
    in_model = InModel(placement, tft_output) if placement.in_model else None
    decode = decoder(tft_output, placement, placement.read, len(names))
    complete = in_model.complete if in_model else _as_it_is
    options = {"task": label.task, "classes": len(names), "complete": complete}
    key = {
        "transform graph": graph_digest(tft_output),
        "features": list(placement.read),
        "places": repr(placement),
        "label": [label.task, len(names)],
    }
    train_split = _load("train", train_files, decode, config.input, key, **options)
    check_label(label, names, train_split.counts)
    size = config.training.batch_size
    return Data(
        placement=placement,
        in_model=in_model,
        train=train_split,
        evaluation=_load("eval", eval_files, decode, config.input, key, **options),
        names=names,
        factors=class_factors(label, names, train_split.counts),
        batch_size=batch_size_for(train_split.counts.used) if size == "auto" else size,
    )


def train(
    data: Data,
    preprocessing: PreprocessingConfig,
    config: TrainerConfig,
    tft_output: tft.TFTransformOutput,
    *,
    strategy: tf.distribute.Strategy,
    report: Report,
    on_epoch: OnEpoch,
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
    """
    training = config.training
    task = preprocessing.label.task
    counts = data.train.counts
    deviation = counts.label_deviation if task == "regression" else 1.0
    if isinstance(strategy, tf.distribute.TPUStrategy):
        refuse_text_on_tpu(data.placement)
    keras.utils.set_random_seed(training.seed)
    with strategy.scope(), precision(training) as policy:
        inputs = model_inputs(transformed_outputs(preprocessing, tft_output), tft_output)
        network = build_model(inputs, task=task, classes=logit_columns(task, len(data.names)), config=config.model)
        network = with_head(network, task, counts, data.factors)
        model = with_preprocessing(network, data.in_model)
        optimizer = make_optimizer(training, data.steps_per_epoch * training.epochs, policy)
        optimizer.build(model.trainable_variables)
    training_run = Fit(
        model=model,
        optimizer=optimizer,
        loss=loss_of(task, label_smoothing=training.label_smoothing, label_deviation=deviation),
        task=task,
        strategy=strategy,
        epochs=training.epochs,
        early_stopping=training.early_stopping,
        report=report,
        on_epoch=on_epoch,
    )
    fitted = training_run.run(_train_batches(data, config), _evaluation_batches(data))
    return Trained(model, network, fitted, describe(strategy), policy)


def _train_batches(data: Data, config: TrainerConfig) -> Batches:
    shuffle = STREAM_SHUFFLE_ROWS if config.input.shuffle_buffer == "auto" else config.input.shuffle_buffer
    order = Order(batch_size=data.batch_size, shuffle=shuffle, seed=config.training.seed)
    batches = data.train.batches(order, data.factors.tolist())
    return Batches(batches, data.steps_per_epoch)


def _evaluation_batches(data: Data) -> Batches:
    size = max(EVAL_BATCH, data.batch_size)
    return Batches(data.evaluation.batches(Order(batch_size=size)), data.evaluation.steps(size))


def training_record(data: Data, trained: Trained, seconds: Mapping[str, float]) -> dict[str, Any]:
    """Returns what `training.json` says."""
    fitted, counts = trained.fitted, data.train.counts
    return {
        "rows": {"train": counts.rows, "eval": data.evaluation.counts.rows},
        "rows_without_weight": {"train": counts.weightless, "eval": data.evaluation.counts.weightless},
        "classes": dict(zip(data.names, counts.class_rows.tolist(), strict=True)),
        "class_weights": dict(zip(data.names, data.factors.tolist(), strict=False)),
        "in_memory": data.train.in_memory is not None,
        "input": {"train": data.train.kept, "eval": data.evaluation.kept},
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
    }


def write_json(path: str, record: Mapping[str, Any]) -> None:
    """Writes a JSON file whole: a reader finds all of it, or none."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(f"{path}.tmp", "w") as file:
        file.write(json.dumps(record, indent=2))
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)


def _as_it_is(block: Block) -> Block:
    return block


def _load(
    name: str, patterns: list[str], decode: Decode, config: InputConfig, key: Mapping[str, Any], **options: Any
) -> Split:
    files = list_files(patterns, name)
    split = load_split(name, files, decode, **plan_reading(config, name, files, key), **options)
    _LOG.info("input: split %s is %s", name, split.kept)
    return split


def _export_directory(directory: str, *, chief: bool) -> str:
    """All workers must write, since that reads the variables of all; but only what the chief writes is kept."""
    return directory if chief else os.path.join(tempfile.mkdtemp(), "export")
