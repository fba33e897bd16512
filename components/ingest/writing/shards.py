"""The rule for the number of shards of a split and their boundaries.

It follows TensorFlow's guide to TFRecords (https://www.tensorflow.org/tutorials/load_data/tfrecord): at least ten files
per reading host, so hosts can shard by file and each reads several files at once; each file of at least 10 MB, and
preferably over 100 MB, to keep the cost of opening files low.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

_FILES_PER_READER = 10
LEAST_BYTES = 10 << 20
"""The guide's ten files per reader, of at least 10 MB."""
_MARKS = 128
"""Places per file at which it may be cut, so that files differ by less than a percent."""


@dataclass(frozen=True)
class ShardLayout:
    """The layout of the records of every split.

    Attributes:
        shard_bytes: Size of the largest file, before compression.
        readers: Number of hosts that read at the same time.
        seed: Seed of the shuffle across all files; None keeps the order of the source.
    """

    shard_bytes: int
    readers: int
    gzip: bool
    seed: int | None = None

    @property
    def mark_bytes(self) -> int:
        """Largest distance, in bytes, between positions at which one file may end and the next begin."""
        return max(self.shard_bytes // _MARKS, 1)


@dataclass(frozen=True)
class WrittenChunk:
    """A file of uncompressed records that one worker wrote.

    Attributes:
        marks: Increasing byte offsets at which a record ends; the last is the chunk's size. For a shuffled chunk, the
            end of each segment; segments may be empty.
    """

    path: str
    rows: int
    marks: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.marks[-1] if self.marks else 0


@dataclass(frozen=True)
class ChunkRange:
    """The whole records in bytes `begin` to `end` of a chunk."""

    path: str
    begin: int
    end: int


def shard_count(size: int, layout: ShardLayout) -> int:
    """Returns the number of files for `size` bytes of records.

    This is ten per reader; fewer if the files would be smaller than 10 MB, and more if they would be larger than the
    layout allows.

    Example:
        >>> layout = ShardLayout(shard_bytes=128 << 20, readers=1, gzip=False)
        >>> [shard_count(megabytes << 20, layout) for megabytes in (1, 35, 500, 5000)]
        [1, 3, 10, 40]
    """
    wanted = min(_FILES_PER_READER * layout.readers, size // LEAST_BYTES)
    needed = -(-size // (layout.shard_bytes - layout.mark_bytes + 1))
    return max(1, wanted, needed)


def cut(chunks: Sequence[WrittenChunk], layout: ShardLayout) -> Iterator[tuple[ChunkRange, ...]]:
    """Yields the ranges of each file of a split. The files have about equal sizes, and none is empty.

    Without a shuffle, a file holds a run of records in the order of the source. With a shuffle, it holds the same
    segments of every chunk, and its records must still be shuffled. All ranges together are chunks times files.
    """
    chunks = [chunk for chunk in chunks if chunk.size]
    if not chunks:
        return
    count = shard_count(sum(chunk.size for chunk in chunks), layout)
    shards = _by_place(chunks, count) if layout.seed is None else _by_segment(chunks, count)
    yield from filter(None, shards)


def whole_chunk(ranges: Sequence[ChunkRange], chunks: Sequence[WrittenChunk]) -> bool:
    """Returns whether a file is one whole chunk, which need not be copied."""
    return any(ranges == (ChunkRange(chunk.path, 0, chunk.size),) for chunk in chunks)


def _by_place(chunks: Sequence[WrittenChunk], count: int) -> Iterator[tuple[ChunkRange, ...]]:
    """Cuts at the marks nearest to equal shares."""
    starts = list(accumulate((chunk.size for chunk in chunks), initial=0))
    marks = [start + mark for start, chunk in zip(starts, chunks, strict=False) for mark in chunk.marks]
    cuts = sorted({0, starts[-1], *(_nearest(marks, starts[-1] * i // count) for i in range(1, count))})
    for begin, end in pairwise(cuts):
        yield tuple(_ranges(chunks, starts, begin, end))


def _nearest(marks: Sequence[int], position: int) -> int:
    after = bisect_left(marks, position)
    return min(marks[max(after - 1, 0) : after + 1], key=lambda mark: abs(mark - position))


def _ranges(chunks: Sequence[WrittenChunk], starts: Sequence[int], begin: int, end: int) -> Iterator[ChunkRange]:
    for chunk, start in zip(chunks, starts, strict=False):
        first, last = max(begin - start, 0), min(end - start, chunk.size)
        if first < last:
            yield ChunkRange(chunk.path, first, last)


def _by_segment(chunks: Sequence[WrittenChunk], count: int) -> Iterator[tuple[ChunkRange, ...]]:
    segments = len(chunks[0].marks)
    count = min(count, segments)
    for begin, end in pairwise(segments * i // count for i in range(count + 1)):
        ranges = [ChunkRange(p.path, p.marks[begin - 1] if begin else 0, p.marks[end - 1]) for p in chunks]
        yield tuple(r for r in ranges if r.begin < r.end)
