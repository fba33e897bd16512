import numpy as np
import pytest

from fullpass.components.statistics.label_balance import uneven_means, uneven_shares


def test_a_rare_class_twice_as_often_in_eval():
    found = uneven_shares({"train": {"a": 36_000, "b": 630}, "eval": {"a": 7_700, "b": 354}})
    assert [i.words for i in found] == [
        "label b is 4.4% in split eval and 2.2% in all rows, beyond chance",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_splits_by_chance_are_even(seed):
    random = np.random.default_rng(seed)
    y, is_eval = random.random(20_000) < 0.02, random.random(20_000) < 0.2
    splits = {"train": ~is_eval, "eval": is_eval}
    assert uneven_shares({n: {"1": y[r].sum(), "0": (~y[r]).sum()} for n, r in splits.items()}) == ()
    x = random.normal(size=20_000)
    assert uneven_means("x", {n: (r.sum(), x[r].mean(), x[r].std()) for n, r in splits.items()}) == ()


def test_means_far_apart():
    found = uneven_means("price", {"train": (8000, 10.0, 2.0), "eval": (2000, 11.0, 2.0)})
    assert [i.words for i in found] == ["the mean of price is 11 in split eval and 10.2 in all rows, beyond chance"]
