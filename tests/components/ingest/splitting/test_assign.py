import hashlib

import numpy as np
import pyarrow as pa
import pytest

from fullpass.components.ingest.config import ColumnSplit, HashSplit, RandomSplit, TimeSplit
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.splitting.assign import NO_SPLIT, assign
from fullpass.preprocessing.values.raw_text import RawText


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


def test_rows_of_many_columns_are_hashed_as_documented():
    cells = {f"c{column}": ["x", None, str(column)] for column in range(150)}
    rows = [[f"\x1f{name}\x1f{of[row]}" for name, of in sorted(cells.items()) if of[row]] for row in range(3)]
    table = pa.table({name: pa.array(column, pa.string()) for name, column in cells.items()})
    assert contents(table).to_pylist() == ["".join(row).encode() for row in rows]


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


def test_lists_of_a_fixed_size_are_hashed_like_others():
    for lists in ([[1.5, 2.0], None, [3.0, 4.5]], [[1.5], None, [2.0]], [None, None], [[[1.5], [2.0]], None]):
        size = max([len(values) for values in lists if values] or [1])
        of = pa.list_(pa.float64()) if lists == [[[1.5], [2.0]], None] else pa.float64()
        fixed = pa.table({"a": pa.array(lists, pa.list_(of, size)), "b": list(range(len(lists)))})
        other = pa.table({"a": pa.array(lists, pa.list_(of)), "b": list(range(len(lists)))})
        assert contents(fixed).to_pylist() == contents(other).to_pylist(), lists


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


def test_a_gap_before_each_later_split_is_in_none():
    until = {"train": "2020-01-10", "eval": "2020-01-20"}
    days = ["2020-01-06", "2020-01-07", "2020-01-09", "2020-01-10", "2020-01-16", "2020-01-17", "2020-01-25", "x"]
    table = pa.table({"at": days})
    for gap, found in (("3d", [0, -2, -2, 1, 1, -2, 2, -1]), (None, [0, 0, 0, 1, 1, 1, 2, -1])):
        split = TimeSplit(method="time", column="at", until=until, rest="test", gap=gap)
        assert assign(split, table, np.arange(len(days)), file_index=0).tolist() == found


def test_column_values():
    split = ColumnSplit(method="column", column="part", values={"train": ("a", "b"), "eval": "c"})
    assert assign_all(split, pa.table({"part": ["b", "c", "a", "d", None]})) == [0, 1, 0, NO_SPLIT, NO_SPLIT]


@pytest.mark.parametrize(
    ("format", "before", "after", "until"),
    [
        ("iso", "2024-06-07 23:59:59.25 UTC", "2024-06-08 00:00:00 UTC", "2024-06-08"),
        ("iso", "2024-06-07T23:59:59,999999999z", "2024-06-08t00", "20240608"),
        ("iso", "20240607.0", "20240608", "2024-W23-6"),
        ("iso", "2024-06-07T23:00:00-0030", "2024-06-07T23:30:00-0030", "2024-06-08"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-06-07 23:59:59.123456789", "2024-06-08 0:00:00.0", "2024-06-08 00:00:00.0"),
        ("%F %T %z", " 2024-06-07 23:59:59 UTC", "2024-06-08 00:00:00 Z", "2024-06-08 00:00:00 +00:00"),
        ("epoch_seconds", "1.5e9", "1500000000.5", "1500000000.25"),
    ],
)
def test_time_splits_read_the_dates_of_features(format, before, after, until):
    """The dates are read by a date feature too: `test_date_ops` compares its reader with that of splits."""
    split = TimeSplit(method="time", column="at", format=format, until={"train": until})
    assert assign(split, pa.table({"at": [before, after, "soon", None]}), np.arange(4), file_index=0).tolist() == [
        0,
        1,
        NO_SPLIT,
        NO_SPLIT,
    ]


def test_time_splits_by_several_columns_joined():
    split = TimeSplit(method="time", column=("year", "month"), format="%Y-%m", until={"train": "2021-10"})
    years = [2021, 2021, 2021, 2022, None]
    table = pa.table({"year": pa.array(years, pa.int64()), "month": ["9", "10", "02", "1", "1"]})
    assert assign_all(split, table) == [0, 1, 0, 1, NO_SPLIT]


def as_lists(table: pa.Table) -> pa.Table:
    """Returns a table whose cells are lists of one, as in tf.Examples; a missing cell is an absent feature."""
    return pa.table(
        {name: [None if cell is None else [cell] for cell in table[name].to_pylist()] for name in table.column_names}
    )


_ROWS = pa.table(
    {
        "id": [b"trip-1", b"trip-2", b"trip-3", None] * 25,
        "shop": [3.0, 4.0, 5.0, 6.0] * 25,
        "at": ["2024-01-01", "2024-01-02T10:00:00", "2024-01-09", None] * 25,
    }
)


@pytest.mark.parametrize(
    "split",
    [
        HashSplit(method="hash", column="id", ratios={"train": 1, "eval": 1}),
        HashSplit(method="hash", column="shop", ratios={"train": 1, "eval": 1}),
        HashSplit(method="hash", column=("id", "shop"), ratios={"train": 1, "eval": 1}),
        HashSplit(method="hash"),
        ColumnSplit(method="column", column="shop", values={"train": ("3", "4.0"), "eval": "5"}),
        TimeSplit(method="time", column="at", until={"train": "2024-01-03"}),
    ],
    ids=str,
)
def test_lists_of_one_value_are_split_as_the_value(split):
    assert assign_all(split, as_lists(_ROWS)) == assign_all(split, _ROWS)


def test_a_longer_list_fits_no_split_by_value():
    split = ColumnSplit(method="column", column="part", values={"train": "a", "eval": "b"})
    parts = pa.array([["a"], ["b", "a"], [], ["b"]])
    assert assign_all(split, pa.table({"part": parts})) == [0, NO_SPLIT, NO_SPLIT, 1]


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["3067.0", "3067", "3067.00"]),
        pa.array([3067.0, 3067.0, None]).fill_null(3067),
        pa.array(["3067", "3067", "3067"]),
        pa.array([3067, 3067, 3067]),
    ],
    ids=["text", "float", "digits", "int"],
)
def test_a_key_is_the_same_in_every_spelling(cells):
    fraction = int.from_bytes(hashlib.blake2b(b"3067", digest_size=8).digest(), "big") / 2**64
    split = HashSplit(method="hash", column="k", ratios={"train": fraction - 0.001, "eval": 1.001 - fraction})
    assert assign_all(split, pa.table({"k": cells})) == [1, 1, 1]
    by_value = ColumnSplit(method="column", column="k", values={"train": "1", "eval": "3067.0"})
    assert assign_all(by_value, pa.table({"k": cells})) == [1, 1, 1]


def test_values_of_a_decimal_comma_and_booleans_are_split_in_every_spelling():
    split = ColumnSplit(method="column", column="k", values={"train": ("101", "True"), "eval": ("102,0", "false")})
    cells = pa.table({"k": ["101,0", "102", "102,0", "TRUE", "False", "101.0"]})
    found = assign(split, cells, np.arange(6), file_index=0, text=RawText(decimal=","))
    assert found.tolist() == [0, 1, 1, 0, 1, NO_SPLIT]
    assert assign_all(split, pa.table({"k": [True, False]})) == [0, 1]


def test_a_key_of_several_columns_is_the_json_list_of_its_tokens():
    table = pa.table({"p": ["a", "ab", "a", None], "q": ["bc", "c", None, None]})
    texts = ['["a", "bc"]', '["ab", "c"]', '["a", null]']
    fractions = [int.from_bytes(hashlib.blake2b(t.encode(), digest_size=8).digest(), "big") / 2**64 for t in texts]
    assert len(set(fractions)) == 3
    for share in (0.2, 0.4, 0.6, 0.8):
        split = HashSplit(method="hash", column=("p", "q"), ratios={"train": share, "eval": 1 - share})
        assert assign_all(split, table)[:3] == [int(fraction >= share) for fraction in fractions]


def test_rows_without_any_part_of_the_key_are_spread():
    split = HashSplit(method="hash", column=("p", "q"))
    table = pa.table({"p": pa.nulls(300, pa.string()), "q": pa.nulls(300, pa.int64())})
    assert 20 < sum(assign_all(split, table)) < 120
    partly = pa.table({"p": pa.nulls(300, pa.string()), "q": [7] * 300})
    assert len(set(assign_all(split, partly))) == 1
