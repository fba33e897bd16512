"""Packed rows in blocks on disk, for data larger than memory: read again without parsing.

A cache is a folder `<split>-<digest>` with an `index.json`, written last, and `block-000000.bin`, `block-000001.bin`
... Each block is one file: an int64 header with the number of bytes of each packed tensor, then these tensors as they
are in memory. The digest is of all that the rows follow from; so a cache is found or not, never half right.

It is written under a hidden name and renamed. Whoever reads it holds a shared lock on its file `lock`, and nobody
removes a folder whose lock is held; what a writer that died has left is removed by the next one. The first rows of
the files do not stay together: as many rows as fit in `pool_bytes` are shuffled before they are cut into blocks, blocks
come in a new order in every epoch, and several of them are shuffled together as they are read.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import google_crc32c
import numpy as np
import tensorflow as tf

from trainer.blocks import Column, Layout, Packed, join_and_free, memory_bytes

FORMAT = 1
_INDEX = "index.json"
_LOCK = "lock"
_BLOCKS_PER_POOL = 64
_SMALLEST_BLOCK = 4 << 10
_SPARED = 1 << 30
_UNLOCKED_SECONDS = 3600


class CacheFailed(Exception):
    """A cache could not be written; the message says why, for people."""


@dataclass(frozen=True)
class CachePlan:
    """Where the cache of a split is, and of what.

    Attributes:
        root: folder of caches, local.
        split: name of the split.
        key: all that its rows follow from, by name, so that a miss can say what changed.
        pool_bytes: rows shuffled before they are cut into blocks.
        scatter: whether rows may leave the order of the files.
    """

    root: Path
    split: str
    key: Mapping[str, Any]
    pool_bytes: int = 64 << 20
    scatter: bool = True

    @property
    def folder(self) -> Path:
        """Where the cache is once it is whole."""
        content = json.dumps({"format": FORMAT, "scatter": self.scatter, **self.key}, sort_keys=True)
        return self.root / f"{self.split}-{hashlib.sha256(content.encode()).hexdigest()[:20]}"


@dataclass(frozen=True)
class BlockFile:
    """One block: its file name, rows, and the file's size and checksum."""

    file: str
    rows: int
    bytes: int
    crc32c: int


@dataclass(frozen=True)
class BlockCache:
    """A whole cache, held against removal while this object lives.

    Attributes:
        folder: of its files.
        layout: of its rows.
        blocks: in the order of the rows.
        about: what was stored with it.
        lock: the open lock file.
    """

    folder: Path
    layout: Layout
    blocks: tuple[BlockFile, ...]
    about: Mapping[str, Any]
    lock: object

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(block.rows for block in self.blocks)

    @property
    def bytes(self) -> int:
        """Size of all blocks."""
        return sum(block.bytes for block in self.blocks)

    @property
    def paths(self) -> list[str]:
        """Paths of all blocks."""
        return [str(self.folder / block.file) for block in self.blocks]

    def read(self) -> Packed:
        """Returns all rows, into memory."""
        return join_and_free([unpack_bytes(self.layout, tf.io.read_file(path)[tf.newaxis]) for path in self.paths])


def find_cache(plan: CachePlan) -> tuple[BlockCache | None, str]:
    """Returns the cache of a plan, or None, and in words what was found or why there is none.

    All checksums are verified: reading a cache once costs little beside parsing the examples. A damaged one is removed.
    """
    if not plan.folder.is_dir():
        return None, _why_missing(plan)
    lock = _take_lock(plan.folder, fcntl.LOCK_SH)
    if lock is None:
        return None, "the cache is being removed by another process"
    try:
        cache = _read_index(plan, lock)
        _verify(cache)
    except (OSError, ValueError, KeyError, TypeError) as error:
        lock.close()
        _remove(plan.folder)
        return None, f"the cache was damaged and has been removed ({error})"
    os.utime(plan.folder / _INDEX)
    return cache, f"{cache.rows:,} rows found in {plan.folder}"


class CacheWriter:
    """Writes a cache; a context that leaves nothing behind unless `finish` was reached."""

    def __init__(self, plan: CachePlan, layout: Layout):
        """Args: plan: what is cached. layout: of its rows.

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
            _remove_abandoned(plan.root)
            self._pending.mkdir(parents=True)
            self._lock = _Lock(self._pending / _LOCK)
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
        """Makes the cache whole, removes those it replaces, and returns it; or that which another writer made first.

        Args:
            about: stored with it.

        Raises:
            CacheFailed: The disk is full, or fails.
        """
        self._flush()
        index = {
            "format": FORMAT,
            "key": dict(self._plan.key),
            "columns": [asdict(column) for column in self._layout.columns],
            "blocks": [asdict(block) for block in self._blocks],
            "about": dict(about),
        }
        try:
            (self._pending / _INDEX).write_text(json.dumps(index), encoding="utf-8")
            self._lock.lock(fcntl.LOCK_SH)
            os.rename(self._pending, self._plan.folder)
        except OSError as error:
            found, _ = find_cache(self._plan)
            if found is not None:
                return found
            raise CacheFailed(f"{self._plan.root} cannot be written: {error.strerror or error}") from error
        _remove_stale(self._plan)
        return BlockCache(self._plan.folder, self._layout, tuple(self._blocks), dict(about), self._lock)

    def _flush(self) -> None:
        if not self._pool:
            return
        size = self._pool_bytes
        pool = {key: value.numpy() for key, value in join_and_free(self._pool).items()}
        self._pool_bytes = 0
        rows = len(next(value for key, value in pool.items() if not key.startswith("values/")))
        count = max(1, min(_BLOCKS_PER_POOL, size // _SMALLEST_BLOCK, rows))
        order = self._random.permutation(rows) if self._plan.scatter else np.arange(rows)
        for chosen in np.array_split(order, count):
            self._write(pool, chosen)

    def _write(self, pool: Mapping[str, np.ndarray], chosen: np.ndarray) -> None:
        name = f"block-{len(self._blocks):06d}.bin"
        tensors = [part for value in _rows(pool, chosen).values() for part in _stored(value)]
        content = np.array([len(tensor) for tensor in tensors], np.int64).tobytes() + b"".join(tensors)
        if shutil.disk_usage(self._plan.root).free < _SPARED + len(content):
            raise CacheFailed(f"the disk of {self._plan.root} has less than {_SPARED >> 30} GiB left")
        try:
            (self._pending / name).write_bytes(content)
        except OSError as error:
            raise CacheFailed(f"{self._plan.root} cannot be written: {error.strerror or error}") from error
        self._blocks.append(BlockFile(name, len(chosen), len(content), google_crc32c.value(content)))


@tf.autograph.experimental.do_not_convert
def unpack_bytes(layout: Layout, blocks: tf.Tensor) -> Packed:
    """Returns the rows of blocks.

    Args:
        layout: of the rows.
        blocks: string [n], the content of block files.
    """
    parts = layout.parts()
    count = sum(2 if dtype == tf.string else 1 for dtype, _ in parts.values())
    sizes = tf.reshape(tf.io.decode_raw(tf.strings.substr(blocks, 0, 8 * count), tf.int64), [-1, count])
    starts = 8 * count + tf.cumsum(sizes, axis=1, exclusive=True)
    pieces = iter(
        tf.strings.reduce_join(tf.strings.substr(blocks, starts[:, place], sizes[:, place])) for place in range(count)
    )
    packed = {}
    for key, (dtype, shape) in parts.items():
        flat = _text(next(pieces), next(pieces)) if dtype == tf.string else tf.io.decode_raw(next(pieces), dtype)
        packed[key] = tf.reshape(flat, [-1, *shape])
    return packed


def _stored(value: np.ndarray) -> list[bytes]:
    """Returns a tensor as it is on disk; text as the lengths of all strings, then the strings."""
    if value.dtype != object:
        return [value.tobytes()]
    strings = value.ravel().tolist()
    return [np.fromiter(map(len, strings), np.int64, len(strings)).tobytes(), b"".join(strings)]


def _text(lengths: tf.Tensor, joined: tf.Tensor) -> tf.Tensor:
    sizes = tf.io.decode_raw(lengths, tf.int64)
    return tf.strings.substr(joined[tf.newaxis], tf.cumsum(sizes, exclusive=True), sizes)


def _rows(pool: Mapping[str, np.ndarray], chosen: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    for key, value in pool.items():
        if key.startswith("values/"):
            lengths = pool["lengths/" + key.removeprefix("values/")]
            starts = np.cumsum(lengths) - lengths
            taken = lengths[chosen]
            ends = np.cumsum(taken)
            # For each value of the chosen rows, its place in the pool.
            places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[chosen] - (ends - taken), taken)
            found[key] = value[places]
        else:
            found[key] = value[chosen]
    return found


def _read_index(plan: CachePlan, lock: object) -> BlockCache:
    index = json.loads((plan.folder / _INDEX).read_text(encoding="utf-8"))
    if index["format"] != FORMAT or index["key"] != json.loads(json.dumps(dict(plan.key))):
        raise ValueError(f"{_INDEX} is of another cache")
    columns = tuple(Column(**{**column, "shape": tuple(column["shape"])}) for column in index["columns"])
    blocks = tuple(BlockFile(**block) for block in index["blocks"])
    return BlockCache(plan.folder, Layout(columns), blocks, index["about"], lock)


def _verify(cache: BlockCache) -> None:
    for path, block in zip(cache.paths, cache.blocks, strict=True):
        content = Path(path).read_bytes()
        if len(content) != block.bytes:
            raise ValueError(f"{block.file} has {len(content):,} of {block.bytes:,} bytes")
        if google_crc32c.value(content) != block.crc32c:
            raise ValueError(f"{block.file} does not match its checksum")


def _why_missing(plan: CachePlan) -> str:
    others = sorted(_caches(plan.root, plan.split), key=lambda folder: folder.stat().st_mtime)
    for folder in reversed(others):
        try:
            key = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["key"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        wanted = json.loads(json.dumps(dict(plan.key)))
        changed = sorted(name for name in {*key, *wanted} if key.get(name) != wanted.get(name))
        return f"the cache there is of other {', '.join(changed) or 'settings'}"
    return f"no cache of split {plan.split!r} in {plan.root}"


def _caches(root: Path, split: str) -> Iterator[Path]:
    if root.is_dir():
        yield from (folder for folder in root.iterdir() if folder.name.rpartition("-")[0] == split and folder.is_dir())


def _remove_stale(plan: CachePlan) -> None:
    for folder in _caches(plan.root, plan.split):
        if folder != plan.folder:
            _remove(folder)


def _remove_abandoned(root: Path) -> None:
    for folder in root.glob(".*.part") if root.is_dir() else ():
        if (folder / _LOCK).exists() or time.time() - folder.stat().st_mtime > _UNLOCKED_SECONDS:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a cache that nobody uses: first out of sight, then from the disk."""
    lock = _take_lock(folder, fcntl.LOCK_EX)
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


class _Lock:
    """A locked file, until `close` or the end of this object."""

    def __init__(self, path: Path):
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT)

    def lock(self, kind: int) -> bool:
        """Returns whether the lock was to be had at once."""
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


def _take_lock(folder: Path, kind: int) -> _Lock | None:
    """Returns the locked lock file of a folder, or None if it is held or the folder is gone."""
    try:
        lock = _Lock(folder / _LOCK)
    except FileNotFoundError:
        return None
    if not lock.lock(kind):
        lock.close()
        return None
    return lock


def fingerprint_of(files: Sequence[str]) -> list[list[Any]]:
    """Returns path, size and time of change of files, local or remote."""
    found = []
    for file in files:
        stat = tf.io.gfile.stat(file)
        found.append([file, int(stat.length), int(stat.mtime_nsec)])
    return found
