"""Raw examples become dense columns."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.column_tensors import Columns, raw_feature_spec
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import PreprocessingConfig
from tests.record_files import example


def columns(features, rows, label=None, **sections):
    label = label or {"name": "y", "task": "regression"}
    config = PreprocessingConfig.model_validate({"features": features, "label": label, **sections})
    serialized = [example(row) for row in rows]
    return Columns(tf.io.parse_example(serialized, raw_feature_spec(config, serving=False)), config)


def test_numbers_strings_and_row_ids():
    read = columns(
        {"a": "number", "b": "number", "s": "category", "t": "category"},
        [{"a": 1.5, "s": "x", "fullpass_row": 7}, {"b": -2.0, "t": ""}, {"a": float("inf"), "s": "y z"}, {}],
    )
    assert np.array_equal(read.number("a"), [1.5, np.nan, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(read.number("b"), [np.nan, -2, np.nan, np.nan], equal_nan=True)
    assert read.string("s").values.numpy().tolist() == [b"x", b"", b"y z", b""]
    assert read.string("s").present.numpy().tolist() == [True, False, True, False]
    assert read.string("t").present.numpy().tolist() == [False] * 4
    assert read.row_id.numpy().tolist() == [7, -1, -1, -1]


def test_every_value_finds_its_cell_however_many_are_missing():
    random = np.random.default_rng(5)
    table = np.where(random.random((7, 40)) < 0.5, random.normal(size=(7, 40)), np.nan).astype(np.float32)
    table[2], table[5] = np.nan, 1.0
    names = [f"n{i}" for i in range(len(table))]
    rows = [{n: float(v) for n, v in zip(names, row, strict=True) if not np.isnan(v)} for row in table.T]
    read = columns(dict.fromkeys(names, "number"), rows)
    assert np.array_equal([read.number(name) for name in names], table, equal_nan=True)


def test_numbers_as_text_are_short_and_exact():
    values = [7.0, -0.0, 0.1, 1 / 3, 123456.78, 16777216.0, 1e20, 1.1754944e-38, -2.5]
    read = columns({"n": "category"}, [*({"n": v} for v in values), {}], types={"n": "number"})
    text = [t.decode() for t in read.string("n").values.numpy()]
    assert text == ["7", "0", "0.1", "0.33333334", "123456.78", "16777216", "1e+20", "1.1754944e-38", "-2.5", ""]
    assert [np.float32(t) for t in text[:-1]] == [np.float32(v) for v in values]


def test_vectors_of_the_wrong_length_are_missing():
    read = columns(
        {"v": {"type": "vector", "width": 2}},
        [{"v": [1.0, 2.0]}, {}, {"v": [3.0]}, {"v": [4.0, 5.0, 6.0]}, {"v": [float("nan"), 7.0]}],
    )
    nan = np.nan
    expected = [[1, 2], [nan, nan], [nan, nan], [nan, nan], [nan, 7]]
    assert np.array_equal(read.vector(RawColumn("v", "vector", 2)), expected, equal_nan=True)


def test_an_absent_column_is_missing_throughout():
    config = PreprocessingConfig.model_validate(
        {
            "features": {"a": "number", "b": "number", "s": "category", "v": {"type": "vector", "width": 2}},
            "label": {"name": "y", "task": "regression"},
        }
    )
    read = Columns({"b": tf.sparse.from_dense([[1.0], [2.0]])}, config)
    assert np.isnan(read.number("a")).all() and np.isnan(read.number("y")).all()
    assert read.number("b").numpy().tolist() == [1, 2]
    assert read.string("s").present.numpy().tolist() == [False, False]
    assert np.isnan(read.vector(RawColumn("v", "vector", 2))).all()
    assert read.row_id.numpy().tolist() == [-1, -1]


def test_columns_of_serving_leave_out_what_only_the_label_reads():
    read = columns(
        {"a": "number", "d": "number"},
        [{"a": 1.0, "tips": 2.0, "s": "x"}],
        label={"name": "rich", "task": "binary"},
        derive={"d": "a * 2", "rich": "tips > d"},
        slices=["s"],
    )
    assert read.of_serving().keys() == {"a", "d"}
    assert read.number("rich").numpy().tolist() == [0]


def test_the_events_of_a_request_are_those_that_ingest_lists():
    history = {"trips": {"entity": "who", "at": "when", "within": "30s", "available_after": "10s"}}
    ages = [{"trips.at": [40.0, 30.0, 10.0, 9.5, 0.0, -5.0]}]
    read = columns({"n": "number"}, ages, derive={"n": "past_count(trips.at)"}, history=history)
    assert read.elements("trips.at", numbers=True).to_list() == [[30.0, 10.0]]


def test_errors_name_the_column():
    read = columns({"fare": "number", "s": "category"}, [{"fare": 1.0}])
    with pytest.raises(UserError, match="no column 'fair'. Did you mean \"fare\""):
        read.number("fair")
    with pytest.raises(UserError, match="column 's' is text; a number is required"):
        read.number("s")
