"""Standardization, filling and projection of vectors, against numpy."""

import numpy as np
import pytest

pytestmark = pytest.mark.integration


# TF Transform divides by the number of values, which `empty` lacks.
@pytest.mark.filterwarnings("ignore:invalid value encountered in divide:RuntimeWarning:tensorflow_transform")
def test_vectors(assert_transform):
    rows = np.random.RandomState(2).standard_normal((12, 3)) @ np.array([[3, 1, 0], [0, 1, 0], [0, 2, 0.5]])
    mean, deviation = rows.mean(0), rows.std(0)
    later = [list(rows[0]), [1.0, float("nan"), 2.0], None, [1.0, 2.0], [1.0, 2.0, 3.0, 4.0]]
    filled = np.array([rows[0], [1, mean[1], 2], mean, mean, mean])
    standard = (rows - mean) / deviation
    raw_axes, axes = _principal_axes(rows), _principal_axes(standard)
    assert_transform(
        {
            "z": {"type": "vector", "column": "v", "width": 3},
            "plain": {"type": "vector", "column": "v", "width": 3, "transforms": []},
            "pca": {"type": "vector", "column": "v", "width": 3, "transforms": [{"pca": {"dimensions": 2}}]},
            "both": {
                "type": "vector",
                "column": "v",
                "width": 3,
                "transforms": ["z_score", {"pca": {"dimensions": 1}}],
            },
            "columns": {"type": "vector", "columns": ["a", "b"]},
            "empty": {"type": "vector", "width": 2, "transforms": ["z_score", {"pca": {"dimensions": 1}}]},
        },
        analyze={"v": [*rows.tolist(), None], "a": [1, 3, None] + [None] * 10, "b": [None] * 12 + [4]},
        apply={"v": later, "a": [1, None, 5, 2, 2], "b": [5, 4, None, 4, 4], "empty": [None, [1, 2], None, None, None]},
        expected={
            "z_xf": list((filled - mean) / deviation),
            "plain_xf": list(filled),
            "pca_xf": list((filled - mean) @ raw_axes[:, :2]),
            "both_xf": list((filled - mean) / deviation @ axes[:, :1]),
            "columns_xf": [[-1, 0], [0, 0], [3, 0], [0, 0], [0, 0]],
            "empty_xf": [[0]] * 5,
        },
        tolerance=1e-4,
    )


@pytest.mark.parametrize("offset", [[41.88, -87.63], [1e6, -1e6], [1e9, 3.0]])
def test_components_of_values_that_are_far_from_zero(assert_transform, offset):
    """The products of float32 coordinates lose their spread; the expected values are numpy's in float64."""
    along, across = np.random.RandomState(3).standard_normal((2, 400)) * np.spacing(np.float32(np.abs(offset).max()))
    rows = (offset + 5000 * along[:, None] * [1, -0.7] + 1000 * across[:, None] * [0.7, 1]).astype(np.float32)
    spread = rows - rows.mean(0, np.float64)
    wanted = spread @ _principal_axes(rows.astype(np.float64))
    scale = float(wanted.std(0).min())
    assert_transform(
        {"p": {"type": "vector", "column": "v", "width": 2, "transforms": [{"pca": {"dimensions": 2}}]}},
        analyze={"v": rows.tolist()},
        apply={"v": rows[:5].tolist()},
        expected={"p_xf": list(wanted[:5])},
        tolerance=1e-3 * scale,
    )


def test_axes_of_two_standardized_columns_keep_their_signs(assert_transform):
    """They are always (1, 1) and (1, -1): the entries of an axis are equally large, whatever the rows."""
    random, features, analyze, apply, expected = np.random.default_rng(5), {}, {}, {}, {}
    for name in "abcdef":
        rows = random.normal(size=(50, 1)) + 0.5 * random.normal(size=(50, 2))
        columns = [f"{name}0", f"{name}1"]
        features[name] = {"type": "vector", "columns": columns, "transforms": ["z_score", {"pca": {"dimensions": 2}}]}
        analyze |= dict(zip(columns, rows.T.tolist(), strict=True))
        apply |= dict(zip(columns, rows[:3].T.tolist(), strict=True))
        expected[f"{name}_xf"] = list((((rows - rows.mean(0)) / rows.std(0)) @ [[1, 1], [1, -1]] / 2**0.5)[:3])
    assert_transform(features, analyze=analyze, apply=apply, expected=expected, tolerance=1e-4)


def _principal_axes(rows: np.ndarray) -> np.ndarray:
    """Returns the axes as columns, in order of descending variance, with the largest entry of each positive."""
    _, _, axes = np.linalg.svd(rows - rows.mean(0))
    largest = np.abs(axes).argmax(1)
    return (axes * np.sign(axes[np.arange(len(axes)), largest])[:, np.newaxis]).T
