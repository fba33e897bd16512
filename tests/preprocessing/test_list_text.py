"""Lists in text: Python, Arrow and the graph read the items that Python and JSON wrote."""

import json

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.preprocessing.apply.category import separated_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.label import classes_in_cell
from fullpass.preprocessing.list_text import LIST_EXAMPLE, list_text
from fullpass.preprocessing.values.list_values import split_text

CELLS = {
    "['Action', 'Crime']": ["Action", "Crime"],
    '["a", "b"]': ["a", "b"],
    "[]": [],
    "['Ann, Lee', \"O'Hara\"]": ["Ann, Lee", "O'Hara"],
    r"['it\'s \"so\"']": ['it\'s "so"'],
    "('a', 'b',)": ["a", "b"],
    "{'a'}": ["a"],
    "[1, 2.5, None]": ["1", "2.5", "None"],
    "['a' 'b']": ["a", "b"],  # as NumPy prints them
    "['', ' x ']": ["x"],
    "alone": ["alone"],
}


def lists_of(separator):
    feature = {"type": "category", "separator": separator}
    return PreprocessingConfig.model_validate(
        {"features": {"x": feature}, "label": {"name": "y", "task": "regression"}}
    )


def in_graph(cells, separator=LIST_EXAMPLE):
    columns = Columns({"x": tf.sparse.from_dense([[cell] for cell in cells])}, lists_of(separator))
    return [[item.decode() for item in row] for row in separated_tokens(columns, "x", separator).to_list()]


def in_arrow(cells, separator=LIST_EXAMPLE):
    rows = split_text(pa.array(cells), separator, strip=True).to_pylist()
    return [[item for item in row or () if item] for row in rows]


@pytest.mark.parametrize(("cell", "items"), CELLS.items())
def test_the_items_of_a_list(cell, items):
    assert in_graph([cell]) == [items]
    assert in_arrow([cell]) == [items]
    assert list(classes_in_cell(cell, LIST_EXAMPLE)) == items


@pytest.mark.integration
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.text("ab ,'\"é日[](){}|.-", min_size=1).map(str.strip).filter(bool), unique=True), min_size=1)
)
def test_what_python_and_json_write_is_read(rows):
    for write in (repr, lambda row: json.dumps(row, ensure_ascii=False)):
        cells = [write(row) for row in rows]
        assert in_graph(cells) == rows
        assert in_arrow(cells) == rows
        assert [list(classes_in_cell(cell, LIST_EXAMPLE)) for cell in cells] == rows


def test_other_separators_stay_as_they_are():
    assert list_text("; ") == ((), "; ", "; ") and list_text(None).separator is None
    assert in_graph(["a|[b]"], "|") == in_arrow(["a|[b]"], "|") == [["a", "[b]"]]
    assert list_text('["x"]').joined_by == "|"
