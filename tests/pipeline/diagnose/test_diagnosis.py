"""Inputs that are slow in one known way each: the diagnosis names the stage.

Where possible, inputs are slowed down by sleeping, so that other load does not hide it. No test compares absolute
times.
"""

import string
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from fullpass.base.errors import UserError
from fullpass.pipeline.diagnose.diagnosis import diagnose_training, diagnosis_lines
from fullpass.pipeline.diagnose.profiled_training import DiagnosedTraining, ProfiledTraining
from fullpass.pipeline.diagnose.rates import Rate
from fullpass.pipeline.diagnose.settings import Speed
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.trainer.config import TrainerConfig, TrainingSpec
from fullpass.trainer.fit.training_data import load_data
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.records import record_files
from fullpass.trainer.train import train
from tests.record_files import write_records
from tests.trainer import conftest

pytestmark = pytest.mark.integration

ROWS = 6000
SECONDS = 16.0
FEW_SECONDS = 8.0
"""Seconds of a diagnosis in which one cost is much larger than all others."""
LEAST_SECONDS = 4.0
"""Seconds of a diagnosis in which the model takes nearly all of the time."""


@pytest.fixture(scope="module")
def prepared(planted):
    return planted("binary")


def training(
    prepared,
    files,
    *,
    rows: int = ROWS,
    compute_at: str = "transform",
    epochs: int = 4,
    shard_mb: int = 128,
    **sections,
):
    config = {"model": "linear", "training": {"epochs": epochs, "batch_size": 512, **sections.pop("training", {})}}
    declared = PreprocessingConfig.model_validate({**prepared.preprocessing, "compute_at": compute_at})
    given = {**config, **sections, "input": {"compute_at": compute_at, **sections.get("input", {})}}
    spec = TrainingSpec(declared, TrainerConfig.model_validate(given), prepared.tft_output)
    return DiagnosedTraining(tuple(files), rows, spec, shard_mb=shard_mb)


def diagnosed(given, seconds: float = SECONDS):
    found = diagnose_training(given, seconds=seconds)
    for stage in found.stages:
        print(stage.name, f"{1000 * stage.step_seconds:.3f} ms")
    for trial in (found.written, *found.trials):
        print(trial.candidate.text, f"{trial.per_second:.0f}/s, {trial.gain:.2f} times, {trial.wait:.0%} wait")
    return found


def records_of(prepared, kind: str = "transformed") -> list[bytes]:
    """Returns ROWS serialized examples by repeating those of the train split."""
    found = sum(prepared.records(kind, "train"), [])
    return [found[i % len(found)] for i in range(ROWS)]


def write(folder: Path, records: list[bytes], shards: int, *, gzip: bool = False) -> list[str]:
    suffix = ".gz" if gzip else ""
    return [write_records(f"{folder}/data-{i:05d}.tfrecord{suffix}", records[i::shards]) for i in range(shards)]


@pytest.fixture
def slow_files(monkeypatch):
    """Makes each file yield 64 records every 16 ms, independently of the number of files read in parallel.

    A sleep of 0.25 ms per record would take two to three times as long on a busy machine, and vary.
    """
    # The sleep is zipped with the records instead of applied to them. It holds its lock while it requests the next
    # element. If that element comes from a function, as records do, the sleep can deadlock when an iterator is
    # destroyed (TensorFlow 2.16).
    opened, ticks = record_files.open_records, tf.data.Dataset.range(1 << 40).apply(testing.sleep(64 * 250))

    def open_slowly(file):
        return tf.data.Dataset.zip(opened(file).batch(64), ticks).map(lambda records, _: records).unbatch()

    monkeypatch.setattr(record_files, "open_records", open_slowly)


@pytest.mark.long
def test_a_slow_function_of_a_feature(tmp_path: Path, monkeypatch):
    usual = conftest.transform

    def slow(columns, task, tables):
        def wait(x):
            time.sleep(1e-4 * len(x))
            return x

        transformed = usual(columns, task, tables)
        return {**transformed, "x_xf": tf.ensure_shape(tf.py_function(wait, [transformed["x_xf"]], tf.float32), [None])}

    monkeypatch.setattr(conftest, "transform", slow)
    prepared = conftest.prepare_by_hand(
        tmp_path / "slow", "binary", conftest.planted_rows(ROWS, 1), conftest.planted_rows(50, 2)
    )
    found = diagnosed(
        training(prepared, prepared.files("raw", "train"), compute_at="input", input={"cache": "none"}), 15.0
    )
    assert (found.bound, found.stage.name) == ("input-bound", "transform")
    assert dict(found.best.candidate.changes) == {"input.cache": "auto"} and found.best.gain > 1.5
    assert "Not tried: `compute_at: transform`" in diagnosis_lines(found)


@pytest.mark.long
def test_one_large_file_of_gzip(prepared, tmp_path: Path):
    # Letters compress to six bits each and must be decoded one by one. The text is longer than gzip's window, so it
    # contains no repetition that gzip can use.
    letters = np.random.default_rng(1).choice(list(string.ascii_letters.encode()), 40_000).astype("uint8").tobytes()

    def with_ballast(record):
        example = tf.train.Example.FromString(record)
        example.features.feature["ballast"].bytes_list.value.append(letters)
        return example.SerializeToString()

    # A record takes about 0.3 ms to decompress, ten times as long as everything else.
    files = write(tmp_path, list(map(with_ballast, records_of(prepared)[:1000])), 1, gzip=True)
    found = diagnosed(training(prepared, files, rows=1000, input={"cache": "none"}), FEW_SECONDS)
    assert (found.bound, found.stage.name) == ("input-bound", "decompress")


@pytest.mark.long
def test_hundreds_of_tiny_files(prepared, tmp_path: Path):
    files = write(tmp_path, records_of(prepared), 2000)
    found = diagnosed(training(prepared, files, shard_mb=1, input={"cache": "none"}), FEW_SECONDS)
    assert (found.bound, found.stage.name) == ("input-bound", "open")


@pytest.mark.long
def test_a_slow_disk_and_its_remedy(prepared, tmp_path: Path, slow_files):
    files = write(tmp_path, records_of(prepared), 1)
    found = diagnosed(training(prepared, files, input={"cache": "none"}))
    assert (found.bound, found.stage.name) == ("input-bound", "read")
    assert dict(found.best.candidate.changes) == {"input.cache": "auto"}
    # With four epochs, the files are read once instead of six times (also for the count and the knots). The gain is
    # six, minus all other costs.
    assert 2 < found.best.gain < 6.6


def records_read(given, evaluation: list[str], monkeypatch) -> int:
    """Trains as configured in the YAML; returns the number of train records that are read until the last epoch ends.

    While the last updates run, the input already reads for an epoch that never comes. No training waits for these
    records, and their number depends on the load of the machine, so they are not counted.
    """
    opened, strategy, seen = record_files.open_records, tf.distribute.get_strategy(), []

    def note(file, number, record):
        if file.decode() in given.files:
            seen.append(number)
        return record

    def counted(file):
        def noted(number, record):
            return tf.ensure_shape(tf.numpy_function(note, [file, number, record], tf.string), [])

        return opened(file).enumerate().map(noted)

    monkeypatch.setattr(record_files, "open_records", counted)
    data = load_data(given.files, evaluation, given.spec, TrainingWorkers(strategy))
    loaded = len(seen)
    epochs = train(data, given.spec, strategy).fitted.epochs
    monkeypatch.setattr(record_files, "open_records", opened)
    starts = [place for place, number in enumerate(seen) if number == 0 and place >= loaded]
    return [*starts, len(seen)][: epochs + 1][-1]


@pytest.mark.long
def test_what_is_promised_for_a_slow_disk_is_what_training_is_spared(prepared, tmp_path: Path, monkeypatch):
    """Reading takes nearly all of the time, so the gain equals the reduction of records read; no time is measured."""
    rows = 1200
    files, evaluation = write(tmp_path, records_of(prepared)[:rows], 1), prepared.files("transformed", "eval")
    before, after = (
        records_read(training(prepared, files, rows=rows, input={"cache": cache}), evaluation, monkeypatch)
        for cache in ("none", "auto")
    )
    assert before == 6 * rows, "for the count, for the knots, and in four epochs"
    assert after == rows


def test_a_heavy_model(prepared, tmp_path: Path):
    files = write(tmp_path, records_of(prepared), 1)
    model = {"kind": "mlp", "hidden": [1000, 1000], "members": 1}
    found = diagnosed(training(prepared, files, model=model, epochs=20), LEAST_SECONDS)
    assert (found.bound, found.stage.name) == ("compute-bound", "model")
    assert found.best is None


def test_examples_of_another_yaml_are_refused(prepared, tmp_path: Path):
    files = write(tmp_path, records_of(prepared)[:50], 1)
    changed = {**prepared.preprocessing, "features": {**prepared.preprocessing["features"], "new": "number"}}
    given = training(type(prepared)(prepared.directory, changed, prepared.rows), files)
    with pytest.raises(UserError, match="'new_xf': the YAML has changed since.*--to Transform"):
        diagnosed(given)


def profiled(given, folder: Path):
    (folder / "profiled").mkdir()
    return ProfiledTraining(given, folder / "profiled", seconds=5.0)


def test_the_update_accumulates_and_compiles_as_the_yaml_says(prepared, tmp_path: Path):
    files = write(tmp_path, records_of(prepared)[:600], 1)
    given = training(prepared, files, rows=600, training={"accumulate": 4, "xla": True})
    steps = profiled(given, tmp_path).built.steps
    assert (steps.accumulate, steps.xla) == (4, True)


def test_an_example_takes_its_part_of_the_first_reading():
    speed = Speed(first=Rate(100, 10.0, 0.0), epochs=Rate(1000, 20.0, 0.0, waited=5.0))
    # 20 ms per example in an epoch, 5 ms of it waiting, and 100 ms of first reading, spread over 5 epochs.
    assert speed.per_second(5) == pytest.approx(1 / (0.020 + 0.020))
    assert speed.wait(5) == pytest.approx((0.005 + 0.020) / 0.040)
    thrice = replace(speed, readings=3.0)
    assert thrice.per_second(5) == pytest.approx(1 / (0.020 + 0.060)) and thrice.wait(5) == pytest.approx(0.065 / 0.080)


def test_trees_await_no_input(prepared):
    given = training(prepared, prepared.files("transformed", "train"), model="trees", rows=1000)
    with pytest.raises(UserError, match="reads its rows once and then waits for no input"):
        diagnose_training(given, seconds=FEW_SECONDS)


def test_of_trees_or_a_network_the_network_is_diagnosed(prepared, tmp_path):
    given = training(prepared, prepared.files("transformed", "train"), model="auto", rows=1000)
    assert callable(profiled(given, tmp_path).update)
