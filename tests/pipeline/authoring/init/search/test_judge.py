"""The judge of the search: gains, intervals, prices, and losses on the scale of the label."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import r2_score

from fullpass.pipeline.authoring.init.search.encodings import Encoding
from fullpass.pipeline.authoring.init.search.judge import FOLDS, FoldJudge, Gain, Judged

ROWS = 1000


def judge_of(y, task="regression", classes=1):
    return FoldJudge(y, np.arange(len(y)) % FOLDS, task, classes)


def test_the_interval_is_that_of_student(random):
    before, after = random.normal(size=5), random.normal(size=5)
    judged = (Judged(scores, np.zeros(5), np.zeros(5), 1) for scores in (before, after))
    gain = judge_of(np.zeros(5)).gain(*judged)
    low, high = stats.t.interval(0.95, 4, loc=gain.mean, scale=stats.sem(after - before))
    assert (gain.mean - gain.reach, gain.mean + gain.reach) == pytest.approx((low, high), rel=0.01)


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
    assert judged.scores == pytest.approx(expected)
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
