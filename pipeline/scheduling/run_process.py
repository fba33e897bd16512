"""Starts `fullpass run` in a separate process and session.

The run and its nodes inherit a locked file. While the lock is held, a process of the run is alive, even if the
scheduler that started it has ended.
"""

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fullpass.pipeline.root.layout import IN_FLIGHT_LOCK

_LOGS_KEPT = 200
"""Logs of scheduled runs that stay: half a year of daily ones."""


class RunProcess:
    """A run that this process started."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal; None while the run continues."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Waits up to `seconds`; returns the exit status, or None if the run still continues."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, seconds: float = 60.0) -> None:
        """Interrupts the nodes of the run, whose finished work is kept; kills what is alive after `seconds`."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            if self.wait(seconds) is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self.wait(seconds)


def start(command: list[str], *, folder: Path, log: Path, environment: Mapping[str, str]) -> RunProcess:
    """Starts a run.

    Args:
        command: The command line from `RunRequest.command`.
        folder: The folder of the lock that the run holds.

    Raises:
        BlockingIOError: Another run is in flight.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    try:
        with log.open("ab") as printed:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
                pass_fds=[lock],
            )
    finally:
        os.close(lock)
    for old in sorted(log.parent.glob("*.log"))[:-_LOGS_KEPT]:
        old.unlink(missing_ok=True)
    return RunProcess(process)


def in_flight(folder: Path) -> bool:
    """Returns whether a run that was started for `folder` is still alive."""
    try:
        os.close(_locked(folder))
    except BlockingIOError:
        return True
    return False


def _locked(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / IN_FLIGHT_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor
