"""Repeats the ratios of README in one go, and prints them only if the machine was quiet.

    python -m benchmarks.bench_quiet [--only run taxi] [--repeat 3]

Each benchmark runs its sides alternately and takes medians. While it runs, the processor seconds of the whole machine
are compared with its own: what other processes used, and what a hypervisor took (steal), distorts seconds. A benchmark
that was disturbed is repeated once. If that one is disturbed too, its figures are not printed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil
from rich.console import Console

from benchmarks.common import RESULTS, ROOT, Ratio, machine

MOST_FOREIGN = 0.05
"""The share of all processors that other processes may use."""
MOST_STEAL = 0.02
"""The share of all processors that a hypervisor may take."""
BEFORE = 5.0
"""Seconds in which the machine is observed before the first benchmark."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark of README. module: of this package. lines: what its results call a line -> README's words."""

    module: str
    options: tuple[str, ...]
    lines: Mapping[str, str]
    repeats: bool = True


BENCHMARKS: Mapping[str, Benchmark] = {
    "run": Benchmark(
        "bench_run",
        (),
        {
            "CSV to pushed model": "flights, whole run, s",
            "CSV to pushed model, of processors": "flights, whole run, processor s",
            "ingest": "Ingest, s",
            "statistics, comparison of spans": "statistics and comparison of spans, s",
            "Transform": "Transform, s",
            "Trainer": "Trainer, s",
            "Evaluator": "Evaluator, s",
            "largest process, peak memory": "peak memory of the largest process, MiB",
        },
    ),
    "run-4": Benchmark(
        "bench_run", ("--scale", "4"), {"CSV to pushed model": "flights four times, whole run, s"}, repeats=False
    ),
    "taxi": Benchmark("bench_taxi", (), {"raw CSV to pushed model": "TFX's taxi template, whole run, s"}),
    "edit": Benchmark("bench_taxi", ("--edit",), {"edit to pushed model": "the same after an edit of the training, s"}),
    "ingest-csv": Benchmark("bench_ingest", ("--formats", "csv"), {"CSV": "flights, CSV to TFRecords, rows/s"}),
    "input_flights": Benchmark(
        "bench_input",
        ("--data", "flights"),
        {
            "first pass, kept in memory": "first pass with all set-up, examples/s",
            "later passes, in memory": "later epochs, rows in memory, examples/s",
        },
    ),
    "window": Benchmark(
        "bench_window",
        ("--cases", "large", "--moves", "3", "--scratch", "3"),
        {"large: both": "a window of 30 days moved by one, against Fullpass from scratch, s"},
        repeats=False,
    ),
    "kubeflow": Benchmark(
        "bench_kubeflow", ("--imports",), {"a node with TensorFlow": "a Kubeflow container, imports, s"}
    ),
}
"""File of the results -> its benchmark."""


@dataclass(frozen=True)
class Disturbance:
    """What was not the benchmark's in a time. foreign, steal: shares of all processors, 0 to 1."""

    foreign: float
    steal: float

    def __bool__(self) -> bool:
        return self.foreign > MOST_FOREIGN or self.steal > MOST_STEAL

    def __str__(self) -> str:
        return (
            f"other processes used {self.foreign:.1%} of the processors (at most {MOST_FOREIGN:.0%}), "
            f"steal was {self.steal:.1%} (at most {MOST_STEAL:.0%})"
        )


def disturbance(before: object, after: object, own: float, seconds: float, cores: int) -> Disturbance:
    """Returns the disturbance between two results of `psutil.cpu_times`. own: processor seconds of the benchmark."""
    used, stolen = (
        sum(getattr(after, kind, 0.0) - getattr(before, kind, 0.0) for kind in kinds)
        for kinds in (("user", "nice", "system", "irq", "softirq"), ("steal",))
    )
    return Disturbance(max(used - own, 0.0) / (seconds * cores), stolen / (seconds * cores))


def observe(seconds: float) -> Disturbance:
    """Returns what the machine does while this process waits."""
    before = psutil.cpu_times()
    time.sleep(seconds)
    return disturbance(before, psutil.cpu_times(), 0.0, seconds, psutil.cpu_count() or 1)


def run(benchmark: Benchmark, repeat: int) -> Disturbance:
    """Runs a benchmark, whose output is shown, and returns the disturbance meanwhile.

    Raises:
        SystemExit: The benchmark failed.
    """
    command = [sys.executable, "-m", f"benchmarks.{benchmark.module}", *benchmark.options]
    if benchmark.repeats:
        command.append(f"--repeat={repeat}")
    before, start = psutil.cpu_times(), time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(child.pid, 0)
    seconds, after = time.perf_counter() - start, psutil.cpu_times()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with status {child.returncode}.")
    return disturbance(before, after, usage.ru_utime + usage.ru_stime, seconds, psutil.cpu_count() or 1)


def readme_lines(name: str, benchmark: Benchmark) -> Iterator[Ratio]:
    """Yields the lines of a benchmark that README shows, in README's words."""
    rows = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    measured = {row["what"]: row for row in rows}
    for what, words in benchmark.lines.items():
        row = {key: value for key, value in measured[what].items() if key != "ratio"}
        yield Ratio(**row | {"what": words})


def markdown(lines: Sequence[Ratio]) -> str:
    """Returns the table as README holds it."""

    def figure(value: float) -> str:
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 10 else f"{value:.1f}"

    rows = [f"| {line.what} | {figure(line.stock)} | {figure(line.ours)} | {line.ratio:.2g} |" for line in lines]
    return "\n".join(["| | stock TFX | Fullpass | ratio |", "|---|---|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS), help="benchmarks to repeat")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each side")
    arguments = parser.parse_args()
    console = Console()
    at_rest = observe(BEFORE)
    if at_rest:
        sys.exit(f"The machine is busy before any benchmark: {at_rest}. End the other work and run this again.")
    lines: list[Ratio] = []
    disturbed: list[str] = []
    for name in arguments.only:
        benchmark = BENCHMARKS[name]
        # A second try, because one package update or backup should not cost the whole hour.
        found = run(benchmark, arguments.repeat) and run(benchmark, arguments.repeat)
        if found:
            disturbed.append(f"{name}: {found}")
        else:
            lines.extend(readme_lines(name, benchmark))
    if lines:
        host = machine()
        console.print(f"{host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB, medians of {arguments.repeat}")
        print(markdown(lines))
    if disturbed:
        sys.exit("Not printed, because the machine was busy twice:\n" + "\n".join(disturbed))


if __name__ == "__main__":
    main()
