"""Real forks of this test process; none of them needs TensorFlow or TFX."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fullpass.base import progress
from fullpass.base.errors import UserError
from fullpass.pipeline.record.events import NodeResult, Status
from fullpass.pipeline.running.execution import node_process
from fullpass.pipeline.running.execution.node_process import NodeOutcome, NodeProcess
from tests.waiting import is_alive, until

RUN_FIRST = True
OK = NodeOutcome(status=Status.OK, outputs=2)


@pytest.fixture
def begin(tmp_path: Path):
    """Starts nodes and sees to it that none outlives its test."""
    started: list[NodeProcess] = []

    def begin_node(work: Callable[[], NodeOutcome], node_id: str = "Node") -> NodeProcess:
        log = tmp_path / f"{node_id}.log"
        started.append(node_process.start(node_id, work, log=log, scratch=tmp_path))
        return started[-1]

    yield begin_node
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def end(process: NodeProcess) -> NodeResult:
    assert node_process.wait_any([process], timeout=300) == [process]
    return node_process.collect(process)


def wait_for(path: Path) -> str:
    return until(lambda: path.exists() and path.read_text())


def wait_until_gone(pid: int) -> None:
    until(lambda: not is_alive(pid))


def test_the_outcome_comes_back(begin):
    result = end(begin(lambda: OK))
    assert (result.id, result.status, result.outputs, result.error) == ("Node", Status.OK, 2, None)


@pytest.mark.integration
def test_processor_time_and_memory_are_those_of_the_node(begin):
    def work() -> NodeOutcome:
        held = b"x" * (300 << 20)
        started = time.process_time()
        while time.process_time() < started + 0.2:
            sum(held[:1000])
        return OK

    busy, idle = end(begin(work)), end(begin(lambda: OK))
    assert 0.2 <= busy.cpu_seconds < 2
    assert idle.cpu_seconds < 0.2
    assert busy.peak_mib >= 300 and busy.peak_mib - idle.peak_mib == pytest.approx(300, abs=60)


def test_everything_printed_or_logged_lands_in_the_log(begin, capfd):
    def work() -> NodeOutcome:
        print("python stdout")
        print("python stderr", file=sys.stderr)
        os.write(1, b"descriptor 1\n")
        ctypes.CDLL(None).puts(b"C stdout")
        ctypes.CDLL(None).fflush(None)
        subprocess.run(["sh", "-c", "echo grandchild; echo grandchild stderr >&2"], check=True)
        logging.getLogger("apache_beam").info("beam info")
        return OK

    process = begin(work)
    end(process)
    log = process.log.read_text()
    for text in (
        "python stdout",
        "python stderr",
        "descriptor 1",
        "C stdout",
        "grandchild",
        "grandchild stderr",
        "INFO apache_beam: beam info",
    ):
        assert text in log
    assert capfd.readouterr() == ("", "")


def test_an_absl_record_is_logged_once(begin):
    from absl import logging as absl_logging

    def work() -> NodeOutcome:
        absl_logging.info("one record")
        return OK

    process = begin(work)
    end(process)
    assert process.log.read_text().count("one record") == 1


def test_lines_about_each_column_of_a_schema_are_left_out(begin):
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio import tensor_representation_util

    def work() -> NodeOutcome:
        schema = schema_pb2.Schema(feature=[schema_pb2.Feature(name="fare", type=schema_pb2.FLOAT)])
        assert set(tensor_representation_util.InferTensorRepresentationsFromSchema(schema)) == {"fare"}
        logging.getLogger("absl").info("another record")
        return OK

    process = begin(work)
    end(process)
    log = process.log.read_text()
    assert "another record" in log and "fare" not in log


def test_a_user_error_comes_back_as_written(begin):
    def work() -> NodeOutcome:
        raise UserError("data.csv, row 3: bad date\nuse YYYY-MM-DD")

    process = begin(work)
    result = end(process)
    assert (result.status, result.error) == (Status.FAILED, "data.csv, row 3: bad date\nuse YYYY-MM-DD")
    assert result.log == process.log
    assert "Traceback (most recent call last)" in process.log.read_text()


def test_another_error_comes_back_with_type_and_place(begin):
    def work() -> NodeOutcome:
        raise ZeroDivisionError("of the rows")

    told, where = end(begin(work)).error.splitlines()
    assert told == "ZeroDivisionError: of the rows"
    assert Path(__file__).name in where


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), ("SIGKILL", "memory")),
        (lambda: ctypes.string_at(0), ("SIGSEGV",)),
        (lambda: os._exit(7), ("exit code 7",)),
        (lambda: sys.exit(0), ()),
    ],
    ids=["killed", "crashed", "left", "exited"],
)
def test_a_node_that_ends_otherwise_is_a_failure_with_words(begin, work, words):
    process = begin(work)
    result = end(process)
    assert result.status == Status.FAILED and all(word in result.error for word in words)
    assert ("Fatal Python error: Segmentation fault" in process.log.read_text()) is ("SIGSEGV" in words)


def test_atexit_of_the_parent_does_not_run_in_the_child(tmp_path: Path):
    """Two nodes, one `atexit`: it runs once, in the parent, though a thread of the child never ends."""
    code = f"""
import atexit, pathlib, threading, time
from fullpass.pipeline.running.execution import node_process
from fullpass.pipeline.record.events import Status
root = pathlib.Path({str(tmp_path)!r})
atexit.register(lambda: print("atexit ran"))
def work():
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return node_process.NodeOutcome(status=Status.OK)
for i in range(2):
    process = node_process.start(f"N{{i}}", work, log=root / f"{{i}}.log", scratch=root)
    node_process.wait_any([process], 20)
    print(node_process.collect(process).status)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert out.stdout.splitlines() == ["ok", "ok", "atexit ran"]
    assert (tmp_path / "0.log").read_text() == ""


def test_progress_is_read_while_the_node_runs(begin, tmp_path: Path):
    def work() -> NodeOutcome:
        progress.report(3, 10, "rows", "file a")
        wait_for(tmp_path / "seen")
        return OK

    process = begin(work)
    found = until(process.read_progress)
    (tmp_path / "seen").write_text("yes")
    assert (found.done, found.total, found.unit, found.note) == (3, 10, "rows", "file a")
    assert end(process).status == Status.OK
    assert progress.PROGRESS_FILE_VARIABLE not in os.environ


def test_flags_of_the_program_are_not_seen_by_the_node(begin, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["fullpass", "run", "--root", "x"])
    assert end(begin(lambda: NodeOutcome(status=Status.OK, outputs=len(sys.argv)))).outputs == 1


def test_an_interrupted_node_cleans_up(begin, tmp_path: Path):
    def work() -> NodeOutcome:
        try:
            (tmp_path / "running").write_text("yes")
            while True:  # a signal just before a long sleep is seen only after it
                time.sleep(0.01)
        finally:
            (tmp_path / "cleaned").write_text("yes")

    process = begin(work)
    wait_for(tmp_path / "running")
    node_process.interrupt(process)
    assert end(process).status == Status.INTERRUPTED
    assert (tmp_path / "cleaned").exists()


def test_a_node_that_swallows_the_interrupt_can_be_killed(begin, tmp_path: Path):
    def work() -> NodeOutcome:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / "running").write_text("yes")
        time.sleep(3600)
        return OK

    process = begin(work)
    wait_for(tmp_path / "running")
    node_process.interrupt(process)
    assert node_process.wait_any([process], timeout=0.3) == []
    node_process.kill(process)
    assert end(process).status == Status.FAILED


def test_children_that_a_node_leaves_behind_are_ended(begin, tmp_path: Path):
    def work() -> NodeOutcome:
        child = subprocess.Popen(["sleep", "3600"])
        (tmp_path / "pid").write_text(str(child.pid))
        return OK

    end(begin(work))
    wait_until_gone(int((tmp_path / "pid").read_text()))


STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
OBEDIENT = "while True: time.sleep(0.01)"


@pytest.mark.parametrize("goes_on", [OBEDIENT, STUBBORN], ids=["obedient", "stubborn"])
def test_a_node_ends_with_its_runner_and_so_do_its_children(tmp_path: Path, goes_on: str):
    """The runner is killed without a chance to forward anything; its node is stopped all the same."""
    code = f"""
import os, pathlib, signal, subprocess, time
from fullpass.pipeline.running.execution import node_process
root = pathlib.Path({str(tmp_path)!r})
node_process.GRACE_SECONDS = 0.5
def work():
    child = subprocess.Popen(["sleep", "3600"])
    (root / "pids").write_text(f"{{os.getpid()}} {{child.pid}} .")
    {goes_on}
node_process.start("Node", work, log=root / "log", scratch=root)
time.sleep(3600)
"""
    runner = subprocess.Popen([sys.executable, "-c", code])
    node, child, _ = wait_for(tmp_path / "pids").split()
    assert is_alive(int(node)) and is_alive(int(child))
    runner.kill()
    runner.wait(300)
    wait_until_gone(int(node))
    wait_until_gone(int(child))


def test_waiting_returns_the_first_that_ends(begin):
    slow = begin(lambda: time.sleep(3600) or OK, "Slow")
    fast = begin(lambda: OK, "Fast")
    assert node_process.wait_any([slow, fast], timeout=300) == [fast]
    assert node_process.wait_any([slow], timeout=0.05) == []


def test_starting_leaves_no_thread_behind(begin):
    before = threading.active_count()
    end(begin(lambda: OK))
    assert threading.active_count() == before


@pytest.mark.parametrize("gpus", [False, True])
def test_gpus_are_seen_by_the_nodes_that_train_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: bool):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")

    def work() -> NodeOutcome:
        return NodeOutcome(status=Status.OK, outputs=len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))

    process = node_process.start("Node", work, log=tmp_path / "log", scratch=tmp_path, gpus=gpus)
    assert end(process).outputs == (2 if gpus else 1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
