"""Knots of numbers against quantiles computed by hand."""

import numpy as np

from fullpass.trainer.models.train_statistics import BINS, knots_of


def test_knots_are_the_quantiles():
    assert BINS == 48
    assert knots_of(np.random.default_rng(1).permutation(4801).astype("float32")).tolist() == list(range(0, 4801, 100))


def test_a_value_that_many_rows_have_is_a_knot_and_the_others_share_the_rest():
    """29 of 500 rows are 0. The others are 100 .. 570, and every tenth of these is a knot."""
    values = np.concatenate([np.zeros(29), 100 + np.arange(471)]).astype("float32")
    assert knots_of(values).tolist() == [0, *range(100, 571, 10)]


def test_a_number_of_few_values_has_a_knot_for_each_and_the_rest_repeats_the_last():
    assert knots_of(np.array([0, 1] * 50, np.float32)).tolist() == [0] + [1] * 48
    assert knots_of(np.full(9, 4, np.float32)).tolist() == [4] * 49


def test_knots_that_rounding_could_cross_are_merged():
    """Nine tenths of the rows lie within 0.001 of 5, all others between 0 and 100."""
    random = np.random.default_rng(1)
    near = 5 + 0.001 * random.random(900)
    values = np.concatenate([near, random.uniform(0, 100, 100)]).astype("float32")
    found = np.unique(knots_of(values))
    middle = np.quantile(values, 0.95) - np.quantile(values, 0.05)
    assert len(found) < 16 and np.diff(found).min() > middle / 400
