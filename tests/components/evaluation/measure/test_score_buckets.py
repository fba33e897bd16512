import numpy as np
import pytest

from fullpass.components.evaluation.measure.score_buckets import (
    CELLS_OF_BUCKET,
    EDGES,
    CurveAreas,
    SparseHistograms,
    cell_of,
)
from fullpass.components.evaluation.measure.scored_rows import Scored
from tests.components.evaluation.measured_rows import measured


def cells_of(scores, labels, weights=None, sets=None):
    weights = np.ones(len(scores)) if weights is None else weights
    sets = np.zeros(len(scores), np.int64) if sets is None else sets
    keys = sets * SparseHistograms.CELLS + cell_of(scores)
    return SparseHistograms.sums(keys, weights * labels, weights * (1 - labels))


def share_of_pairs(scores, labels, weights):
    """The area under the ROC curve by its definition, over pairs of rows of different classes."""
    one, other = scores[labels == 1], scores[labels == 0]
    pairs = np.outer(weights[labels == 1], weights[labels == 0])
    won = (one[:, None] > other) + 0.5 * (one[:, None] == other)
    return (won * pairs).sum() / pairs.sum()


def half_of_the_pairs_in_one_bucket(scores, labels, weights):
    """The largest error of the area: which row of such a pair has the higher score is unknown."""
    buckets = cell_of(scores) // CELLS_OF_BUCKET
    one, other = buckets[labels == 1], buckets[labels == 0]
    pairs = np.outer(weights[labels == 1], weights[labels == 0])
    return ((one[:, None] == other) * pairs).sum() / pairs.sum() / 2


def test_buckets_are_narrow_and_narrower_near_the_ends():
    assert np.all(np.diff(EDGES) > 0) and EDGES[0] == 0 and EDGES[-1] < 1
    upper = np.append(EDGES[1:], 1.0)
    assert np.max(upper - EDGES) <= 2**-14
    inner = (EDGES >= 2**-24) & (upper <= 1 - 2**-24)
    from_end = np.minimum(EDGES, 1 - upper)[inner]
    assert np.all((upper - EDGES)[inner] <= from_end / 256 * (1 + 1e-6))


def test_every_score_has_its_bucket():
    scores = np.array([-1.0, 0.0, 1e-30, 2**-20, 0.3, 0.5, 1 - 2**-20, 1.0, 7.0])
    buckets = cell_of(scores) // CELLS_OF_BUCKET
    inside = np.clip(scores, 0, 1)
    assert np.all(EDGES[buckets] <= inside)
    assert np.all(inside[:-2] < np.append(EDGES, np.inf)[buckets + 1][:-2])


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-6, 1e-12, 1e-30])
def test_the_area_is_the_share_of_pairs_within_the_stated_error(scale):
    rng = np.random.default_rng(3)
    labels = (rng.random(2000) < 0.2).astype(float)
    scores, weights = scale * rng.beta(2 + labels, 4), rng.random(2000)
    areas = CurveAreas(cells_of(scores, labels, weights), 1)
    exact = share_of_pairs(scores, labels, weights)
    error = half_of_the_pairs_in_one_bucket(scores, labels, weights)
    assert abs(areas.roc[0] - exact) <= error + 1e-12
    assert error < 2e-3 and abs(areas.roc[0] - exact) < 1e-4


def test_equal_scores_count_half_and_a_perfect_order_is_one():
    assert CurveAreas(cells_of(np.full(4, 0.3), np.array([0.0, 1, 0, 1])), 1).roc[0] == 0.5
    perfect = CurveAreas(cells_of(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0, 1, 1])), 1)
    assert perfect.roc[0] == 1 and perfect.precision_recall[0] == pytest.approx(1)


def test_the_area_under_precision_and_recall_by_hand():
    # Thresholds between the scores give (TP, FP) of (1, 0), (1, 1), (2, 1). From (1, 1) to (2, 1) only TP grows, so
    # precision is (1 + t) / (2 + t): the integral over t in 0..1 is 1 - log(3 / 2); both halves of recall together:
    areas = CurveAreas(cells_of(np.array([0.9, 0.6, 0.3]), np.array([1.0, 0, 1])), 1)
    assert areas.precision_recall[0] == pytest.approx((1 + 1 - np.log(3 / 2)) / 2)


def test_each_set_is_computed_by_itself_and_one_class_has_no_area():
    rng = np.random.default_rng(5)
    scores, labels, sets = rng.random(900), (rng.random(900) < 0.4).astype(float), rng.integers(0, 3, 900)
    labels[sets == 1] = 1
    areas = CurveAreas(cells_of(scores, labels, sets=sets), 4)
    for one in (0, 2):
        alone = CurveAreas(cells_of(scores[sets == one], labels[sets == one]), 1)
        assert areas.roc[one] == pytest.approx(alone.roc[0], abs=1e-12)
        assert areas.precision_recall[one] == pytest.approx(alone.precision_recall[0], abs=1e-12)
    for undefined in (1, 3):  # rows of one class; no rows
        assert np.isnan(areas.roc[undefined]) and np.isnan(areas.precision_recall[undefined])


def test_parts_join_to_the_whole_and_sets_move():
    rng = np.random.default_rng(7)
    scores, labels, sets = rng.random(500), (rng.random(500) < 0.4).astype(float), rng.integers(0, 2, 500)
    whole = cells_of(scores, labels, sets=sets)
    joined = SparseHistograms.joined([cells_of(scores[i::3], labels[i::3], sets=sets[i::3]) for i in range(3)])
    for name in ("keys", "positive", "negative"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
    moved = whole.moved(np.array([-1, 0]))
    alone = cells_of(scores[sets == 1], labels[sets == 1])
    np.testing.assert_array_equal(moved.keys, alone.keys)
    np.testing.assert_array_equal(moved.positive, alone.positive)


@pytest.mark.parametrize(("middle", "width"), [(0.5, 1e-3), (0.3, 1e-5), (0.7, 1e-5), (0.01, 1e-6), (1e-6, 1e-10)])
def test_the_area_does_not_depend_on_where_the_scores_are(middle, width):
    rng = np.random.default_rng(4)
    labels = (rng.random(3000) < 0.4) * 1.0
    ranks = rng.normal(size=3000) + 0.9 * labels
    scores = (middle + width * ranks).astype(np.float32).astype(np.float64)
    exact = share_of_pairs(scores, labels, np.ones(3000))
    found, _ = measured(("auc", "auc_pr"), Scored(labels, np.ones(3000), scores))
    spread, _ = measured(("auc", "auc_pr"), Scored(labels, np.ones(3000), 1 / (1 + np.exp(-ranks))))
    assert found.values[0]["auc"][0] == pytest.approx(exact, abs=1e-6)
    for name in ("auc", "auc_pr"):
        assert found.values[0][name][0] == pytest.approx(spread.values[0][name][0], abs=2e-3)
        assert found.errors[0][name][0] == pytest.approx(spread.errors[0][name][0], rel=0.05)


def test_too_many_cells_are_merged_in_any_order_of_the_parts_to_the_same():
    rng = np.random.default_rng(8)
    scores, labels = rng.random(20_000), (rng.random(20_000) < 0.4) * 1.0
    whole = cells_of(scores, labels, sets=np.arange(20_000) % 2)
    limited = whole.limited(1, 1000)
    parts = [cells_of(scores[i::3], labels[i::3], sets=(np.arange(20_000) % 2)[i::3]) for i in range(3)]
    joined = SparseHistograms.joined([part.limited(1, 1000) for part in parts]).limited(1, 1000)
    np.testing.assert_array_equal(joined.keys, limited.keys)
    np.testing.assert_array_equal(joined.positive, limited.positive)
    assert all(200 < len(limited.of_sets(one, 1).keys) <= 1000 for one in (0, 1))
    assert CurveAreas(limited, 2).roc == pytest.approx(CurveAreas(whole, 2).roc, abs=2e-3)
    assert whole.limited(1, 10**6) is whole
