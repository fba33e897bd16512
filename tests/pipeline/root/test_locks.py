import errno
import json
import multiprocessing
import os
import signal
import socket
from pathlib import Path

import pytest

from fullpass.base import locks as file_locks
from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.pipeline.root import layout, locks

pytestmark = pytest.mark.integration

# Fresh processes: a fork of this one would inherit the locks of whatever threads earlier tests started.
spawn = multiprocessing.get_context("spawn")
LIMIT_SECONDS = 300


def hold(root: Path, connection) -> None:
    with locks.run_lock(root):
        connection.send("held")
        connection.recv()


def wait_for_it(root: Path, connection) -> None:
    connection.send("waiting")
    with locks.run_lock(root, wait=True):
        connection.send("got it")


def begin(target, root: Path):
    """Starts `target(root, connection)` in a process; returns that and our end of the connection."""
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=target, args=(root, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def hear(connection) -> str:
    assert connection.poll(LIMIT_SECONDS)
    return connection.recv()


def end(process) -> int | None:
    """Returns the exit code; None where it did not end in time."""
    process.join(LIMIT_SECONDS)
    return process.exitcode


@pytest.fixture
def other_run(tmp_path: Path):
    """A process that holds the root until it is sent something or killed."""
    process, connection = begin(hold, tmp_path)
    assert hear(connection) == "held"
    yield process, connection
    process.kill()
    assert end(process) is not None


def test_a_second_run_is_refused_and_told_who_holds_the_root(tmp_path: Path, other_run):
    process, _ = other_run
    with pytest.raises(UserError) as refused, locks.run_lock(tmp_path):
        pass
    assert f"a run, process {process.pid} on {socket.gethostname()}, since 2" in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_run_that_waits_gets_the_root_when_it_is_free(tmp_path: Path, other_run):
    _, held = other_run
    waiting, connection = begin(wait_for_it, tmp_path)
    assert hear(connection) == "waiting"
    assert not connection.poll(0.3)
    held.send("release")
    assert hear(connection) == "got it"
    assert end(waiting) == 0


def test_the_lock_of_a_killed_run_is_gone(tmp_path: Path, other_run):
    process, _ = other_run
    os.kill(process.pid, signal.SIGKILL)
    assert end(process) == -signal.SIGKILL
    with locks.run_lock(tmp_path):
        pass


def test_who_waits_is_told_for_whom(tmp_path: Path, other_run):
    process, connection = other_run
    told = []

    def tell(line: str) -> None:
        told.append(line)
        connection.send("release")

    with locks.run_lock(tmp_path, wait=True, tell=tell):
        pass
    assert len(told) == 1 and f"process {process.pid}" in told[0]


def test_the_signature_of_a_dead_process_is_replaced(tmp_path: Path, other_run):
    process, _ = other_run
    process.kill()
    assert end(process) is not None
    lock = tmp_path / layout.RUN_LOCK
    assert json.loads(lock.read_text())["pid"] == process.pid
    with locks.run_lock(tmp_path, what="fullpass gc"):
        signed = json.loads(lock.read_text())
        assert (signed["pid"], signed["what"]) == (os.getpid(), "fullpass gc")
    assert lock.read_text() == ""


def test_a_root_that_another_host_signed_is_refused_where_its_lock_cannot_be_seen(tmp_path: Path, monkeypatch):
    lock = tmp_path / layout.RUN_LOCK
    state_file.write(lock, {"pid": 7, "host": "elsewhere", "since": "2026-01-01T00:00:00+00:00", "what": "a run"})
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(file_locks, "_MOUNTS", mounts)
    mounts.write_text(f"bucket {tmp_path} fuse.s3fs rw 0 0\n")
    with pytest.raises(UserError, match="process 7 on elsewhere(?s:.)*delete .*run.lock"):
        locks.run_lock(tmp_path).__enter__()
    mounts.write_text("/dev/sda / ext4 rw 0 0\n")
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


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_lock_on_a_read_only_or_full_file_system_is_an_error_of_the_system(tmp_path, monkeypatch, number):
    def refuse(path, *_):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match=os.strerror(number)) as error, locks.run_lock(tmp_path):
        pass
    assert error.value.errno == number, "its sentence names a place to write, and nothing to remove"


def test_a_lock_that_this_user_may_not_open_is_told_without_the_advice_to_remove_it(tmp_path, monkeypatch):
    def refuse(path, *arguments):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(UserError, match=r"\.run\.lock: .*: Permission denied\. Give this user access") as raised,
        locks.run_lock(tmp_path),
    ):
        pass
    assert "emove" not in str(raised.value)
