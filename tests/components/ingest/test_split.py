import hashlib

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.config import ColumnSplit, HashSplit, RandomSplit, TimeSplit
from fullpass.components.ingest.splitting.assign_split import NO_SPLIT, assign
from fullpass.components.ingest.splitting.row_hash import contents, hashes


def assign_all(split, table, first_row=2, file_index=0):
    numbers = np.arange(first_row, first_row + table.num_rows)
    return assign(split, table, numbers, file_index=file_index).tolist()


def test_hash_is_blake2b_of_the_key_cut_by_ratio():
    split = HashSplit(method="hash", column="id", ratios={"train": 3, "eval": 1})
    keys = [f"trip-{i}" for i in range(200)]
    expected = []
    for key in keys:
        fraction = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") / 2**64
        expected.append(0 if fraction < 0.75 else 1)
    assert assign_all(split, pa.table({"id": keys})) == expected
    assert 120 < expected.count(0) < 175


def test_rows_of_one_key_stay_together_wherever_they_stand():
    split = HashSplit(method="hash", column="id")
    one = assign_all(split, pa.table({"id": ["a", "b", "a"], "x": [1, 2, 3]}))
    other = assign_all(split, pa.table({"id": ["b", "a"], "x": [9, 9]}), first_row=500, file_index=3)
    assert one == [other[1], other[0], other[1]]


def test_equal_rows_fall_into_one_split_without_a_key():
    split = HashSplit(method="hash")
    table = pa.table({"a": ["x", "x", "y"] * 30, "b": [1, 1, 2] * 30})
    assert len(set(assign_all(split, table)[0::3])) == 1


def test_all_columns_are_hashed_as_documented():
    """The hashes are from coreutils: printf '\\x1fcity\\x1fOslo\\x1fn\\x1f5' | b2sum -l 64."""
    table = pa.table({"n": [5, None], "city": ["Oslo", None], "at": pa.nulls(2, pa.timestamp("s"))})
    assert [f"{h:016x}" for h in hashes(contents(table)).tolist()] == ["7b2d1f4c6243d28c", "e4a6a0577479b2b4"]
    split = HashSplit(method="hash", ratios={"train": 1, "eval": 1, "test": 1})  # 0x7b.. is in the second third
    assert assign_all(split, table) == [1, 2]


def test_content_does_not_depend_on_column_order_empty_columns_or_arrow_types():
    one = pa.table({"a": ["x", "y"], "b": [1.5, 2.0], "c": [[1], [2, 3]]})
    other = pa.table(
        {
            "new": pa.nulls(2),
            "c": pa.array([[1], [2, 3]], pa.large_list(pa.int32())),
            "b": pa.array(["1.5", "2"]).dictionary_encode(),
            "a": pa.array([b"x", b"y"]),
        }
    )
    assert contents(one).to_pylist() == contents(other).to_pylist() == [b"\x1fa\x1fx\x1fb\x1f1.5\x1fc\x1f1", _LISTED]


_LISTED = b"\x1fa\x1fy\x1fb\x1f2\x1fc\x1f[2, 3]"


def test_rows_without_a_key_are_spread():
    split = HashSplit(method="hash", column="id")
    table = pa.table({"id": pa.array([None] * 300, pa.string()), "x": list(range(300))})
    assert 20 < sum(assign_all(split, table)) < 120


def test_random_does_not_depend_on_how_the_file_is_cut():
    split = RandomSplit(method="random", seed=7, ratios={"train": 1, "eval": 1})
    table = pa.table({"x": list(range(1000))})
    whole = assign_all(split, table)
    pieces = assign_all(split, table.slice(0, 300)) + assign_all(split, table.slice(300), first_row=302)
    assert whole == pieces
    assert 430 < sum(whole) < 570
    other_seed = RandomSplit(method="random", seed=8, ratios={"train": 1, "eval": 1})
    assert assign_all(other_seed, table) != whole


def test_time_splits_by_limits_that_belong_to_the_later_split():
    split = TimeSplit(method="time", column="at", until={"train": "2020-01-01", "eval": "2020-02-01"}, rest="test")
    table = pa.table({"at": ["2019-12-31T23:59:59", "2020-01-01", "2020-01-31", "2020-02-01", "soon", None]})
    assert assign_all(split, table) == [0, 1, 1, 2, NO_SPLIT, NO_SPLIT]


def test_column_values():
    split = ColumnSplit(method="column", column="part", values={"train": ("a", "b"), "eval": "c"})
    assert assign_all(split, pa.table({"part": ["b", "c", "a", "d", None]})) == [0, 1, 0, NO_SPLIT, NO_SPLIT]


def test_time_splits_by_several_columns_joined():
    split = TimeSplit(method="time", column=("year", "month"), format="%Y-%m", until={"train": "2021-10"})
    years = [2021, 2021, 2021, 2022, None]
    table = pa.table({"year": pa.array(years, pa.int64()), "month": ["9", "10", "02", "1", "1"]})
    assert assign_all(split, table) == [0, 1, 0, 1, NO_SPLIT]
