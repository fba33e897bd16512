"""Servers of a check: started, waited for, and ended with it, however it ends."""

import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import pytest

from tests import REPOSITORY

# A check that is told to end ends its servers first, as on Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def needed(variable: str, what: str) -> Path:
    """Returns the file or folder that a variable names; ends the check, as failed, where there is none."""
    given = os.environ.get(variable, "")
    if not given or not Path(given).exists():
        pytest.exit(f"{variable}={given!r}: no such file or folder. {what}", returncode=2)
    return Path(given).resolve()


def free_port() -> int:
    """Returns a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(
    command: Sequence[str],
    log: Path,
    ready: Callable[[], bool],
    *,
    seconds: float,
    env: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Runs a server, with all that it starts, while the block runs.

    Raises:
        RuntimeError: It ended, or was not ready in time; the end of its log is in the message.
    """
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(env or {})}, start_new_session=True
        )
    try:
        _wait(process, ready, log, seconds)
        yield
    finally:
        _end(process)


def _wait(process: subprocess.Popen, ready: Callable[[], bool], log: Path, seconds: float) -> None:
    last = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > last:
            how = f"was not ready in {seconds:.0f} s" if process.returncode is None else f"ended: {process.returncode}"
            raise RuntimeError(f"{process.args[0]} {how}. {log} ends:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.2)


def _end(process: subprocess.Popen) -> None:
    """Ends the process and its children: they are a group of their own, by its number."""
    for stop in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, stop)
            process.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def listens(port: int) -> Callable[[], bool]:
    """Returns what tells whether somebody listens on a port of loopback."""

    def ready() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return ready


def answers(url: str, text: str) -> Callable[[], bool]:
    """Returns what tells whether an address of loopback answers with a text in it."""

    def ready() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return text in answer.read().decode()
        except (URLError, OSError):
            return False

    return ready


@contextmanager
def worker_pool(log: Path) -> Iterator[int]:
    """Runs Beam's pool of workers, as the image of the nodes does beside a task manager; gives its port."""
    port = free_port()
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # it starts workers as `python`
        "PYTHONPATH": str(REPOSITORY),
        "TF_USE_LEGACY_KERAS": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    with server(command, log, listens(port), seconds=120, env=env):
        yield port


@contextmanager
def forwards(host: str, port: int, target: int) -> Iterator[None]:
    """Passes what arrives at an address of this machine on to a port of localhost, and back, while the block runs."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("localhost", target)) as other:
                others = {self.request: other, other: self.request}
                while True:
                    for one in select.select(list(others), [], [])[0]:
                        if not (data := one.recv(1 << 16)):
                            return
                        others[one].sendall(data)

    with socketserver.ThreadingTCPServer((host, port), Passing) as passing:
        passing.daemon_threads = True
        thread = threading.Thread(target=passing.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            passing.shutdown()
            thread.join()
