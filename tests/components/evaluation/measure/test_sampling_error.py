"""Standard errors against formulas, and against the spread of the metrics over many samples."""

import numpy as np
import pytest

from fullpass.components.evaluation.confidence import GROUPS, half_width
from fullpass.components.evaluation.measure.metric_terms import TERMS
from fullpass.components.evaluation.measure.metrics import metric_of
from fullpass.components.evaluation.measure.sampling_error import group_of, sums_without_each
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from tests.components.evaluation import measured_rows
from tests.components.evaluation.measured_rows import scored_by

METRICS = ("accuracy", "mse", "auc", "auc_pr")


def measured(seed, rows=3000):
    """Two models with similar scores, on rows drawn with `seed`."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.3).astype(float)
    new = rng.beta(2 + labels, 3)
    old = np.clip(new + rng.normal(0, 0.02, rows), 0, 1)
    models = tuple(Scored(labels, np.ones(rows), scores) for scores in (new, old))
    one = SliceAccumulator(METRICS, (), None, 2)
    return models, one.measure(one.add(one.start(), scored_by(*models, first=seed * 2**36)))


def test_groups_are_equal_in_size_and_follow_from_the_id_alone():
    ids = np.arange(100_000) + 5 * 2**36
    counts = np.bincount(group_of(ids), minlength=GROUPS)
    assert counts.sum() == 100_000 and np.all(np.abs(counts - 2500) < 5 * np.sqrt(2500))
    assert np.array_equal(group_of(ids[::-1])[::-1], group_of(ids))


def test_errors_of_means_are_those_of_the_textbook():
    (new, old), found = measured(1)
    for name, terms in {
        "accuracy": [((m.scores > 0.5) == (m.labels > 0.5)) * 1.0 for m in (new, old)],
        "mse": [(m.scores - m.labels) ** 2 for m in (new, old)],
    }.items():
        for model, term in enumerate(terms):
            assert found.errors[model][name][0] == pytest.approx(term.std() / np.sqrt(len(term)), rel=0.35)
        difference = terms[0] - terms[1]
        assert found.differences[name][0] == pytest.approx(difference.std() / np.sqrt(len(difference)), rel=0.35)


@pytest.mark.integration
@pytest.mark.parametrize("metric", ["auc", "auc_pr"])
def test_errors_of_areas_are_how_much_areas_of_other_rows_vary(metric):
    found = [measured(seed, 4000)[1] for seed in range(60)]  # a standard error from 60 samples is uncertain by 9 %
    values = np.array([[model[metric][0] for model in one.values] for one in found])
    errors = np.median([one.errors[0][metric][0] for one in found])
    assert errors == pytest.approx(values[:, 0].std(ddof=1), rel=0.25)
    differences = np.median([one.differences[metric][0] for one in found])
    assert differences == pytest.approx((values[:, 0] - values[:, 1]).std(ddof=1), rel=0.25)
    assert differences < errors / 2  # both models score the same rows


def test_without_rows_there_is_no_error():
    one = SliceAccumulator(METRICS, (), None, 2)
    assert np.isnan(one.measure(one.start()).errors[0]["auc"][0])


@pytest.mark.parametrize(("positives", "known"), [(1, False), (2, False), (40, True)])
def test_the_error_of_an_auc_of_few_positive_rows_is_unknown(positives, known):
    rng = np.random.default_rng(2)
    labels = (np.arange(2000) < positives) * 1.0
    found, _ = measured_rows.measured(("auc", "accuracy"), Scored(labels, np.ones(2000), rng.random(2000)))
    errors = found.errors[0]
    assert np.isfinite(errors["auc"][0]) == known and np.isfinite(errors["accuracy"][0])


def test_a_share_that_never_failed_has_wilsons_interval():
    found, _ = measured_rows.measured(("accuracy",), Scored(np.ones(300), np.ones(300), np.full(300, 0.9)))
    assert found.values[0]["accuracy"][0] == 1
    assert half_width(found.errors[0]["accuracy"][0]) == pytest.approx(4.09 / (300 + 4.09), rel=1e-3)


def test_the_sums_without_each_part_are_exact_beside_a_part_of_huge_values():
    parts = np.array([[1e20, 1.0, 2.0, 4.0]])
    assert sums_without_each(parts, axis=1).tolist() == [[7.0, 1e20 + 6, 1e20 + 5, 1e20 + 3]]


def test_metrics_of_counts_and_of_amounts_are_worked_out_by_hand():
    """Labels 2 and 0, scores 4 and 1: the deviances are 2 (2 log 0.5 + 2) and 2."""
    rows = Scored(np.array([2.0, 0.0]), np.ones(2), np.array([4.0, 1.0]))
    sums = {name: np.array([TERMS[name](rows).sum()]) for name in ("weight", "deviance", "squared_log_error")}
    assert metric_of("poisson_deviance").computed.value(sums) == pytest.approx([(2 * (2 * np.log(0.5) + 2) + 2) / 2])
    logs = np.log([5 / 3, 2])
    assert metric_of("rmsle").computed.value(sums) == pytest.approx([np.sqrt((logs**2).mean())])
    assert np.isnan(TERMS["deviance"](Scored(np.array([1.0]), np.ones(1), np.array([0.0])))).all()


def test_metrics_of_quantiles_are_worked_out_by_hand():
    levels = (0.1, 0.5, 0.9)
    rows = Scored(np.array([3.0, 10.0]), np.ones(2), np.zeros(2), np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]), levels)
    # Errors 2, 1, -1 and 9, 8, 6. Positive errors count a tenth, a half and nine tenths; negative errors the rest.
    np.testing.assert_allclose(TERMS["pinball"](rows), [(0.2 + 0.5 + 0.1) / 3, (0.9 + 4.0 + 5.4) / 3])
    assert TERMS["covered"](rows).tolist() == [1, 0]
    assert TERMS["width"](rows).tolist() == [3, 3]
    none = Scored(rows.labels, rows.weights, rows.scores)
    assert all(np.isnan(TERMS[term](none)).all() for term in ("pinball", "covered", "width"))
