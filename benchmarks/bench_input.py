"""Transformed examples to batches: stock TFX's input function against ours, on the same files.

    python -m benchmarks.bench_input [--data flights taxi] [--repeat 1]

Both examples are run to Transform; each side then reads the same train split in a fresh process: stock (TFXIO's
TensorFlowDataset as the taxi template uses it), ours kept in memory, on disk, and not at all, and NumPy, which slices
the same batches from arrays in memory and parses nothing. At last ours reads the same files once and 20 times over with
a budget of 32 MiB, of which the latter rows are many times more: its peak must not grow with them.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.common import ROOT, Ratio, print_ratios, run_json, time_command, write_results

SIDES = ("stock", "memory", "disk", "none", "numpy")
BUDGET = 32 << 20
TIMES = 20
_FULLPASS = (sys.executable, "-m", "pipeline.cli")


def prepare(data: str, work: Path) -> dict[str, Any]:
    """Runs an example to Transform and returns where its examples and graph are, and the rows of the train split."""
    root = work / data
    config = ROOT / "examples" / data / "pipeline.yaml"
    time_command([*_FULLPASS, "run", str(config), "--root", str(root), "--to", "Transform"], log=work / f"{data}.log")
    (graph,) = root.glob("Transform/transform_graph/*")
    (train,) = root.glob("Transform/transformed_examples/*/Split-train")
    (counted,) = root.glob("Ingest/examples/*/ingest.json")
    rows = json.loads(counted.read_text(encoding="utf-8"))["written"]["train"]
    return {"examples": f"{train}/*", "graph": str(graph), "rows": rows}


def measure(side: str, prepared: dict[str, Any], work: Path, *, times: int = 1) -> dict[str, float]:
    """Runs one side in a fresh process; it reads every file `times` times."""
    with tempfile.TemporaryDirectory(dir=work) as own:
        options = [f"--{name}={value}" for name, value in prepared.items()]
        command = [sys.executable, "-m", "benchmarks.input_side", side, f"--work={own}", *options]
        command += [f"--budget={BUDGET}", f"--times={times}"]
        return run_json(command, log=work / f"{side}.log")


def compare(rows: int, found: dict[str, dict[str, float]]) -> list[Ratio]:
    """Returns the lines of the comparison, in examples per second and MiB."""

    def speed(side: str, which: str) -> float:
        return rows / found[side][which]

    peaks = (found["stock"]["peak_mib"], found["disk, often"]["peak_mib"])
    stock_first, stock_later = speed("stock", "first"), speed("stock", "later")
    unit = "examples/s"
    return [
        Ratio("first pass, kept in memory", stock_first, speed("memory", "first"), unit, "higher"),
        Ratio("first pass, written to disk", stock_first, speed("disk", "first"), unit, "higher"),
        Ratio("later passes, in memory", stock_later, speed("memory", "later"), unit, "higher"),
        Ratio("later passes, from disk", stock_later, speed("disk", "later"), unit, "higher"),
        Ratio("later passes, parsed again", stock_later, speed("none", "later"), unit, "higher"),
        Ratio("NumPy's slices of the same batches", stock_later, speed("numpy", "later"), unit, "higher"),
        Ratio("peak memory, in memory", found["stock"]["peak_mib"], found["memory"]["peak_mib"], "MiB"),
        Ratio("peak memory, on disk", found["stock"]["peak_mib"], found["disk"]["peak_mib"], "MiB"),
        Ratio(f"peak memory, {TIMES} times the rows on disk", *peaks, "MiB"),
    ]


def median_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """Returns the median of each figure."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=["flights", "taxi"], default=["flights", "taxi"])
    parser.add_argument("--repeat", type=int, default=1, help="runs of each side")
    parser.add_argument("--prepared", type=Path, help="folder in which the examples were run before")
    arguments = parser.parse_args()
    console = Console()
    for data in arguments.data:
        with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
            work = Path(temporary)
            prepared = prepare(data, (arguments.prepared or work).resolve())
            runs = [{side: measure(side, prepared, work) for side in SIDES} for _ in range(arguments.repeat)]
            found = {side: median_of([run[side] for run in runs]) for side in SIDES}
            found["disk, often"] = measure("disk", prepared, work, times=TIMES)
        rows = compare(prepared["rows"], found)
        print_ratios(f"{data}, {prepared['rows']:,} examples in batches of 1,024", rows, console=console)
        path = write_results(f"input_{data}", rows, {"sides": found, "rows_read": prepared["rows"]})
        console.print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
