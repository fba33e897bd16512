"""Stores the rows of a split as they are read: in memory while they fit, beyond that in a file on disk."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fullpass.trainer.input.cache.growing_rows import GrowingRows
from fullpass.trainer.input.cache.row_file import CacheFailed, RowFile
from fullpass.trainer.records.blocks import Layout, Packed, memory_bytes, row_count

_BLOCK_BYTES = 32 << 10
"""Bytes of the rows of a block. A window of shuffled rows has hundreds of blocks from everywhere in the data, and a
read of so many bytes takes a disk little longer than one of a page."""


class RowStore:
    """Stores rows in memory up to a limit and moves all to disk beyond it; if that fails, stores none.

    Attributes:
        taken: The bytes of the rows in memory.
        block_rows: The rows of a block, which are neighbors in every epoch; wherever rows are stored, the same number.
        status: A message that states where the rows are stored, and why.
    """

    def __init__(self, layout: Layout, memory_limit: int, folder: Path | None):
        """Begins with an empty store in memory.

        Args:
            folder: The folder of the file on disk; None writes none.
        """
        self.taken = 0
        self.block_rows = 1
        self.status = ""
        self._layout, self._limit, self._folder = layout, memory_limit, folder
        self._in_memory: GrowingRows | None = GrowingRows()
        self._file: RowFile | None = None

    def add(self, packed: Packed) -> None:
        """Adds rows."""
        size = memory_bytes(packed)
        if not self.taken and size:
            self.block_rows = max(1, _BLOCK_BYTES * int(row_count(packed)) // size)
        self.taken += size
        rows = {key: value.numpy() for key, value in packed.items()}
        if self._in_memory is not None:
            self._in_memory.add(rows)
            if self.taken > self._limit:
                waiting, self._in_memory = self._in_memory, None
                self._begin(waiting)
        elif self._file is not None:
            self._write(self._file, rows)

    def finish(self) -> tuple[Packed | None, RowFile | None]:
        """Returns the rows in memory or on disk; neither if both failed."""
        if self._in_memory is not None:
            self.status = f"in memory: {self.taken:,} bytes, {self._limit:,} allowed"
            return self._in_memory.tensors(), None
        if self._file is not None:
            self.status = f"on disk: {self.taken:,} bytes, {self._limit:,} allowed in memory"
            self._write(self._file, None)
        return None, self._file

    def _begin(self, waiting: GrowingRows) -> None:
        if self._folder is None:
            self.status = f"streamed from the files: more than {self._limit:,} bytes, and no cache on disk"
            return
        try:
            self._file = RowFile(self._folder, self._layout, self.block_rows)
        except CacheFailed as error:
            self._fail(error)
        for rows in waiting.pieces():
            if self._file is not None:
                self._write(self._file, rows)

    def _write(self, file: RowFile, rows: Mapping[str, np.ndarray] | None) -> None:
        """Writes rows, or after all of them the last block."""
        try:
            file.finish() if rows is None else file.add(rows)
        except CacheFailed as error:
            self._fail(error)

    def _fail(self, error: CacheFailed) -> None:
        self._file = None
        self.status = f"streamed from the files, without a cache: {error}"
