"""The files of the request log: written under a name that readers skip, and complete under their final one."""

import fcntl
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from fullpass.components.serving_log.columns import OPEN

_LINES = ".jsonl"
_NUMBERS = itertools.count(1)
Naming = Callable[[Path], None]
"""Gives a complete file its final name, and perhaps another format."""


def final_name(path: Path) -> Path:
    """Returns the name of a file of JSON lines when it is complete."""
    return path.with_name(path.name.removesuffix(OPEN))


def name_as_complete(path: Path) -> None:
    """Gives a complete file its final name."""
    os.rename(path, final_name(path))


class OpenFile:
    """A file that is being written; the process that writes it holds its lock.

    Attributes:
        size: Bytes that are whole lines.
        since: When it was opened, by the monotonic clock.
    """

    def __init__(self, folder: Path, day: str):
        """Opens a file of a day, whose folder is made.

        Raises:
            OSError: The folder cannot be written.
        """
        name = f"{datetime.now(UTC):%H%M%S.%f}-{os.getpid()}-{next(_NUMBERS)}{_LINES}{OPEN}"
        self._path = folder / day / name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # It gets the name that others look for with the lock held.
        started = self._path.with_name(f".{name}")
        self._descriptor = os.open(started, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o640)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.rename(started, self._path)
        self.size, self.since = 0, time.monotonic()

    def write(self, lines: bytes) -> None:
        """Appends whole lines, all of them or none.

        Raises:
            OSError: The disk is full, or fails.
        """
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(lines)

    def finish(self, how: Naming) -> None:
        """Closes the file and gives it its final name; one without lines is removed.

        Raises:
            OSError: The disk is full, or fails; the file keeps its name, and `complete_files` tries again.
        """
        try:
            _finish(self._path, self.size, how)
        finally:
            os.close(self._descriptor)


def complete_files(folder: Path, how: Naming = name_as_complete) -> dict[Path, int]:
    """Completes the files that killed processes left, without a torn last line.

    A file that a process writes is left alone. Both `fullpass serve` and a reader may call this at any time.

    Args:
        folder: The folder of the log.

    Returns:
        Each file, as it was called -> the bytes of its torn line, or 0.
    """
    found: dict[Path, int] = {}
    for path in sorted(folder.glob(f"*/*{_LINES}{OPEN}")):
        with suppress(FileNotFoundError), _unused(path) as descriptor:
            if descriptor is not None:
                size = _end_of_lines(descriptor)
                torn = os.fstat(descriptor).st_size - size
                os.ftruncate(descriptor, size)
                _finish(path, size, how)
                found[path] = torn
    return found


@contextmanager
def _unused(path: Path) -> Iterator[int | None]:
    """Opens a file and locks it; yields None if a process writes it, or has finished it meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor if os.path.samestat(os.fstat(descriptor), os.stat(path)) else None
    except BlockingIOError:
        yield None
    finally:
        os.close(descriptor)


def _end_of_lines(descriptor: int, block: int = 1 << 16) -> int:
    """Returns the bytes up to the last line break."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - block)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _finish(path: Path, size: int, how: Naming) -> None:
    if size:
        how(path)
    else:
        path.unlink()
