"""Remembers blessed models between runs, in a folder of small JSON files on a volume or in an object store."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from components.ingest.storage import is_address
from preprocessing.errors import UserError, blame


@dataclass(frozen=True)
class Blessed:
    """A blessed model. model, blessing: addresses of the artifacts. time: when it was recorded, ISO 8601 in UTC.
    made_from: digest of what it follows from; "" where an earlier version recorded it."""

    model: str
    blessing: str
    time: str
    made_from: str = ""


class Registry(Protocol):
    """Where blessed models are remembered, per pipeline."""

    def record(self, pipeline: str, model: str, blessing: str, made_from: str) -> bool:
        """Remembers a blessed model; returns False if it was known."""

    def newest(self, pipeline: str, *, made_from: str) -> Blessed | None:
        """Returns the newest blessed model that was made from something else, or None on a first run."""


class FolderRegistry:
    """One file per model, named by time and by what is remembered; nothing is ever changed in place."""

    def __init__(self, folder: str) -> None:
        """Takes a path or an address such as s3://bucket/folder."""
        import fsspec.core

        with blame(f"registry {folder}"):
            try:
                self._files, self._root = fsspec.core.url_to_fs(folder)
            except ImportError as error:
                raise UserError(f"its driver is not in the image: {error}.") from error
        self._local = not is_address(folder)

    def record(self, pipeline: str, model: str, blessing: str, made_from: str) -> bool:
        """See base class."""
        digest = hashlib.sha256(model.encode()).hexdigest()[:16]
        if any(name.endswith(f"-{digest}.json") for name in self._names(pipeline)):
            return False
        now = datetime.now(UTC)
        entry = Blessed(model, blessing, now.isoformat(timespec="seconds"), made_from)
        self._write(f"{self._folder(pipeline)}/{now:%Y%m%dT%H%M%S%f}Z-{digest}.json", json.dumps(asdict(entry)))
        return True

    def newest(self, pipeline: str, *, made_from: str) -> Blessed | None:
        """See base class."""
        for name in sorted(self._names(pipeline), reverse=True):
            entry = self._read(f"{self._folder(pipeline)}/{name}")
            if entry.made_from != made_from:
                return entry
        return None

    def _folder(self, pipeline: str) -> str:
        return f"{self._root}/{pipeline}/blessed"

    def _names(self, pipeline: str) -> list[str]:
        folder = self._folder(pipeline)
        if not self._files.isdir(folder):
            return []
        names = (path.rsplit("/", 1)[-1] for path in self._files.ls(folder, detail=False))
        return [name for name in names if name.endswith(".json") and not name.startswith(".")]

    def _read(self, path: str) -> Blessed:
        text = self._files.cat_file(path).decode()
        try:
            fields: Any = json.loads(text)
            return Blessed(**fields)
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}: no entry of a registry ({error}). Delete it. Received: {text[:80]!r}") from error

    def _write(self, path: str, text: str) -> None:
        if not self._local:
            self._files.pipe_file(path, text.encode())  # one request: an object appears whole
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.part")
        temporary.write_text(text)
        os.replace(temporary, target)
