"""Runs the stock TFX taxi template end to end in a fresh process: wall time, time per node, AUC on its eval split.

    python -m benchmarks.stock_taxi DIRECTORY [--features default|all]

DIRECTORY must not exist yet. It keeps the run, its log, and the two splits as CSV files, on which other pipelines can
train.
"""

import argparse
import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.common import Timing, run_json, time_command

RECORDS = "pipeline_root/CsvExampleGen/examples/*/Split-{split}/*.gz"


@dataclass(frozen=True)
class Score:
    """AUC of a model on an eval split; the counts show whether two scores are of the same rows."""

    auc: float
    rows: int
    positives: int


@dataclass(frozen=True)
class StockRun:
    """A finished run of the stock pipeline.

    Attributes:
      directory: Folder of the pipeline root, the metadata and the pushed model.
      timing: Timing of the whole process.
      node_seconds: Node -> seconds between the registration and the publication of its execution.
    """

    directory: Path
    timing: Timing
    node_seconds: dict[str, float]

    @property
    def model(self) -> Path:
        return max((self.directory / "serving_model").iterdir())

    def records(self, split: str) -> str:
        """Returns the glob pattern of the raw examples of `split`, "train" or "eval"."""
        return str(self.directory / RECORDS.format(split=split))


def taxi_csv() -> Path:
    """Returns the file of 15,002 Chicago trips that TFX's template copies for its user, without importing TFX."""
    spec = find_spec("tfx")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("The package tfx is not installed. `make env` installs it.")
    return Path(spec.origin).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv"


def run_stock(directory: Path, *, features: str) -> StockRun:
    """Creates `directory` and runs the stock pipeline in it, with the "default" or "all" features.

    Raises:
      FileExistsError: `directory` exists; the metadata of an earlier run would change the measurement.
      CommandFailed: The pipeline failed.
    """
    directory.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.stock_pipeline", str(directory), "--features", features]
    timing = time_command(command, log=directory / "run.log")
    return StockRun(directory, timing, _node_seconds(directory / "metadata.db"))


def _node_seconds(metadata: Path) -> dict[str, float]:
    query = (
        "SELECT Type.name, Execution.last_update_time_since_epoch - Execution.create_time_since_epoch "
        "FROM Execution JOIN Type ON Type.id = Execution.type_id ORDER BY Execution.id"
    )
    with closing(sqlite3.connect(f"{metadata.absolute().as_uri()}?mode=ro", uri=True)) as store:
        return {name.rsplit(".", 1)[-1]: milliseconds / 1000 for name, milliseconds in store.execute(query)}


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


def _print(run: StockRun, score: Score) -> None:
    table = Table("node", "seconds", title="stock TFX taxi template")
    start = run.timing.seconds - sum(run.node_seconds.values())
    for name, seconds in {**run.node_seconds, "start, imports, between nodes": start}.items():
        table.add_row(name, f"{seconds:.1f}")
    table.add_row("whole process", f"{run.timing.seconds:.1f}")
    console = Console()
    console.print(table)
    console.print(f"peak memory {run.timing.peak_mib:,.0f} MiB")
    console.print(f"AUC {score.auc:.4f} on {score.rows:,} eval rows, {score.positives:,} of them positive")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--features", choices=["default", "all"], default="default")
    arguments = parser.parse_args()
    run = run_stock(arguments.directory.resolve(), features=arguments.features)
    score = score_stock(run)
    export_splits(run, run.directory / "splits")
    _print(run, score)
    summary = {"seconds": run.timing.seconds, "peak_mib": run.timing.peak_mib, "nodes": run.node_seconds} | asdict(
        score
    )
    (run.directory / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
