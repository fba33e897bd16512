"""Reductions of the lists of a history, against values worked by hand."""

import math

import pytest
import tensorflow as tf

from fullpass.preprocessing.expressions.expression import ExpressionError, check_types, parse_expression
from fullpass.preprocessing.expressions.functions import TABLE
from fullpass.preprocessing.expressions.past_ops import PAST, PastColumn
from fullpass.preprocessing.expressions.tensor_ops import StringColumn, compute_expression

NAN = float("nan")
HOUR = 3600.0
AGES = [[5 * HOUR, 2 * HOUR, HOUR], [], [30 * HOUR]]
FARES = [[8.0, NAN, 2.0], [], [7.0]]
SHOPS = [["a", "", "a"], [], ["b"]]
TYPES = {"trips.at": "numbers", "trips.fare": "numbers", "trips.shop": "strings", "fare": "number"}


def ragged(rows, dtype=tf.float32):
    return tf.ragged.constant(rows, dtype, row_splits_dtype=tf.int64)


def run(text):
    ages = ragged(AGES)
    columns = {
        "trips.at": PastColumn(ages, ages),
        "trips.fare": PastColumn(ragged(FARES), ages),
        "trips.shop": PastColumn(ragged(SHOPS, tf.string), ages),
        "fare": tf.constant([1.0, 2.0, NAN]),
    }
    expression = parse_expression(text)
    assert check_types(expression, TYPES) in ("number", "string")
    result = compute_expression(expression, {name: columns[name] for name in expression.columns})
    if isinstance(result, StringColumn):
        return [v.decode() if p else None for v, p in zip(result.values.numpy(), result.present.numpy(), strict=True)]
    return [None if math.isnan(value) else value for value in result.numpy().tolist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("past_count(trips.at)", [3, 0, 1]),
        ('past_count(trips.at, "2h")', [2, 0, 0]),
        ("past_count(trips.fare)", [2, 0, 1]),
        ("past_count(trips.shop)", [2, 0, 1]),
        ("past_distinct(trips.shop)", [1, 0, 1]),
        ("past_distinct(trips.fare)", [2, 0, 1]),
        ('past_distinct(trips.fare, "1h")', [1, 0, 0]),
        ("past_sum(trips.fare)", [10, 0, 7]),
        ("past_mean(trips.fare)", [5, None, 7]),
        ('past_mean(trips.fare, "1d")', [5, None, None]),
        ("past_min(trips.fare)", [2, None, 7]),
        ("past_max(trips.fare)", [8, None, 7]),
        ('past_max(trips.fare, "60m")', [2, None, None]),
        # Ages 5 h and 1 h with a half-life of 2 h: the older counts a quarter of the newer. (2 + 8 / 4) / (1 + 1 / 4).
        ('past_decayed_mean(trips.fare, "2h")', [3.2, None, 7]),
        ("past_last(trips.at)", [HOUR, None, 30 * HOUR]),
        ("past_last(trips.fare, 2)", [None, None, None]),
        ("past_last(trips.fare, 3)", [8, None, None]),
        ("past_last(trips.shop)", ["a", None, "b"]),
        ("past_last(trips.shop, 2)", [None, None, None]),
        ('past_count(trips.at, "1h") / past_count(trips.at)', [1 / 3, None, 0]),
        ("fare - past_mean(trips.fare)", [-4, None, None]),
    ],
)
def test_lists_are_reduced(text, expected):
    found = run(text)
    assert [value is None for value in found] == [value is None for value in expected]
    present = [value for value in expected if value is not None]
    wanted = present if any(isinstance(value, str) for value in present) else pytest.approx(present, rel=1e-6)
    assert [value for value in found if value is not None] == wanted


def test_an_old_history_keeps_its_decayed_mean():
    ages = ragged([[2e9, 1e9]])
    found = PAST["past_decayed_mean"](PastColumn(ragged([[1.0, 5.0]]), ages), "1s")
    assert found.numpy().tolist() == [5.0]


def test_windows_read_the_ages():
    assert parse_expression('past_mean(trips.fare, "7d") > fare').columns == {"trips.fare", "trips.at", "fare"}


def test_every_function_of_lists_has_an_operation():
    assert {name for name, function in TABLE.items() if function.reads_list} == PAST.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fare + trips.fare", "trips.fare is a list; only functions past_... read it"),
        ("past_mean(fare)", 'Received number "fare"; past_mean(x[, within]): x must be a list of numbers'),
        ("past_sum(trips.shop)", 'Received list of strings "trips.shop"'),
        ('past_count(trips.at, "week")', "within must be a number and a unit, such as 90m, 12h or 7d"),
        ("past_count(trips.at, fare)", "within must be a string literal"),
        ("past_last(trips.fare, 0)", "lag must be a whole-number literal from 1 to 65536"),
        ("past_last(trips.tip)", 'Unknown column "trips.tip"'),
        ("past_mean(fare + 1)", "x must be a list of numbers"),
    ],
)
def test_errors_say_what_is_accepted(text, message):
    with pytest.raises(ExpressionError) as caught:
        check_types(parse_expression(text), TYPES)
    assert message in str(caught.value)
