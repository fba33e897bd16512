"""`fullpass diagnose FILE --places`: what it costs to compute the features when examples are written, in the input
function, or in the model, measured on a sample of the data, and which of these the figures speak for.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft

from components.ingest.spans import find_window
from components.transform.full_pass import FullPass, finish, run, transform
from pipeline.build import with_absolute_files
from pipeline.diagnose.cost import LATENCY_BATCH, MIXTURE, NOWHERE, Comparison, Cost, Measured, compare
from pipeline.loading.load import Loaded
from pipeline.profile.records import to_records
from pipeline.profile.sample import read_sample
from pipeline.run import add_user_modules
from preprocessing.columns import RawColumn, raw_columns, serving_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.feature import Place
from preprocessing.places import PLACES, materializes, places
from preprocessing.raw_text import RawText
from preprocessing.schema import raw_schema
from trainer.blocks import memory_bytes
from trainer.config import TrainerConfig
from trainer.export import export_model
from trainer.inputs import apply_model, feature_names, model_inputs, transformed_outputs
from trainer.memory import available_memory
from trainer.models.build import build_model
from trainer.optimizer import batch_size_for, make_optimizer
from trainer.order import Order
from trainer.placement import with_preprocessing
from trainer.raw_columns import DTYPES
from trainer.run_fn import Data, load_data
from trainer.samples import Row, read_samples, to_columns, to_row
from trainer.signatures import SERVING_RAW, Served, column_keys
from trainer.strategy import precision
from trainer.tasks import logit_columns, loss_of, with_head
from trainer.workers import Workers

ROWS = 20_000
"""Rows of the sample, if the user asks for no other number."""
_EVAL_EVERY = 5
_SECONDS = 2.0
_REQUESTS = 100


def compare_places(loaded: Loaded, *, rows: int = ROWS, say: Callable[[str], None] = lambda _: None) -> Comparison:
    """Measures all features at each place, and the mixture of the YAML where it is one.

    Args:
        loaded: a file that passes `checks.require`.
        rows: size of the sample.
        say: told what is being measured.

    Raises:
        UserError: The data cannot be read, or is too little to train on.
    """
    add_user_modules(loaded)
    config = loaded.config
    preprocessing = with_absolute_files(config.preprocessing_config, loaded.resolve)
    with tempfile.TemporaryDirectory() as folder:
        full_pass, total = _sampled(loaded, preprocessing, rows, folder)
        say(f"analysis of {full_pass.rows['train']:,} rows")
        seconds = _timed(lambda: _beam(lambda pipeline: run(full_pass, pipeline)))
        finish(full_pass)
        rows_read = sum(full_pass.rows.values())
        trainer = _with_batch_size(config.trainer_config, round(full_pass.rows["train"] * total / rows_read))
        costs = []
        for name, placed in _choices(preprocessing).items():
            say(f"places: {name}")
            here = replace(full_pass, preprocessing=placed, transformed=f"{folder}/{name}")
            costs.append(_cost(name, here, trainer, scale=total / rows_read))
    measured = Measured(
        rows=rows_read,
        train_rows=full_pass.rows["train"],
        total=total,
        batch_size=int(trainer.training.batch_size),
        epochs=config.training.epochs,
        analysis_seconds=seconds,
        gpu=bool(tf.config.list_physical_devices("GPU")),
        costs=tuple(costs),
    )
    return compare(measured)


def _sampled(loaded: Loaded, preprocessing: PreprocessingConfig, rows: int, folder: str) -> tuple[FullPass, int]:
    """Writes a sample of the data as raw examples, every fifth row to eval; returns what to do with them, and how many
    rows there are in all."""
    columns = raw_columns(preprocessing)
    source = loaded.config.data.source
    sample = read_sample(find_window(loaded.config.data, loaded.resolve).files, source, list(columns), rows=rows)
    if sample.rows < 2 * _EVAL_EVERY:
        raise UserError(f"data.source: {sample.rows} rows can be read; measuring takes {2 * _EVAL_EVERY} at least.")
    records = to_records(loaded, sample, columns).to_pylist()
    splits = {
        "train": [record for i, record in enumerate(records) if i % _EVAL_EVERY],
        "eval": records[::_EVAL_EVERY],
    }
    files = {}
    for name, chosen in splits.items():
        files[name] = f"{folder}/raw-{name}.tfrecord"
        with tf.io.TFRecordWriter(files[name]) as writer:
            for record in chosen:
                writer.write(record)
    full_pass = FullPass(
        preprocessing=preprocessing,
        schema=raw_schema(preprocessing),
        examples={name: [file] for name, file in files.items()},
        rows={name: len(chosen) for name, chosen in splits.items()},
        graph=f"{folder}/graph",
        transformed=None,
        layout=loaded.config.data.records.layout(gzip=False),
        temporary=f"{folder}/temporary",
    )
    return full_pass, sample.total or sample.rows


def _choices(preprocessing: PreprocessingConfig) -> dict[str, PreprocessingConfig]:
    choices: dict[str, PreprocessingConfig] = {place: _at(preprocessing, place) for place in PLACES}
    if len(set(places(preprocessing).values())) > 1:
        choices[MIXTURE] = preprocessing
    return choices


def _at(preprocessing: PreprocessingConfig, place: Place) -> PreprocessingConfig:
    """Returns the config with every feature at one place."""
    features = {name: feature.model_copy(update={"place": None}) for name, feature in preprocessing.features.items()}
    return preprocessing.model_copy(update={"features": features, "place": place})


def _with_batch_size(config: TrainerConfig, train_rows: int) -> TrainerConfig:
    """Returns the config with batches of the size that all of the data will be trained in."""
    size = config.training.batch_size
    size = batch_size_for(train_rows) if size == "auto" else size
    return config.model_copy(update={"training": config.training.model_copy(update={"batch_size": size})})


def _cost(name: str, full_pass: FullPass, config: TrainerConfig, *, scale: float) -> Cost:
    """Returns what one choice costs; all of the data is `scale` times the sample."""
    start, rate, written = 0.0, 0.0, 0
    if materializes(full_pass.preprocessing):
        start, rate = _write_times(full_pass)
        written = sum(file.stat().st_size for file in Path(str(full_pass.transformed)).rglob("*.tfrecord"))
    files = _files(full_pass)
    tft_output, alone = _output(full_pass), Workers(tf.distribute.get_strategy())
    streamed, cached = (
        load_data(*files, full_pass.preprocessing, _cached(config, cache), tft_output, alone)
        for cache in ("none", "memory")
    )
    taken = memory_bytes(cached.train.split.in_memory or {})
    kept = _kept(config, taken * scale)
    later = {"memory": cached, NOWHERE: streamed}
    if kept == "disk":
        on_disk = _cached(config, "disk", folder=f"{full_pass.transformed}-cache")
        later["disk"] = load_data(*files, full_pass.preprocessing, on_disk, tft_output, alone)
    step_ms, served = _train_step(cached, full_pass.preprocessing, config, tft_output)
    row_ms, batch_ms = _latencies(served, full_pass)
    return Cost(
        place=name,
        written_bytes=written,
        start_seconds=start,
        seconds_per_row=rate,
        read_bytes=sum(os.path.getsize(file) for file in files[0]),
        streamed=_examples_per_second(streamed),
        kept=kept,
        later=_examples_per_second(later[kept]),
        memory_bytes=taken,
        step_ms=step_ms,
        row_ms=row_ms,
        batch_ms=batch_ms,
    )


def _write_times(full_pass: FullPass) -> tuple[float, float]:
    """Computes and writes eval, then all; returns the seconds that any run takes, and those that each row adds."""
    eval_only = {"eval": full_pass.examples["eval"]}
    few = replace(full_pass, examples=eval_only, transformed=f"{full_pass.transformed}-eval")
    of_few = _timed(lambda: _beam(lambda pipeline: transform(few, pipeline)))
    of_all = _timed(lambda: _beam(lambda pipeline: transform(full_pass, pipeline)))
    finish(full_pass)
    rows, all_rows = full_pass.rows["eval"], sum(full_pass.rows.values())
    per_row = max(0.0, of_all - of_few) / (all_rows - rows)
    return max(0.0, of_all - per_row * all_rows), per_row


def _kept(config: TrainerConfig, size: float) -> str:
    """Returns where rows of so many bytes are kept between epochs."""
    cache = config.input.cache
    if cache == "auto":
        return "memory" if size <= available_memory() * config.input.memory_fraction else "disk"
    return NOWHERE if cache == "none" else cache


def _cached(config: TrainerConfig, cache: str, folder: str | None = None) -> TrainerConfig:
    return config.model_copy(update={"input": config.input.model_copy(update={"cache": cache, "cache_dir": folder})})


def _files(full_pass: FullPass) -> tuple[list[str], list[str]]:
    """Returns what training reads: the train and the eval files, transformed or raw."""
    if full_pass.transformed is None or not materializes(full_pass.preprocessing):
        return list(full_pass.examples["train"]), list(full_pass.examples["eval"])
    found = [sorted(map(str, Path(full_pass.transformed, f"Split-{s}").iterdir())) for s in ("train", "eval")]
    return found[0], found[1]


def _output(full_pass: FullPass) -> tft.TFTransformOutput:
    return tft.TFTransformOutput(full_pass.graph)


def _examples_per_second(data: Data) -> float:
    """Returns how fast batches come, after a first epoch that warms up."""
    steps = data.train.steps(data.batch_size)
    batches = iter(data.train.split.batches(Order(batch_size=data.batch_size, shuffle=data.train.counts.rows)))
    for _ in range(steps):
        next(batches)
    taken, started = 0, time.perf_counter()
    while time.perf_counter() - started < _SECONDS:
        for _ in range(steps):
            taken += int(next(batches)[2].shape[0])
    return taken / (time.perf_counter() - started)


def _train_step(
    data: Data, preprocessing: PreprocessingConfig, config: TrainerConfig, tft_output: tft.TFTransformOutput
) -> tuple[float, Served]:
    """Returns the median milliseconds of an update, and the model to serve, trained by some updates."""
    task, counts, training = preprocessing.label.task, data.train.counts, config.training
    features = transformed_outputs(preprocessing, tft_output)
    with precision(training) as policy:
        inputs = model_inputs(features, tft_output)
        network = build_model(inputs, task=task, classes=logit_columns(task, len(data.names)), config=config.model)
        network = with_head(network, task, counts, data.factors)
        model = with_preprocessing(network, data.in_model)
        optimizer = make_optimizer(training, 1000, policy)
        optimizer.build(model.trainable_variables)
    deviation = counts.label_deviation if task == "regression" else 1.0
    loss = loss_of(task, label_smoothing=training.label_smoothing, label_deviation=deviation)

    @tf.function(autograph=False, reduce_retracing=True)
    def update(batch: dict[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(weight * loss(label, apply_model(model, batch, training=True)))
            scaled = optimizer.scale_loss(value)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return value

    batch = next(iter(data.train.split.batches(Order(batch_size=data.batch_size))))
    served = Served(
        model=network,
        tft_output=tft_output,
        columns=serving_columns(preprocessing),
        features=feature_names(features),
        label=preprocessing.label,
        names=data.names,
    )
    return _median_ms(lambda: update(*batch).numpy()), served


def _latencies(served: Served, full_pass: FullPass) -> tuple[float, float]:
    """Returns the median milliseconds of requests of one row, and of many, to the export."""
    with tempfile.TemporaryDirectory() as folder:
        samples = read_samples(full_pass.graph)
        export_model(served, f"{folder}/export", name="places", text=RawText(), samples=samples)
        loaded = tf.saved_model.load(f"{folder}/export")
    rows = [to_row(example, served.columns) for example in samples]
    one = _request(rows[:1], served.columns)
    many = _request([rows[i % len(rows)] for i in range(LATENCY_BATCH)], served.columns)
    answer = loaded.signatures[SERVING_RAW]
    return tuple(_median_ms(lambda given=given: answer(**given)["prediction"].numpy()) for given in (one, many))  # type: ignore[return-value, misc]


def _request(rows: Sequence[Row], columns: Mapping[str, RawColumn]) -> dict[str, tf.Tensor]:
    keys, values = column_keys(tuple(columns)), to_columns(rows, columns)
    return {keys[name]: tf.constant(values[name], DTYPES[column.type]) for name, column in columns.items()}


def _median_ms(call: Callable[[], Any]) -> float:
    for _ in range(5):
        call()
    return 1000 * median(_timed(call) for _ in range(_REQUESTS))


def _timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _beam(build: Callable[[beam.Pipeline], object]) -> None:
    with beam.Pipeline() as pipeline:
        build(pipeline)
