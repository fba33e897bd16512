"""File locks between processes, which the kernel releases when their holder ends.

`exclusive` is a plain lock. `holding` locks a folder and records its holder.

Both use `flock`, which Linux releases when the last process that has the file open ends, kill -9 included. NFS (without
`nolock` and `local_lock`) and CIFS share the lock between hosts. FUSE file systems (object stores mounted as folders)
may limit it to one host; there, the holder recorded in the file replaces the lock between hosts.
"""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.base.folders import open_lock

_MOUNTS = Path("/proc/self/mounts")
_LOCK = "the lock"
_KEPT_TO_A_HOST = ("nolock", "local_lock=all", "local_lock=flock")


@dataclass(frozen=True)
class Holder:
    """The holder of a lock.

    Attributes:
        pid: Process id on `host`.
        since: The time when the lock was acquired, local time with offset, ISO 8601 to the second.
    """

    pid: int
    host: str
    since: str
    what: str = "a run"

    def __str__(self) -> str:
        if self.host == "unknown":
            return self.what
        return f"{self.what}, process {self.pid} on {self.host}, since {self.since}"


_UNKNOWN = Holder(pid=0, host="unknown", since="unknown", what="a process whose record is damaged")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Waits for the lock on the file `path` and holds it against all other processes and threads."""
    with _held(open_lock(path), fcntl.LOCK_EX):
        yield


@contextmanager
def for_reading(path: Path) -> Iterator[None]:
    """Like `exclusive`, for one who only reads: a folder that cannot be written needs no lock file."""
    if os.access(path.parent, os.W_OK):
        with exclusive(path):
            yield
        return
    with ExitStack() as held:
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            held.enter_context(_held(descriptor, fcntl.LOCK_SH))
        yield


@contextmanager
def _held(descriptor: int, kind: int) -> Iterator[None]:
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def holding(
    lock: Path, *, what: str, tell: Callable[[str], None], wait: bool = True, instead: str = ""
) -> Iterator[None]:
    """Locks the folder of a lock file, and records in the file who holds it.

    Processes forked under the lock hold it until they end.

    Args:
        what: What holds the lock, for the messages to others.
        tell: Called with a line that names the holder of the lock, before it waits.
        instead: What to do if another holds the lock; only needed if `wait` is false.

    Raises:
        UserError: The folder is locked and `wait` is false, or another host left it locked on a file system that does
            not share locks; the message names the holder.
    """
    descriptor = open_lock(lock)
    try:
        _acquire(descriptor, lock.parent, wait=wait, tell=tell, instead=instead)
        _refuse_another_host(descriptor, lock)
        _record_holder(descriptor, what)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def shared_between_hosts(folder: Path, mounts: str) -> bool:
    """Returns whether a lock on a file in `folder` works between hosts, or the folder is on a local disk.

    Args:
        folder: An absolute path without symbolic links.
        mounts: Lines as in /proc/self/mounts: device, folder, type, options.
    """
    entries = [line.split() for line in mounts.splitlines()]
    around = [entry for entry in entries if len(entry) > 3 and folder.is_relative_to(_unescaped(entry[1]))]
    if not around:
        return True
    # If several mounts are on the same folder, the last one hides the others.
    _, _, kind, options = max(reversed(around), key=lambda entry: len(_unescaped(entry[1])))[:4]
    return not kind.startswith("fuse") and not set(_KEPT_TO_A_HOST) & set(options.split(","))


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ")


def _acquire(descriptor: int, folder: Path, *, wait: bool, tell: Callable[[str], None], instead: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read_holder(descriptor) or "its process has not written its record yet"
        if not wait:
            raise UserError(f"{folder} is held by another: {holder}.\n{instead}") from None
        tell(f"Waiting for {folder}, held by another: {holder}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _refuse_another_host(descriptor: int, lock: Path) -> None:
    """Refuses a folder that another host recorded as held, if the file system does not share locks between hosts.

    A holder that ends normally removes its record. On file systems that share locks, a remaining record belongs to a
    dead process.
    """
    holder = _read_holder(descriptor)
    if holder is None or holder.host == socket.gethostname():
        return
    if _MOUNTS.exists() and not shared_between_hosts(lock.parent.resolve(), _MOUNTS.read_text(encoding="utf-8")):
        raise UserError(
            f"{lock.parent} was locked by another host and not released: {holder}. The file system does not share "
            f"locks between hosts, so this host cannot see whether that process still runs.\n"
            f"If it does not, delete {lock}."
        )


def _record_holder(descriptor: int, what: str) -> None:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    holder = Holder(pid=os.getpid(), host=socket.gethostname(), since=since, what=what)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, state_file.encode(asdict(holder)), 0)


def _read_holder(descriptor: int) -> Holder | None:
    """Returns the recorded holder of the lock; None before it is recorded, and after the holder has ended."""
    content = os.pread(descriptor, 4096, 0)
    if not content:
        return None
    try:
        return state_file.validate(state_file.decode(content, _LOCK, ""), Holder, _LOCK, "")
    except state_file.DamagedState:
        return _UNKNOWN
