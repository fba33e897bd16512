"""The entry point of TFX's Trainer, which exports a model from transformed examples and the transform graph."""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.base.progress import LossCurves, report
from fullpass.preprocessing.apply.stable_ids import FOLDER as LEDGERS
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.columns.raw_columns import date_formats, events_of_serving
from fullpass.trainer.decision_config import DecisionConfig
from fullpass.trainer.export.eval_scores import SCORES_FILE, write_scores
from fullpass.trainer.export.export import Portable, export_model
from fullpass.trainer.export.joined_tables import read_tables
from fullpass.trainer.export.run_provenance import TRAINING_FILE, read_run_facts
from fullpass.trainer.export.sample_requests import read_samples
from fullpass.trainer.export.signatures import TracedExport, served_model, trace_export
from fullpass.trainer.fit.beside import beside
from fullpass.trainer.fit.calibration import calibrate, predict_mean
from fullpass.trainer.fit.checkpoints import folder_for, prune_checkpoints, remove_checkpoints, write_json
from fullpass.trainer.fit.decision_threshold import choose_threshold
from fullpass.trainer.fit.epoch_metrics import monitored
from fullpass.trainer.fit.sampled_rows import rows_to_sample, sample_rows
from fullpass.trainer.fit.strategy import choose_strategy
from fullpass.trainer.fit.tensorboard import CurveWriter
from fullpass.trainer.fit.training_data import TrainingData, load_data
from fullpass.trainer.fit.training_inputs import TrainingInputs, parse_fn_args
from fullpass.trainer.fit.warm_start import FILE as WEIGHTS_FILE
from fullpass.trainer.fit.warm_start import BaseExport, describe_weights, find_base, warm_start_record
from fullpass.trainer.input.decoder import decoder
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.insight.candidates import measure_candidates
from fullpass.trainer.insight.insight import EVAL_ROWS, ComparedRows, compared_rows, measure_insight
from fullpass.trainer.insight.words import epochs_words
from fullpass.trainer.models.tasks import probabilities_of
from fullpass.trainer.models.weight_semantics import Network
from fullpass.trainer.portable.portable_network import portable_network
from fullpass.trainer.records.record_files import list_files
from fullpass.trainer.train import RunOptions, Trained, final, shuffle_rows, train, training_record
from fullpass.trainer.trees.folds import folds_of
from fullpass.trainer.tuning.config import TuningConfig
from fullpass.trainer.tuning.search_space import best_values, with_values

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs

_COMPARED_ROWS = 16
"""Rows on which the portable network must equal the trained one."""
_LOG = logging.getLogger(__name__)


def run_fn(fn_args: "FnArgs") -> None:
    """Trains the model of `custom_config`, exports it, and writes `training.json` and TensorBoard logs.

    Args:
        fn_args: TFX's FnArgs; `TrainingInputs` lists the fields that are read. Output is written to serving_model_dir
            and model_run_dir.

    Raises:
        UserError: The data or the configuration do not allow training.
    """
    clock = [time.monotonic()]
    inputs = _tuned_inputs(fn_args)
    config = inputs.spec.config
    strategy = choose_strategy(config.training, config.model.kind)
    workers = TrainingWorkers(strategy)
    chief = workers.index == 0
    data = load_data(inputs.train_files, inputs.eval_files, inputs.spec, workers, inputs.validation_files)
    if inputs.custom.get("folds"):
        data = replace(data, folds=folds_of(data, inputs.spec), of_single_rows=True)
    clock.append(time.monotonic())
    base = find_base(config.training, inputs.base_model)
    checkpoints = _checkpoint_folder(inputs, data, base)
    logs = inputs.model_run_dir if chief else tempfile.mkdtemp()
    curves = CurveWriter(logs)
    losses = LossCurves()
    prepared: list[_Prepared] = []

    def prepare(network: Network) -> _Prepared:
        if not prepared or prepared[-1].network is not network:
            prepared.append(_prepare(inputs, data, network, workers))
        return prepared[-1]

    options = RunOptions(
        report, curves.write, losses.add, on_begun=prepare, base=base, checkpoints=checkpoints, logs=logs
    )
    trained = train(data, inputs.spec, strategy, options)
    curves.close()
    spec = inputs.spec
    again = [kind for kind, part in trained.parts.items() if part.again]
    if not again:
        prepare(trained.network)
    candidates = measure_candidates(trained.tried, trained.compared, trained.blend, data, spec) if chief else []
    calibration = _calibrate(inputs, data, trained.network)
    decision = _decide(inputs, data, trained.network)
    trained = final(trained, data, inputs.spec)
    clock.append(time.monotonic())
    ready, names = prepare(trained.network), data.statistics.names
    written = beside(workers, partial(_write_scores, inputs, data, trained))
    insight = beside(workers, lambda: measure_insight(trained.network, ready.rows(), names, decision.get("threshold")))
    _export(inputs, data, trained, ready.traced(), decision, chief=chief)
    workers.all_gather([0.0])  # TFX looks for the chief's export on every worker
    clock.append(time.monotonic())
    if not chief:
        return
    seconds = {name: clock[i + 1] - clock[i] for i, name in enumerate(("read", "train", "export"))}
    written()
    record = training_record(data, trained, seconds) | insight()
    record |= {"calibration": calibration, "decision": decision, "candidates": candidates, "again": again}
    _LOG.info("training: epochs %s", epochs_words(record))
    label = inputs.spec.preprocessing.label
    monitor = monitored(label.task, config.training.loss)
    record["model"] = {"label": label.column, "task": label.task, "monitor": monitor, "lineage": read_run_facts()}
    record["warm_start"] = warm_start_record(config.training, base, trained.weight_origins)
    if inputs.hyperparameters:
        record["hyperparameters"] = inputs.hyperparameters
    write_json(f"{inputs.model_run_dir}/{TRAINING_FILE}", record)
    if checkpoints is not None:
        remove_checkpoints(checkpoints)
        prune_checkpoints(checkpoints)


def _tuned_inputs(fn_args: "FnArgs") -> TrainingInputs:
    """Returns the inputs of the training, with the best values that a Tuner found, if there is one."""
    custom, found = fn_args.custom_config, getattr(fn_args, "hyperparameters", None)
    if not found:
        return parse_fn_args(fn_args)
    values = best_values(found, TuningConfig.model_validate_json(custom["tuning"]))
    trainer, preprocessing = with_values(values, custom["trainer"], custom["preprocessing"])
    return parse_fn_args(fn_args, values, trainer=trainer, preprocessing=preprocessing)


@dataclass(frozen=True)
class _Prepared:
    """What an export and a comparison need of a network beside its weights: two functions that wait for it."""

    network: Network
    traced: Callable[[], TracedExport]
    rows: Callable[[], ComparedRows]


def _prepare(inputs: TrainingInputs, data: TrainingData, network: Network, workers: TrainingWorkers) -> _Prepared:
    """Prepares export and comparison of a network beside its training."""

    def traced() -> TracedExport:
        tables = read_tables(inputs.transform_output, inputs.spec.preprocessing)
        threshold = tf.Variable(0.5, trainable=False) if inputs.custom.get("decision") else None
        return trace_export(served_model(inputs.spec, network, data.statistics.names, tables, threshold))

    return _Prepared(network, beside(workers, traced), beside(workers, partial(compared_rows, network, data)))


def _calibrate(inputs: TrainingInputs, data: TrainingData, network: Network) -> dict[str, Any]:
    """Corrects the predictions of a network with validation rows, if `training.calibration` requires it."""
    task, training = inputs.spec.preprocessing.label.task, inputs.spec.config.training
    if training.calibration == "none" or (task == "regression" and training.loss.kind != "log_normal"):
        return {}
    rows = sample_rows(data.validation.split, data.in_model, rows_to_sample(network, EVAL_ROWS))
    if task == "regression":
        return predict_mean(network, rows)
    return calibrate(network, rows, task, data.statistics.factors)


def _decide(inputs: TrainingInputs, data: TrainingData, network: Network) -> dict[str, Any]:
    """Returns the threshold of `evaluation.decision`, chosen on validation rows; empty without the key."""
    if inputs.custom.get("decision") is None:
        return {}
    decision = DecisionConfig.model_validate(inputs.custom["decision"])
    rows = sample_rows(data.validation.split, data.in_model, rows_to_sample(network, EVAL_ROWS))
    scores = probabilities_of("binary", tf.constant(rows.logits(network))).numpy()[:, 1]
    return choose_threshold(rows.labels, scores, rows.weights, decision)


def _export(
    inputs: TrainingInputs,
    data: TrainingData,
    trained: Trained,
    traced: TracedExport,
    decision: dict[str, Any],
    *,
    chief: bool,
) -> None:
    """Writes the export. All workers must write, because this reads variables of all workers; the chief's is kept."""
    folder = inputs.serving_model_dir if chief else os.path.join(tempfile.mkdtemp(), "export")
    weights: dict[str, Any] = {"trees": trained.trees} if trained.trees else {}
    if trained.learned is not None:
        weights = describe_weights(trained.learned.network, trained.network.model)
    if traced.served.threshold is not None:
        traced.served.threshold.assign(decision["threshold"])
    export_model(
        traced,
        folder,
        name=inputs.custom.get("name", "model"),
        source=inputs.custom.get("source", {}),
        samples=read_samples(inputs.transform_output),
        portable=_portable(trained.network, data),
        facts={
            "made_from": inputs.custom.get("made_from"),
            **({"decision": decision} if decision else {}),
            **{key: inputs.custom[key] for key in ("joins", "bad_rows", "personal") if key in inputs.custom},
            **({"dates": dates} if (dates := date_formats(inputs.spec.preprocessing)) else {}),
            **({"events": events_of_serving(inputs.spec.preprocessing)} if inputs.spec.preprocessing.history else {}),
        },
        extras={WEIGHTS_FILE: to_json_text(weights), **_ledgers(inputs.transform_output)},
    )


def _portable(network: Network, data: TrainingData) -> Portable | str:
    """Returns a network of layers of Keras alone, and rows to compare it on, or why there is none."""
    try:
        portable = portable_network(network.model)
    except UserError as error:
        return str(error)
    rows = sample_rows(data.validation.split, data.in_model, _COMPARED_ROWS)
    return portable, next(rows.batches(network, rows.features))


def _write_scores(inputs: TrainingInputs, data: TrainingData, trained: Trained) -> None:
    """Writes the scores of the eval split, joined with row ids, for Evaluator and Parity."""
    decode = decoder(inputs.spec.tft_output, data.placement, [*data.placement.read, ROW_ID], len(data.statistics.names))
    path = f"{inputs.model_run_dir}/{SCORES_FILE}"
    files, row_bytes = list_files(inputs.eval_files, "eval"), data.evaluation.split.padded_row_bytes
    write_scores(path, trained.network, data.in_model, files, decode, row_bytes=row_bytes)


def _ledgers(transform_output: str) -> dict[str, str]:
    """Returns the ledgers of stable ids that the transform graph holds, by path in an export."""
    folder = f"{transform_output}/{LEDGERS}"
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    found = {}
    for name in names:
        with tf.io.gfile.GFile(f"{folder}/{name}") as file:
            found[f"{LEDGERS}/{name}"] = file.read()
    return found


def _checkpoint_folder(inputs: TrainingInputs, data: TrainingData, base: BaseExport | None) -> str | None:
    """Returns the folder of this training's checkpoints, or None if no folder for unfinished work was given.

    The key omits settings that do not change the weights, so that they may change before a retry: when to save and
    trace, the rule of the decision, the number of steps per call, the time limit, and the address and timeout of an
    input service.
    """
    work = inputs.custom.get("work")
    if work is None:
        return None
    excluded: Any = {
        "training": {"checkpoint", "profile", "steps_per_execution", "time"},
        "input": {"service": {"address", "wait_seconds"}},
    }
    config = inputs.spec.config
    custom = {**inputs.custom, "trainer": config.model_dump(mode="json", exclude=excluded)}
    custom.pop("decision", None)
    custom["found"] = {"hyperparameters": inputs.hyperparameters} if inputs.hyperparameters else {}
    custom["base"] = base and base.digest
    # The memory determines how many rows are shuffled together, and whether rows can be kept.
    split = data.train.split
    kept = split.in_memory is not None or split.on_disk is not None
    custom["order"] = [kept, split.window_rows(shuffle_rows(config.input))]
    return folder_for(work, inputs.files(), custom, inputs.transform_output, data.batch_size, data.train.workers.count)
