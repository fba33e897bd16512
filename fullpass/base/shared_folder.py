"""A folder of small files shared between runs, on this machine or at any address that fsspec supports."""

import io
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import IO

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.files import is_address, local_path

_PENDING = ".part"
_COPY_BYTES = 4 << 20


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
        return sorted(name for name in names if not name.startswith(".") and not name.endswith(_PENDING))

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
                    shutil.copyfileobj(source, file, _COPY_BYTES)
                return
            target = Path(self._root) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{os.getpid()}{_PENDING}")
            with temporary.open("wb") as file:
                shutil.copyfileobj(source, file, _COPY_BYTES)
            os.replace(temporary, target)

    def remove(self, name: str) -> None:
        """Removes a file if it exists; another run may have removed it."""
        with prefix_errors(f"{self.path}/{name}"):
            try:
                self._files.rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return
