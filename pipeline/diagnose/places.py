"""`fullpass diagnose FILE --places`: what it costs to compute the features when examples are written, in the input
function, or in the model, measured on a sample of the data, and which of these the figures speak for.
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft

from components.ingest.spans import find_window
from components.transform.full_pass import FullPass, finish, run, transform
from pipeline.build import with_absolute_files
from pipeline.diagnose.cost import MIXTURE, NOWHERE, Comparison, Measured, compare
from pipeline.diagnose.ready import Flow, Ready, measure_in_turn, requests, train_step
from pipeline.loading.load import Loaded
from pipeline.profile.records import to_records
from pipeline.profile.sample import read_sample
from pipeline.run import add_user_modules
from preprocessing.columns import raw_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.feature import Place
from preprocessing.places import PLACES, materializes, places
from preprocessing.schema import raw_schema
from trainer.blocks import memory_bytes
from trainer.config import TrainerConfig
from trainer.memory import available_memory
from trainer.optimizer import batch_size_for
from trainer.run_fn import load_data
from trainer.workers import Workers

ROWS = 20_000
"""Rows of the sample, if the user asks for no other number."""
_EVAL_EVERY = 5


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
        choices = []
        for name, placed in _choices(preprocessing).items():
            say(f"places: {name}")
            here = replace(full_pass, preprocessing=placed, transformed=f"{folder}/{name}")
            choices.append(_made_ready(name, here, trainer, scale=total / rows_read))
        say("all of them in turn")
        costs = measure_in_turn(choices)
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


def _made_ready(name: str, full_pass: FullPass, config: TrainerConfig, *, scale: float) -> Ready:
    """Returns one choice, written and read once; all of the data is `scale` times the sample."""
    start, rate, written = 0.0, 0.0, 0
    if materializes(full_pass.preprocessing):
        start, rate = _write_times(full_pass)
        written = sum(file.stat().st_size for file in Path(str(full_pass.transformed)).rglob("*.tfrecord"))
    files = _files(full_pass)
    tft_output, alone = tft.TFTransformOutput(full_pass.graph), Workers(tf.distribute.get_strategy())
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
    update, served = train_step(cached, full_pass.preprocessing, config, tft_output)
    one, many = requests(served, full_pass.graph)
    return Ready(
        place=name,
        written_bytes=written,
        start_seconds=start,
        seconds_per_row=rate,
        read_bytes=sum(os.path.getsize(file) for file in files[0]),
        kept=kept,
        memory_bytes=taken,
        streamed=Flow(streamed),
        later=Flow(later[kept]),
        update=update,
        one=one,
        many=many,
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


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _beam(build: Callable[[beam.Pipeline], object]) -> None:
    with beam.Pipeline() as pipeline:
        build(pipeline)
