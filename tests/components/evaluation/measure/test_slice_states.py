"""Sums and histograms of slices, against the same metrics computed separately on the rows of each slice."""

import math

import numpy as np
import pytest

from fullpass.components.evaluation.measure import slice_states
from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.evaluation.measure.slices import SliceKey
from tests.components.evaluation.measured_rows import measured, scored_by

NEWEST = 5
ZONES = (b"north", b"south")
HOURS = (7.0, 8.0, 9.0)


def batch(seed, rows=400):
    """Rows of two zones and three hours with scores of two models; some values and a tenth of the labels missing."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.3).astype(float)
    weights = np.where(rng.random(rows) < 0.1, 0.0, rng.integers(1, 4, rows))
    columns = {"zone": Codes(rng.integers(-1, 2, rows), ZONES), "hour": Codes(rng.integers(-1, 3, rows), HOURS)}
    models = tuple(Scored(labels, weights, rng.beta(2 + labels, 3)) for _ in range(2))
    return ScoredRows(np.arange(rows), rng.integers(4, 6, rows), columns, models)


def accumulator(metrics=("example_count", "auc", "log_loss"), slices=(("zone",), ("zone", "hour")), newest=NEWEST):
    return SliceAccumulator(metrics, slices, newest, 2)


def rows_of(key, rows, columns):
    """Returns whether each row is in a slice, by the definition of the slice."""
    found = rows.spans == NEWEST if key.newest else np.full(len(rows.spans), True)
    for column, value in zip(columns, key.values, strict=True):
        codes = rows.columns[column]
        found &= (codes.codes >= 0) & (np.array(codes.values, object)[codes.codes] == value)
    return found


def test_every_slice_has_the_metrics_of_its_rows_alone():
    one, rows = accumulator(), batch(1)
    state = one.add(one.start(), rows)
    values = one.measure(state).values
    # All rows, two zones, six pairs of zone and hour; and the same for the newest span.
    assert len(state.indices) == 2 * (1 + 2 + 6)
    for key, index in state.indices.items():
        chosen = rows_of(key, rows, one.slices[key.entry] if key.entry >= 0 else ())
        for scored, of_model in zip(rows.models, values, strict=True):
            weights = scored.weights[chosen]
            labels, scores = scored.labels[chosen], scored.scores[chosen]
            loss = -np.average(np.log(np.where(labels == 1, scores, 1 - scores)), weights=weights)
            assert of_model["example_count"][index] == (weights > 0).sum()
            assert of_model["log_loss"][index] == pytest.approx(loss, rel=1e-12)
            pairs = np.outer(weights[labels == 1], weights[labels == 0])
            won = scores[labels == 1][:, None] > scores[labels == 0]
            assert of_model["auc"][index] == pytest.approx((won * pairs).sum() / pairs.sum(), abs=2e-3)


def test_states_of_parts_merge_to_the_state_of_the_whole():
    one, parts = accumulator(), [batch(seed, 100) for seed in range(4)]
    whole = one.start()
    for rows in parts:
        whole = one.add(whole, rows)
    merged = one.merge(one.add(one.start(), rows) for rows in reversed(parts))
    assert whole.indices.keys() == merged.indices.keys()
    for left, right in zip(one.measure(whole).values, one.measure(merged).values, strict=True):
        for name in one.metrics:
            for key in whole.indices:
                expected, found = left[name][whole.indices[key]], right[name][merged.indices[key]]
                assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_without_rows_there_are_all_rows_and_the_newest_span_with_none():
    one = accumulator()
    state = one.merge([one.start()])
    values = one.measure(state).values[0]
    assert list(state.indices) == [SliceKey(-1, newest=False), SliceKey(-1, newest=True)]
    assert values["example_count"].tolist() == [0, 0] and all(map(math.isnan, values["auc"]))


def test_an_entry_of_too_many_slices_has_none_wherever_they_were_found(monkeypatch):
    monkeypatch.setattr(slice_states, "MOST_SLICES", 3)
    one, parts = accumulator(), [batch(seed, 100) for seed in range(2)]
    together = one.merge(one.add(one.start(), rows) for rows in parts)
    assert together.overflowed == {1} and {key.entry for key in together.indices} == {-1, 0}
    # A part with few values keeps its slices until it is merged with a part that has many.
    few = batch(3, 100)
    hours = few.columns["hour"]
    few.columns["hour"] = Codes(np.where(hours.codes == 0, 0, -1), hours.values)
    state = one.add(one.start(), few)
    assert not state.overflowed
    for order in ([state, together], [together, state]):
        merged = one.merge(order)
        assert merged.overflowed == {1} and {key.entry for key in merged.indices} == {-1, 0}
        rows = one.measure(merged).values[0]["example_count"]
        assert rows[merged.indices[SliceKey(-1, newest=False)]] == sum(
            (part.models[0].weights > 0).sum() for part in (few, *parts)
        )


@pytest.mark.parametrize(
    ("levels", "not_compared"),
    [
        (((0.1, 0.9), (0.1, 0.9)), ()),
        (((0.1, 0.9), (0.2, 0.9)), ("pinball", "interval_width")),
        (((0.1, 0.9), ()), ()),  # the second has no such values at all
    ],
)
def test_metrics_of_quantiles_compare_if_the_levels_are_equal(levels, not_compared):
    one = accumulator(metrics=("example_count", "mae", "pinball", "interval_width"), slices=())
    labels = np.arange(4.0)
    of = [(np.stack([labels - 1, labels + 1], axis=1), known) if known else () for known in levels]
    models = tuple(Scored(labels, np.ones(4), labels, *quantiles) for quantiles in of)
    rows = scored_by(*models)
    state = one.merge([one.start(), one.add(one.start(), rows)])
    measured = [one_of.not_compared for one_of in measured_of(one, state)]
    assert [tuple(of_rows) for of_rows in measured] == [not_compared] * 2
    assert all("other levels" in why for of_rows in measured for why in of_rows.values())
    measured = [one_of.not_compared for one_of in measured_of(one, state, not_measured="reads zone")]
    assert measured == [dict.fromkeys(one.metrics, "reads zone")] * 2


def test_rows_without_a_label_count_nowhere_whatever_they_hold():
    one, rows = accumulator(), batch(9)
    without = [model.weights == 0 for model in rows.models]
    odd = [
        Scored(np.where(none, 7.0, m.labels), m.weights, np.where(none, np.nan, m.scores))
        for none, m in zip(without, rows.models, strict=True)
    ]
    expected = one.measure(one.add(one.start(), rows)).values
    odd_rows = ScoredRows(rows.row_ids, rows.spans, rows.columns, tuple(odd))
    found = one.measure(one.add(one.start(), odd_rows)).values
    for left, right in zip(expected, found, strict=True):
        for name in one.metrics:
            np.testing.assert_array_equal(left[name], right[name])


def test_a_score_that_is_no_number_makes_the_metrics_none():
    names = ("auc", "log_loss", "accuracy", "precision", "recall")
    one, rows = accumulator(metrics=names), batch(11)
    counted = int(np.flatnonzero(rows.models[0].weights)[0])
    rows.models[0].scores[counted] = np.nan
    values = one.measure(one.add(one.start(), rows)).values
    assert all(np.isnan(values[0][name][0]) and np.isfinite(values[1][name][0]) for name in names)


def regression(labels, scores, weights, groups=None, metrics=("r2", "explained", "mse", "example_count")):
    return measured(metrics, Scored(labels, weights, scores), groups, parts=3)


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 1.0, 1e6, 1e280])
@pytest.mark.parametrize("offset", [0.0, 1e4, 16777216.0, 1.7e9])
def test_labels_far_from_zero_have_the_metrics_of_the_same_labels_near_zero(offset, scale):
    rng = np.random.default_rng(1)
    step = max(1.0, offset / 2**24)
    labels, weights = rng.integers(0, 4, 2000) * step, rng.integers(1, 4, 2000) * scale
    scores = labels + rng.integers(-1, 2, 2000) * step
    found, _ = regression(labels + offset, scores + offset, weights)
    share = weights / weights.sum()  # all sums of small integers times a power of two: exact
    left, right = (x - (share * x).sum() for x in (labels, scores))
    variance = (share * left**2).sum()
    r2 = (share * left * right).sum() ** 2 / variance / (share * right**2).sum()
    explained = 1 - (share * (labels - scores) ** 2).sum() / variance
    assert found.values[0]["r2"][0] == pytest.approx(r2, rel=1e-9)
    assert found.values[0]["explained"][0] == pytest.approx(explained, rel=1e-9)
    near, _ = regression(labels, scores, weights / scale)
    for name in ("r2", "explained"):
        assert found.errors[0][name][0] == pytest.approx(near.errors[0][name][0], rel=1e-6)


def test_equal_labels_explain_nothing_wherever_they_are():
    labels, scores = np.full(500, 1699999999.7), 1.7e9 + np.arange(500.0)
    found, _ = regression(labels, scores, np.random.default_rng(1).random(500))
    assert np.isnan(found.values[0]["r2"][0]) and np.isnan(found.values[0]["explained"][0])


@pytest.mark.parametrize("big", [1e12, 1e20, 1e200])
def test_a_slice_of_huge_weights_leaves_the_others_exact(big):
    rng = np.random.default_rng(4)
    zones = rng.integers(0, 5, 3000)
    labels = (rng.random(3000) < 0.4) * 1.0
    scores = np.clip(labels * 0.3 + rng.random(3000) * 0.7, 0, 1)
    plain, indices = regression(labels, scores, np.ones(3000), zones, metrics=("auc", "auc_pr", "r2", "explained"))
    weights = np.where(zones == 0, big, 1.0)
    found, _ = regression(labels, scores, weights, zones, metrics=("auc", "auc_pr", "r2", "explained"))
    for zone in range(5):
        index = indices[SliceKey(0, newest=False, values=(float(zone),))]
        for name in plain.values[0]:
            for of in ("values", "errors"):
                expected = getattr(plain, of)[0][name][index]
                assert getattr(found, of)[0][name][index] == pytest.approx(expected, rel=1e-9), (zone, name, of)


@pytest.mark.parametrize("scale", [1e-300, 1 / 1000, 1e6, 1e300])
def test_the_scale_of_the_weights_changes_no_metric_and_no_number_of_rows(scale):
    rng = np.random.default_rng(4)
    labels, scores = (rng.random(1000) < 0.4) * 1.0, rng.random(1000)
    weights = rng.random(1000) + 0.1
    names = ("example_count", "auc", "auc_pr", "accuracy", "log_loss")
    plain, _ = regression(labels, scores, weights, metrics=names)
    found, _ = regression(labels, scores, weights * scale, metrics=names)
    assert found.values[0]["example_count"][0] == 1000
    for name in names:
        assert found.values[0][name][0] == pytest.approx(plain.values[0][name][0], rel=1e-9)
        assert found.errors[0][name][0] == pytest.approx(plain.errors[0][name][0], rel=1e-6, abs=1e-12)
