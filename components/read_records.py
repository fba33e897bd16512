"""Reads TFRecord files of raw examples batch by batch, and reports the progress of a node."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from fullpass.base.progress import WorkerCounts, report
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from fullpass.trainer.records.record_files import record_batches

_Parsed = TypeVar("_Parsed")


class RecordReader:
    """Reads files, and reports the progress of all its copies together: Beam pickles one for each worker.

    Args:
        note: Text about the current step, shown with the progress.
        rows: The rows of all files, if they are known.
        batch_bytes: The largest size of a batch of more than one example.
    """

    def __init__(self, note: str, rows: int | None, batch_rows: int = 8192, batch_bytes: int = BATCH_BYTES):
        self._note = note
        self._rows = rows
        self._batch_rows, self._batch_bytes = batch_rows, batch_bytes
        self._counts, self._copy = WorkerCounts(uuid.uuid4().hex), ""
        self._done = 0

    def batches(self, path: str) -> Iterator[list[bytes]]:
        """Yields the serialized examples of a file; none for an empty path.

        Raises:
            UserError: The file is damaged.
        """
        if not path:
            return
        self._copy = self._copy or uuid.uuid4().hex
        for records in record_batches(path, rows=self._batch_rows, most_bytes=self._batch_bytes):
            yield records
            self._done += len(records)
            counts = self._counts.of_all(self._copy, [self._done], last=self._done == self._rows)
            if counts:
                report(int(sum(done for (done,) in counts)), self._rows, "rows", self._note)

    def parsed(self, path: str, parse: Callable[[list[bytes]], _Parsed]) -> Iterator[_Parsed]:
        """Yields parsed batches; a thread parses the next one while one is used, as both run C++ without the GIL."""
        batches = map(parse, self.batches(path))
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(list, islice(batches, 1))
            while batch := future.result():
                future = thread.submit(list, islice(batches, 1))
                yield batch[0]
