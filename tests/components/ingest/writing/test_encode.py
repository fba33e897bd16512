"""Columns encoded as serialized tf.Examples and read back by TensorFlow's own parser."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.components.ingest.writing.encode import encode_rows, varints
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import convert

_LISTS = {"float_list": float, "int64_list": int, "bytes_list": bytes}


def decoded(examples):
    """Returns each example as a dict of lists."""
    rows = []
    for example in examples.to_pylist():
        features = tf.train.Example.FromString(example).features.feature
        assert all(feature.WhichOneof("kind") in _LISTS for feature in features.values())
        rows.append({name: list(getattr(f, f.WhichOneof("kind")).value) for name, f in features.items()})
    return rows


def test_missing_values_are_absent_features():
    columns = {
        "n": pa.array([1.5, None, 0.0], pa.float32()),
        "s": pa.array([b"", b"x", None]),
        "v": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32())),
        "i": pa.array([0, 2**63 - 1, None]),
    }
    assert decoded(encode_rows(columns)) == [
        {"n": [1.5], "s": [b""], "v": [1.0, 2.0], "i": [0]},
        {"s": [b"x"], "i": [2**63 - 1]},
        {"n": [0.0], "v": [3.0, 4.0]},
    ]


@pytest.mark.parametrize("lacking", [(), (2,), (0, 5), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5)])
def test_rows_without_a_number_stand_in_their_places(lacking):
    numbers = [None if row in lacking else float(row) for row in range(6)]
    columns = {
        "m": pa.array([7.0, 7.0, None if lacking else 7.0, 7.0, 7.0, 7.0], pa.float32()),
        "n": pa.array(numbers, pa.float32()),
    }
    assert decoded(encode_rows(columns)) == [
        {name: [value] for name, value in (("m", m), ("n", n)) if value is not None}
        for m, n in zip(columns["m"].to_pylist(), numbers, strict=True)
    ]


def test_a_row_of_nothing_is_an_empty_example():
    columns = {"n": pa.nulls(2, pa.float32()), "s": pa.nulls(2, pa.binary()), "v": pa.nulls(2, pa.list_(pa.float32()))}
    assert decoded(encode_rows(columns)) == [{}, {}]
    assert len(encode_rows({"n": pa.nulls(0, pa.float32()), "s": pa.nulls(0, pa.binary())})) == 0


@pytest.mark.parametrize("length", [0, 1, 100, 127, 128, 129, 16_383, 16_384, 3_000_000])
def test_lengths_on_both_sides_of_each_varint(length):
    texts = [b"x" * length, b"y"]
    assert decoded(encode_rows({"text" * (length // 1000 + 1): pa.array(texts)})) == [
        {"text" * (length // 1000 + 1): [text]} for text in texts
    ]


def test_slices_are_encoded_as_they_are():
    numbers = pa.array([1.0, None, 3.0, 4.0], pa.float32())
    vectors = pa.array([[0.0, 0.0], [1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32()))
    texts = pa.array([b"a", b"b", None, b"d"])
    whole = encode_rows({"n": numbers, "v": vectors, "t": texts}).to_pylist()
    for start in range(4):
        part = encode_rows({"n": numbers.slice(start), "v": vectors.slice(start), "t": texts.slice(start)})
        assert part.to_pylist() == whole[start:]


@pytest.mark.integration
@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_varints(numbers):
    def reference(number):
        low = []
        while number > 127:
            low.append(number % 128 + 128)
            number //= 128
        return bytes([*low, number])

    assert varints(np.array(numbers, dtype=np.uint64)).to_pylist() == [reference(number) for number in numbers]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ROWS = st.integers(0, 8)


@pytest.mark.integration
@given(st.data())
def test_any_table_comes_back(data):
    rows = data.draw(ROWS)
    values = {
        "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "bytes": st.binary(max_size=300),
        "vector": st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        "large bytes": st.binary(max_size=300),
        "int": st.integers(-(2**63), 2**63 - 1),
        "ints": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        "texts": st.lists(st.binary(max_size=300), max_size=4),
    }
    kinds = {
        "float": pa.float32(),
        "bytes": pa.binary(),
        "large bytes": pa.large_binary(),
        "vector": pa.list_(pa.float32()),
        "int": pa.int64(),
        "ints": pa.large_list(pa.int64()),
        "texts": pa.large_list(pa.large_binary()),
    }
    names = data.draw(
        st.lists(st.tuples(NAMES, st.sampled_from(list(values))), min_size=1, max_size=5, unique_by=lambda n: n[0])
    )
    table = {name: data.draw(st.lists(st.none() | values[kind], min_size=rows, max_size=rows)) for name, kind in names}
    found = decoded(encode_rows({name: pa.array(table[name], kinds[kind]) for name, kind in names}))
    assert found == [
        {n: v if isinstance(v, list) else [v] for n, column in table.items() if (v := column[row]) is not None}
        for row in range(rows)
    ]


FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
YEARS = datetime.timedelta(days=10_000_000)
DATETIMES = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))

# Arrow type, its values, the raw column type, and the conversion in Python: the table of docs/sources.md.
ARROW_TYPES = [
    (pa.bool_(), st.booleans(), "number", float),
    (pa.bool_(), st.booleans(), "string", lambda v: b"true" if v else b"false"),
    (pa.int8(), st.integers(-128, 127), "number", float),
    (pa.int64(), st.integers(-(2**24), 2**24), "number", float),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), "number", lambda v: float(np.float32(v))),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), "string", lambda v: str(v).encode()),
    (pa.uint64(), st.integers(0, 2**64 - 1), "string", lambda v: str(v).encode()),
    (pa.uint64(), st.integers(0, 2**64 - 1), "number", lambda v: float(np.float32(v))),
    (pa.float32(), FLOAT32, "number", float),
    (pa.float64(), st.floats(-3e38, 3e38), "number", lambda v: float(np.float32(v))),
    (pa.string(), TEXT, "string", str.encode),
    (pa.large_string(), TEXT, "string", str.encode),
    (pa.binary(), st.binary(), "string", bytes),
    (pa.large_binary(), st.binary(), "string", bytes),
    (pa.binary(3), st.binary(min_size=3, max_size=3), "string", bytes),
    (pa.decimal128(20, 4), st.decimals(-(10**12), 10**12, places=4), "string", lambda v: f"{v:f}".encode()),
    (pa.decimal128(8, 3), st.decimals(-(10**4), 10**4, places=3), "number", lambda v: float(np.float32(float(v)))),
    (pa.date32(), st.dates(), "string", lambda v: v.isoformat().encode()),
    (pa.date64(), st.dates(), "string", lambda v: v.isoformat().encode()),
    (pa.time64("us"), st.times(), "string", lambda v: _trimmed(v.isoformat())),
    (pa.timestamp("us"), DATETIMES, "string", lambda v: _trimmed(v.isoformat())),
    (
        pa.duration("us"),
        st.timedeltas(-YEARS, YEARS),
        "number",
        lambda v: float(np.float32(v / datetime.timedelta(seconds=1))),
    ),
    (pa.list_(FLOAT := pa.float32(), 2), st.tuples(FLOAT32, FLOAT32).map(list), "vector", list),
    (pa.list_(FLOAT), st.lists(FLOAT32, min_size=2, max_size=2), "vector", list),
    (pa.list_(pa.int64()), st.lists(st.integers(-(2**24), 2**24), min_size=2, max_size=2), "vector", list),
    (pa.list_(pa.string()), st.lists(TEXT, min_size=1, max_size=1), "string", lambda v: v[0].encode()),
    (
        pa.list_(pa.list_(FLOAT)),
        st.tuples(FLOAT32, FLOAT32).map(lambda v: [[v[0]], [v[1]]]),
        "vector",
        lambda v: sum(v, []),
    ),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from("abc"), "string", str.encode),
]


def _trimmed(text):
    return (text.rstrip("0") if "." in text else text).encode()


@pytest.mark.parametrize(
    ("kind", "strategy", "read_as", "expected"), ARROW_TYPES, ids=[f"{case[0]}-{case[2]}" for case in ARROW_TYPES]
)
@pytest.mark.integration
@settings(max_examples=25)
@given(data=st.data())
def test_every_arrow_type_through_tf_example(kind, strategy, read_as, expected, data):
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=40))
    raw = RawColumn("x", read_as, 2) if read_as == "vector" else RawColumn("x", read_as)
    converted = convert(_array(values, kind), raw, strip=False, missing=())
    assert not converted.bad.any()
    found = decoded(encode_rows({"x": converted.flat}))
    for row, value in zip(found, values, strict=True):
        if value is None:
            assert row == {}
        else:
            wanted = expected(value)
            assert row == {"x": wanted if isinstance(wanted, list) else [wanted]}


def _array(values, kind):
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    if pa.types.is_decimal(kind):
        return pa.array([None if v is None else decimal.Decimal(v) for v in values], kind)
    return pa.array(values, kind)
