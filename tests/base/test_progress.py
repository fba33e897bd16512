import json
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fullpass.base import progress

LIMIT_SECONDS = 300


@pytest.fixture
def progress_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "node.progress"
    monkeypatch.setenv(progress.PROGRESS_FILE_VARIABLE, str(path))
    return path


def make_stale(path: Path) -> None:
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))


def test_what_is_reported_is_read_back(progress_file: Path):
    before = time.time()
    progress.report(5, 20, "rows", note="file 1 of 2")
    found = progress.read(progress_file)
    assert (found.done, found.total, found.unit, found.note) == (5, 20, "rows", "file 1 of 2")
    assert before <= found.reported_at <= time.time()


def test_losses_are_read_back_while_a_node_trains_and_a_repeated_epoch_takes_its_place(progress_file: Path):
    assert progress.read_losses(progress_file) == {}
    curves = progress.LossCurves()
    for epoch, loss in ((1, 0.5), (2, 0.4), (3, math.inf), (2, 0.3)):
        curves.add("trees", epoch, {"loss": loss, "val_loss": loss + 1, "auc": 0.9})
    assert progress.read_losses(progress_file) == {"trees, train": [0.5, 0.3], "trees, validation": [1.5, 1.3]}
    curves.add("linear", 1, {"val_loss": math.nan})
    assert math.isnan(progress.read_losses(progress_file)["linear, validation"][0])


def test_the_file_is_plain_json(progress_file: Path):
    progress.report(5, None, "rows")
    content = json.loads(progress_file.read_text())
    assert content["done"] == 5
    assert content["total"] is None


def test_without_a_runner_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(progress.PROGRESS_FILE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    progress.report(1, 2, "rows")
    progress.LossCurves().add("trees", 1, {"loss": 0.5})
    assert list(tmp_path.iterdir()) == []


def test_nothing_reported_reads_as_none(tmp_path: Path):
    assert progress.read(tmp_path / "absent") is None


def test_reports_in_quick_succession_are_dropped(progress_file: Path):
    progress.report(1, 100, "rows")
    progress.report(2, 100, "rows")
    assert progress.read(progress_file).done == 1


def test_a_report_after_the_interval_is_written(progress_file: Path):
    progress.report(1, 100, "rows")
    make_stale(progress_file)
    progress.report(2, 100, "rows")
    assert progress.read(progress_file).done == 2


def test_the_last_report_is_never_dropped(progress_file: Path):
    progress.report(99, 100, "rows")
    progress.report(100, 100, "rows")
    assert progress.read(progress_file).done == 100


def test_a_vanished_directory_does_not_fail_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(progress.PROGRESS_FILE_VARIABLE, str(tmp_path / "gone" / "node.progress"))
    progress.report(1, 1, "rows")
    assert list(tmp_path.iterdir()) == []


def write_reports() -> None:
    for i in range(200):
        progress.report(i, i, "rows", note="x" * (i % 50))


@pytest.mark.integration
def test_readers_never_see_half_a_report_from_threads_and_processes(progress_file: Path):
    """Every report is final (done == total), so the rate limit drops none."""
    spawn = multiprocessing.get_context("spawn")
    threads = [threading.Thread(target=write_reports, daemon=True) for _ in range(2)]
    processes = [spawn.Process(target=write_reports, daemon=True) for _ in range(2)]
    for writer in [*processes, *threads]:
        writer.start()
    deadline = time.monotonic() + LIMIT_SECONDS
    while any(writer.is_alive() for writer in [*processes, *threads]):
        found = progress.read(progress_file)
        assert found is None or len(found.note) == found.done % 50
        assert time.monotonic() < deadline
    assert [process.exitcode for process in processes] == [0, 0]
    assert progress.read(progress_file).done == 199
    assert list(progress_file.parent.iterdir()) == [progress_file]


def test_importing_it_brings_no_heavy_library():
    code = "import fullpass.base.progress, sys; print(*sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS
    )
    assert not {"tensorflow", "tfx", "apache_beam", "numpy"} & set(out.stdout.split())
