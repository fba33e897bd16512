"""Sequences as features: the columns of a row have equal length, and missing elements keep their position."""

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.sequences import SequenceSpec
from fullpass.preprocessing.values.convert import convert

NAN = float("nan")


@pytest.mark.integration
def test_columns_of_a_sequence_stay_side_by_side(assert_transform):
    # In the kept elements, a occurs 3 times and b twice. Ids: 0 missing, 1 OOV, 2 a, 3 b. Candidates count too.
    kept = np.array([2.0, 3, 5, 7, 1], np.float64)
    z = {number: (number - kept.mean()) / kept.std() for number in kept}
    assert_transform(
        {"shown": "category"},
        sequences={
            "history": {
                "columns": {
                    "item": {"type": "category", "vocabulary": {"shared_with": "shown"}},
                    "price": "number",
                    "at": {"type": "date", "parts": ["month"]},
                },
                "max_length": 3,
                "keep": "last",
            }
        },
        analyze={
            "shown": ["a", "b", "a", "z"],
            "item": [["c", "a", "", "b"], ["a"], [], ["", ""]],
            "price": [[9.0, 2.0, 3.0, NAN], [5.0], None, [7.0, 1.0]],
            "at": [["2026-01-01", "2026-02-01", "", "2026-03-01"], [""], None, ["", ""]],
        },
        expected={
            "history.item_xf": [[2, 0, 3], [2], [], [0, 0]],
            "history.price_xf": [[2, 2, 1], [2], [], [2, 2]],
            "history.price.weight_xf": [[z[2], z[3], 0], [z[5]], [], [z[7], z[1]]],
            "history.at.month_xf": [[2, 0, 3], [0], [], [0, 0]],
        },
    )


def test_the_text_of_cells_is_split_where_the_source_has_no_lists():
    declared = {"columns": {"item": "category", "price": "number"}, "separator": "|"}
    config = PreprocessingConfig.model_validate({
        "features": {}, "sequences": {"history": declared}, "label": {"name": "y", "task": "binary"},
    })  # fmt: skip
    raw = raw_columns(config)
    cells = {"item": ["a||b", "c", ""], "price": ["1|2|", "x", None]}
    item, price = (convert(pa.array(cells[name]), raw[name], strip=True, missing=("",)) for name in cells)
    assert item.flat.to_pylist() == [[b"a", b"", b"b"], [b"c"], None]
    assert str(price.flat.to_pylist()) == "[[1.0, 2.0, nan], None, None]"
    assert price.bad.tolist() == [False, True, False] and price.reason == "in a list: not a number"
    assert {raw[name].group for name in cells} == {"sequences.history"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"columns": {"a": {"type": "category", "list": True}}}, "columns.a.list"),
        ({"columns": {"a": "number"}, "pooling": "mean", "encoder": "gru"}, "not both"),
        ({"columns": {"a": "number"}, "encoder": "transformer"}, "max_length"),
        ({"columns": {"a": "text"}}, "text"),
        ({"columns": {"a": "number"}, "within": "b", "separator": "|"}, "within or separator"),
    ],
)
def test_what_does_not_go_together_is_refused(written, message):
    with pytest.raises(ValidationError, match=message):
        SequenceSpec.model_validate(written)
