"""Packed rows in blocks on disk, for data larger than memory: read again without parsing.

A cache is a folder `<split>-<digest>` with an `index.json`, written last, and `block-000000.bin`, `block-000001.bin`
..., in the format of trainer/records/blocks.py. The digest covers everything that the rows depend on, so
that an outdated cache is never used.

A cache is written under a hidden name and renamed (trainer/input/cache/row_store.py). Neighboring rows of the files
do not stay together: as many rows as fit in `pool_bytes` are shuffled before they are cut into blocks, the order of the
blocks changes in every epoch, and several blocks are shuffled together as they are read.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from fullpass.base import state_file
from fullpass.base.state_file import Seal, damage_of
from fullpass.trainer.records.blocks import Layout, Packed, join_and_free, unpack_bytes

LOCK = "lock"
_UNLOCKED_SECONDS = 3600
"""Age from which an unfinished cache without a lock is a remnant."""
FORMAT = 4
"""Version of the files of a cache; those of another version are written again."""
INDEX = "index.json"


@dataclass(frozen=True)
class CachePlan:
    """The location and the key of the cache of a split.

    Attributes:
        key: Everything that the rows depend on, by name, so that a cache miss can report what changed.
        pool_bytes: The bytes of rows that are shuffled together before they are cut into blocks.
        scatter: Whether rows may be reordered; otherwise they stay in the order of the files.
    """

    root: Path
    split: str
    key: Mapping[str, Any]
    pool_bytes: int = 64 << 20
    scatter: bool = True

    @property
    def stored_key(self) -> dict[str, Any]:
        """The key as an index holds it."""
        return json.loads(json.dumps(dict(self.key)))

    @property
    def folder(self) -> Path:
        """The folder of the complete cache."""
        content = json.dumps({"format": FORMAT, "scatter": self.scatter, **self.key}, sort_keys=True)
        return self.root / f"{self.split}-{hashlib.sha256(content.encode()).hexdigest()[:20]}"


@dataclass(frozen=True)
class BlockFile:
    """The name, rows, size and checksum of a block file."""

    file: str
    rows: int
    bytes: int
    crc32c: int


@dataclass(frozen=True)
class BlockCache:
    """A complete cache, locked against removal while this object lives."""

    folder: Path
    layout: Layout
    blocks: tuple[BlockFile, ...]
    about: Mapping[str, Any]
    lock: object

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(block.rows for block in self.blocks)

    @property
    def bytes(self) -> int:
        """The bytes of all blocks."""
        return sum(block.bytes for block in self.blocks)

    @property
    def paths(self) -> list[str]:
        """The paths of all blocks."""
        return [str(self.folder / block.file) for block in self.blocks]

    def read(self) -> Packed:
        """Reads all rows into memory."""
        return join_and_free([unpack_bytes(self.layout, tf.io.read_file(path)[tf.newaxis]) for path in self.paths])


def find_cache(plan: CachePlan) -> tuple[BlockCache | None, str]:
    """Returns the cache of a plan, or None, and a message that describes the cache or why it is missing.

    All checksums are verified, because reading a cache once costs little compared with parsing the examples. A damaged
    cache is removed.
    """
    if not plan.folder.is_dir():
        return None, _why_missing(plan)
    lock = take_lock(plan.folder, fcntl.LOCK_SH)
    if lock is None:
        return None, "the cache is being removed by another process"
    try:
        cache = _read_index(plan, lock)
        _verify(cache)
    except (OSError, ValueError, KeyError, TypeError) as error:
        lock.close()
        _remove(plan.folder)
        return None, f"the cache was damaged and has been removed ({error})"
    os.utime(plan.folder / INDEX)
    return cache, f"{cache.rows:,} rows found in {plan.folder}"


def _read_index(plan: CachePlan, lock: object) -> BlockCache:
    index = state_file.read(plan.folder / INDEX, "It is written again.")
    if index["format"] != FORMAT or index["key"] != plan.stored_key:
        raise ValueError(f"{INDEX} belongs to another cache")
    blocks = tuple(BlockFile(**block) for block in index["blocks"])
    return BlockCache(plan.folder, Layout.from_json(index["columns"]), blocks, index["about"], lock)


def _verify(cache: BlockCache) -> None:
    for path, block in zip(cache.paths, cache.blocks, strict=True):
        damage = damage_of(path, Seal(block.bytes, block.crc32c))
        if damage is not None:
            raise ValueError(damage)


def _why_missing(plan: CachePlan) -> str:
    others = sorted(caches(plan.root, plan.split), key=lambda folder: folder.stat().st_mtime)
    for folder in reversed(others):
        try:
            key = state_file.read(folder / INDEX, "")["key"]
        except (OSError, ValueError, KeyError):
            continue
        wanted = plan.stored_key
        changed = sorted(name for name in {*key, *wanted} if key.get(name) != wanted.get(name))
        return f"the existing cache differs in {', '.join(changed) or 'its settings'}"
    return f"no cache of split {plan.split!r} in {plan.root}"


class Lock:
    """A lock file, which stays locked until `close` or the end of this object."""

    def __init__(self, path: Path):
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT)

    def lock(self, kind: int) -> bool:
        """Takes the lock without waiting, fcntl.LOCK_SH or LOCK_EX; returns whether it was free."""
        try:
            fcntl.flock(self._descriptor or -1, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    __del__ = close


def take_lock(folder: Path, kind: int) -> Lock | None:
    """Returns the locked lock file of a folder, or None if it is held or the folder is gone."""
    try:
        lock = Lock(folder / LOCK)
    except FileNotFoundError:
        return None
    if not lock.lock(kind):
        lock.close()
        return None
    return lock


def caches(root: Path, split: str) -> Iterator[Path]:
    """Yields the folders of the complete caches of a split."""
    if root.is_dir():
        yield from (folder for folder in root.iterdir() if folder.name.rpartition("-")[0] == split and folder.is_dir())


def remove_others(kept: Path, split: str) -> None:
    """Removes all caches of a split but `kept`, except those that another process reads."""
    for folder in caches(kept.parent, split):
        if folder != kept:
            _remove(folder)


def remove_abandoned(root: Path) -> None:
    """Removes the incomplete caches of writers that died."""
    for folder in root.glob(".*.part") if root.is_dir() else ():
        if (folder / LOCK).exists() or time.time() - folder.stat().st_mtime > _UNLOCKED_SECONDS:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a cache that is not in use: renames it to a hidden name, then deletes it."""
    lock = take_lock(folder, fcntl.LOCK_EX)
    if lock is None:
        return
    hidden = folder.with_name(f".removed-{uuid.uuid4().hex[:8]}.part")
    try:
        os.rename(folder, hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    except OSError:
        return  # another process has removed it
    finally:
        lock.close()
