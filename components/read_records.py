"""Reads files of raw examples batch by batch, and reports the progress of a node."""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import tensorflow as tf

from fullpass.base.progress import WorkerCounts, report
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from fullpass.trainer.input.raw_column_files import find_raw_columns
from fullpass.trainer.records.column_files import DamagedColumns
from fullpass.trainer.records.record_files import record_batches

_Parsed = TypeVar("_Parsed")
_LOG = logging.getLogger(__name__)


class RecordReader:
    """Reads files, and reports the progress of all its copies together: Beam pickles one for each worker.

    Args:
        note: Text about the current step, shown with the progress.
        rows: The rows of all files, if they are known.
        batch_bytes: The largest size of a batch of more than one example.
        dtypes: Those of the columns that are read in place of the serialized examples, where Ingest has written them;
            None reads the examples always.
    """

    def __init__(
        self,
        note: str,
        rows: int | None,
        batch_rows: int = 8192,
        batch_bytes: int = BATCH_BYTES,
        dtypes: Mapping[str, tf.DType] | None = None,
    ):
        self._note = note
        self._rows = rows
        self._limits = {"rows": batch_rows, "most_bytes": batch_bytes}
        self._dtypes = dtypes
        self._counts, self._copy = WorkerCounts(uuid.uuid4().hex), ""
        self._done = 0

    def batches(self, path: str) -> Iterator[Any]:
        """Yields the rows of a file, `RawRows`: serialized examples or their columns; none for an empty path.

        Raises:
            UserError: The file is damaged.
        """
        if not path:
            return
        self._copy = self._copy or uuid.uuid4().hex
        for rows in self._batches(path):
            yield rows
            self._done += len(rows)
            counts = self._counts.of_all(self._copy, [self._done], last=self._done == self._rows)
            if counts:
                report(int(sum(done for (done,) in counts)), self._rows, "rows", self._note)

    def _batches(self, path: str) -> Iterator[Any]:
        columns, given = None if self._dtypes is None else find_raw_columns(path, self._dtypes), 0
        if columns is not None:
            try:
                for batch in columns.batches(**self._limits):
                    yield batch
                    given += 1
                return
            except DamagedColumns as error:
                _LOG.warning("%s", error)
        yield from islice(record_batches(path, **self._limits), given, None)

    def parsed(self, path: str, parse: Callable[[Any], _Parsed]) -> Iterator[_Parsed]:
        """Yields parsed batches; a thread parses the next one while one is used, as both run C++ without the GIL."""
        batches = map(parse, self.batches(path))
        with ThreadPoolExecutor(1) as thread:
            future = thread.submit(list, islice(batches, 1))
            while batch := future.result():
                future = thread.submit(list, islice(batches, 1))
                yield batch[0]
