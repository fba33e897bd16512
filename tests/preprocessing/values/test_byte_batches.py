"""Batches bounded by rows and by bytes, against sums computed by hand."""

import numpy as np
import pyarrow as pa
import pytest

from fullpass.preprocessing.values.byte_batches import cut_batch, gather, object_bytes, row_bytes


def test_lists_are_as_long_as_rows_and_bytes_allow():
    items = [b"a" * n for n in (4, 4, 4, 11, 1, 1, 1, 1)]
    sizes = [[len(item) for item in batch] for batch in gather(items, len, rows=3, most_bytes=10)]
    assert sizes == [[4, 4], [4], [11], [1, 1, 1], [1]]
    assert list(gather([], len, rows=3)) == []


def test_tables_are_cut_where_the_bytes_of_their_rows_say():
    table = pa.table({"text": ["x" * n for n in (4, 4, 4, 11, 1, 1, 1, 1)]})
    pieces = list(cut_batch(table, rows=3, most_bytes=10))
    assert [piece.num_rows for piece in pieces] == [2, 1, 1, 3, 1]
    assert pa.concat_tables(pieces).equals(table)
    assert [p.num_rows for p in cut_batch(table.to_batches()[0], rows=5, most_bytes=1000)] == [5, 3]
    assert list(cut_batch(table.slice(0, 0), rows=3)) == []


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["ab", None, "", "xyz"]), [2, 0, 0, 3]),
        (pa.array([b"ab", None, b"", b"\xff\xff\xff"], pa.large_binary()), [2, 0, 0, 3]),
        (pa.array(["ab", None, "ab", "xyz"]).dictionary_encode(), [2, 0, 2, 3]),
        (pa.array([["ab", "c"], None, [], ["xyz"]]), [3, 0, 0, 3]),
        (pa.array([[1.0, 2.0], [], [3.0], None], pa.large_list(pa.float32())), [8, 0, 4, 0]),
        (pa.array([1, 2, 3, 4], pa.int64()), [8, 8, 8, 8]),
    ],
)
def test_the_bytes_of_rows(column, expected):
    assert row_bytes(pa.table({"column": column})).tolist() == expected
    assert row_bytes(pa.table({"column": column}).slice(1)).tolist() == expected[1:]


def test_repeated_cells_of_a_dictionary_count_as_often_as_they_stand_there():
    table = pa.table({"text": pa.array(["x" * 1000] * 8).dictionary_encode()})
    assert table.nbytes < 4000
    assert [piece.num_rows for piece in cut_batch(table, rows=100, most_bytes=4000)] == [4, 4]


def test_the_bytes_of_objects():
    row = {"a": "abc", "b": [b"12", 5, None], "c": {"d": np.zeros(4, np.float32)}, "e": True}
    assert object_bytes(row) == 3 + (2 + 8 + 8) + 16 + 8
