"""Lists, measures, removes and locks entries of a folder, and never follows symbolic links.

Paths are absolute, below a folder whose own path has no link. A folder that is reached through a link has no entries
here. Removing a link leaves its target unchanged.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from fullpass.base.errors import UserError


def entries(folder: Path, pattern: str = "*") -> list[Path]:
    """Returns the sorted matching entries of a folder; empty if it does not exist, is a file, or is behind a link."""
    if not _without_links(folder):
        return []
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(folder / name for name in os.listdir(folder) if fnmatchcase(name, pattern))
    return []


def is_folder(path: Path) -> bool:
    """Returns whether a path is a folder and no link to a folder."""
    return path.is_dir() and not path.is_symlink()


def files(path: Path) -> Iterator[tuple[Path, int]]:
    """Yields a file, or every file below a folder, with its size in bytes; a link counts as a file of its own size."""
    below = (Path(folder) / name for folder, _, names in os.walk(path) for name in names) if is_folder(path) else [path]
    for file in below:
        with suppress(FileNotFoundError):  # another process may have removed it
            yield file, file.lstat().st_size


def modified(path: Path) -> float:
    """Returns the modification time of the entry itself, in seconds since 1970; infinity if it does not exist."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")


def remove(path: Path) -> None:
    """Removes a file, a link or a folder; does nothing if it does not exist or is behind a link.

    Raises:
        UserError: The entry cannot be removed.
    """
    if not _without_links(path.parent):
        return
    try:
        if is_folder(path):
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"{error.filename or path}: cannot be removed: {error.strerror or error}. Correct the permissions and run "
            "gc again, which removes the rest."
        ) from error


def open_lock(path: Path) -> int:
    """Returns a descriptor of a lock file, which is created if it does not exist.

    Raises:
        UserError: The file cannot be opened, or is a link: writing the lock would change the target of the link.
        OSError: The file system is full or read-only.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno in (errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise
        why = "it is a link" if path.is_symlink() else error.strerror or str(error)
        raise UserError(f"{path}: the lock cannot be opened: {why}. Remove it, or give this user access.") from error


def _without_links(folder: Path) -> bool:
    return Path(os.path.realpath(folder)) == folder
