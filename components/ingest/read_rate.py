"""Progress and speed of an ingestion, over all its workers."""

import contextlib
import glob
import os
import time
from collections.abc import Sequence
from pathlib import Path

from fullpass.base.files import write_atomically
from fullpass.base.progress import PROGRESS_FILE_VARIABLE, report
from fullpass.components.ingest.sources.files import SourceFile

_INTERVAL_SECONDS = 0.5
_MB = 1 << 20


class ReadRate:
    """Counts the rows and bytes that this process has read, and reports the sum over all processes of the node.

    Each process writes its counts to its own file next to the node's progress file, so no process waits for another.
    """

    def __init__(self, files: Sequence[SourceFile]):
        self._total = sum(file.size for file in files) if all(file.size for file in files) else 0
        self._started = time.time()
        self._reported = 0.0
        self._rows = self._bytes = 0

    def report(self, rows: int, consumed: int, note: str) -> None:
        """Reports the rows and bytes read so far, at most twice a second.

        Args:
            consumed: Number of bytes of its file so far; 0 if the reader does not report them.
        """
        now = time.time()
        path = os.environ.get(PROGRESS_FILE_VARIABLE)
        if not path or now - self._reported < _INTERVAL_SECONDS:
            return
        self._reported = now
        share = f"{self._rows + rows} {self._bytes + consumed} {self._started}"
        with contextlib.suppress(OSError):  # a node must not fail because its progress cannot be written
            write_atomically(Path(f"{path}.share-{os.getpid()}"), share)
        rows, consumed, started = _sum(glob.glob(f"{glob.escape(path)}.share-*"))
        speed = f"{rows / max(now - started, 1e-3):,.0f} rows/s"
        if self._total and consumed:
            report(min(consumed, self._total) // _MB, -(-self._total // _MB), "MB", f"{rows:,} rows, {speed}, {note}")
        else:
            report(rows, None, "rows", f"{speed}, {note}")

    def add_part(self, rows: int, size: int) -> None:
        """Adds a completely read part to the counts; `size` is in bytes."""
        self._rows += rows
        self._bytes += size


def _sum(paths: Sequence[str]) -> tuple[int, int, float]:
    """Returns the rows and bytes of all processes, and the start time of the first process."""
    shares = [Path(path).read_text(encoding="utf-8").split() for path in paths]
    return (
        sum(int(share[0]) for share in shares),
        sum(int(share[1]) for share in shares),
        min((float(share[2]) for share in shares), default=time.time()),
    )
