import multiprocessing
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from pipeline.execution import locks
from preprocessing.errors import UserError

fork = multiprocessing.get_context("fork")


def hold(root: Path, connection) -> None:
    with locks.run_lock(root):
        connection.send("held")
        connection.recv()


@pytest.fixture
def other_run(tmp_path: Path):
    """A process that holds the root until it is sent something or killed."""
    ours, theirs = fork.Pipe()
    process = fork.Process(target=hold, args=(tmp_path, theirs))
    process.start()
    assert ours.recv() == "held"
    yield process, ours
    process.kill()
    process.join(5)


def test_a_second_run_is_refused_and_told_who_holds_the_root(tmp_path: Path, other_run):
    process, _ = other_run
    with pytest.raises(UserError) as refused, locks.run_lock(tmp_path):
        pass
    assert f"process {process.pid} on {socket.gethostname()}, since 2" in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_run_that_waits_gets_the_root_when_it_is_free(tmp_path: Path, other_run):
    _, connection = other_run
    got = fork.Event()

    def wait_for_it() -> None:
        with locks.run_lock(tmp_path, wait=True):
            got.set()

    waiting = fork.Process(target=wait_for_it)
    waiting.start()
    assert not got.wait(0.3)
    connection.send("release")
    assert got.wait(5)
    waiting.join()


def test_the_lock_of_a_killed_run_is_gone(tmp_path: Path, other_run):
    process, _ = other_run
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with locks.run_lock(tmp_path):
        pass


def test_the_lock_is_free_after_an_error(tmp_path: Path):
    with pytest.raises(ZeroDivisionError), locks.run_lock(tmp_path):
        raise ZeroDivisionError
    with locks.run_lock(tmp_path):
        pass


def test_a_missing_root_is_created(tmp_path: Path):
    with locks.run_lock(tmp_path / "runs" / "taxi"):
        assert (tmp_path / "runs" / "taxi").is_dir()


def test_exclusive_sections_of_two_processes_do_not_overlap(tmp_path: Path):
    """Four processes each read, wait and write a counter 10 times: no increment is lost."""
    counter = tmp_path / "counter"
    counter.write_text("0")

    def add() -> None:
        for _ in range(10):
            with locks.exclusive(tmp_path / "lock"):
                value = int(counter.read_text())
                time.sleep(0.001)
                counter.write_text(str(value + 1))

    processes = [fork.Process(target=add) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert counter.read_text() == "40"
