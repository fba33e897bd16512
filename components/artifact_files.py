"""Reads files of artifacts: local files directly, others through `tfx.dsl.io.fileio`, whose import loads TensorFlow."""

import json
import os
from pathlib import Path
from typing import Any

from fullpass.components.ingest.sources.storage import is_address

PAGE = "report.html"
"""File name of the page in a Report or SpanComparison artifact."""


def read_bytes(path: str) -> bytes | None:
    """Returns the content of a file, or None if it does not exist."""
    if not is_address(path):
        file = Path(path)
        return file.read_bytes() if file.is_file() else None
    from tfx.dsl.io import fileio

    if not fileio.exists(path):
        return None
    with fileio.open(path, "rb") as opened:
        return opened.read()


def read_json(path: str) -> Any:
    """Returns the content of a JSON file.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    content = read_bytes(path)
    if content is None:
        raise FileNotFoundError(path)
    return json.loads(content)


def names_under(folder: str) -> list[str]:
    """Returns the paths of all files under a folder, relative to it and sorted; empty if it does not exist."""
    if is_address(folder):
        from tfx.dsl.io import fileio

        walked = fileio.walk(folder) if fileio.isdir(folder) else ()
    else:
        walked = os.walk(folder)
    return sorted(os.path.relpath(os.path.join(path, file), folder) for path, _, files in walked for file in files)
