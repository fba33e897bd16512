"""Explanations add up to the score, and equal the Shapley values where these can be computed."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from fullpass.components.predict.explain import explain


def known(values: np.ndarray) -> np.ndarray:
    """Returns the values with 0 for missing ones."""
    if values.dtype.kind == "O":
        return np.array([float(v or 0) for v in values])
    return np.nan_to_num(values)


def shapley(score, inputs: dict[str, float], name: str) -> float:
    """Returns the Shapley value: the mean change of the score when a column is added, over all sets of others."""
    others = [other for other in inputs if other != name]
    total = 0.0
    for size in range(len(others) + 1):
        for chosen in combinations(others, size):
            without = {key: inputs[key] if key in chosen else 0.0 for key in inputs}
            total += (score({**without, name: inputs[name]}) - score(without)) / comb(len(others), size)
    return total / len(inputs)


def test_two_columns_that_act_together_share_that():
    """For 3 x + 2 y + 4 x y at x = 1, y = 2, each column gets half of the 8 that both contribute together."""

    def answer(inputs):
        x, y = known(inputs["x"]), known(inputs["y"])
        return {"scores": 10 + 3 * x + 2 * y + 4 * x * y}

    found = explain(answer, {"x": np.float32([1, 1]), "y": np.array([b"2", b""], object)})
    assert found.base.tolist() == [10, 10]
    assert found.effects["x"] == pytest.approx([3 + 4, 3])
    assert found.effects["y"] == pytest.approx([4 + 4, 0])


def test_pairs_of_many_columns_are_shared_as_shapley_says():
    weights = np.random.default_rng(1).normal(size=(6, 6))
    row = dict(zip("abcdef", np.random.default_rng(2).normal(size=6), strict=True))

    def score(values):
        x = np.array(list(values.values()))
        return float(x @ weights @ x)

    def answer(inputs):
        return {"scores": np.array([score({name: known(values)[0] for name, values in inputs.items()})])}

    found = explain(answer, {name: np.array([value]) for name, value in row.items()})
    for name in row:
        assert found.effects[name][0] == pytest.approx(shapley(score, row, name))


def test_of_several_classes_the_likeliest_is_explained():
    def answer(inputs):
        x = known(inputs["x"])
        return {"scores": np.stack([0.5 - x, 0.3 + x, np.full(len(x), 0.2)], axis=1)}

    found = explain(answer, {"x": np.float32([0.4, -0.1])})
    assert found.base == pytest.approx([0.3, 0.5])
    assert found.effects["x"] == pytest.approx([0.4, 0.1])
