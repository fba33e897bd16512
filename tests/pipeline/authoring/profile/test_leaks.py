"""Columns that hold the label by one aspect, beside columns that are honestly strong."""

import numpy as np
import pytest

from fullpass.pipeline.authoring.profile.leaks import indicators_of_label, strongest_aspect
from fullpass.pipeline.authoring.profile.strength import Target
from tests.pipeline.authoring.tables import column_of, values_of

ROWS = 2000
RANDOM = np.random.default_rng(3)
Y = RANDOM.integers(0, 2, ROWS)
CLASS = RANDOM.integers(0, 4, ROWS)
NAMES = ("red", "blue", "green", "grey")


HOLDS = "by the value of result in its text"


def binary(texts=("PASS", "FAIL")):
    return Target("binary", Y.astype(float), "result", texts)


def classes(names=NAMES):
    return Target("multiclass", CLASS.astype(float), "color", names)


@pytest.mark.parametrize(
    "cells, by",
    [
        ([f"{int(RANDOM.integers(1900, 2014))}{'FAIL' if y else 'PASS'}" for y in Y], HOLDS),
        ([f"run {int(RANDOM.integers(0, 999))}, {'Failed' if y else 'passed'}" for y in Y], HOLDS),
        ([f"order {i} came late by {i * 7} days" if y else None for i, y in enumerate(Y)], "by whether it is missing"),
        ([i * 1.5 if y else None for i, y in enumerate(Y)], "by whether it is missing"),
        (["yes" if y else "NO" for y in Y], "alone"),
    ],
)  # fmt: skip
def test_one_aspect_of_a_column_can_be_a_leak(cells, by):
    strength = strongest_aspect(column_of("code", cells), binary())
    assert strength.is_leak
    assert (strength.by, strength.shown) == (by, "AUC 1.00")


@pytest.mark.parametrize("number", [250, 900])
def test_a_twin_of_a_label_of_many_classes_is_a_leak(number):
    y = np.minimum(RANDOM.zipf(1.3, ROWS), number)
    codes = [f"K{i * 7 % 997}" for i in y]
    strength = strongest_aspect(column_of("code", codes), Target("multiclass", y.astype(float)))
    assert strength.is_leak
    shuffled = RANDOM.permutation(codes)
    honest = strongest_aspect(column_of("code", shuffled), Target("multiclass", y.astype(float)))
    assert not honest.is_suspect


def test_a_placeholder_in_the_label_makes_no_column_a_leak():
    """With 2 % of the label at 1e7, R² is 0.99 for every column that is missing in these rows."""
    far = RANDOM.random(ROWS) < 0.02
    y = np.where(far, 1e7, RANDOM.normal(50_000, 9000, ROWS))
    column = column_of("x", np.where(far, None, RANDOM.normal(size=ROWS).round(2)))
    assert not strongest_aspect(column, Target("regression", y)).is_suspect


def test_a_monotone_copy_of_a_skewed_label_is_a_leak():
    y = np.exp(3 * RANDOM.normal(size=ROWS))
    column = column_of("log", np.log(y).round(4))
    assert strongest_aspect(column, Target("regression", y)).is_leak


ONE_HOT = {f"is_{name}": (CLASS == i).astype(int) for i, name in enumerate(NAMES)}


@pytest.mark.parametrize(
    "columns",
    [
        ONE_HOT,
        {f"t{i}": CLASS == i for i in range(1, 4)},  # pandas.get_dummies(drop_first=True)
        {f"t{i}": ["x" if c == i else None for c in CLASS] for i in range(4)},
        {f"t{i}": np.where(CLASS >= i, "true", "false") for i in range(1, 4)},
        {f"bit_{i}": CLASS >> i & 1 for i in range(2)},
    ],
)
def test_columns_that_tell_all_classes_apart_together_leak(columns):
    found = indicators_of_label({name: values_of(cells) for name, cells in columns.items()}, classes())
    assert found.keys() == columns.keys()
    assert all(indicator.is_leak for indicator in found.values())


def test_the_reason_names_the_class():
    found = indicators_of_label({name: values_of(cells) for name, cells in ONE_HOT.items()}, classes())
    assert found["is_green"].why == (
        "1 exactly where color is green; is_red, is_blue, is_green and 1 others tell all values of color"
    )


@pytest.mark.parametrize(
    "name, cells, leaks",
    [
        ("milk", CLASS == 1, False),
        ("is_blue", CLASS == 1, True),
        ("color_1", CLASS == 1, True),
        ("refund", [i if c == 1 else None for i, c in enumerate(CLASS)], True),
        ("chance", RANDOM.integers(0, 2, ROWS), None),
        ("nearly", np.where(RANDOM.random(ROWS) < 0.05, 0, CLASS == 1), None),
    ],
)
def test_a_column_of_one_class_leaks_by_its_name_or_if_missing(name, cells, leaks):
    """`milk` tells mammals from all other animals, and is known; a name or missing values say that it is the label."""
    found = indicators_of_label({name: values_of(cells)}, classes())
    assert (found[name].is_leak if found else None) == leaks


def test_a_column_that_tells_where_a_number_is_zero_is_in_doubt_only():
    closed = RANDOM.random(ROWS) < 0.2
    sales = np.where(closed, 0, RANDOM.normal(500, 100, ROWS))
    found = indicators_of_label({"open": values_of(~closed)}, Target("regression", sales, "sales"))
    assert (found["open"].is_leak, found["open"].why) == (False, "False exactly where sales is 0")
