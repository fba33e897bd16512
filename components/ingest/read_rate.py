"""Progress and speed of an ingestion, over all its workers."""

import os
import time
from collections.abc import Sequence

from fullpass.base.progress import WorkerCounts, report
from fullpass.components.ingest.sources.files import SourceFile

_MB = 1 << 20
_LEAST_SECONDS = 1e-3
"""Time of a part that took no measurable time, so that there is a rate."""


class ReadRate:
    """Counts the rows and bytes that this process has read, and reports the sum over all processes of the node."""

    def __init__(self, files: Sequence[SourceFile]):
        self._total = sum(file.size for file in files) if all(file.size for file in files) else 0
        self._started = time.time()
        self._counts = WorkerCounts("ingested")
        self._rows = self._bytes = 0

    def report(self, rows: int, consumed: int, note: str) -> None:
        """Reports the rows and bytes read so far, at most at the rate of `report`.

        Args:
            consumed: Number of bytes of its file so far; 0 if the reader does not report them.
        """
        of_process = (self._rows + rows, self._bytes + consumed, self._started)
        shares = self._counts.of_all(str(os.getpid()), of_process)
        if not shares:
            return
        rows, consumed = (int(sum(share[index] for share in shares)) for index in (0, 1))
        started = min(share[2] for share in shares)
        speed = f"{rows / max(time.time() - started, _LEAST_SECONDS):,.0f} rows/s"
        if self._total and consumed:
            report(min(consumed, self._total) // _MB, -(-self._total // _MB), "MB", f"{rows:,} rows, {speed}, {note}")
        else:
            report(rows, None, "rows", f"{speed}, {note}")

    def add_part(self, rows: int, size: int) -> None:
        """Adds a completely read part to the counts; `size` is in bytes."""
        self._rows += rows
        self._bytes += size
