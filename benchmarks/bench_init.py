"""Runs the unchanged YAML of `fullpass init` on thirteen data sets; checks the blessing and the columns of each model.

    python -m benchmarks.bench_init [SET ...] [--data DATA[::LABEL] ...]

The data sets are those of benchmarks/init_sets.py. SET selects some of them; --data adds your own files, folders or
patterns. A model must beat the best constant guess. The guess is the most frequent class or the mean of the labels of
the examples that the run scored, read without Fullpass's own readers. The columns that `init` must leave out are
asserted too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from benchmarks.common import FULLPASS, time_command
from benchmarks.init_sets import SETS, InitSet

# Task -> the metric that is compared with a constant guess, and whether a larger value is better.
_METRICS = {"binary": ("auc", True), "multiclass": ("multiclass_accuracy", True), "regression": ("rmse", False)}


@dataclass(frozen=True)
class Outcome:
    """The result on one data set.

    value, guess: `metric` of the model and of the best constant, on the same rows. wrong: one message per column that
    `init` treated wrongly.
    """

    data: str
    task: str
    label: str
    rows: int
    metric: str
    value: float
    guess: float
    blessed: bool
    seconds: float
    wrong: tuple[str, ...]

    @property
    def beaten(self) -> bool:
        """Whether the model is better than the guess."""
        return self.value > self.guess if _METRICS[self.task][1] else self.value < self.guess

    @property
    def good(self) -> bool:
        """Whether the unchanged YAML passes: the model is blessed, beats the guess and has the right columns."""
        return self.beaten and self.blessed and not self.wrong


def measure(name: str, found: InitSet, directory: Path) -> Outcome:
    """Writes a YAML for a data set into `directory`, runs it unchanged, and compares the model with the best guess.

    Raises:
        CommandFailed: `init` or `run` failed.
    """
    config = directory / "pipeline.yaml"
    named = ["--label", found.label] if found.label else []
    begin = time.perf_counter()
    time_command([*FULLPASS, "init", found.data, "-o", str(config), *named], log=directory / "init.log")
    time_command([*FULLPASS, "run", str(config)], log=directory / "run.log")
    seconds = time.perf_counter() - begin
    summary = json.loads(max(directory.glob("runs/*/logs/*/run.json")).read_text())
    written = YAML(typ="safe").load(config)
    metric, _ = _METRICS[written["label"]["task"]]
    folder = max(directory.glob("runs/*/Transform/transformed_examples/*/Split-eval"))
    return Outcome(
        data=name,
        task=written["label"]["task"],
        label=written["label"]["name"],
        rows=summary["rows_read"],
        metric=metric,
        value=summary["metrics"][metric],
        guess=constant_guess(list(_labels(folder)), written["label"]["task"]),
        blessed=bool(summary["blessed"]),
        seconds=seconds,
        wrong=tuple(wrong_columns(written["features"], found)),
    )


def wrong_columns(features: Mapping[str, Any], found: InitSet) -> Iterator[str]:
    """Yields a message per feature that should have been left out or that has the wrong type."""
    kinds = {name: value if isinstance(value, str) else value["type"] for name, value in features.items()}
    yield from (f"{name} is a feature" for name in sorted(found.left_out & set(kinds)))
    for name, kind in (found.kinds or {}).items():
        if kinds.get(name) != kind:
            yield f"{name} is {kinds.get(name, 'no feature')}, not {kind}"


def constant_guess(labels: list[float], task: str) -> float:
    """Returns the best constant's metric: AUC 0.5, the share of the most frequent class, or the labels' deviation."""
    if task == "binary":
        return 0.5
    if task == "multiclass":
        return Counter(labels).most_common(1)[0][1] / len(labels)
    return float(np.std(labels))


def _labels(folder: Path) -> Iterator[float]:
    """Yields the labels of the examples that have one, read by TensorFlow in a separate process."""
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
    for heading in ("data", "label", "rows", "metric", "model", "constant", "", "blessed", "columns", "seconds"):
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
            "yes" if o.blessed else "NO",
            "; ".join(o.wrong) or "as they should",
            f"{o.seconds:.0f}",
        )
    Console(width=150).print(table)


def main(arguments: list[str] | None = None) -> int:
    """Runs the data sets one after the other; returns 1 if a model or a column of any of them is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"one of {', '.join(SETS)}; by default all")
    parser.add_argument("--data", action="append", default=[], metavar="DATA[::LABEL]", help="your own data")
    options = parser.parse_args(arguments)
    outcomes = []
    for name in options.sets or ([] if options.data else SETS):
        with tempfile.TemporaryDirectory(prefix="bench_init_") as directory:
            source = Path(directory) / "data"
            source.mkdir()
            outcomes.append(measure(name, SETS[name](source), Path(directory)))
        print_outcomes(outcomes[-1:])
    for data, _, label in (entry.partition("::") for entry in options.data):
        with tempfile.TemporaryDirectory(prefix="bench_init_") as directory:
            outcomes.append(measure(Path(data).name, InitSet(data, label or None), Path(directory)))
        print_outcomes(outcomes[-1:])
    print_outcomes(outcomes)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
