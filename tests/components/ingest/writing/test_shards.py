"""The rule for the number of files, and the places where they are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullpass.components.ingest.writing.shards import ShardLayout, WrittenChunk, cut, shard_count, whole_chunk

MB = 1 << 20


def layout(shard_mb=128, readers=1, seed=None):
    return ShardLayout(shard_mb * MB, readers, gzip=False, seed=seed)


@pytest.mark.parametrize(
    ("megabytes", "readers", "count"),
    [
        (0, 1, 1),
        (9, 1, 1),  # under 10 MB
        (19, 1, 1),  # two files would be under 10 MB each
        (20, 1, 2),
        (99, 1, 9),
        (100, 1, 10),  # ten per reader
        (1200, 1, 10),  # 120 MB each
        (1200, 4, 40),
        (1200, 500, 120),  # 10 MB each
        (12_800, 1, 101),  # 100 files of exactly 128 MB leave no room for record boundaries
        (128_000, 4, 1008),
    ],
)
def test_count(megabytes, readers, count):
    assert shard_count(megabytes * MB, layout(readers=readers)) == count


def test_a_small_shard_mb_is_obeyed():
    assert shard_count(20 * MB, layout(shard_mb=1)) == 21


def chunks_of(sizes):
    """Returns one chunk per list of record sizes, with a mark at every record."""
    ends = [[sum(chunk[: i + 1]) for i in range(len(chunk))] for chunk in sizes]
    return [
        WrittenChunk(f"p{i:03d}", len(chunk), tuple(marks))
        for i, (chunk, marks) in enumerate(zip(sizes, ends, strict=True))
    ]


SIZES = st.lists(st.lists(st.integers(17, 400), max_size=40), max_size=8)


@pytest.mark.integration
@given(sizes=SIZES, readers=st.integers(1, 5), shard_bytes=st.integers(2_000, 20_000))
def test_every_byte_is_in_one_file_in_order(sizes, readers, shard_bytes):
    chunks = chunks_of(sizes)
    found = list(cut(chunks, ShardLayout(shard_bytes, readers, gzip=False)))
    joined = [r for shard in found for r in shard]
    assert all(shard for shard in found)
    for chunk in chunks:
        of_chunk = [r for r in joined if r.path == chunk.path]
        assert [r.begin for r in of_chunk] == [0, *(r.end for r in of_chunk)][: len(of_chunk)]
        assert not of_chunk or of_chunk[-1].end == chunk.size
        assert all(r.end in chunk.marks for r in of_chunk)
    assert [r.path for r in joined] == sorted(r.path for r in joined)


@pytest.mark.parametrize("seed", range(5))
def test_no_file_is_larger_than_allowed_and_all_are_alike(seed):
    laid_out = ShardLayout(250_000, 1, gzip=False)
    ends = np.cumsum(np.random.default_rng(seed).integers(17, 1000, size=4000))
    chunk = WrittenChunk("p", 4000, tuple(ends.tolist()))
    found = cut([chunk], laid_out)
    sizes = [sum(r.end - r.begin for r in shard) for shard in found]
    assert len(sizes) == shard_count(chunk.size, laid_out)
    assert max(sizes) <= laid_out.shard_bytes
    assert max(sizes) - min(sizes) <= 2000  # two records


def test_records_larger_than_a_file_have_files_of_their_own():
    (chunk,) = chunks_of([[5000, 5000, 5000]])
    assert [len(shard) for shard in cut([chunk], ShardLayout(1000, 1, gzip=False))] == [1, 1, 1]


def test_shuffled_files_take_a_share_of_every_chunk():
    chunks = [WrittenChunk("a", 8, (10, 20, 20, 40)), WrittenChunk("b", 2, (0, 0, 100, 200))]
    found = cut(chunks, ShardLayout(180, 1, gzip=False, seed=1))
    assert [[(r.path, r.begin, r.end) for r in shard] for shard in found] == [
        [("a", 0, 20)],
        [("a", 20, 40), ("b", 0, 200)],
    ]


def test_a_file_that_is_one_chunk():
    chunks = chunks_of([[30, 40]])
    (ranges,) = cut(chunks, layout())
    assert whole_chunk(ranges, chunks)
    two = chunks_of([[30], [40]])
    assert not whole_chunk(next(cut(two, layout())), two)


def test_nothing():
    assert not list(cut([], layout())) and not list(cut([WrittenChunk("a", 0, ())], layout()))
