"""Writes TFRecord files of about equal size, which become visible only when they are complete.

The size of a split is known only after it is written. Therefore each worker first writes uncompressed chunks, and
records the offsets at which they may be cut. When all chunks are written, workers join them into shards. The bytes of a
record are copied, not parsed. While chunks are joined, the pending folder holds a second copy of the records.
"""

import gzip
import posixpath
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tfx.dsl.io import fileio

from fullpass.base.files import BLOCK_BYTES, opened, write_blocks
from fullpass.components.ingest.writing.shards import (
    ChunkRange,
    ShardLayout,
    WrittenChunk,
    cut,
    whole_chunk,
)
from fullpass.trainer.records.frames import FRAME_BYTES, frames

PENDING = "_pending"
"""Folder of unfinished files inside the artifact; readers of a split ignore it."""
SEGMENTS = 4096
"""Number of segments of a shuffled chunk; no split has more files than this."""
_SHUFFLED_CHUNK_BYTES = 64 << 20
"""Bytes of records that a worker shuffles in memory."""
_GZIP_LEVEL = 6
"""The default of the gzip program."""


class ChunkWriter:
    """Writes records of one split as chunks; see `WrittenChunk`. `chunks` is complete after `close`.

    Without a shuffle there is one chunk, in the order of the source. With a shuffle, each chunk holds 64 MB of records,
    which are put into a random order before they are written.
    """

    def __init__(self, folder: str, split: str, prefix: str, layout: ShardLayout):
        """Constructs the writer; `write` opens the file.

        Args:
            prefix: Prefix of the file names; unique among writers, and sorts in the order of the source.
        """
        self.chunks: list[WrittenChunk] = []
        self.prefix = prefix
        self._folder = f"{folder}/{PENDING}/{split}"
        self._layout = layout
        self._random = np.random.default_rng([layout.seed or 0, *f"{split}/{prefix}".encode()])
        self._file: IO[bytes] | None = None
        self._path = ""
        self._held: list[pa.BinaryArray] = []
        self._held_bytes = 0
        self._rows = self._size = 0
        self._marks: list[int] = []

    @property
    def rows(self) -> int:
        """Number of records written so far."""
        return sum(chunk.rows for chunk in self.chunks) + self._rows + sum(map(len, self._held))

    def write(self, examples: pa.BinaryArray) -> None:
        """Appends serialized examples."""
        if not len(examples):
            return
        if self._layout.seed is None:
            self._append(examples)
            return
        self._held.append(examples)
        self._held_bytes += int(_frame_bytes(examples).sum())
        if self._held_bytes >= _SHUFFLED_CHUNK_BYTES:
            self._write_shuffled()

    def close(self) -> None:
        """Writes the buffered records, and closes the last chunk."""
        if self._held:
            self._write_shuffled()
        self._end_chunk()

    def _append(self, examples: pa.BinaryArray) -> None:
        """Writes records in order. The end of the first record beyond each multiple of `mark_bytes` becomes a mark."""
        ends = self._write(examples)
        of_mark = ends // self._layout.mark_bytes
        first = np.diff(of_mark, prepend=self._size // self._layout.mark_bytes) > 0
        self._marks += ends[first].tolist()
        self._size = int(ends[-1])

    def _write_shuffled(self) -> None:
        """Writes the buffered records in random order; each record falls into a segment with equal probability."""
        held = pa.concat_arrays(self._held)
        segments = np.sort(self._random.integers(SEGMENTS, size=len(held)))
        order = self._random.permutation(len(held))
        ends = np.concatenate([[0], self._write(held.take(pa.array(order)))])
        self._marks = ends[np.searchsorted(segments, np.arange(SEGMENTS), side="right")].tolist()
        self._size = int(ends[-1])
        self._held, self._held_bytes = [], 0
        self._end_chunk()

    def _write(self, examples: pa.BinaryArray) -> np.ndarray:
        """Writes records, and returns the offset at which each record ends, int64 [records]."""
        if self._file is None:
            fileio.makedirs(self._folder)
            self._path = f"{self._folder}/{self.prefix}-{len(self.chunks):05d}"
            self._file = opened(self._path, "wb")
        write_blocks(self._file, frames(examples))
        self._rows += len(examples)
        return self._size + np.cumsum(_frame_bytes(examples))

    def _end_chunk(self) -> None:
        if self._file is None:
            return
        self._file.close()
        if not self._marks or self._marks[-1] != self._size:
            self._marks.append(self._size)
        self.chunks.append(WrittenChunk(self._path, self._rows, tuple(self._marks)))
        self._file, self._rows, self._size, self._marks = None, 0, 0, []


def _frame_bytes(examples: pa.BinaryArray) -> np.ndarray:
    return pc.binary_length(examples).to_numpy().astype(np.int64) + FRAME_BYTES


class JoinChunks(beam.PTransform):
    """Joins (split, WrittenChunk) elements into files next to the chunks; `publish` gives them their final names."""

    def __init__(self, layout: ShardLayout):
        super().__init__()
        self._layout = layout

    def expand(self, chunks: beam.PCollection) -> beam.PCollection:
        """See base class."""
        # ToList and Reshuffle are some twenty steps instead of these five: 0.3 s of processors of a small Ingest.
        return (
            chunks
            | "Together" >> beam.WithKeys(0)
            | "All" >> beam.GroupByKey()
            | "Cut" >> beam.FlatMap(_files_to_join, self._layout)
            | "Spread" >> beam.GroupByKey()
            | "Join" >> beam.MapTuple(self._join)
        )

    def _join(self, file: tuple[str, int, str], found: Iterable[tuple[ChunkRange, ...]]) -> None:
        split, index, path = file
        (ranges,) = found
        _join(ranges, path, self._layout, shuffled_by=f"{split}/{index}")


def publish(folder: str, split: str, chunks: Sequence[WrittenChunk], layout: ShardLayout) -> list[int]:
    """Moves the joined files of a split into `Split-<split>` under their final names.

    Returns:
        The bytes of the records of each file, before compression.
    """
    target = f"{folder}/Split-{split}"
    fileio.makedirs(target)
    suffix = ".tfrecord.gz" if layout.gzip else ".tfrecord"
    ordered = sorted(chunks, key=lambda chunk: chunk.path)
    parts = list(cut(ordered, layout))
    paths = [
        ranges[0].path if _as_it_is(ranges, ordered, layout) else _joined(ranges[0].path, i)
        for i, ranges in enumerate(parts)
    ]
    for i, path in enumerate(paths):
        fileio.rename(path, f"{target}/examples-{i:05d}-of-{len(paths):05d}{suffix}")
    return [sum(part.end - part.begin for part in ranges) for ranges in parts]


def _join(ranges: Sequence[ChunkRange], path: str, layout: ShardLayout, *, shuffled_by: str) -> None:
    """Writes the records of `ranges` as one file, in an order seeded by `shuffled_by` if the layout is shuffled."""
    with _open_to_write(path, compress=layout.gzip) as file:
        if layout.seed is None:
            for block in (block for r in ranges for block in _blocks(r)):
                file.write(block)
            return
        records = list(_records(b"".join(block for r in ranges for block in _blocks(r))))
        random = np.random.default_rng([layout.seed, zlib.crc32(shuffled_by.encode())])
        order = random.permutation(len(records)).tolist()
        write_blocks(file, b"".join([records[i] for i in order]))


def _files_to_join(
    together: tuple[int, Iterable[tuple[str, WrittenChunk]]], layout: ShardLayout
) -> Iterator[tuple[tuple[str, int, str], tuple[ChunkRange, ...]]]:
    """Yields the split, index and path of each file that is to be joined, and its parts.

    Spans have folders of their own, so the path tells their files of one split and index apart.
    """
    by_split: dict[tuple[str, str], list[WrittenChunk]] = {}
    for split, chunk in sorted(together[1], key=lambda entry: entry[1].path):
        by_split.setdefault((split, posixpath.dirname(chunk.path)), []).append(chunk)
    for (split, _), ordered in by_split.items():
        for i, ranges in enumerate(cut(ordered, layout)):
            if not _as_it_is(ranges, ordered, layout):
                yield (split, i, _joined(ranges[0].path, i)), ranges


def _as_it_is(ranges: tuple[ChunkRange, ...], chunks: Sequence[WrittenChunk], layout: ShardLayout) -> bool:
    return not layout.gzip and whole_chunk(ranges, chunks)


def _joined(chunk: str, index: int) -> str:
    return f"{posixpath.dirname(chunk)}/joined-{index:05d}"


@contextmanager
def _open_to_write(path: str, *, compress: bool) -> Iterator[IO[bytes]]:
    with opened(path, "wb") as raw:
        if not compress:
            yield raw
            return
        # Without name and time in the header, the same records give the same bytes.
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, cast(Any, raw), mtime=0) as file:
            yield cast(IO[bytes], file)


def _blocks(range_: ChunkRange) -> Iterator[bytes]:
    with opened(range_.path) as file:
        file.seek(range_.begin)
        left = range_.end - range_.begin
        while left:
            block = file.read(min(left, BLOCK_BYTES))
            if not block:
                raise RuntimeError(f"{range_.path} ends {left} bytes early; it was changed while it was read.")
            left -= len(block)
            yield block


def _records(data: bytes) -> Iterator[bytes]:
    """Yields the records of TFRecord bytes, including their lengths and checksums."""
    begin = 0
    while begin < len(data):
        (length,) = struct.unpack_from("<Q", data, begin)
        end = begin + FRAME_BYTES + length
        yield data[begin:end]
        begin = end
