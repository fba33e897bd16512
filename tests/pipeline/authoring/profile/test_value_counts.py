import numpy as np
import pyarrow as pa
import pytest

from fullpass.pipeline.authoring.profile.value_counts import count_values
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import convert, read_numbers
from tests.pipeline.authoring.tables import values_of as values

NAN = np.nan


def test_values_are_sorted_by_count_then_by_text():
    column = values(["b", "a", None, "c", "b", "c", "d"])
    assert column.texts == ("b", "c", "a", "d")
    assert column.counts.tolist() == [2, 2, 1, 1]
    assert column.codes.tolist() == [0, 2, -1, 1, 0, 1, 3]
    assert (column.present, column.rows, column.distinct) == (6, 7, 4)
    assert column.missing_share == pytest.approx(1 / 7)


def test_values_can_be_made_missing():
    column = values(["b", "a", "?", "b", None]).without(["?"])
    assert column.texts == ("b", "a")
    assert column.codes.tolist() == [0, 1, -1, 0, -1]


def test_what_is_left_is_read_as_before():
    column = values(["1e400", "2", "?", "nan", "-999", "2", None, "-999.0"])
    assert column.numbers.tolist() == pytest.approx([2, -999, -999, NAN, NAN, NAN], nan_ok=True)
    assert column.held(["?", "2", "x"]) == {"?", "2"}
    left = column.without(["-999", "?", "x"])
    assert left.row_numbers.tolist() == pytest.approx([NAN, 2, NAN, NAN, NAN, 2, NAN, -999], nan_ok=True)
    assert left.row_is_wrong.tolist() == [True, *[False] * 7]
    assert left.without(["x"]) is left
    assert column.with_decimal(".") is column
    assert values(["1,5", "2.5"]).with_decimal(",").numbers.tolist() == pytest.approx([1.5, NAN], nan_ok=True)


def test_a_column_without_rows_has_no_values():
    column = values([])
    assert (column.present, column.missing_share, column.number_share) == (0, 0.0, 0.0)
    assert column.row_numbers.tolist() == []


NUMBERS = ["1", "-2.5", "+3", ".5", "5.", "1e3", "1E-3", "1e400", "0x10", "1_0", "", "nan", "1,5", "٣", "9" * 40, None]


def test_numbers_are_those_that_ingest_reads():
    column = pa.array(NUMBERS, pa.string())
    as_ingest = convert(column, RawColumn("x", "number"), strip=False, missing=())
    pairs = zip(as_ingest.values.to_pylist(), as_ingest.bad, strict=True)
    expected = [NAN if bad or value is None else value[0] for value, bad in pairs]
    np.testing.assert_allclose(values(NUMBERS).row_numbers, expected, rtol=1e-6)


def test_a_decimal_comma_is_read():
    assert values(["1,5", "2"], decimal=",").row_numbers.tolist() == [1.5, 2]
    assert np.isnan(values(["1.5"], decimal=",").row_numbers).all()


@pytest.mark.parametrize(
    ("cells", "decimal", "texts", "codes"),
    [
        (["7.0", "8", "7", None, "8.5"], ".", ("7", "8", "8.5"), [0, 1, 0, -1, 2]),
        (["7,0", "8", "7", "8.0"], ",", ("7", "8", "8.0"), [0, 1, 0, 2]),
        (["True", "true", "FALSE"], ".", ("true", "false"), [0, 0, 1]),
        (["7.0", "8.0"], ".", ("7.0", "8.0"), [0, 1]),  # as they are written
    ],
)
def test_several_spellings_are_one_value(cells, decimal, texts, codes):
    found = count_values(pa.array(cells, pa.string()), decimal=decimal).in_tokens()
    assert (found.texts, found.codes.tolist(), found.decimal) == (texts, codes, decimal)


@pytest.mark.parametrize("decimal", [".", ","])
def test_many_rows_at_once_read_as_one_by_one(decimal):
    texts = [t for t in [*NUMBERS, "?", "1.5"] if t != "1e400"]
    by_value = values(texts, decimal=decimal).without(["?"])
    at_once, bad = read_numbers(pa.array(texts, pa.string()), missing=["?"], decimal=decimal)
    np.testing.assert_allclose(at_once, by_value.row_numbers)
    assert bad.sum() == int(by_value.counts[np.isnan(by_value.numbers)].sum()) - texts.count("nan")  # that is missing
