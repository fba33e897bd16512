"""How far an ingestion is, over all its workers, and how fast."""

import glob
import os
import time
from collections.abc import Sequence

from components.ingest.files import SourceFile
from preprocessing.progress import PROGRESS_FILE_VARIABLE, report

_INTERVAL_SECONDS = 0.5
_MB = 1 << 20


class Pace:
    """Counts what this process has read, and reports it together with what its siblings have.

    Each process writes its own count beside the node's progress file, so that nobody waits for anybody.
    """

    def __init__(self, files: Sequence[SourceFile]):
        self._total = sum(file.size for file in files) if all(file.size for file in files) else 0
        self._started = time.time()
        self._told = 0.0
        self._rows = self._bytes = 0

    def tell(self, rows: int, consumed: int, note: str) -> None:
        """Reports what was read, twice a second at most.

        Args:
            rows: of the portion that is being read, so far.
            consumed: bytes of the files behind it, so far; 0 where the reader cannot tell.
            note: a few words more.
        """
        now = time.time()
        path = os.environ.get(PROGRESS_FILE_VARIABLE)
        if not path or now - self._told < _INTERVAL_SECONDS:
            return
        self._told = now
        _write(f"{path}.share-{os.getpid()}", self._rows + rows, self._bytes + consumed, self._started)
        rows, consumed, started = _sum(glob.glob(f"{glob.escape(path)}.share-*"))
        speed = f"{rows / max(now - started, 1e-3):,.0f} rows/s"
        if self._total and consumed:
            report(min(consumed, self._total) // _MB, -(-self._total // _MB), "MB", f"{rows:,} rows, {speed}, {note}")
        else:
            report(rows, None, "rows", f"{speed}, {note}")

    def add(self, rows: int, size: int) -> None:
        """Notes a part that is read to its end. size: bytes."""
        self._rows += rows
        self._bytes += size


def _write(path: str, rows: int, size: int, started: float) -> None:
    temporary = f"{path}.part"
    try:
        with open(temporary, "w", encoding="ascii") as file:
            file.write(f"{rows} {size} {started}")
        os.replace(temporary, path)
    except OSError:  # a node must not fail because nobody can be told how far it is
        return


def _sum(paths: Sequence[str]) -> tuple[int, int, float]:
    """Returns rows and bytes of all processes, and when the first began."""
    shares = []
    for path in paths:
        if not path.endswith(".part"):
            with open(path, encoding="ascii") as file:
                shares.append(file.read().split())
    return (
        sum(int(share[0]) for share in shares),
        sum(int(share[1]) for share in shares),
        min((float(share[2]) for share in shares), default=time.time()),
    )
