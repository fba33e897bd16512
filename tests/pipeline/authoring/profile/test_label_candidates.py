import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.profile.label_candidates import (
    binary_values,
    label_section,
    label_values,
    most_likely_label,
)
from tests.pipeline.authoring.tables import column_of as column

YES_NO = column("bought", ["yes"] * 10 + ["no"] * 30)
HAM = column("kind", ["ham"] * 30 + ["spam"] * 10)
ONE_TWO = column("y", [1] * 30 + [2] * 10)
FARE = column("fare", [x / 7 for x in range(100)])
GRADE = column("grade", [1, 2, 3, 4] * 10)
TAGS = column("tags", ["a|b", "a", "b|c|a", "c"] * 20)


@pytest.mark.parametrize(
    ("of", "task", "settings"),
    [
        (YES_NO, None, {"name": "bought", "task": "binary", "classes": ["no", "yes"]}),
        (HAM, None, {"name": "kind", "task": "binary", "classes": ["ham", "spam"]}),
        (ONE_TWO, None, {"name": "y", "task": "binary", "positive": 2}),
        (FARE, None, {"name": "fare", "task": "regression"}),
        (GRADE, None, {"name": "grade", "task": "multiclass"}),
        (column("x", ["a\nb", "c", "d"] * 30), None,
         {"name": "x", "task": "multiclass", "classes": ["a\nb", "c", "d"]}),
        (GRADE, "regression", {"name": "grade", "task": "regression"}),
        (TAGS, None, {"name": "tags", "task": "multilabel", "separator": "|"}),
        (column("x", [None] * 5 + ["a", "b"] * 30), None,
         {"name": "x", "task": "binary", "classes": ["a", "b"], "max_missing": 0.1}),
    ],
)  # fmt: skip
def test_the_label_section_follows_from_the_values(of, task, settings):
    found = label_section(of, task)
    assert dict(found.settings) == settings
    assert found.why
    assert ("7.7% missing" in found.why) == ("max_missing" in settings)


@pytest.mark.parametrize(
    ("of", "task", "message"),
    [
        (column("x", ["a"] * 50), None, "same value|one value"),
        (column("x", ["2013-01-01", "2013-01-02"]), None, "holds a date"),
        (column("x", [f"k{i}" for i in range(99)]), None, "a different value"),
        (FARE, "binary", "two values.*fare > 0"),
        (FARE, "multiclass", "too many classes"),
        (HAM, "regression", "takes numbers"),
        (HAM, "multilabel", "no separator"),
    ],
)
def test_columns_that_cannot_be_a_label_are_refused(of, task, message):
    with pytest.raises(UserError, match=message):
        label_section(of, task)


def test_the_label_of_every_row_is_read():
    assert label_values(HAM, label_section(HAM, None)).y.tolist() == [0.0] * 30 + [1.0] * 10
    assert label_values(ONE_TWO, label_section(ONE_TWO, None)).y.tolist() == [0.0] * 30 + [1.0] * 10
    assert label_values(FARE, label_section(FARE, None)).y[7] == 1.0
    assert set(label_values(GRADE, label_section(GRADE, None)).y) == {0.0, 1.0, 2.0, 3.0}


def test_values_of_a_binary_label_are_read():
    np.testing.assert_array_equal(binary_values(["Yes", "f", "maybe", "1.0"], None), [1, 0, np.nan, 1])
    np.testing.assert_array_equal(binary_values(["a", "b"], "b"), [0, 1])
    np.testing.assert_array_equal(binary_values(["2", "2.0", "1", "x"], 2), [1, 1, 0, np.nan])


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ([FARE, column("target", [1, 2, 3] * 9), HAM], "target"),
        ([HAM, column("text", [f"so many words here {i}" for i in range(99)])], "kind"),
        ([FARE, GRADE, column("column_3", ["<=50K", ">50K"] * 9)], "column_3"),
        ([FARE, FARE, column("column_3", ["setosa", "virginica", "versicolor"] * 9)], "column_3"),
        ([FARE, FARE, column("column_3", [1, 2, 3, 4] * 9)], "column_3"),
    ],
)
def test_the_column_that_stands_out_is_the_label(columns, chosen):
    assert most_likely_label(columns)[0] == chosen


def test_likely_labels_are_listed_if_none_stands_out():
    with pytest.raises(UserError) as error:
        most_likely_label([FARE, GRADE, column("a city", ["Rome", "Oslo"] * 9), column("id", range(99)), FARE])
    assert "--label fare" in str(error.value)
    assert "--label 'a city'" in str(error.value)
    assert "--label id" not in str(error.value)
