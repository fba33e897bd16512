"""Values of several types in one column, as JSON lines have them."""

import math

import pyarrow as pa
import pytest

from fullpass.components.ingest.readers.objects import array_of
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import convert


@pytest.mark.parametrize("value", [0.00001, 1.5e-7, 1e16, 3.0, 0.1, 1e22, math.nan, math.inf, True, 7, 2**60, None])
def test_a_value_is_the_same_token_and_number_whatever_is_beside_it(value):
    """Against the column that has this value alone, which Arrow converts."""
    for kind in ("string", "number"):
        raw = RawColumn("x", kind)
        alone, beside = array_of([value], numbers=kind == "number"), array_of([value, "a"], numbers=kind == "number")
        assert beside.type == pa.string()
        one, other = (convert(array, raw, strip=False, missing=()) for array in (alone, beside))
        assert one.flat[0].as_py() == other.flat[0].as_py() and bool(one.bad[0]) == bool(other.bad[0]), kind


def test_elements_of_lists_are_the_same_whatever_is_beside_them():
    rows = [[0.00001, None], 2.0, None, [True, "a"]]
    assert array_of(rows).to_pylist() == [["0.00001", None], ["2"], None, ["true", "a"]]
    assert array_of([[[0.5], 1], "a"]).to_pylist() == [[["0.5"], ["1"]], [["a"]]]


def test_fractions_beside_texts_have_the_decimal_sign_of_their_column():
    assert array_of([1234.5, "1.234,5", 7, None], decimal=",").to_pylist() == ["1234,5", "1.234,5", "7", None]
    assert array_of([[0.5, "1,5"], 2.25], decimal=",").to_pylist() == [["0,5", "1,5"], ["2,25"]]
