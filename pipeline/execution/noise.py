"""Keeps what libraries print while they are imported out of the user's sight, but not out of reach."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def noise_to(path: Path) -> Iterator[None]:
    """Sends everything written to standard error to a file, that of C++ libraries too.

    Args:
        path: of the file, appended to; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
