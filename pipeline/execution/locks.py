"""File locks between processes: they vanish with their holder, however it ends.

`exclusive` is the plain lock; `run_lock` is the lock of one run on a pipeline root, and says who holds it.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from preprocessing.errors import UserError

RUN_LOCK_FILE = ".run.lock"


@dataclass(frozen=True)
class Holder:
    """Who holds a run lock.

    Attributes:
        pid: Process id on `host`.
        host: Name of the machine.
        since: When the lock was taken, local time with offset, ISO 8601 to the second.
    """

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock file `path` to the exclusion of every other process and thread; waits for it."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def run_lock(root: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds `root` for one run.

    Processes forked while it is held keep it held until they end too, so a root is never free while a node of
    a killed run still writes into it.

    Args:
        root: The pipeline root, created where missing.
        wait: Wait for a run that holds it, instead of refusing.

    Raises:
        UserError: Another run holds `root` and `wait` is false; names the holder.
    """
    root.mkdir(parents=True, exist_ok=True)
    descriptor = _open(root / RUN_LOCK_FILE)
    try:
        _acquire(descriptor, root, wait=wait)
        _sign(descriptor)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, root: Path, *, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        holder = _read_holder(descriptor)
        raise UserError(
            f"Another run holds {root}: {holder or 'its process has not signed yet'}.\n"
            "Wait for it to end, stop it, or give this run another root."
        ) from None


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _sign(descriptor: int) -> None:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    holder = Holder(pid=os.getpid(), host=socket.gethostname(), since=since)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _read_holder(descriptor: int) -> Holder | None:
    """Returns who signed the lock file; None between a holder's taking the lock and its signing."""
    content = os.pread(descriptor, 4096, 0)
    return Holder(**json.loads(content)) if content else None
