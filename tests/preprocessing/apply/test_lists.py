"""Lists of any length as features: ids, numbers, dates and texts, with weights and missing elements."""

import numpy as np
import pytest

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.outputs import vocabulary_name
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig

pytestmark = pytest.mark.integration

NAN = float("nan")
PRICES = [[1.0, 2.0, NAN, 3.0], None, [], [NAN, NAN], [10.0], [4.0, 6.0]]
ELEMENTS = np.array([1, 2, 3, 10, 4, 6], np.float64)


def z(*values):
    return [(value - ELEMENTS.mean()) / ELEMENTS.std() for value in values]


def test_a_list_of_categories_is_a_row_of_ids(assert_transform):
    # Over all elements, b occurs 4 times, a twice, c once. Ids: 0 missing, 1 OOV, b 2, a 3, c 4.
    analysed = assert_transform(
        {
            "tags": {"type": "category", "list": True},
            "first": {"type": "category", "column": "tags", "list": {"max_length": 2}},
            "last": {"type": "category", "column": "tags", "list": {"max_length": 2, "keep": "last"}},
            "weighted": {"type": "category", "column": "tags", "list": {"weights": "scores", "max_length": 3}},
            "codes": {"type": "category", "column": "scores", "list": True, "identity": {"size": 4}},
        },
        analyze={
            "tags": [["b", "a", "b"], None, ["b", "", "c", "b"], [], ["a", ""], [""]],
            "scores": [[1.0, 2.0, 3.0], None, [0.5, 1.0, NAN, 9.0], [], [3.0, 1.5], None],
        },
        expected={
            "tags_xf": [[2, 3, 2], [], [2, 4, 2], [], [3], []],
            "first_xf": [[2, 3], [], [2], [], [3], []],  # the missing element counts for max_length
            "last_xf": [[3, 2], [], [4, 2], [], [3], []],
            "weighted_xf": [[2, 3, 2], [], [2, 4], [], [3], []],
            "weighted.weight_xf": [[1, 2, 3], [], [0.5, 1], [], [3], []],
            "codes_xf": [[3, 4, 5], [], [1, 3, 1], [], [5, 1], []],  # 9 and fractions are out of range
        },
    )
    assert analysed.vocabulary(vocabulary_name("tags")) == ["b", "a", "c"]


def test_a_list_of_numbers_is_pooled_behind_its_transforms(assert_transform):
    pooled = {
        None: [np.mean(z(1, 2, 3)), 0, 0, 0, *z(10), np.mean(z(4, 6))],
        "sum": [np.sum(z(1, 2, 3)), 0, 0, 0, *z(10), np.sum(z(4, 6))],
        "max": [*z(3), 0, 0, 0, *z(10), *z(6)],
        "sqrt_n": [np.sum(z(1, 2, 3)) / 3**0.5, 0, 0, 0, *z(10), np.sum(z(4, 6)) / 2**0.5],
    }
    prices = {"type": "number", "column": "prices", "indicator": True}
    assert_transform(
        {str(pooling): {**prices, "list": {"pooling": pooling}} for pooling in pooled},
        analyze={"prices": PRICES},
        expected={f"{pooling}_xf": expected for pooling, expected in pooled.items()}
        | {f"{pooling}.missing_xf": [0, 1, 1, 1, 0, 0] for pooling in pooled},
    )


def test_a_list_of_written_numbers(assert_transform):
    paid = {"type": "number", "format": "$1,234.5-", "transforms": [], "list": {"pooling": "sum"}}
    assert_transform(
        {"paid": paid},
        analyze={"paid": [["$1,000.50", "$2-"], ["soon"], None]},
        expected={"paid_xf": [998.5, 499.25, 499.25]},  # the mean of the elements replaces the sum of none
    )


def test_numbers_of_lists_have_the_options_of_single_ones(assert_transform):
    weighted = (1 * 1 + 3 * 3) / 4  # the missing number is omitted together with its weight
    assert_transform(
        {
            "filled": {"type": "number", "column": "n", "list": True, "missing": "median", "transforms": []},
            "weighted": {"type": "number", "column": "n", "list": {"weights": "w"}, "missing": -1.0, "transforms": []},
            "last": {"type": "number", "column": "n", "list": {"max_length": 1, "keep": "last"}, "transforms": []},
            "bucket": {"type": "number", "column": "n", "list": True, "transforms": [{"bucketize": {"buckets": 2}}]},
            "clipped": {"type": "number", "column": "n", "list": True, "transforms": [{"clip": {"max": 2}}]},
        },
        analyze={"n": [[1.0, NAN, 3.0], None, [5.0]], "w": [[1.0, 7.0, 3.0], None, [2.0]]},
        expected={
            "filled_xf": [2, 3, 5],
            "weighted_xf": [weighted, -1, 5],
            "last_xf": [3, 4, 5],  # the statistics are of the kept elements
            "bucket_xf": [[1, 2], [], [2]],
            "clipped_xf": [1.5, 2, 2],
        },
    )


def test_lists_of_dates_and_texts(assert_transform):
    assert_transform(
        {
            "seen": {"type": "date", "parts": ["month", "year"], "list": True},
            "circle": {"type": "date", "column": "seen", "parts": ["month"], "cyclic": True, "list": True},
            "titles": {"type": "text", "output": "ids", "list": {"max_length": 2}, "vocabulary": {}},
        },
        analyze={
            "seen": [["2020-01-05", "2022-07-01"], [], ["no date", "2021-12-31"], None],
            "titles": [["a b", "A", "never read"], None, ["b a a"], [""]],
        },
        expected={
            "seen.month_xf": [[1, 7], [], [12], []],
            "seen.year_xf": [0, 0, 0, 0],  # 2020 and 2022 are equally far from the mean
            "circle.month_xf": [[0, 0], [0, 0], [np.sin(2 * np.pi * 11 / 12), np.cos(2 * np.pi * 11 / 12)], [0, 0]],
            "titles_xf": [[2, 3, 2], [], [3, 2, 2], []],
        },
    )


def test_a_vocabulary_is_learned_over_the_columns_that_share_it(assert_transform):
    # Over both columns, b occurs 3 times, a twice, d and c once. Ids: 0 missing, 1 and 2 OOV, b 3, a 4, d 5, c 6.
    analysed = assert_transform(
        {
            "shown": {"type": "category", "vocabulary": {"oov_buckets": 2}},
            "seen": {"type": "category", "vocabulary": {"shared_with": "shown"}, "list": True},
        },
        analyze={"shown": ["b", "a", None, "d"], "seen": [["b", "c"], None, ["b", ""], ["a"]]},
        expected={"shown_xf": [3, 4, 0, 5], "seen_xf": [[3, 6], [], [3], [4]]},
    )
    assert analysed.vocabulary(vocabulary_name("shown")) == ["b", "a", "d", "c"]
    assert analysed.size("seen_xf") == analysed.size("shown_xf") == 7


def test_a_column_is_a_list_or_a_single_value():
    features = {"a": {"type": "category", "list": True}, "b": {"type": "category", "column": "a"}}
    label = {"name": "y", "task": "regression"}
    with pytest.raises(UserError, match="a list for features.a and a single value for features.b"):
        raw_columns(PreprocessingConfig.model_validate({"features": features, "label": label}))
