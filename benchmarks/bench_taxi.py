"""Compares the stock TFX taxi template with `fullpass run` on the taxi example, end to end on the same rows.

    python -m benchmarks.bench_taxi [--repeat 3] [--features all|default] [--edit] [--keep FOLDER]

Both sides alternate, in fresh processes, from an empty root to a pushed model. Stock TFX splits the rows. Fullpass
reads its split as one file per split, so both sides train on the same rows and are scored on the same eval rows.
Fullpass runs examples/taxi/pipeline.yaml; only the source, the root and the push folder are replaced.

With `--edit` it is the second run of each side that is measured, after an edit of the training alone: stock TFX trains
fewer steps, Fullpass a network of other layers. TFX's cache spares both the nodes before the Trainer.
"""

import argparse
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.common import (
    FULLPASS,
    ROOT,
    Ratio,
    Timing,
    median_timing,
    print_ratios,
    time_command,
    write_results,
    write_yaml,
)
from benchmarks.stock_taxi import Score, export_splits, run_stock, run_stock_again, score_model, score_stock

EXAMPLE = ROOT / "examples" / "taxi" / "pipeline.yaml"
_EDITED_STEPS = 900
_EDITED_MODEL = {"kind": "wide_deep", "hidden": [48, 24]}


@dataclass(frozen=True)
class Measured:
    """One run of one side: its timing, and the score of its model on the eval rows."""

    timing: Timing
    score: Score


def measure_stock(directory: Path, *, features: str, splits: Path, edit: bool) -> Measured:
    """Runs and scores the stock pipeline; writes its split into the folder `splits` if the folder does not exist."""
    run = run_stock(directory, features=features)
    if not splits.exists():
        export_splits(run, splits)
    if edit:
        run = run_stock_again(directory, features=features, steps=_EDITED_STEPS)
    return Measured(run.timing, score_stock(run))


def measure_ours(directory: Path, *, splits: Path, edit: bool) -> Measured:
    """Runs the taxi example on the two files in `splits`, with all outputs under `directory`, and scores it."""
    config = write_config(directory / "pipeline.yaml", splits=splits)
    timing = time_command([*FULLPASS, "run", str(config)], log=directory / "run.log")
    if edit:
        write_yaml(config, {**YAML().load(config), "model": _EDITED_MODEL})
        timing = time_command([*FULLPASS, "run", str(config)], log=directory / "run-again.log")
    records = directory / "runs" / "**" / "Ingest" / "examples" / "*" / "Split-eval" / "*"
    model = max(
        (path for path in (directory / "serving").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    )
    score = score_model(model, str(records), output="scores", log=directory / "score.log")
    return Measured(timing, score)


def write_config(path: Path, *, splits: Path) -> Path:
    """Writes the taxi example to `path`, with the files in `splits` as its source and its outputs beside the YAML."""
    config = YAML().load(EXAMPLE)
    config["data"]["source"]["path"] = {name: str(splits / f"{name}.csv") for name in ("train", "eval")}
    config["data"].pop("split", None)
    config["root"] = "runs"
    config.setdefault("push", {})["to"] = "serving"
    return write_yaml(path, config)


def compare(stock: list[Measured], ours: list[Measured], *, edit: bool = False) -> list[Ratio]:
    """Returns the lines of the comparison: median seconds and AUC, and the highest peak.

    Raises:
      ValueError: The runs were not all scored on the same eval rows.
    """
    eval_sets = {(measured.score.rows, measured.score.positives) for measured in (*stock, *ours)}
    if len(eval_sets) != 1:
        raise ValueError(f"Scored on different eval splits, as (rows, positives): {sorted(eval_sets)}.")
    stock_timing, our_timing = (median_timing([m.timing for m in side]) for side in (stock, ours))
    stock_auc, our_auc = (statistics.median(m.score.auc for m in side) for side in (stock, ours))
    return [
        Ratio("edit to pushed model" if edit else "raw CSV to pushed model", stock_timing.seconds, our_timing.seconds),
        Ratio("peak memory of the largest process", stock_timing.peak_mib, our_timing.peak_mib, unit="MiB"),
        Ratio("AUC on the eval split", stock_auc, our_auc, unit="", better="none"),
    ]


def run_benchmark(
    work: Path, *, repeat: int, features: str, edit: bool, console: Console
) -> tuple[list[Measured], list[Measured]]:
    """Measures both sides `repeat` times, alternately."""
    stock: list[Measured] = []
    ours: list[Measured] = []
    for number in range(1, repeat + 1):
        splits = work / "splits"
        stock.append(measure_stock(work / f"stock-{number}", features=features, splits=splits, edit=edit))
        ours.append(measure_ours(work / f"ours-{number}", splits=splits, edit=edit))
        for name, measured in (("stock", stock[-1]), ("ours", ours[-1])):
            console.print(f"run {number}, {name}: {measured.timing.seconds:.1f} s, AUC {measured.score.auc:.4f}")
    return stock, ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side")
    parser.add_argument("--features", choices=["default", "all"], default="all", help="features of the stock template")
    parser.add_argument("--edit", action="store_true", help="measure a run after an edit of the training")
    parser.add_argument("--keep", type=Path, help="keep all runs in this folder, which must not exist yet")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = arguments.keep.resolve() if arguments.keep else Path(temporary)
        stock, ours = run_benchmark(
            work, repeat=arguments.repeat, features=arguments.features, edit=arguments.edit, console=console
        )
    rows = compare(stock, ours, edit=arguments.edit)
    print_ratios(f"Chicago taxi, {stock[0].score.rows:,} eval rows, median of {len(stock)}", rows, console=console)
    runs = {"stock": [asdict(measured) for measured in stock], "ours": [asdict(measured) for measured in ours]}
    write_results("edit" if arguments.edit else "taxi", rows, {"features": arguments.features, "runs": runs})


if __name__ == "__main__":
    main()
