"""Runs one side of bench_diagnose in its own process, on the newest run of a pipeline.

    python -m benchmarks.diagnose_side spread YAML --root FOLDER --files N [--gzip]     # the train split in N files
    python -m benchmarks.diagnose_side diagnose YAML --root FOLDER [--sleep MICROSECONDS]
    python -m benchmarks.diagnose_side train YAML --root FOLDER [--sleep MICROSECONDS]

`diagnose` prints the JSON of `fullpass diagnose --json`. `train` trains as the Trainer does and prints the examples per
second over the reading before the first epoch and all epochs together. The time before the reading (loading the
transform graph, tracing) is measured on the few rows of the eval split and subtracted, because `diagnose` does not
count it either. `--sleep` delays each record of each file of the train split by this many microseconds, like a slow
disk.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from fullpass.base.user_modules import use_modules_of
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.diagnose.diagnose import TRAIN, diagnose, newest_training
from fullpass.pipeline.diagnose.diagnosis import diagnosis_json
from fullpass.pipeline.diagnose.profiled_training import DiagnosedTraining
from fullpass.trainer.fit.strategy import choose_strategy
from fullpass.trainer.fit.training_data import TrainingData, load_data
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.records import record_files
from fullpass.trainer.train import RunOptions, train

_READINGS = 3


def slow_down(microseconds: int) -> None:
    """Delays each record of each file of a train split by `microseconds`."""
    opened = record_files.open_records
    # The sleep is zipped with the records instead of applied to them. It holds its lock while it requests the next
    # element. If that element comes from a function, as records do, the sleep can deadlock when an iterator is
    # destroyed (TensorFlow 2.16).
    ticks = tf.data.Dataset.range(1 << 40).apply(testing.sleep(microseconds))

    def open_slowly(file: tf.Tensor) -> tf.data.Dataset:
        records = opened(file)
        # Even a sleep of 0 would add one more element per record.
        return tf.data.Dataset.zip(records, ticks).map(lambda record, _: record) if microseconds else records

    record_files.open_records = open_slowly


def spread(training: DiagnosedTraining, files: int, *, gzip: bool) -> None:
    """Rewrites the train split into this many files."""
    folder = Path(training.files[0]).parent
    given = tf.data.Dataset.from_tensor_slices(list(training.files))
    records = [record for batch in record_files.read_records(given, 1, 1000) for record in batch.numpy()]
    for file in training.files:
        Path(file).unlink()
    suffix, compression = (".gz", "GZIP") if gzip else ("", "")
    for number in range(files):
        with tf.io.TFRecordWriter(f"{folder}/planted-{number:05d}-of-{files:05d}{suffix}", compression) as writer:
            for record in records[number::files]:
                writer.write(record)


def trained(training: DiagnosedTraining) -> dict[str, float]:
    """Trains, and returns the seconds of the first reading and of an epoch, and the examples per second over all.

    `wait` is the share of that time in which the model waits for input: the whole first reading, and a part of the
    epochs.
    """
    config = training.spec.config
    strategy = choose_strategy(config.training)
    train_files = [f"{Path(training.files[0]).parent}/*"]
    eval_files = [file.replace(f"/Split-{TRAIN}/", "/Split-eval/") for file in train_files]

    def read(files: list[str]) -> tuple[TrainingData, float]:
        started = time.perf_counter()
        data = load_data(files, eval_files, training.spec, TrainingWorkers(strategy))
        return data, time.perf_counter() - started

    read(eval_files)
    readings = []
    for _ in range(_READINGS):
        _, before_reading = read(eval_files)
        data, reading = read(train_files)
        readings.append(reading - before_reading)
    first = max(0.0, statistics.median(readings))
    ends: list[float] = []
    options = RunOptions(on_epoch=lambda *_: ends.append(time.perf_counter()))
    waits = train(data, training.spec, strategy, options).fitted.history["input_wait"]
    epoch = statistics.median(after - before for before, after in zip(ends, ends[1:], strict=False))
    epochs = config.training.max_epochs
    rows = data.train.counts.weighted_rows * epochs
    spent = first + epochs * epoch
    wait = (first + epochs * epoch * statistics.median(waits[1:])) / spent
    return {"reading": first, "epoch": epoch, "per_second": rows / spent, "wait": wait}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["spread", "diagnose", "train"])
    parser.add_argument("yaml", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--sleep", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    loaded = load(arguments.yaml)
    use_modules_of(loaded.folder)
    slow_down(arguments.sleep)
    if arguments.what == "diagnose":
        print(json.dumps(diagnosis_json(diagnose(loaded, root=arguments.root, seconds=arguments.seconds))))
        return
    training = newest_training(loaded, arguments.root)
    if arguments.what == "spread":
        spread(training, arguments.files, gzip=arguments.gzip)
        print("{}")
    else:
        print(json.dumps(trained(training)))


if __name__ == "__main__":
    main()
