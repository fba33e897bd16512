"""Redirects the output of libraries during import to a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fullpass.base.processes import flush_streams


@contextmanager
def noise_to(path: Path) -> Iterator[None]:
    """Appends standard error, including that of C++ libraries, to the file `path`, whose folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flush_streams()
    kept = os.dup(2)
    try:
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        flush_streams()
        os.dup2(kept, 2)
        os.close(kept)
