"""Stores the rows of a split as they are read: in memory while they fit, on disk beyond that."""

from typing import Self

from fullpass.trainer.input.cache.block_cache import BlockCache, CachePlan
from fullpass.trainer.input.cache.cache_writer import CacheFailed, CacheWriter
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.records.blocks import Layout, Packed, join_and_free, memory_bytes


class RowStore:
    """Stores rows in memory up to a limit and moves all to disk beyond it; if that fails, stores none."""

    def __init__(self, layout: Layout, memory_limit: int, cache: CachePlan | None, miss: str):
        """Begins with an empty store in memory.

        Args:
            layout: The layout of the rows.
            memory_limit: The bytes that the rows may take in memory.
            cache: The cache on disk to write; None writes none.
            miss: The reason why no cache was found, for the message.
        """
        self.taken = 0
        self.status = ""
        self._layout, self._limit, self._cache, self._miss = layout, memory_limit, cache, miss
        self._in_memory: list[Packed] | None = []
        self._writer: CacheWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.__exit__(*error)

    def add(self, packed: Packed) -> None:
        """Adds rows."""
        self.taken += memory_bytes(packed)
        waiting = [packed]
        if self._in_memory is not None:
            self._in_memory.append(packed)
            if self.taken <= self._limit:
                return
            waiting, self._in_memory = self._in_memory, None
            self._begin()
        for chunk in waiting:
            self._write(chunk)

    def finish(self, counts: SplitCounts) -> tuple[Packed | None, BlockCache | None]:
        """Returns the rows in memory or the cache on disk, with which `counts` is stored; neither if both failed."""
        if self._in_memory is not None:
            self.status = f"in memory: {self.taken:,} bytes, {self._limit:,} allowed"
            return join_and_free(self._in_memory), None
        if self._writer is not None:
            try:
                written = self._writer.finish(counts.to_json())
            except CacheFailed as error:
                self._fail(error)
            else:
                self.status = f"on disk: written to {written.folder}, since {self._miss}"
                return None, written
        return None, None

    def _begin(self) -> None:
        if self._cache is None:
            self.status = f"streamed from the files: more than {self._limit:,} bytes, and no cache on disk"
            return
        try:
            self._writer = CacheWriter(self._cache, self._layout)
        except CacheFailed as error:
            self._fail(error)

    def _write(self, chunk: Packed) -> None:
        if self._writer is not None:
            try:
                self._writer.add(chunk)
            except CacheFailed as error:
                self._fail(error)

    def _fail(self, error: CacheFailed) -> None:
        if self._writer is not None:
            self._writer.__exit__()
        self._writer = None
        self.status = f"streamed from the files, without a cache: {error}"
