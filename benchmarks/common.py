"""Shared parts of the benchmarks: timing a command in a fresh process, the machine, the table, the results.

Neither this module nor a benchmark's own process loads TensorFlow, because a child's peak memory starts at its
parent's.
"""

import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FULLPASS = (sys.executable, "-m", "fullpass")
"""The command line."""


class CommandFailed(RuntimeError):
    """A measured command failed, so its figures mean nothing."""


@dataclass(frozen=True)
class Timing:
    """One run of a command: wall and CPU seconds, and the peak resident MiB of its largest process."""

    seconds: float
    cpu: float
    peak_mib: float


@dataclass(frozen=True)
class Ratio:
    """One line of a comparison.

    `better` names the direction that wins: "lower" or "higher". The ratio is above 1 where `ours` wins. "none" shows
    the figures side by side without a ratio.
    """

    what: str
    stock: float
    ours: float
    unit: str = "s"
    better: str = "lower"

    @property
    def ratio(self) -> float | None:
        if self.better == "none":
            return None
        return self.stock / self.ours if self.better == "lower" else self.ours / self.stock


def time_command(command: Sequence[str], *, log: Path) -> Timing:
    """Runs `command` from the project's root in a fresh process and measures it from its start to its end.

    CPU seconds are those of the command and of the children that it waited for. Its output goes to `log`.

    Raises:
        CommandFailed: The exit status is not 0; the message ends with the last lines of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise CommandFailed(_failure(command, child.returncode, log))
    peak_mib = usage.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
    return Timing(seconds=seconds, cpu=usage.ru_utime + usage.ru_stime, peak_mib=peak_mib)


def taxi_model(given: Path | None, work: Path) -> Path:
    """Returns the folder of a model, by default that of examples/taxi, which is trained in the folder `work`."""
    if given is not None:
        return given.resolve()
    shutil.copy(ROOT / "examples" / "taxi" / "pipeline.yaml", work)
    time_command([*FULLPASS, "run", str(work / "pipeline.yaml")], log=work / "run.log")
    return work / "serving"


def _failure(command: Sequence[str], returncode: int, log: Path) -> str:
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
    return f"{' '.join(command)}\nended with status {returncode}. The end of its output ({log}):\n{tail}"


def run_json(command: Sequence[str], *, log: Path) -> dict:
    """Runs `command` unmeasured and returns the JSON object on the last line of its standard output."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT)
    if done.returncode:
        raise CommandFailed(_failure(command, done.returncode, log))
    return json.loads(done.stdout.decode("utf-8").splitlines()[-1])


def median_timing(timings: Sequence[Timing]) -> Timing:
    """Returns the median wall and CPU seconds, and the highest peak."""
    return Timing(
        seconds=statistics.median(timing.seconds for timing in timings),
        cpu=statistics.median(timing.cpu for timing in timings),
        peak_mib=max(timing.peak_mib for timing in timings),
    )


def package_file(package: str, path: str) -> Path:
    """Returns a file of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"The package {package} is not installed. `make env` installs it.")
    return Path(spec.submodule_search_locations[0]) / path


def write_yaml(path: Path, content: Mapping[str, Any]) -> Path:
    """Writes a pipeline file, whose folder is created, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as opened:
        YAML().dump(content, opened)
    return path


def peak_mib() -> float:
    """Returns the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine() -> dict[str, str | int | float]:
    """Describes the machine that produced the figures: CPU model, usable cores, memory in GiB, system, Python."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def table_of(title: str, left: Sequence[str], right: Sequence[str], *, caption: str | None = None) -> Table:
    """Returns a table with these headings, of columns of words and of columns of figures."""
    table = Table(*left, title=title, caption=caption)
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def print_ratios(
    title: str,
    rows: Sequence[Ratio],
    *,
    headings: tuple[str, str] = ("stock TFX", "Fullpass"),
    console: Console | None = None,
) -> None:
    """Prints one line per comparison; the last column shows how many times better Fullpass is."""
    host = machine()
    caption = f"{host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB"
    table = table_of(title, [""], [*headings, "times better"], caption=caption)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(f"{row.what}, {row.unit}" if row.unit else row.what, _figure(row.stock), _figure(row.ours), ratio)
    (console or Console()).print(table)


def _figure(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.4f}" if abs(value) < 1 else f"{value:,.1f}"


def write_results(name: str, rows: Sequence[Ratio], details: Mapping[str, object]) -> None:
    """Writes the figures, the machine and the time to benchmarks/results/<name>.json, and prints that path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
        **details,
    }
    path = RESULTS / f"{name}.json"
    partial = path.with_suffix(".json.part")
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)
    Console().print(f"written to {path.relative_to(ROOT)}")
