"""Numbers as features, against values computed by hand or with numpy."""

import numpy as np
import pytest

pytestmark = pytest.mark.integration

SKEWED = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, None]


def number(*transforms, **fields):
    return {"type": "number", "column": "x", "transforms": list(transforms), **fields}


def test_each_transform_over_present_values_of_train(assert_transform):
    present = np.array(SKEWED[:-1])
    mean, deviation = present.mean(), present.std()
    assert_transform(
        {
            "default": {"type": "number", "column": "x"},
            "plain": number(missing=-1),
            "z_score": number("z_score", missing="max"),
            "min_max": number({"min_max": {"min": -1, "max": 1}}, missing="min"),
            "log1p": number("log1p", missing="median"),
            "sqrt": number("sqrt", missing=4),
            "power": number({"power": {"exponent": -1}}, missing=4),
            "clip": number({"clip": {"min": 1, "max": 20}}),
            "clip_low": number({"clip": {"min": 1}}, missing=0),
            "chain": number("log1p", "z_score", missing="mean"),
        },
        analyze={"x": SKEWED},
        apply={"x": [0.0, 8.0, 44.0, -2.0, None]},
        expected={
            "default_xf": [(x - mean) / deviation for x in (0, 8, 44, -2, mean)],
            "plain_xf": [0, 8, 44, -2, -1],
            "z_score_xf": [(x - mean) / deviation for x in (0, 8, 44, -2, 34)],
            "min_max_xf": [-1, -1 + 8 / 17, -1 + 44 / 17, -1 - 2 / 17, -1],
            # The median of nine values is 5; it also replaces -2, which has no logarithm.
            "log1p_xf": [0, np.log(9), np.log(45), np.log(6), np.log(6)],
            "sqrt_xf": [0, 8**0.5, 44**0.5, 2, 2],
            "power_xf": [0.25, 1 / 8, 1 / 44, -1 / 2, 0.25],
            "clip_xf": [1, 8, 20, 1, mean],
            "clip_low_xf": [1, 8, 44, 1, 1],
            "chain_xf": [
                (np.log1p(x) - np.log1p(present).mean()) / np.log1p(present).std() for x in (0, 8, 44, mean, mean)
            ],
        },
    )


def test_written_numbers(assert_transform):
    assert_transform(
        {
            "amount": {"type": "number", "format": "1.234,5-", "transforms": [], "missing": 0, "indicator": True},
            "runtime": {"type": "number", "format": "2h 10m", "transforms": ["min_max"], "missing": "max"},
            "minutes": {"type": "number", "column": "runtime", "format": "2h 10m", "transforms": []},
        },
        analyze={"amount": ["1,5", None], "runtime": ["1h 50m", "50m"]},
        apply={
            "amount": ["1.234,50-", "'7", "soon", None, "12,5"],
            "runtime": ["1h 20m", "50m", "80", "later", None],
        },
        expected={
            "amount_xf": [-1234.5, 7, 0, 0, 12.5],
            "amount.missing_xf": [0, 0, 1, 1, 0],
            "runtime_xf": [0.5, 0, 0.5, 1, 1],
            "minutes_xf": [80, 50, 80, 80, 80],
        },
    )


def test_ranks_of_ordered_words(assert_transform):
    order = ["low", "medium", "high", "7"]
    deviation = np.std([1.0, 2.0, 3.0])
    assert_transform(
        {
            "risk": {"type": "ordinal", "order": order, "transforms": [], "missing": "max", "indicator": True},
            "scaled": {"type": "ordinal", "column": "risk", "order": order},
            "bucket": {
                "type": "ordinal",
                "column": "risk",
                "order": order,
                "transforms": [{"bucketize": {"boundaries": [3]}}],
            },
        },
        analyze={"risk": ["medium", "low", "high", None, "Low", "unheard of"]},
        # The text 7.0 is the token 7, as in a category; another case is another word.
        apply={"risk": ["low", "high", "7.0", "HIGH", None, "medium"]},
        expected={
            "risk_xf": [1, 3, 4, 3, 3, 2],
            "risk.missing_xf": [0, 0, 0, 1, 1, 0],
            "scaled_xf": [(x - 2) / deviation for x in (1, 3, 4, 2, 2, 2)],
            "bucket_xf": [1, 2, 2, 0, 0, 1],
        },
    )


def test_quantiles(assert_transform):
    hundred = [float(i) for i in np.random.RandomState(0).permutation(100)]  # 0 .. 99
    half_zero = [0.0] * 60 + [float(i) for i in range(1, 41)]
    analysed = assert_transform(
        {
            "clip": number({"clip": {"min_quantile": 0.1, "max_quantile": 0.9}}),
            "ends": number({"clip": {"min_quantile": 0, "max_quantile": 1}}),
            "mixed": number({"clip": {"min": -5, "max_quantile": 0.5}}),
            "rank": number({"quantile_scale": {"quantiles": 10}}),
            "zeros": {"type": "number", "column": "z", "transforms": [{"quantile_scale": {"quantiles": 10}}]},
            "buckets": number({"bucketize": {"buckets": 4}}),
            "filled": number({"bucketize": {"buckets": 4}}, missing="max"),
            "merged": {"type": "number", "column": "z", "transforms": [{"bucketize": {"buckets": 10}}]},
            "given": number({"bucketize": {"boundaries": [0, 10]}}),
            "logs": number("log1p", {"bucketize": {"buckets": 2}}),
        },
        analyze={"x": hundred, "z": half_zero},
        apply={"x": [-5, 0, 9.9, 25, 55, 1000, None], "z": [-1, 0, 1, 15, 40, 50, None]},
        expected={
            # The quantile of 0 .. 99 at q is 100 q.
            "clip_xf": [10, 10, 10, 25, 55, 90, 49.5],
            "ends_xf": [0, 0, 9.9, 25, 55, 99, 49.5],
            "mixed_xf": [-5, 0, 9.9, 25, 50, 50, 49.5],
            # The quantiles are 0, 10, 20 .. 90, 99.
            "rank_xf": [0, 0, 0.099, 0.25, 0.55, 1, 0.495],
            # The quantiles are six times 0, then 1, 11, 21, 31, 40; 0 gets the middle rank of the zeros.
            "zeros_xf": [0, 0.25, 0.6, 0.74, 1, 1, 0.672],
            # The boundaries are 25, 50, 75; a value on a boundary belongs to the upper bucket.
            "buckets_xf": [1, 1, 1, 2, 3, 4, 0],
            "filled_xf": [1, 1, 1, 2, 3, 4, 4],
            # The boundaries are five times 0, then 1, 11, 21, 31.
            "merged_xf": [1, 2, 3, 4, 6, 6, 0],
            "given_xf": [1, 2, 2, 3, 3, 3, 0],
            # The boundary of log(1 + x) is log(51); -5 has no logarithm.
            "logs_xf": [0, 1, 1, 1, 2, 2, 0],
        },
    )
    sizes = {name: analysed.size(f"{name}_xf") for name in ("buckets", "merged", "given", "logs")}
    assert sizes == {"buckets": 5, "merged": 7, "given": 4, "logs": 3}


# TF Transform merges the moments of an empty column.
@pytest.mark.filterwarnings("ignore:invalid value encountered in divide:RuntimeWarning")
def test_scale_to_gaussian_and_columns_that_do_not_vary_or_are_empty(assert_transform):
    # Uniform values have short tails, so they are only standardized. The fit of long tails is TFT's own; the test
    # compares it with the Tukey h distribution from which the values were drawn.
    uniform = np.linspace(0, 1, 400)
    normal = np.random.RandomState(1).standard_normal(400)
    heavy = 5 + 2 * normal * np.exp(0.1 * normal**2)
    features = {
        f"{column}_{name}": {"type": "number", "column": column, "transforms": [transform], "missing": "median"}
        for column in ("constant", "empty")
        for name, transform in {
            "z": "z_score",
            "mm": {"min_max": {"min": 2, "max": 4}},
            "gauss": "scale_to_gaussian",
            "rank": "quantile_scale",
            "clip": {"clip": {"min_quantile": 0.25}},
            "buckets": {"bucketize": {"buckets": 3}},
        }.items()
    }
    analysed = assert_transform(
        {
            "uniform": {"type": "number", "missing": "median", "transforms": ["scale_to_gaussian"]},
            "heavy": {"type": "number", "missing": "median", "transforms": ["scale_to_gaussian"]},
            "bare": {"type": "number", "column": "empty"},
            **features,
        },
        analyze={"uniform": [*uniform, None], "heavy": [*heavy, None], "constant": [0.1] * 400 + [None]},
        apply={
            "uniform": [0.5, 1.0, None],
            "heavy": [5.0, heavy[3], 5.0],
            "constant": [0.1, None, 7.0],
            "empty": [None, 7.0, None],
        },
        expected={
            "uniform_xf": [0, 0.5 / uniform.std(), uniform[200] / uniform.std() - 0.5 / uniform.std()],
            "bare_xf": [0, 0, 0],
            "constant_z_xf": [0, 0, 0],
            "constant_mm_xf": [3, 3, 3],
            "constant_gauss_xf": [0, 0, 0],
            "constant_rank_xf": [0.5, 0.5, 1],
            "constant_clip_xf": [0.1, 0.1, 7],
            "constant_buckets_xf": [2, 2, 2],
            "empty_z_xf": [0, 0, 0],
            "empty_mm_xf": [0, 3, 0],
            "empty_gauss_xf": [0, 0, 0],
            "empty_rank_xf": [0, 0.5, 0],
            "empty_clip_xf": [0, 7, 0],
            "empty_buckets_xf": [0, 1, 0],
        },
        tolerance=1e-3,
    )
    assert np.allclose(analysed.applied["heavy_xf"][:2], [0, normal[3]], atol=0.1)
    assert analysed.size("constant_buckets_xf") == 3
    assert analysed.size("empty_buckets_xf") == 2


@pytest.mark.parametrize("offset", [1e6, pytest.param(-1e9, marks=pytest.mark.long)])
def test_a_small_spread_of_values_that_are_far_from_zero(assert_transform, offset):
    """The expected values are numpy's in float64, of the float32 values."""
    step = float(np.spacing(np.float32(abs(offset))))
    normal = np.random.RandomState(5).standard_normal((3, 300))
    heavy = np.round(2 * normal[0] * np.exp(0.1 * normal[0] ** 2))
    x = (offset + step * heavy).astype(np.float32).astype(np.float64)
    shop = np.where(np.arange(300) % 2, "a", "b")
    lists = (offset + step * np.round(3 * normal.T)).astype(np.float32).astype(np.float64)
    by_shop = {name: x[shop == name] for name in "ab"}
    analysed = assert_transform(
        {
            "z": number("z_score"),
            "by": number({"z_score": {"key": "shop"}}),
            "range": number({"min_max": {"key": "shop"}}),
            "far": number("scale_to_gaussian"),
            "near": {"type": "number", "transforms": ["scale_to_gaussian"]},
            "list": {"type": "number", "list": {"pooling": "mean"}},
            "plain": {"type": "number", "column": "list", "list": {"pooling": "mean"}, "transforms": []},
        },
        analyze={"x": x.tolist(), "shop": shop.tolist(), "near": heavy.tolist(), "list": lists.tolist()},
        apply={"x": x[:3].tolist(), "shop": shop[:3].tolist(), "near": heavy[:3].tolist(), "list": lists[:3].tolist()},
        expected={
            "z_xf": (x[:3] - x.mean()) / x.std(),
            "by_xf": [(v - by_shop[s].mean()) / by_shop[s].std() for v, s in zip(x[:3], shop, strict=False)],
            "range_xf": [(v - by_shop[s].min()) / np.ptp(by_shop[s]) for v, s in zip(x[:3], shop, strict=False)],
            "list_xf": (lists[:3].mean(1) - lists.mean()) / lists.std(),
        },
        tolerance=1e-4,
    )
    assert analysed.applied["plain_xf"] == lists[:3].mean(1).astype(np.float32).tolist()
    assert np.allclose(analysed.applied["far_xf"], analysed.applied["near_xf"], atol=1e-4)


def test_statistics_per_key(assert_transform):
    assert_transform(
        {
            "z": number({"z_score": {"key": "shop"}}, missing="mean"),
            "mm": number({"min_max": {"key": "shop"}}, missing="max"),
        },
        analyze={
            "x": [1, 3, 10, 14, None, 7, 5],
            "shop": ["old town", "old town", "b", "b", "b", "c", None],
        },
        apply={
            "x": [5, 5, None, 8, None, 9],
            "shop": ["old town", "b", "b", "c", "new", None],
        },
        expected={
            # old town: mean 2, deviation 1. b: mean 12, deviation 2. c: one value. new: unseen. A missing shop is a
            # group.
            "z_xf": [3, -3.5, (40 / 6 - 12) / 2, 0, 0, 0],
            "mm_xf": [2, -1.25, 1, 0.5, 0.5, 0.5],
        },
    )


def test_columns_of_a_group_keep_their_own_statistics_constants_and_indicators(assert_transform):
    seconds = [1.7e9 + 128 * i for i in (0, 1, 2)]  # float32 steps are 128 at this size.
    assert_transform(
        {
            "x": {"type": "number", "indicator": True},
            "t": "number",
            "a": {"type": "number", "missing": "median", "transforms": ["z_score"]},
            "b": {"type": "number", "missing": "median", "transforms": ["z_score"]},
            "c": {"type": "number", "missing": 7, "transforms": [{"min_max": {"max": 2}}]},
            "d": {"type": "number", "missing": 1, "transforms": [{"min_max": {"min": -1, "max": 1}}]},
        },
        analyze={
            "x": [1.0, 3.0, float("inf"), None],
            "t": [*seconds, None],
            "a": [0, 2, 4, None],
            "b": [10, None, 20, 30],
            "c": [5, 7, 9, 5],
            "d": [0, 4, None, None],
        },
        apply={
            "x": [1.0, None, float("-inf")],
            "t": [seconds[0], seconds[2], None],
            "a": [None, 4, 2],
            "b": [30, None, 20],
            "c": [None, 8, 5],
            "d": [2, None, 4],
        },
        expected={
            "x_xf": [-1, 0, 0],
            "x.missing_xf": [0, 1, 1],
            "t_xf": [-(1.5**0.5), 1.5**0.5, 0],
            "a_xf": [0, 1.5**0.5, 0],
            "b_xf": [1.5**0.5, 0, 0],
            "c_xf": [1, 1.5, 0],
            "d_xf": [0, -0.5, 1],
        },
    )
