"""Locks and removes the folders of caches on disk.

A reader of a cache holds a shared lock on its file `lock`. A folder whose lock is held is not removed.
"""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

LOCK = "lock"
_UNLOCKED_SECONDS = 3600


class Lock:
    """A lock file, which stays locked until `close` or the end of this object."""

    def __init__(self, path: Path):
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT)

    def lock(self, kind: int) -> bool:
        """Takes the lock without waiting, fcntl.LOCK_SH or LOCK_EX; returns whether it was free."""
        try:
            fcntl.flock(self._descriptor or -1, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    __del__ = close


def take_lock(folder: Path, kind: int) -> Lock | None:
    """Returns the locked lock file of a folder, or None if it is held or the folder is gone."""
    try:
        lock = Lock(folder / LOCK)
    except FileNotFoundError:
        return None
    if not lock.lock(kind):
        lock.close()
        return None
    return lock


def caches(root: Path, split: str) -> Iterator[Path]:
    """Yields the folders of the complete caches of a split."""
    if root.is_dir():
        yield from (folder for folder in root.iterdir() if folder.name.rpartition("-")[0] == split and folder.is_dir())


def remove_others(kept: Path, split: str) -> None:
    """Removes all caches of a split but `kept`, except those that another process reads."""
    for folder in caches(kept.parent, split):
        if folder != kept:
            remove(folder)


def remove_abandoned(root: Path) -> None:
    """Removes the incomplete caches of writers that died."""
    for folder in root.glob(".*.part") if root.is_dir() else ():
        if (folder / LOCK).exists() or time.time() - folder.stat().st_mtime > _UNLOCKED_SECONDS:
            remove(folder)


def remove(folder: Path) -> None:
    """Removes a cache that is not in use: renames it to a hidden name, then deletes it."""
    lock = take_lock(folder, fcntl.LOCK_EX)
    if lock is None:
        return
    hidden = folder.with_name(f".removed-{uuid.uuid4().hex[:8]}.part")
    try:
        os.rename(folder, hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    except OSError:
        return  # another process has removed it
    finally:
        lock.close()
