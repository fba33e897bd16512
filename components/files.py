"""Reads files of artifacts: those of this machine as they are, others by TFX's file systems, which take TensorFlow.

So what only tells of a model on this machine answers at once.
"""

import os
from pathlib import Path

from components.ingest.storage import is_address


def read_bytes(path: str) -> bytes | None:
    """Returns the content of a file, or None where it is not there."""
    if not is_address(path):
        file = Path(path)
        return file.read_bytes() if file.is_file() else None
    from tfx.dsl.io import fileio

    if not fileio.exists(path):
        return None
    with fileio.open(path, "rb") as opened:
        return opened.read()


def names_under(folder: str) -> list[str]:
    """Returns the paths of all files in a folder, from there on, sorted; none where it is not there."""
    if is_address(folder):
        from tfx.dsl.io import fileio

        places = fileio.walk(folder) if fileio.isdir(folder) else ()
    else:
        places = os.walk(folder)
    return sorted(os.path.relpath(os.path.join(place, file), folder) for place, _, files in places for file in files)
