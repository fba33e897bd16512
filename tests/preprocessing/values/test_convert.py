import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.arrow_text import to_text
from fullpass.preprocessing.values.convert import convert

NUMBER = RawColumn("x", "number")
STRING = RawColumn("x", "string")
PAIR = RawColumn("x", "vector", 2)
INDIA = pa.array(pd.to_datetime(["2020-01-02T03:04+05:30"])).type
NEW_YORK = pa.timestamp("ms", "America/New_York")


def values(column, raw, *, missing=("", "NA"), strip=True, decimal="."):
    converted = convert(column, raw, strip=strip, missing=missing, decimal=decimal)
    return converted.values.to_pylist(), converted.bad.tolist()


def test_zero_false_and_empty_text_are_values():
    assert values(pa.array([0, None, 7]), NUMBER) == ([[0.0], None, [7.0]], [False] * 3)
    assert values(pa.array([0.0, None]), NUMBER) == ([[0.0], None], [False] * 2)
    assert values(pa.array([False, True, None]), NUMBER) == ([[0.0], [1.0], None], [False] * 3)
    assert values(pa.array(["", "a", None]), STRING, missing=()) == ([[b""], [b"a"], None], [False] * 3)


def test_text_of_csv_becomes_numbers_and_the_rest_is_bad():
    cells = pa.array([b"1.5", b" -2e3 ", b"", b"NA", b"12x", b"+7", b".5", b"1,000"], type=pa.binary())
    numbers, bad = values(cells, NUMBER)
    assert numbers == [[1.5], [-2000.0], None, None, None, [7.0], [0.5], None]
    assert bad == [False, False, False, False, True, False, False, True]


@pytest.mark.parametrize("more", [[], ["x"]])
def test_a_number_in_text_does_not_depend_on_its_neighbours(more):
    no_numbers, too_large = ["nan", "-NaN", "nan(1)"], ["inf", "-Infinity", "1e39", "1e400"]
    other_text = ["0x1A", "1_0", "１", "1e", " 5", ""]
    cells = [*no_numbers, *too_large, "1e-400", *other_text, *more]
    numbers, bad = values(pa.array(cells), NUMBER, missing=(), strip=False)
    assert numbers[:14] == [*[None] * 7, [0.0], *[None] * 6]
    assert bad[:14] == [*[False] * 3, *[True] * 4, False, *[True] * 6]


def test_decimal_comma():
    numbers, bad = values(pa.array(["1,5", "-2", ",5", "1.5", "1.234,5", "1,2,3", "NA"]), NUMBER, decimal=",")
    assert numbers == [[1.5], [-2.0], [0.5], None, None, None, None]
    assert bad == [False, False, False, True, True, True, False]


def test_numbers_become_text_with_the_decimal_sign_of_their_format():
    comma = RawColumn("x", "string", decimal=",")
    found, _ = values(pa.array([1234.5, -0.25, 7.0, None]), comma)
    assert found == [[b"1234,5"], [b"-0,25"], [b"7"], None]
    assert values(pa.array(["1.234,5"]), comma)[0] == [[b"1.234,5"]]
    found, _ = values(pa.array([[1.5, 2.0]]), RawColumn("x", "string", many=True, decimal=","))
    assert found == [[b"1,5", b"2"]]


def test_numbers_beyond_float32_are_bad_and_nan_is_missing():
    numbers, bad = values(pa.array([1e39, float("nan"), 3e38, float("-inf")]), NUMBER)
    assert numbers == [None, None, [np.float32(3e38)], None] and bad == [True, False, False, True]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-999, 1, None]),
        pa.array([-999.0, 1, None]),
        pa.array(["-999", "1", None]),
        pa.array(["-999.0", "1", "NA"]),
    ],
)
def test_a_missing_token_that_is_a_number_means_the_number(column):
    assert values(column, NUMBER, missing=("NA", "-999")) == ([None, [1.0], None], [False] * 3)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_infinity_may_mean_missing(kind):
    column = pa.array(np.array([np.inf, 1, -np.inf], kind.to_pandas_dtype()))
    assert values(column, NUMBER, missing=("inf", "nan(1)")) == ([None, [1.0], None], [False, False, True])
    assert values(column, NUMBER, missing=("Infinity", "-inf")) == ([None, [1.0], None], [False] * 3)
    assert values(column, NUMBER, missing=("1e400",)) == ([None, [1.0], None], [True, False, True])


def test_in_texts_a_missing_token_is_a_text():
    assert values(pa.array(["-999", "-999.0"]), STRING, missing=("-999",))[0] == [None, [b"-999.0"]]
    assert values(pa.array([b"-", b"\xff"]), STRING, missing=("-",))[0] == [None, [b"\xff"]]


def test_bytes_are_kept_as_text_and_must_be_utf8_as_numbers():
    cells = pa.array([b"caf\xc3\xa9", b"caf\xe9", b" 7"], type=pa.binary())
    for kind in (pa.binary(), pa.large_binary()):
        assert values(cells.cast(kind), STRING) == ([[b"caf\xc3\xa9"], [b"caf\xe9"], [b" 7"]], [False] * 3)
    converted = convert(cells, NUMBER, strip=True, missing=())
    assert converted.values.to_pylist() == [None, None, [7.0]]
    assert [converted.reason_of(row) for row in (0, 1)] == ["not a number", "not UTF-8"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([8.0, 8.5, None, float("nan"), -0.0]), ["8", "8.5", None, None, "0"]),
        (pa.array([0.1, 1e22], pa.float32()), ["0.1", "1e+22"]),
        (pa.array(np.array([1.5, 2], np.float16)), ["1.5", "2"]),
        (pa.array([2**60, -1, None]), ["1152921504606846976", "-1", None]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([datetime.date(2020, 2, 29), None]), ["2020-02-29", None]),
        (pa.array([datetime.date(1, 1, 1)], pa.date64()), ["0001-01-01"]),
        (pa.array([decimal.Decimal("1.50"), None]), ["1.50", None]),
        (pa.array([decimal.Decimal("1E+3")], pa.decimal128(10, -2)), ["1000"]),
        (pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 3)), ["1.500"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array(["a", None], pa.large_string()), ["a", None]),
        (pa.array([b"ab"], pa.binary(2)), ["ab"]),
        (pa.array([datetime.time(13, 5), datetime.time(1, 2, 3, 400)]), ["13:05:00", "01:02:03.0004"]),
        (pa.array([datetime.timedelta(minutes=1), datetime.timedelta(seconds=1.5)]), ["60", "1.5"]),
        (pa.array([datetime.datetime(2020, 1, 2, 3, 4, 5), None], pa.timestamp("s")), ["2020-01-02T03:04:05", None]),
        (pa.array([datetime.datetime(2020, 1, 2, 3, 4, 5, 120_000)]), ["2020-01-02T03:04:05.12"]),
        (pa.array([datetime.datetime(2020, 1, 2, 15)], NEW_YORK), ["2020-01-02T10:00:00-0500"]),
        (pa.array([datetime.datetime(2020, 1, 2, 20), None], INDIA), ["2020-01-03T01:30:00+0530", None]),
        (pa.array([datetime.datetime(2020, 1, 2, 3)], pa.timestamp("us", "-03:30")), ["2020-01-01T23:30:00-0330"]),
        (pa.nulls(2), [None, None]),
    ],
)
def test_text_of_other_types(column, expected):
    texts, bad = to_text(column, strip=False, missing=())
    assert texts.to_pylist() == expected and not bad.any()
    converted = convert(column, STRING, strip=False, missing=())
    assert converted.values.to_pylist() == [None if text is None else [text.encode()] for text in expected]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([2**53 + 1, -(2**63)]), [2.0**53, -(2.0**63)]),
        (pa.array([2**64 - 1], pa.uint64()), [2.0**64]),
        (pa.array([2**24 + 1, None, 3], pa.int32()), [2.0**24, None, 3.0]),
        (pa.array(np.array([1.5], np.float16)), [1.5]),
        (pa.array([decimal.Decimal("1.50"), None]), [1.5, None]),
        (pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 3)), [1.5]),
        (pa.array([datetime.time(0, 1, 0, 500_000)]), [60.5]),
        (pa.array([datetime.time(0, 1)], pa.time32("s")), [60.0]),
        (pa.array([datetime.timedelta(days=-1)]), [-86_400.0]),
        (pa.array([7, 8, 7]).dictionary_encode(), [7.0, 8.0, 7.0]),
        (pa.nulls(1), [None]),
    ],
)
def test_numbers_of_other_types(column, expected):
    assert values(column, NUMBER, missing=())[0] == [None if n is None else [n] for n in expected]


@pytest.mark.parametrize("day", ["0000-12-31", "10000-01-01"])
def test_years_outside_the_calendar_are_bad(day):
    column = pa.array([np.datetime64(day, "s"), np.datetime64("2020-01-01", "s")])
    converted = convert(column, STRING, strip=False, missing=())
    assert converted.bad.tolist() == [True, False] and "years 1 to 9999" in converted.reason


@pytest.mark.parametrize(
    ("column", "raw", "expected"),
    [
        (pa.array([{"a": 1, "b": {"c": 2}}]), STRING, "is a struct. Name one of its fields: x.a, x.b."),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), NUMBER, "of the type map<"),
        (pa.array([datetime.datetime(2020, 1, 1)]), NUMBER, "Declare a feature of type date"),
        (pa.array([datetime.date(2020, 1, 1)]), NUMBER, "Declare a feature of type date"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), STRING, "which raw columns do not support"),
    ],
)
def test_types_that_nothing_can_hold_say_so(column, raw, expected):
    with pytest.raises(UserError, match=expected):
        convert(column, raw, strip=False, missing=())


LIST_KINDS = [pa.list_(pa.float64()), pa.large_list(pa.int32()), pa.list_(pa.decimal128(5, 1))]


@pytest.mark.parametrize("kind", LIST_KINDS)
def test_vectors(kind):
    column = pa.array([[1, 2], [1], None, [], [3, None], [4, 5]], kind)
    for sliced in (column, pa.concat_arrays([column, column]).slice(6)):
        found, bad = values(sliced, PAIR)
        assert found == [[1.0, 2.0], None, None, None, None, [4.0, 5.0]]
        assert bad == [False, True, False, False, True, False]


def test_vectors_of_text_of_fixed_size_and_of_lists():
    assert values(pa.array([["1", "2"], ["1", "x"]]), PAIR) == ([[1.0, 2.0], None], [False, True])
    fixed = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    assert values(fixed, PAIR)[0] == [[1.0, 2.0], None, [3.0, 4.0]]
    nested = pa.array([[[1, 2], [3]], [[], []], None, [[4], [5, 6]]])
    assert values(nested, RawColumn("x", "vector", 3))[0] == [[1.0, 2.0, 3.0], None, None, [4.0, 5.0, 6.0]]
    with_nan = pa.array([[1.0, float("nan")], [1.0, 1e39]])
    assert values(with_nan, PAIR) == ([None, None], [True, True])


def test_what_is_no_list_is_no_vector():
    converted = convert(pa.array([1.0, None]), PAIR, strip=False, missing=())
    assert converted.bad.tolist() == [True, False] and converted.reason == "not a list of numbers"


def test_lists_of_one_value_are_that_value():
    column = pa.array([[1], [], None, [1, 2], [None]])
    found, bad = values(column, NUMBER)
    assert found == [[1.0], None, None, None, None] and bad == [False, False, False, True, False]
    converted = convert(pa.array([["a"], ["b", "c"]]), STRING, strip=False, missing=())
    assert converted.values.to_pylist() == [[b"a"], None]
    assert (
        converted.reason
        == "several values, expected one (a feature reads lists with `list: true`, a label text with `separator`)"
    )


@given(st.lists(st.one_of(st.none(), st.floats(width=32, allow_nan=False, allow_infinity=False))))
def test_every_float32_comes_back_from_its_text(numbers):
    cells = pa.array([None if n is None else repr(n).encode() for n in numbers], type=pa.binary())
    converted = convert(cells, NUMBER, strip=True, missing=())
    assert not converted.bad.any()
    assert converted.values.to_pylist() == [None if n is None else [n] for n in numbers]


@pytest.mark.integration
@given(st.lists(st.one_of(st.none(), st.text())))
def test_every_text_comes_back(texts):
    converted = convert(pa.array(texts, type=pa.string()), STRING, strip=False, missing=())
    assert not np.any(converted.bad)
    assert converted.values.to_pylist() == [None if t is None else [t.encode()] for t in texts]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_a_missing_number_outside_the_range_of_a_column_matches_no_cell(kind):
    column = pa.array(np.array([np.inf, 1, -np.inf], kind.to_pandas_dtype()))
    assert values(column, NUMBER, missing=("1e300", "1")) == ([None, None, None], [True, False, True])
