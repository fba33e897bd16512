"""A folder of small files that outlive a run, on this machine or at any address that fsspec knows."""

import os
from pathlib import Path, PurePosixPath

from components.ingest.storage import is_address, local_path
from preprocessing.errors import UserError, blame

_PENDING = ".part"


class Folder:
    """Files by name, `/` for folders in it. A reader finds a file whole or not at all."""

    def __init__(self, place: str) -> None:
        """Takes a path, or an address such as s3://bucket/folder.

        Raises:
            UserError: The driver of the address is not installed.
        """
        import fsspec.core  # takes 50 ms

        self.place = local_path(place)
        self._local = not is_address(self.place)
        with blame(place):
            try:
                self._files, self._root = fsspec.core.url_to_fs(self.place)
            except ImportError as error:
                raise UserError(f"its driver is not installed: {error}.") from error

    def names(self, inside: str = "") -> list[str]:
        """Returns the names of the files right in a folder of it, sorted; none where it is not there."""
        folder = f"{self._root}/{inside}".rstrip("/")
        with blame(self.place):
            if not self._files.isdir(folder):
                return []
            self._files.invalidate_cache(folder)
            found = self._files.ls(folder, detail=True)
        names = (PurePosixPath(entry["name"]).name for entry in found if entry["type"] == "file")
        return sorted(name for name in names if not name.startswith(".") and not name.endswith(_PENDING))

    def read(self, name: str) -> bytes | None:
        """Returns the content of a file, or None where it is not there."""
        with blame(f"{self.place}/{name}"):
            try:
                return self._files.cat_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Puts a file in place of an earlier one."""
        path = f"{self._root}/{name}"
        with blame(f"{self.place}/{name}"):
            if not self._local:
                self._files.pipe_file(path, content)  # one request: an object appears whole
                return
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{os.getpid()}{_PENDING}")
            temporary.write_bytes(content)
            os.replace(temporary, target)

    def remove(self, name: str) -> None:
        """Removes a file; one that is not there is no error, since another run may have removed it."""
        with blame(f"{self.place}/{name}"):
            try:
                self._files.rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return
