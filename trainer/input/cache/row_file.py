"""Packed rows in a file without a name, for data larger than memory: read again in every epoch without parsing.

The system frees such a file when the process ends, however it ends. So no later training can find a file that was not
written to its end, and two trainings never share one. The file consists of blocks (trainer/records/blocks.py) of the
same number of rows each, in the order in which the rows came.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from fullpass.base.errors import UserError
from fullpass.trainer.records.blocks import Layout, gather_arrays, row_key, rows_of_bytes, tensor_bytes

_SPARED = 1 << 30
"""Bytes that the file leaves free on its disk."""


class CacheFailed(Exception):
    """Rows could not be written; the message states the reason for users."""


class RowFile:
    """Rows on disk.

    Attributes:
        layout: The layout of the rows.
    """

    def __init__(self, folder: Path, layout: Layout, block_rows: int):
        """Begins an empty file.

        Raises:
            CacheFailed: Nothing can be written there.
        """
        self.layout = layout
        self._folder, self._block_rows = folder, block_rows
        self._rest = {key: value.numpy() for key, value in layout.zeros(0).items()}
        self._counted = row_key(self._rest)
        self._starts = [0]
        self._sizes: list[list[int]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Unbuffered, so that a full disk is found by the write that fills it.
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)
            weakref.finalize(self, self._file.close)
        except OSError as error:
            raise self._failed(error) from error

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        """Adds packed rows.

        Raises:
            CacheFailed: The disk is full, or fails.
        """
        arrays = {key: np.concatenate([rest, rows[key]]) for key, rest in self._rest.items()}
        count = len(arrays[self._counted])
        whole = count - count % self._block_rows
        self._write(arrays, whole)
        self._rest = gather_arrays(arrays, np.arange(whole, count))

    def finish(self) -> None:
        """Writes the last rows; nothing is added afterwards.

        Raises:
            CacheFailed: The disk is full, or fails.
        """
        self._write(self._rest, len(self._rest[self._counted]))
        self._rest = {}

    def read(self, blocks: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
        """Returns rows of some blocks.

        Args:
            blocks: The numbers of the blocks, int64 [n].
            order: The places of the wanted rows among those of these blocks, in the wanted order, int64 [rows].

        Raises:
            UserError: The disk fails.
        """
        sizes = np.array([self._sizes[block] for block in blocks.tolist()], np.int64)
        tensors = [np.empty(size, np.uint8) for size in sizes.sum(axis=0)]
        ends = np.cumsum(sizes, axis=0)
        for block, first, last in zip(blocks.tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True):
            # One read spreads a block over the tensors, so that nothing is copied.
            parts = [tensor[a:b].data for tensor, a, b in zip(tensors, first, last, strict=True)]
            self._read(parts, self._starts[block])
        return gather_arrays(rows_of_bytes(self.layout, tensors), order)

    def _read(self, parts: list[memoryview], start: int) -> None:
        try:
            count = os.preadv(self._file.fileno(), parts, start)
        except OSError as error:
            raise UserError(f"the cache of rows in {self._folder} cannot be read: {error.strerror}.") from error
        if count < sum(map(len, parts)):
            raise UserError(f"the cache of rows in {self._folder} is shorter than what was written.")

    def _write(self, arrays: dict[str, np.ndarray], rows: int) -> None:
        """Writes the first rows as blocks."""
        cuts = [*range(0, rows, self._block_rows), rows]
        blocks = [gather_arrays(arrays, np.arange(first, last)) for first, last in pairwise(cuts)]
        contents = [tensor_bytes(self.layout, block) for block in blocks]
        self._sizes += [[len(tensor) for tensor in tensors] for tensors in contents]
        joined = [b"".join(tensors) for tensors in contents]
        self._starts += [self._starts[-1] + end for end in accumulate(map(len, joined))]
        content = memoryview(b"".join(joined))
        try:
            if shutil.disk_usage(self._folder).free < _SPARED + len(content):
                raise CacheFailed(f"the disk of {self._folder} has less than {_SPARED >> 30} GiB left")
            while content:
                content = content[self._file.write(content) :]
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> CacheFailed:
        return CacheFailed(f"{self._folder} cannot be written: {error.strerror or error}")
