"""Compares stock TFX's input function with Fullpass's, from the same transformed examples to batches.

    python -m benchmarks.bench_input [--data flights taxi] [--repeat 1]

Both examples run to Transform. Each side then reads the same train split in a fresh process. The sides are stock
(TFXIO's TensorFlowDataset, as the taxi template uses it), Fullpass with its cache in memory, on disk and off, and
NumPy, which slices the same batches from arrays in memory and parses nothing. The files are linked under several names
until there are at least 250,000 rows.

The set-up cost of a first pass (traced graphs, built pipelines) is separated from the reading by a second measurement
on five times as many files. The disk cache is also measured with a memory budget equal to the size of the rows, on the
rows and on five times the rows: its peak memory must not grow with the rows.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.common import FULLPASS, ROOT, Ratio, print_ratios, run_json, time_command, write_results
from fullpass.components.ingest.writing.manifest import read_manifest
from fullpass.trainer.records.blocks import Layout
from fullpass.trainer.records.column_files import FOLDER, ColumnFile, publish_columns

SIDES = ("stock", "memory", "disk", "none", "numpy")
LEAST_ROWS = 250_000
TIMES = 5
Figures = dict[str, float]


def prepare(data: str, work: Path) -> dict[str, Any]:
    """Runs an example to Transform; returns the paths of its examples and graph, and the rows of the train split."""
    root = work / data
    config = ROOT / "examples" / data / "pipeline.yaml"
    time_command([*FULLPASS, "run", str(config), "--root", str(root), "--to", "Transform"], log=work / f"{data}.log")
    rows = read_manifest(str(_newest(root, "Ingest/examples"))).written["train"]
    examples = _newest(root, "Transform/transformed_examples")
    return {"examples": str(examples), "graph": str(_newest(root, "Transform/transform_graph")), "rows": rows}


def _newest(root: Path, output: str) -> Path:
    """Returns the newest artifact; a folder that was prepared before may hold older ones."""
    return max((root / output).iterdir(), key=lambda path: int(path.name))


def often(prepared: dict[str, Any], times: int, folder: Path) -> dict[str, Any]:
    """Links the files and their column files `times` times into `folder`, each time under another name."""
    source, split, pending = Path(prepared["examples"]), folder / "Split-train", folder / "pending"
    index = json.loads((source / FOLDER / "train.json").read_text())
    split.mkdir(parents=True)
    pending.mkdir()
    columns = []
    for number in range(times):
        for file in sorted((source / "Split-train").iterdir()):
            (split / f"{number:03d}-{file.name}").symlink_to(file)
        for described in index["files"]:
            columns.append(ColumnFile(**{**described, "file": f"{number:03d}-{described['file']}"}))
            (pending / columns[-1].file).symlink_to(source / FOLDER / described["file"])
    publish_columns(str(folder), str(pending), "train", Layout.from_json(index["columns"]), columns)
    return {**prepared, "examples": f"{split}/*", "rows": prepared["rows"] * times}


def measure(side: str, prepared: dict[str, Any], work: Path, **more: int) -> Figures:
    """Runs one side in a fresh process."""
    with tempfile.TemporaryDirectory(dir=work) as own:
        options = [f"--{name}={value}" for name, value in {**prepared, **more}.items()]
        command = [sys.executable, "-m", "benchmarks.input_side", side, f"--work={own}", *options]
        return run_json(command, log=work / f"{side}.log")


def measure_all(prepared: dict[str, Any], work: Path, repeat: int) -> dict[str, Figures]:
    """Runs all sides, then Fullpass on five times the rows."""
    once = often(prepared, -(-LEAST_ROWS // prepared["rows"]), work / "once")
    more = often(prepared, TIMES * -(-LEAST_ROWS // prepared["rows"]), work / "more")
    runs = [{side: measure(side, once, work) for side in SIDES} for _ in range(repeat)]
    found = {side: median_of([run[side] for run in runs]) for side in SIDES}
    budget = int(found["memory"]["bytes"])
    found["memory, more"] = median_of([measure("memory", more, work, epochs=1) for _ in range(repeat)])
    found["disk, budget"] = measure("disk", once, work, budget=budget)
    found["disk, budget, more"] = measure("disk", more, work, budget=budget, epochs=2)
    return found


def compare(rows: int, found: dict[str, Figures]) -> list[Ratio]:
    """Returns the lines of the comparison in examples per second, seconds and MiB."""

    def speed(side: str, which: str) -> float:
        return rows / found[side][which]

    def peak(side: str) -> float:
        return found[side]["peak_mib"]

    stock, memory, more = found["stock"], found["memory"], found["memory, more"]
    later = speed("stock", "later")
    reading = (more["first"] - memory["first"]) / (TIMES - 1)
    # Stock parses in every pass, so TIMES passes cost as much as TIMES times the rows.
    stock_more = stock["first"] + (TIMES - 1) * stock["later"]
    unit = "examples/s"
    return [
        Ratio("first pass, kept in memory", speed("stock", "first"), speed("memory", "first"), unit, "higher"),
        Ratio("the same, set-up left out", later, rows / reading, unit, "higher"),
        Ratio("the set-up", stock["first"] - stock["later"], memory["first"] - reading, "s", "none"),
        Ratio(
            f"first pass, {TIMES} times the rows",
            TIMES * rows / stock_more,
            TIMES * rows / more["first"],
            unit,
            "higher",
        ),
        Ratio("processor time of a first pass", stock["cpu"], memory["cpu"], "s"),
        Ratio("first pass, written to disk", speed("stock", "first"), speed("disk", "first"), unit, "higher"),
        Ratio("later passes, in memory", later, speed("memory", "later"), unit, "higher"),
        Ratio("later passes, from disk", later, speed("disk", "later"), unit, "higher"),
        Ratio("later passes, parsed again", later, speed("none", "later"), unit, "higher"),
        Ratio("NumPy's slices of the same batches", later, speed("numpy", "later"), unit, "higher"),
        Ratio("peak memory, in memory", peak("stock"), peak("memory"), "MiB"),
        Ratio("peak memory, on disk, rows of the budget", peak("stock"), peak("disk, budget"), "MiB"),
        Ratio(f"peak memory, {TIMES} times the budget", peak("stock"), peak("disk, budget, more"), "MiB"),
    ]


def median_of(runs: list[Figures]) -> Figures:
    """Returns the median of each figure."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=["flights", "taxi"], default=["flights", "taxi"])
    parser.add_argument("--repeat", type=int, default=1, help="runs of each side")
    parser.add_argument("--prepared", type=Path, help="folder of an earlier run of the examples")
    arguments = parser.parse_args()
    console = Console()
    for data in arguments.data:
        with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
            work = Path(temporary)
            prepared = prepare(data, (arguments.prepared or work).resolve())
            found = measure_all(prepared, work, arguments.repeat)
        rows = prepared["rows"] * -(-LEAST_ROWS // prepared["rows"])
        lines = compare(rows, found)
        print_ratios(f"{data}, {rows:,} examples in batches of 1,024", lines, console=console)
        write_results(f"input_{data}", lines, {"sides": found, "rows_read": rows})


if __name__ == "__main__":
    main()
