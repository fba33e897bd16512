"""kill -9 of the taxi run at random times, of the runner alone or with all nodes: the next run has the same results.

A trial takes one to two minutes on two free cores. `-k "[7]"` runs seed 7 only.
"""

import contextlib
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import REPOSITORY, warm_process

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EXAMPLE = REPOSITORY / "examples" / "taxi"
KILLS = 30
LIMIT_SECONDS = 1200


def pipeline_in(folder: Path) -> Path:
    """Returns a copy of the example that trains for two epochs and is evaluated without slices."""
    text = (EXAMPLE / "pipeline.yaml").read_text()
    shorter = text.replace("epochs: 10", "epochs: 2").replace("  slices: [[trip_start_hour], [payment_type]]\n", "")
    assert len(shorter.splitlines()) == len(text.splitlines()) - 1 and "epochs: 2," in shorter
    file = folder / "pipeline.yaml"
    file.write_text(shorter)
    return file


def started(file: Path, *options: str) -> warm_process.Process:
    with open(file.with_name("printed"), "a") as printed:
        command = [sys.executable, "-m", "fullpass", "run", str(file), *options]
        return warm_process.Process(command, cwd=file.parent, stdout=printed, stderr=printed)


def outcome(file: Path, rows: Path) -> dict:
    """Returns the results of a finished run: predictions for raw rows, and every count in the summary."""
    newest = max((file.parent / "runs" / "taxi" / "logs").glob("*/run.json"))
    summary = json.loads(newest.read_text())
    predicted = file.parent / "predicted.csv"
    command = [sys.executable, "-m", "fullpass", "predict", str(file), str(rows), "-o", str(predicted)]
    warm_process.run(command, cwd=file.parent, timeout=LIMIT_SECONDS, check=True)
    counts = {name: summary[name] for name in ("rows_read", "rows_quarantined", "rows", "blessed")}
    return {"predictions": list(csv.reader(predicted.open())), "metrics": summary["metrics"], **counts}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[dict, Path, float]:
    """Returns the outcome of an undisturbed run, the rows that it predicted, and its seconds."""
    folder = tmp_path_factory.mktemp("undisturbed")
    import tfx

    data = Path(tfx.__file__).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv"
    rows = folder / "rows.csv"
    rows.write_text("".join(data.open().readlines()[:1001]))
    began = time.monotonic()
    file = pipeline_in(folder)
    assert started(file).wait(LIMIT_SECONDS) == 0, (folder / "printed").read_text()
    seconds = time.monotonic() - began
    found = outcome(file, rows)
    assert len(found["predictions"]) == 1001 and found["rows_read"] == 15_002
    return found, rows, seconds


def children_of(pid: int) -> list[int]:
    """Returns the living child processes of a process, recursively."""
    try:
        direct = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [*direct, *(below for child in direct for below in children_of(child))]


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_run_that_was_killed_at_any_moment_ends_the_same_when_it_is_run_again(undisturbed, tmp_path, seed):
    expected, rows, seconds = undisturbed
    rng = random.Random(seed)
    moment = rng.uniform(0, seconds)
    file = pipeline_in(tmp_path)
    run = started(file)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(moment)
    nodes = children_of(run.pid) if rng.random() < 0.5 else []
    for pid in [*nodes, run.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run.wait(LIMIT_SECONDS)
    again = started(file, "--wait")
    code = again.wait(LIMIT_SECONDS)
    print(f"seed {seed}: killed after {moment:.1f} of {seconds:.1f} s, {'all' if nodes else 'the runner alone'}")
    assert code == 0, (tmp_path / "printed").read_text()
    found = outcome(file, rows)
    # The evaluation sums in the order in which its threads end, so the metrics may differ by rounding.
    assert found.pop("metrics") == pytest.approx(expected["metrics"], rel=1e-6)
    assert found == {name: value for name, value in expected.items() if name != "metrics"}
    [version] = (tmp_path / "serving").glob("[0-9]*")
    assert {path.name for path in (tmp_path / "serving").iterdir()} == {
        version.name,
        "current",
        ".lock",
        ".fullpass-models",
    }
    shutil.rmtree(tmp_path / "runs")
