"""Packed rows in memory that grow without being copied."""

import mmap
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

from fullpass.trainer.records.blocks import Packed

_FIRST_BYTES = 1 << 20
"""Bytes of the first mapping."""


class GrowingRows:
    """Rows that are added piece by piece and become tensors without a second copy of them.

    Numbers are in private mappings, which the system enlarges by moving pages. Joining pieces would take twice their
    memory, and an allocator keeps small pieces after they are freed. Text is in pieces.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, _Numbers] = {}
        self._text: dict[str, list[np.ndarray]] = {}

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        """Adds a piece of packed rows."""
        for key, value in rows.items():
            if value.dtype == object:
                self._text.setdefault(key, []).append(value)
            else:
                self._numbers.setdefault(key, _Numbers(value)).append(value)

    def pieces(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the pieces as they were added."""
        for number in range(len(next(iter(self._numbers.values())).ends) - 1):
            numbers = {key: value.piece(number) for key, value in self._numbers.items()}
            yield numbers | {key: pieces[number] for key, pieces in self._text.items()}

    def tensors(self) -> Packed:
        """Returns all rows; nothing is added afterwards."""
        numbers = {
            key: tf.experimental.dlpack.from_dlpack(value.all().__dlpack__()) for key, value in self._numbers.items()
        }
        return numbers | {key: tf.constant(np.concatenate(pieces), tf.string) for key, pieces in self._text.items()}


class _Numbers:
    """An array that grows. ends: Its length before the first piece, and after each piece."""

    def __init__(self, like: np.ndarray):
        self._dtype, self._shape = like.dtype, like.shape[1:]
        self._map = mmap.mmap(-1, _FIRST_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.ends = [0]

    def append(self, values: np.ndarray) -> None:
        self.ends.append(self.ends[-1] + len(values))
        wanted = self.ends[-1] * values[:1].nbytes
        if wanted > len(self._map):
            # Pages that nothing is written to take no memory.
            self._map.resize(max(wanted, 2 * len(self._map)))
        self.piece(len(self.ends) - 2)[...] = values

    def piece(self, number: int) -> np.ndarray:
        return self.all()[self.ends[number] : self.ends[number + 1]]

    def all(self) -> np.ndarray:
        return np.ndarray((self.ends[-1], *self._shape), self._dtype, self._map)
