"""Folders of this machine without following links, and shared folders of small files at any address.

The functions list, measure, remove and lock entries of a folder, and never follow symbolic links. Their paths are
absolute, below a folder whose own path has no link. A folder that is reached through a link has no entries here.
Removing a link leaves its target unchanged.
"""

import errno
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.files import BLOCK_BYTES, PENDING, is_address, local_path, pending_file


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
        why = f"{error.strerror or error}. Give this user access to it and its folder"
        if path.is_symlink():
            why = "it is a link. Remove it"
        raise UserError(f"{path}: the lock cannot be opened: {why}.") from error


def _without_links(folder: Path) -> bool:
    return Path(os.path.realpath(folder)) == folder


class Folder:
    """Files by name, with `/` between subfolders. Writes are atomic."""

    def __init__(self, path: str) -> None:
        """Opens the folder.

        Args:
            path: A path, or an address such as s3://bucket/folder.

        Raises:
            UserError: The driver of the address is not installed.
        """
        import fsspec.core  # takes 50 ms

        self.path = local_path(path)
        self._local = not is_address(self.path)
        with prefix_errors(path):
            try:
                self._files, self._root = fsspec.core.url_to_fs(self.path)
            except ImportError as error:
                raise UserError(f"its driver is not installed: {error}.") from error

    def names(self, inside: str = "") -> list[str]:
        """Returns the sorted names of the files directly in a subfolder; empty if it does not exist."""
        names = self._entries(inside, "file")
        return sorted(name for name in names if not name.startswith(".") and not name.endswith(PENDING))

    def folders(self) -> list[str]:
        """Returns the sorted names of the subfolders; empty if the folder does not exist."""
        return sorted(self._entries("", "directory"))

    def _entries(self, inside: str, kind: str) -> list[str]:
        folder = f"{self._root}/{inside}".rstrip("/")
        with prefix_errors(self.path):
            if not self._files.isdir(folder):
                return []
            self._files.invalidate_cache(folder)
            listing = self._files.ls(folder, detail=True)
        return [PurePosixPath(entry["name"]).name for entry in listing if entry["type"] == kind]

    def fetch(self, inside: str, target: Path) -> None:
        """Copies a subfolder and all that is in it to a new folder of this machine."""
        with prefix_errors(f"{self.path}/{inside}"):
            self._files.get(f"{self._root}/{inside}".rstrip("/"), str(target), recursive=True)

    def read(self, name: str) -> bytes | None:
        """Returns the content of a file, or None if it does not exist."""
        with prefix_errors(f"{self.path}/{name}"):
            try:
                return self._files.cat_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, and replaces an earlier one."""
        self.copy(io.BytesIO(content), name)

    def copy(self, source: IO[bytes], name: str) -> None:
        """Copies an open file of any size to a file, and replaces an earlier one."""
        with prefix_errors(f"{self.path}/{name}"):
            if not self._local:
                with self._files.open(f"{self._root}/{name}", "wb") as file:  # the object appears on close
                    shutil.copyfileobj(source, file, BLOCK_BYTES)
                return
            target = Path(self._root) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with pending_file(target) as pending, pending.open("wb") as file:
                shutil.copyfileobj(source, file, BLOCK_BYTES)

    def remove(self, name: str) -> None:
        """Removes a file if it exists; another run may have removed it."""
        with prefix_errors(f"{self.path}/{name}"):
            try:
                self._files.rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return
