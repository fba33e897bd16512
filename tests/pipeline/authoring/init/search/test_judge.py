"""The judge of the search: gains, intervals, prices, and losses on the scale of the label."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import r2_score, roc_auc_score

from fullpass.pipeline.authoring.init.search.encodings import Encoding
from fullpass.pipeline.authoring.init.search.judge import FOLDS, FoldJudge, Gain, gain_of, relative_errors

ROWS = 1000


def judge_of(y, task="regression", classes=1):
    return FoldJudge(y, np.arange(len(y)) % FOLDS, task, classes)


def test_the_interval_is_that_of_paired_rows(random):
    gains = random.normal(0.1, 1, ROWS)
    gain = gain_of(gains, "AUC")
    low, high = stats.t.interval(0.95, ROWS - 1, loc=gains.mean(), scale=stats.sem(gains))
    assert (gain.mean - gain.reach, gain.mean + gain.reach) == pytest.approx((low, high), rel=0.02)


def test_areas_have_the_variance_of_delong(random):
    """All pairs are compared one by one; ties count half."""
    y, x = (random.random(ROWS) < 0.2).astype(float), random.integers(0, 6, ROWS) / 2
    judged = FoldJudge(y, np.arange(ROWS) % FOLDS, "binary").judged([Encoding(x + y)])
    for fold in range(FOLDS):
        own, scores = y[fold::FOLDS], judged.predicted[fold::FOLDS]
        difference = scores[own == 1][:, None] - scores[own == 0][None, :]
        wins = (difference > 0) + 0.5 * (difference == 0)
        parts = judged.scores[fold::FOLDS]
        assert parts.mean() == pytest.approx(wins.mean()) == pytest.approx(roc_auc_score(own, scores))
        variance = wins.mean(axis=1).var() / wins.shape[0] + wins.mean(axis=0).var() / wins.shape[1]
        assert parts.var() / len(parts) == pytest.approx(variance)


def test_means_of_several_classes_are_the_shares_of_each_in_the_other_parts(random):
    """Of each group a row of the first class comes; no row sees its own label, nor those of rows that judge."""
    y, group = np.arange(ROWS) % 3.0, np.arange(ROWS) % 6
    judge, learns = judge_of(y, "multiclass", 3), np.arange(ROWS) < 900
    one, means = Encoding(random.normal(size=ROWS)), Encoding(group, "means")
    found = means.numbers(judge.targets, learns)
    assert judge.width([one, means, one]) == 5 and found.shape == (ROWS, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found.argmax(axis=1) == y).all()
    assert found[950:].max() == pytest.approx((150 + 5 / 3) / 155)  # 150 of 900 rows in a group, and 5 of all
    errors = judge.targets - 1 / 3
    assert means.told(errors) > 0.6 > Encoding(random.permutation(group), "means").told(errors)


def test_relative_errors_are_not_decided_by_a_large_label():
    found = relative_errors(np.array([1.0, 1.0, 1e6]), np.array([1.0, 3.0, 3e6]))
    assert found == pytest.approx([0, np.log(2), np.log(3)], abs=1e-5)
    assert relative_errors(np.array([0.0, 1.0]), np.array([-5.0, -5.0])) == pytest.approx([0, np.log(2)])


def test_a_gain_pays_beyond_its_interval_and_its_price():
    gain = Gain(0.021, 0.004, "AUC")
    assert gain.text == "+0.021 ± 0.004 AUC in five folds"
    assert gain.pays(0.02) and not gain.pays(0.03)
    assert not Gain(0.021, 0.022, "AUC").pays(0.0)
    assert judge_of(np.zeros(5)).price(100) == pytest.approx(0.02)


def test_scores_are_those_of_rows_that_boosters_did_not_learn_from(random):
    x = random.normal(size=ROWS)
    y = x + random.normal(0, 0.5, ROWS)
    judged = judge_of(y).judged([Encoding(x)])
    expected = [r2_score(y[fold::FOLDS], judged.predicted[fold::FOLDS]) for fold in range(FOLDS)]
    assert [judged.scores[fold::FOLDS].mean() for fold in range(FOLDS)] == pytest.approx(expected)
    assert 0.7 < judged.scores.mean() < 0.8  # the noise leaves 1 - 0.25 / 1.25


def test_a_logarithm_is_judged_by_the_mean_on_the_scale_of_the_label(random):
    group = random.integers(0, 2, ROWS).astype(float)
    y = np.exp(2 + group + random.normal(0, 0.8, ROWS))
    predicted = judge_of(y).judged([Encoding(group)], "log_normal").predicted
    for own in (0, 1):
        assert predicted[group == own].mean() == pytest.approx(np.exp(2 + own + 0.8**2 / 2), rel=0.1)


def test_classes_are_judged_by_likelihood(random):
    y = random.integers(0, 3, ROWS).astype(float)
    x = np.where(random.random(ROWS) < 0.8, y, random.integers(0, 3, ROWS))
    judge = judge_of(y, "multiclass", 3)
    judged = judge.judged([Encoding(x, "category")])
    share = np.mean(x == y)
    best = share * np.log(share) + (1 - share) * np.log((1 - share) / 2)  # of one who knows both shares
    assert judged.scores.mean() == pytest.approx(best, abs=0.05)
    assert judge.price(10) == pytest.approx(0.002 * np.log(3), rel=0.01)
