"""File locks between processes: they vanish with their holder, however it ends.

`exclusive` is the plain lock; `run_lock` is the lock on a pipeline root, and says who holds it.

Both are `flock`. Linux gives it up when the last process that has the file open ends, kill -9 included, so nothing is
left behind that somebody would have to judge dead. NFS (without `nolock` and `local_lock`) and CIFS share it between
hosts. File systems of FUSE (object stores mounted as folders) may keep it to one host; there the signature in the file
stands in for it.
"""

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from preprocessing.errors import UserError

RUN_LOCK_FILE = ".run.lock"
_MOUNTS = Path("/proc/self/mounts")
_KEPT_TO_A_HOST = ("nolock", "local_lock=all", "local_lock=flock")


@dataclass(frozen=True)
class Holder:
    """Who holds a run lock.

    Attributes:
        pid: Process id on `host`.
        host: Name of the machine.
        since: When the lock was taken, local time with offset, ISO 8601 to the second.
        what: What it does, as `a run`.
    """

    pid: int
    host: str
    since: str
    what: str = "a run"

    def __str__(self) -> str:
        return f"{self.what}, process {self.pid} on {self.host}, since {self.since}"


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
def run_lock(
    root: Path,
    *,
    what: str = "a run",
    wait: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[None]:
    """Holds `root` for one run, or for whatever else must not meet a run there.

    Processes forked while it is held keep it held until they end too, so a root is never free while a node of
    a killed run still writes into it.

    Args:
        root: The pipeline root, created where missing.
        what: What holds it, for others to read.
        wait: Wait for whoever holds it, instead of refusing.
        tell: Told in a line for whom it waits.

    Raises:
        UserError: Another holds `root` and `wait` is false; names the holder.
    """
    root.mkdir(parents=True, exist_ok=True)
    descriptor = _open(root / RUN_LOCK_FILE)
    try:
        _acquire(descriptor, root, wait=wait, tell=tell)
        _refuse_another_host(descriptor, root)
        _sign(descriptor, what)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def shared_between_hosts(folder: Path, mounts: str) -> bool:
    """Returns whether a lock on a file in `folder` keeps processes of other hosts out, or no other host sees it.

    Args:
        folder: absolute, without symbolic links.
        mounts: lines as in /proc/self/mounts: device, folder, type, options.
    """
    entries = [line.split() for line in mounts.splitlines()]
    around = [entry for entry in entries if len(entry) > 3 and folder.is_relative_to(_unescaped(entry[1]))]
    if not around:
        return True
    # The last of equals is the one mounted over the others.
    _, _, kind, options = max(reversed(around), key=lambda entry: len(_unescaped(entry[1])))[:4]
    return not kind.startswith("fuse") and not set(_KEPT_TO_A_HOST) & set(options.split(","))


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ")


def _acquire(descriptor: int, root: Path, *, wait: bool, tell: Callable[[str], None]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read_holder(descriptor) or "its process has not signed yet"
        if not wait:
            raise UserError(
                f"{root} is held by another: {holder}.\n"
                "Wait for it to end (--wait does), stop it, or give this run another root."
            ) from None
        tell(f"Waiting for {root}, held by another: {holder}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _refuse_another_host(descriptor: int, root: Path) -> None:
    """Refuses a root whose lock is free on this host, was signed on another one, and tells nothing about that one.

    A holder that ends well takes its signature away; on other file systems one that stands is of a dead process.
    """
    holder = _read_holder(descriptor)
    if holder is None or holder.host == socket.gethostname():
        return
    if _MOUNTS.exists() and not shared_between_hosts(root.resolve(), _MOUNTS.read_text(encoding="utf-8")):
        raise UserError(
            f"{root} was taken by another host and not given back: {holder}. The file system does not share locks "
            f"between hosts, so whether that process still lives cannot be seen from here.\n"
            f"If it does not, delete {root / RUN_LOCK_FILE}."
        )


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _sign(descriptor: int, what: str) -> None:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    holder = Holder(pid=os.getpid(), host=socket.gethostname(), since=since, what=what)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)


def _read_holder(descriptor: int) -> Holder | None:
    """Returns who signed the lock file; None between a holder's taking the lock and its signing, and after its end."""
    content = os.pread(descriptor, 4096, 0)
    return Holder(**json.loads(content)) if content else None
