"""Stores the rows of a split as they are read: in memory while they fit, beyond that in a cache on disk."""

import fcntl
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self

import google_crc32c
import numpy as np

from fullpass.base import state_file
from fullpass.trainer.input.cache.block_cache import (
    FORMAT,
    INDEX,
    LOCK,
    BlockCache,
    BlockFile,
    CachePlan,
    Lock,
    find_cache,
    remove_abandoned,
    remove_others,
)
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.records.blocks import (
    Layout,
    Packed,
    gather_arrays,
    join_and_free,
    memory_bytes,
    pack_bytes,
    row_count,
)

_BLOCKS_PER_POOL = 64
"""Blocks that the rows of a pool are scattered over at most."""
_SMALLEST_BLOCK = 4 << 10
"""Bytes of a block at least: a page of a disk."""
_SPARED = 1 << 30
"""Bytes that the cache leaves free on its disk."""


class CacheFailed(Exception):
    """A cache could not be written; the message states the reason for users."""


class CacheWriter:
    """Writes a cache; as a context manager it removes all files unless `finish` has completed the cache."""

    def __init__(self, plan: CachePlan, layout: Layout):
        """Creates the hidden folder of the cache.

        Raises:
            CacheFailed: Nothing can be written there.
        """
        self._plan, self._layout = plan, layout
        self._pool: list[Packed] = []
        self._pool_bytes = 0
        self._blocks: list[BlockFile] = []
        self._random = np.random.default_rng(0)
        self._pending = plan.root / f".{plan.folder.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.part"
        try:
            remove_abandoned(plan.root)
            self._pending.mkdir(parents=True)
            self._lock = Lock(self._pending / LOCK)
            self._lock.lock(fcntl.LOCK_EX)
        except OSError as error:
            raise CacheFailed(f"{plan.root} cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pending.exists():
            shutil.rmtree(self._pending, ignore_errors=True)
            self._lock.close()

    def add(self, rows: Packed) -> None:
        """Adds rows.

        Raises:
            CacheFailed: The disk is full, or fails.
        """
        self._pool.append(rows)
        self._pool_bytes += memory_bytes(rows)
        if self._pool_bytes >= self._plan.pool_bytes:
            self._flush()

    def finish(self, about: Mapping[str, Any]) -> BlockCache:
        """Completes the cache and removes the caches that it replaces.

        Returns:
            The cache, or the one that another writer completed first.

        Raises:
            CacheFailed: The disk is full, or fails.
        """
        self._flush()
        index = {
            "format": FORMAT,
            "key": dict(self._plan.key),
            "columns": self._layout.to_json(),
            "blocks": [asdict(block) for block in self._blocks],
            "about": dict(about),
        }
        try:
            state_file.write(self._pending / INDEX, index)
            self._lock.lock(fcntl.LOCK_SH)
            os.rename(self._pending, self._plan.folder)
        except OSError as error:
            found, _ = find_cache(self._plan)
            if found is not None:
                return found
            raise CacheFailed(f"{self._plan.root} cannot be written: {error.strerror or error}") from error
        remove_others(self._plan.folder, self._plan.split)
        return BlockCache(self._plan.folder, self._layout, tuple(self._blocks), dict(about), self._lock)

    def _flush(self) -> None:
        if not self._pool:
            return
        size = self._pool_bytes
        joined = join_and_free(self._pool)
        self._pool_bytes, rows = 0, int(row_count(joined))
        pool = {key: value.numpy() for key, value in joined.items()}
        count = max(1, min(_BLOCKS_PER_POOL, size // _SMALLEST_BLOCK, rows))
        order = self._random.permutation(rows) if self._plan.scatter else np.arange(rows)
        for chosen in np.array_split(order, count):
            self._write(pool, chosen)

    def _write(self, pool: Mapping[str, np.ndarray], chosen: np.ndarray) -> None:
        name = f"block-{len(self._blocks):06d}.bin"
        content = pack_bytes(self._layout, gather_arrays(pool, chosen))
        if shutil.disk_usage(self._plan.root).free < _SPARED + len(content):
            raise CacheFailed(f"the disk of {self._plan.root} has less than {_SPARED >> 30} GiB left")
        try:
            (self._pending / name).write_bytes(content)
        except OSError as error:
            raise CacheFailed(f"{self._plan.root} cannot be written: {error.strerror or error}") from error
        self._blocks.append(BlockFile(name, len(chosen), len(content), google_crc32c.value(content)))


class RowStore:
    """Stores rows in memory up to a limit and moves all to disk beyond it; if that fails, stores none."""

    def __init__(self, layout: Layout, memory_limit: int, cache: CachePlan | None, miss: str):
        """Begins with an empty store in memory.

        Args:
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
