"""Lists of any source as elements of a tf.Example, and the invalid rows."""

import numpy as np
import pyarrow as pa
import pytest

from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.lists import LONGEST_LIST
from fullpass.preprocessing.values.convert import convert

NAN = float("nan")


def converted(column, kind, **fields):
    return convert(column, RawColumn("x", kind, many=True, **fields), strip=True, missing=("", "NA"))


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pa.array([["a", "b"], None, [], [None, "c", "NA"]]), "string", [[b"a", b"b"], None, None, [b"", b"c", b""]]),
        (pa.array([[1.5, 2], None, [None, 3], [None]]), "number", [[1.5, 2], None, [NAN, 3], [NAN]]),
        (pa.array([[1, 2], [3]], pa.large_list(pa.int64())), "string", [[b"1", b"2"], [b"3"]]),
        (pa.array([["2", " 3.5"], ["NA"]]), "number", [[2, 3.5], [NAN]]),
        (pa.array(["s", None]), "string", [[b"s"], None]),
        (pa.array([[["a"], ["b"]], None, [[], ["c"], None]]), "string", [[b"a", b"b"], None, [b"", b"c", b""]]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), "number", [[1, 2], [3, 4]]),
        (pa.array([[b"\xff", b"a"]]), "string", [[b"\xff", b"a"]]),
        (pa.nulls(2), "number", [None, None]),
    ],
)
def test_elements_keep_their_place(column, kind, expected):
    found = converted(column, kind)
    assert not found.bad.any()
    received = found.flat.to_pylist()
    assert [row is None for row in received] == [row is None for row in expected]
    for row, wanted in zip(received, expected, strict=True):
        np.testing.assert_array_equal(row, wanted) if row is not None else None


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        (["1| 2", "", None, "3"], "number", [[1, 2], None, None, [3]]),
        (["a|b||c", "|"], "string", [[b"a", b"b", b"", b"c"], [b"", b""]]),
    ],
)
def test_a_separator_splits_cells(cells, kind, expected):
    assert converted(pa.array(cells), kind, separator="|").flat.to_pylist() == expected


@pytest.mark.parametrize(
    ("column", "kind", "reason"),
    [
        (pa.array([["1"], ["2", "x"], ["3"]]), "number", "in a list: not a number"),
        (pa.array([[1.0], [1e300], [2.0]]), "number", "in a list: outside the range of float32"),
        (pa.array([[["a"]], [["b", "c"]], None]), "string", "a list of lists"),
        (pa.array([[0], [0] * (LONGEST_LIST + 1), [0]], pa.list_(pa.int8())), "number", "more than 65,536 elements"),
    ],
)
def test_one_bad_row_spoils_no_other(column, kind, reason):
    found = converted(column, kind)
    assert found.bad.tolist() == [False, True, False]
    assert reason in found.reason
    assert found.flat[1].as_py() is None
    assert found.flat.is_valid().to_pylist()[0]


@pytest.mark.integration
def test_lists_are_encoded_as_tensorflow_reads_them():
    import tensorflow as tf

    from fullpass.components.ingest.writing.encode import encode_rows

    texts, numbers = [[b"a", b"", b"c" * 300], None, [b"\xff"]], [None, [1.5, -2.0], [0.0] * 200]
    encoded = encode_rows(
        {"t": pa.array(texts, pa.large_list(pa.binary())), "n": pa.array(numbers, pa.large_list(pa.float32()))}
    )
    for record, text, number in zip(encoded.to_pylist(), texts, numbers, strict=True):
        features = tf.train.Example.FromString(record).features.feature
        assert ("t" in features, "n" in features) == (text is not None, number is not None)
        assert list(features["t"].bytes_list.value) == (text or [])
        assert list(features["n"].float_list.value) == (number or [])
