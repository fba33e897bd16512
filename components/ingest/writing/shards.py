"""The rule for how many shards a split has and where each begins, for writing and for planning.

TensorFlow's guide to TFRecords (https://www.tensorflow.org/tutorials/load_data/tfrecord): ten files or more for each
host that reads, so that hosts shard by file and each still reads several at once; each file of 10 MB or more, and
better of over 100 MB, so that opening files costs little.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

FILES_PER_READER = 10
LEAST_BYTES = 10 << 20
FRAME_BYTES = 16
"""What a TFRecord adds to each record: its length and two checksums."""
_MARKS = 128


@dataclass(frozen=True)
class Layout:
    """How the records of every split are laid out.

    shard_bytes: largest file, before compression. readers: hosts that read at the same time. gzip: compress the files.
    seed: of the shuffle across all files; None keeps the order of the source.
    """

    shard_bytes: int
    readers: int
    gzip: bool
    seed: int | None = None

    @property
    def mark_bytes(self) -> int:
        """How far apart the places are, at most, where one file may end and the next begin."""
        return max(self.shard_bytes // _MARKS, 1)


@dataclass(frozen=True)
class Chunk:
    """Records that one worker wrote, uncompressed and one after the other.

    marks: increasing byte offsets at which a record ends; the last is the chunk's size. Of a shuffled chunk: where each
    of its segments ends, some of them empty.
    """

    path: str
    rows: int
    marks: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.marks[-1] if self.marks else 0


@dataclass(frozen=True)
class Range:
    """Bytes `begin` to `end` of a chunk: whole records."""

    path: str
    begin: int
    end: int


def shard_count(size: int, layout: Layout) -> int:
    """Returns how many files `size` bytes of records are written in.

    Ten per reader, unless they would be of less than 10 MB (then fewer), or larger than the layout allows (then more).

    Example:
        >>> layout = Layout(shard_bytes=128 << 20, readers=1, gzip=False)
        >>> [shard_count(megabytes << 20, layout) for megabytes in (1, 35, 500, 5000)]
        [1, 3, 10, 40]
    """
    wanted = min(FILES_PER_READER * layout.readers, size // LEAST_BYTES)
    needed = -(-size // (layout.shard_bytes - layout.mark_bytes + 1))
    return max(1, wanted, needed)


def cut(chunks: Sequence[Chunk], layout: Layout) -> list[tuple[Range, ...]]:
    """Returns what each file of a split holds, all files about equally large; none is empty.

    In the order of the source a file holds a run of records. Shuffled, it holds one segment after the other of every
    chunk, whose records are yet to be put into an order of their own.
    """
    chunks = [chunk for chunk in chunks if chunk.size]
    if not chunks:
        return []
    count = shard_count(sum(chunk.size for chunk in chunks), layout)
    shards = _by_place(chunks, count) if layout.seed is None else _by_segment(chunks, count)
    return [shard for shard in shards if shard]


def whole_chunk(ranges: Sequence[Range], chunks: Sequence[Chunk]) -> bool:
    """Whether a file is one whole chunk, so that nothing need be copied."""
    return any(ranges == (Range(chunk.path, 0, chunk.size),) for chunk in chunks)


def _by_place(chunks: Sequence[Chunk], count: int) -> Iterator[tuple[Range, ...]]:
    """Cuts at the marks nearest to equal shares."""
    starts = list(accumulate((chunk.size for chunk in chunks), initial=0))
    marks = [start + mark for start, chunk in zip(starts, chunks, strict=False) for mark in chunk.marks]
    cuts = sorted({0, starts[-1], *(_nearest(marks, starts[-1] * i // count) for i in range(1, count))})
    for begin, end in pairwise(cuts):
        yield tuple(_ranges(chunks, starts, begin, end))


def _nearest(marks: Sequence[int], place: int) -> int:
    after = bisect_left(marks, place)
    return min(marks[max(after - 1, 0) : after + 1], key=lambda mark: abs(mark - place))


def _ranges(chunks: Sequence[Chunk], starts: Sequence[int], begin: int, end: int) -> Iterator[Range]:
    for chunk, start in zip(chunks, starts, strict=False):
        first, last = max(begin - start, 0), min(end - start, chunk.size)
        if first < last:
            yield Range(chunk.path, first, last)


def _by_segment(chunks: Sequence[Chunk], count: int) -> Iterator[tuple[Range, ...]]:
    segments = len(chunks[0].marks)
    count = min(count, segments)
    for begin, end in pairwise(segments * i // count for i in range(count + 1)):
        ranges = [Range(p.path, p.marks[begin - 1] if begin else 0, p.marks[end - 1]) for p in chunks]
        yield tuple(r for r in ranges if r.begin < r.end)
