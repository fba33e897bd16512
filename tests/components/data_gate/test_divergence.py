"""Divergences against scipy and hand-computed values; chance levels against simulated samples."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2

from fullpass.components.data_gate.distribution import ATOMS, Distribution, merge
from fullpass.components.data_gate.divergence import BINS, MISSING, OTHER, divergence, jensen_shannon, share_by_chance
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.sketches import NumberSketch, Sketches, TokenSketch
from fullpass.preprocessing.config import PreprocessingConfig


def numbers(values, missing=0):
    sketch = NumberSketch()
    for part in np.array_split(np.asarray(values, dtype=np.float32), 3):
        sketch.add(part, 0)
    sketch.add(np.array([], dtype=np.float32), missing)
    return sketch.distribution()


def tokens(values, missing=0):
    sketch = TokenSketch()
    sketch.add(pa.array(list(values), pa.string()), missing)
    return sketch.distribution()


def shares(d):
    return dict(zip(d.bins, zip(d.before, d.now, strict=True), strict=True))


def test_a_divergence_calculated_by_hand():
    found = divergence(tokens("a" * 50 + "b" * 50), tokens("a" * 100))
    # The middle is (3/4, 1/4): half of log2(2/3)/2 + log2(2)/2, and half of log2(4/3).
    assert found.js == pytest.approx((math.log2(2 / 3) / 2 + 1 / 2) / 2 + math.log2(4 / 3) / 2)
    assert found.linf == 0.5
    assert shares(found) == {"a": (0.5, 1.0), "b": (0.5, 0.0), MISSING: (0.0, 0.0)}


def test_nothing_in_common_is_1_and_equal_is_0():
    assert divergence(tokens("a" * 30), tokens("b" * 30)).js == pytest.approx(1)
    assert divergence(numbers([1.0] * 30), numbers([2.0] * 30)).js == pytest.approx(1)
    same = np.random.default_rng(0).normal(size=5000)
    equal = divergence(numbers(same), numbers(same))
    assert equal.js == pytest.approx(0, abs=1e-12) and equal.linf == 0


@pytest.mark.integration
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=40))
def test_jensen_shannon_is_scipys(counts):
    p, q = (np.array(c, dtype=float) for c in zip(*counts, strict=True))
    if not p.sum() or not q.sum():
        return
    p, q = p / p.sum(), q / q.sum()
    assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-9)


def test_tokens_are_binned_as_counted_and_js_is_scipys():
    random = np.random.default_rng(1)
    before, now = random.integers(0, 30, 4000), random.integers(5, 35, 1000)
    found = divergence(tokens(map(str, before)), tokens(map(str, now), missing=250))
    for value in range(35):
        expected = ((before == value).mean(), (now == value).mean() * 0.8)
        assert shares(found)[str(value)] == pytest.approx(expected)
    assert shares(found)[MISSING] == pytest.approx((0, 0.2))
    p = np.array([(before == v).mean() for v in range(35)] + [0])
    q = np.array([(now == v).mean() * 0.8 for v in range(35)] + [0.2])
    assert found.js == pytest.approx(jensenshannon(p, q, base=2) ** 2)
    assert found.linf == pytest.approx(np.abs(p - q).max())
    assert found.unseen == pytest.approx((now >= 30).mean() * 0.8)


def test_numbers_are_cut_at_quantiles_of_the_data_before():
    random = np.random.default_rng(2)
    before, now = random.normal(0, 1, 40_000), random.normal(0.7, 1.3, 30_000)
    found = divergence(numbers(before), numbers(now))
    assert len(found.bins) == BINS + 1 and found.bins[-1] == MISSING
    edges = np.quantile(before, np.arange(1, BINS) / BINS)
    p, q = (np.histogram(x, [-np.inf, *edges, np.inf])[0] / len(x) for x in (before, now))
    np.testing.assert_allclose(found.before[:-1], p, atol=0.003)
    np.testing.assert_allclose(found.now[:-1], q, atol=0.003)
    assert found.js == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=0.003)


def test_a_common_number_is_a_bin_of_its_own_and_the_rest_is_cut_around_it():
    random = np.random.default_rng(3)
    before = np.concatenate([np.zeros(6000), random.uniform(1, 2, 4000)])
    now = np.concatenate([np.zeros(2000), np.full(4000, 2.5), random.uniform(1, 2, 4000)])
    found = shares(divergence(numbers(before), numbers(now)))
    assert found["0"] == pytest.approx((0.6, 0.2), abs=0.003)
    assert found["2.5"] == pytest.approx((0.0, 0.4), abs=0.003)
    ranges = [pair for name, pair in found.items() if name not in ("0", "2.5", MISSING)]
    assert len(ranges) == 8, "40 % of 20 bins"
    assert (sum(p for p, _ in ranges), sum(q for _, q in ranges)) == pytest.approx((0.4, 0.4), abs=0.003)


def test_a_range_holds_its_upper_end():
    before = numbers([float(v) for v in range(1, 101) for _ in range(3)])
    found = divergence(before, numbers([5.0, 5.001] * 4))  # too few of each value for separate bins
    assert found.bins[0] == "to 5" and found.bins[1].startswith("5 to")
    assert found.now[:2] == pytest.approx((0.5, 0.5)) and found.before[0] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("before", "now", "js"),
    [
        (numbers([], 10), numbers([], 99), 0.0),  # all missing in both
        (numbers([], 50), numbers([1.0] * 50), 1.0),  # a column that appears
        (numbers([7.0] * 50), numbers([7.0] * 20), 0.0),  # constant
        (tokens([], 50), tokens(["a"] * 50), 1.0),
        (tokens([]), tokens([]), 0.0),  # no rows
    ],
)
def test_columns_without_values_or_with_one(before, now, js):
    found = divergence(before, now)
    assert found.js == pytest.approx(js) and found.js_chance >= 0


def test_unique_ids_are_no_drift():
    found = divergence(tokens(f"old{i}" for i in range(300)), tokens(f"new{i}" for i in range(300)))
    assert found.bins == (OTHER, MISSING) and found.js == 0
    assert found.unseen == 1.0
    many = divergence(tokens(f"old{i}" for i in range(20_000)), tokens(f"new{i}" for i in range(20_000)))
    assert many.js == 0 and many.unseen == 0, "of so many not all are known"


@pytest.mark.integration
def test_chance_bounds_the_divergence_of_samples_of_one_distribution():
    random = np.random.default_rng(4)
    weights = random.dirichlet(np.ones(12))
    over_js = over_linf = 0
    for _ in range(400):
        first, second = (random.choice(12, n, p=weights).astype(str) for n in (250, 400))
        found = divergence(tokens(first), tokens(second))
        over_js += found.js > found.js_chance
        over_linf += found.linf > found.linf_chance
        assert 0.2 < found.js_chance / found.js if found.js else True
    assert over_js <= 1 and over_linf <= 1


def test_chance_is_chi_squared_and_normal():
    d = divergence(tokens("abcdefghij" * 100), tokens("abcdefghij" * 200))
    expected = chi2.ppf(1 - 1e-4, 9) * (1 / 1000 + 1 / 2000) / (8 * math.log(2))
    assert d.js_chance == pytest.approx(expected, rel=0.02)  # Wilson and Hilferty's approximation
    assert share_by_chance(0.5, 1 / 100 + 1 / 100) == pytest.approx(3.8906 * math.sqrt(0.25 * 0.02), rel=1e-3)
    assert share_by_chance(0.0, 1.0) == 0


def test_sketches_merge_with_an_error_of_three_in_a_thousand():
    random = np.random.default_rng(5)
    parts = [random.lognormal(size=50_000).astype(np.float32) for _ in range(3)]
    parts[1][:20_000] = 1.5
    joined = merge(numbers(part, missing=100) for part in parts)
    every = np.sort(np.concatenate(parts).astype(np.float64))
    assert joined.rows == len(every) + 300 and joined.missing == 300 and len(joined.values) <= ATOMS
    below = np.searchsorted(every, joined.values, side="right")
    assert np.abs(np.cumsum(joined.counts) - below).max() / len(every) < 0.003
    own = dict(zip(joined.values, joined.counts, strict=True))[1.5]
    assert own == pytest.approx((every == 1.5).sum(), abs=0.003 * len(every))


def test_common_tokens_among_more_than_the_sketch_counts():
    found = tokens([*(f"rare{i}" for i in range(50_000)), *["common"] * 5000])
    assert found.values == ("common",) and not found.complete
    assert found.counts[0] == pytest.approx(5000, abs=55_000 / 4096 + 1) and found.present == 55_000


def test_distributions_of_two_kinds_do_not_merge():
    with pytest.raises(ValueError, match="one kind"):
        merge([numbers([1.0]), tokens("a")])


def test_a_distribution_survives_as_json():
    for d in (numbers([1.0, 2.5, 2.5], 4), tokens("aab", 1)):
        assert Distribution.from_json(d.to_json()) == d


def test_long_tokens_are_counted_by_their_beginning_and_a_digest():
    sketch = TokenSketch()
    long = ["ä" * 200_000 + end for end in ("a", "b", "b")]
    sketch.add(pa.array(["short", *long, "short"], pa.string()), missing=2)
    found = sketch.distribution()
    counted = dict(zip(found.values, found.counts, strict=True))
    assert counted.pop("short") == 2 and sorted(counted.values()) == [1, 2]
    assert all(name.startswith("ä" * 32 + " ... ") and name.endswith("(400,001 bytes)") for name in counted)


def test_written_numbers_are_compared_as_numbers():
    features = {"paid": {"type": "number", "format": "1.234,5-"}}
    config = PreprocessingConfig.model_validate({"features": features, "label": {"name": "y", "task": "regression"}})
    source = SeriesSource.from_json(SeriesSource.of(config, None).to_json())
    sketches = Sketches(source)
    cells = [b"1.234,50-", b"7,5", None, b"soon", b"7,50"]
    sketches.add({"paid": pa.array(cells), "y": pa.array([1.0] * 5, pa.float32())}, 5)
    found = sketches.distributions()["paid"]
    assert (found.kind, found.missing) == ("number", 2)
    assert divergence(found, numbers([-1234.5, 7.5, 7.5], missing=2)).js == pytest.approx(0, abs=1e-12)
