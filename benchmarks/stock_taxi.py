"""Runs the stock TFX taxi template end to end in a fresh process, and scores its model on its eval split."""

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import Timing, package_file, run_json, time_command

RECORDS = "pipeline_root/CsvExampleGen/examples/*/Split-{split}/*.gz"


@dataclass(frozen=True)
class Score:
    """AUC of a model on an eval split; the counts show whether two scores are of the same rows."""

    auc: float
    rows: int
    positives: int


@dataclass(frozen=True)
class StockRun:
    """A finished run of the stock pipeline, with its pipeline root, metadata and pushed model in `directory`."""

    directory: Path
    timing: Timing

    @property
    def model(self) -> Path:
        return max((self.directory / "serving_model").iterdir())

    def records(self, split: str) -> str:
        """Returns the glob pattern of the raw examples of `split`, "train" or "eval"."""
        return str(self.directory / RECORDS.format(split=split))


def taxi_csv() -> Path:
    """Returns the file of 15,002 Chicago trips that TFX's template copies for its user, without importing TFX."""
    return package_file("tfx", "examples/chicago_taxi_pipeline/data/simple/data.csv")


def run_stock(directory: Path, *, features: str) -> StockRun:
    """Creates `directory` and runs the stock pipeline in it, with the "default" or "all" features.

    Raises:
      FileExistsError: `directory` exists; the metadata of an earlier run would change the measurement.
      CommandFailed: The pipeline failed.
    """
    directory.mkdir(parents=True)
    return _run(directory, features, "run.log")


def run_stock_again(directory: Path, *, features: str, steps: int) -> StockRun:
    """Runs the stock pipeline of `directory` again, with another number of training steps."""
    return _run(directory, features, "run-again.log", "--steps", str(steps))


def _run(directory: Path, features: str, log: str, *options: str) -> StockRun:
    command = [sys.executable, "-m", "benchmarks.stock_pipeline", str(directory), "--features", features, *options]
    return StockRun(directory, time_command(command, log=directory / log))


def export_splits(run: StockRun, folder: Path) -> dict[str, int]:
    """Writes the rows of the run's splits to `folder`/train.csv and eval.csv; returns rows per split."""
    command = [sys.executable, "-m", "benchmarks.taxi_rows", "split", "--to", str(folder)]
    return run_json([*command, run.records("train"), run.records("eval")], log=run.directory / "split.log")


def score_model(model: Path, records: str, *, output: str, log: Path) -> Score:
    """Scores the output `output` of a SavedModel's `serving_default` on the raw examples in `records`."""
    command = [sys.executable, "-m", "benchmarks.taxi_rows", "score", str(model), records, "--output", output]
    return Score(**run_json(command, log=log))


def score_stock(run: StockRun) -> Score:
    """Scores the pushed model on the eval split of its run."""
    log = run.directory / "score.log"
    return score_model(run.model, run.records("eval"), output="outputs", log=log)
