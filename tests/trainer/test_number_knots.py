"""Knots of numbers against quantiles worked out by hand."""

import numpy as np

from fullpass.trainer.models.number_knots import BINS, knots_of


def test_knots_are_the_quantiles():
    assert BINS == 16
    assert knots_of(np.random.default_rng(1).permutation(1601).astype("float32")).tolist() == list(range(0, 1601, 100))


def test_equal_quantiles_are_one_knot_and_the_rest_repeats_the_last():
    assert knots_of(np.array([0, 1] * 50, np.float32)).tolist() == [0] + [1] * 16
    assert knots_of(np.full(9, 4, np.float32)).tolist() == [4] * 17


def test_knots_that_rounding_could_cross_are_merged():
    """Nine tenths of the rows lie within 0.001 of 5, all others between 0 and 100."""
    random = np.random.default_rng(1)
    near = 5 + 0.001 * random.random(900)
    values = np.concatenate([near, random.uniform(0, 100, 100)]).astype("float32")
    found = np.unique(knots_of(values))
    middle = np.quantile(values, 0.95) - np.quantile(values, 0.05)
    assert len(found) < 8 and np.diff(found).min() > middle / 200
