"""Lists, measures, removes and locks what lies in a folder itself, never what a link in it leads to.

Paths are absolute, below a folder whose own path has no link. A folder that is reached through a link has no entries
here, and removing a link leaves its target as it is.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from fullpass.preprocessing.errors import UserError


def entries(folder: Path, pattern: str = "*") -> list[Path]:
    """Returns the sorted entries of a folder whose names match; none if it is gone, a file, or behind a link."""
    if not _without_links(folder):
        return []
    with suppress(FileNotFoundError, NotADirectoryError):
        return sorted(folder / name for name in os.listdir(folder) if fnmatchcase(name, pattern))
    return []


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def files(path: Path) -> Iterator[tuple[Path, int]]:
    """Yields a file, or every file below a folder, with its size in bytes; a link counts as a file of its own size."""
    below = (Path(folder) / name for folder, _, names in os.walk(path) for name in names) if is_folder(path) else [path]
    for file in below:
        with suppress(FileNotFoundError):  # another process may have removed it
            yield file, file.lstat().st_size


def modified(path: Path) -> float:
    """Returns when an entry itself was changed last, in seconds since 1970; infinity if it is gone."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")


def remove(path: Path) -> None:
    """Removes a file, a link or a folder; does nothing if it is gone, or lies behind a link.

    Raises:
        UserError: It may not be removed.
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
            f"{error.filename or path}: cannot be removed: {error.strerror or error}. Allow it and call gc again, "
            "which removes the rest."
        ) from error


def open_lock(path: Path) -> int:
    """Returns a descriptor of a lock file, which is created where it is missing.

    Raises:
        UserError: It cannot be opened, or is a link: a lock that is written would change the file it leads to.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        why = "it is a link" if path.is_symlink() else error.strerror or str(error)
        raise UserError(f"{path}: the lock cannot be opened: {why}. Remove it, or give this user the right.") from error


def _without_links(folder: Path) -> bool:
    return Path(os.path.realpath(folder)) == folder
