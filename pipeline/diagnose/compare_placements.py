"""`fullpass diagnose FILE --compute-at`: compares where to compute the features, on a sample of the data.

It computes all features when examples are written, then in the input function, then in the model. If the YAML mixes
these placements, it also measures the features as written.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.spans.spans import find_window
from fullpass.components.transform.full_pass import FullPass, finish, run, transform
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.profile.sample import read_sample
from fullpass.pipeline.authoring.profile.sampled_records import to_records
from fullpass.pipeline.diagnose.placement_advice import MIXTURE, Comparison, Measurements, compare
from fullpass.pipeline.running.build import with_absolute_files
from fullpass.preprocessing.columns.compute_at import COMPUTE_AT_ORDER, compute_at_by_feature, materializes
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import TrainingSpec
from fullpass.trainer.diagnosis.input_settings import input_settings
from fullpass.trainer.diagnosis.placements import PlacementTrial, WriteCost, measure_in_turn
from fullpass.trainer.diagnosis.profiled_training import ProfiledTraining, Training, all_at

ROWS = 20_000
"""Default number of rows in the sample."""
_EVAL_EVERY = 5
_SAMPLE_SECONDS = 60.0


def compare_placements(loaded: Loaded, *, rows: int = ROWS, say: Callable[[str], None] = lambda _: None) -> Comparison:
    """Measures all features at each `compute_at`, and the placement of the YAML if it is a mixture.

    Args:
        loaded: A file that passes `checks.require`.
        rows: The size of the sample.
        say: Called with a line about each measurement.

    Raises:
        UserError: The data cannot be read, or is too little to train on.
    """
    use_modules_of(loaded.folder)
    config = loaded.config
    preprocessing = with_absolute_files(config.preprocessing_config, loaded.resolve)
    with tempfile.TemporaryDirectory() as folder:
        full_pass, total = _write_sample(loaded, preprocessing, rows, folder)
        say(f"analysis of {full_pass.rows['train']:,} rows")
        analysis_seconds = _seconds(lambda: _run_beam(lambda pipeline: run(full_pass, pipeline)))
        finish(full_pass)
        sampled, train_rows = sum(full_pass.rows.values()), full_pass.rows["train"]
        trials, batch_size = [], 0
        for name, placed in _placements(preprocessing).items():
            say(f"compute_at: {name}")
            trial = replace(full_pass, preprocessing=placed, transformed=f"{folder}/{name}")
            written = _write_examples(trial) if materializes(placed) else WriteCost()
            spec = TrainingSpec(placed, config.trainer_config, tft.TFTransformOutput(trial.graph))
            training = Training(_train_files(trial), round(train_rows * total / sampled), spec)
            profiled = ProfiledTraining(training, Path(tempfile.mkdtemp(dir=folder)), _SAMPLE_SECONDS)
            trials.append(PlacementTrial(name, written, profiled, trial.graph))
            batch_size = input_settings(profiled, {}).batch_size
        say("all of them in turn")
        costs = measure_in_turn(trials)
    return compare(
        Measurements(
            rows=sampled,
            train_rows=train_rows,
            total=total,
            batch_size=batch_size,
            epochs=config.training.max_epochs,
            analysis_seconds=analysis_seconds,
            gpu=bool(tf.config.list_physical_devices("GPU")),
            costs=tuple(costs),
        )
    )


def _write_sample(loaded: Loaded, preprocessing: PreprocessingConfig, rows: int, folder: str) -> tuple[FullPass, int]:
    """Writes a sample of the data as raw examples, every fifth row to eval.

    Returns:
        The full pass over the sample, not yet run, and the number of rows of all data.
    """
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
    files = {name: f"{folder}/raw-{name}.tfrecord" for name in splits}
    for name, chosen in splits.items():
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


def _placements(preprocessing: PreprocessingConfig) -> dict[str, PreprocessingConfig]:
    """Returns the preprocessing of each placement by its name."""
    choices: dict[str, PreprocessingConfig] = {name: all_at(preprocessing, name) for name in COMPUTE_AT_ORDER}
    if len(set(compute_at_by_feature(preprocessing).values())) > 1:
        choices[MIXTURE] = preprocessing
    return choices


def _write_examples(full_pass: FullPass) -> WriteCost:
    """Measures transforming and writing eval alone, then both splits; the difference is the time for train."""
    eval_only = {"eval": full_pass.examples["eval"]}
    few = replace(full_pass, examples=eval_only, transformed=f"{full_pass.transformed}-eval")
    few_seconds = _seconds(lambda: _run_beam(lambda pipeline: transform(few, pipeline)))
    all_seconds = _seconds(lambda: _run_beam(lambda pipeline: transform(full_pass, pipeline)))
    finish(full_pass)
    per_row = max(0.0, all_seconds - few_seconds) / full_pass.rows["train"]
    start = max(0.0, all_seconds - per_row * sum(full_pass.rows.values()))
    files = Path(str(full_pass.transformed)).rglob("*.tfrecord")
    return WriteCost(sum(file.stat().st_size for file in files), start, per_row)


def _train_files(full_pass: FullPass) -> tuple[str, ...]:
    """Returns the files that training reads, transformed or raw."""
    if not materializes(full_pass.preprocessing):
        return tuple(full_pass.examples["train"])
    return tuple(sorted(map(str, Path(str(full_pass.transformed), "Split-train").iterdir())))


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _run_beam(build: Callable[[beam.Pipeline], object]) -> None:
    with beam.Pipeline() as pipeline:
        build(pipeline)
