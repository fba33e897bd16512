"""The chosen threshold, against all thresholds of scikit-learn and hand-worked values."""

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn import metrics as sk

from fullpass.trainer.decision_config import DecisionConfig
from fullpass.trainer.fit.decision_threshold import choose_threshold

METRICS = {
    "f1": sk.f1_score,
    "accuracy": sk.accuracy_score,
    "balanced_accuracy": sk.balanced_accuracy_score,
    "mcc": sk.matthews_corrcoef,
}


def chosen(labels, scores, weights=None, **rule):
    """Returns the chosen threshold of rows."""
    weights = np.ones(len(labels)) if weights is None else weights
    return choose_threshold(labels, scores.astype(np.float32), weights, DecisionConfig.model_validate(rule))


def rows(count=300, seed=4):
    """Labels, scores with many ties, and weights."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(count) < 0.3).astype(np.float32)
    return labels, np.round(rng.beta(1 + labels, 3), 2).astype(np.float32), rng.integers(1, 4, count) * 1.0


def values_of(score, labels, scores, weights):
    """Returns a metric at a threshold below, between and above all scores."""
    cuts = [-1.0, *np.unique(scores)]
    return [score(labels, scores > cut, sample_weight=weights) for cut in cuts]


@pytest.mark.parametrize("metric", METRICS)
def test_the_metric_is_the_largest_of_all_thresholds(metric):
    labels, scores, weights = rows()
    found = chosen(labels, scores, weights, metric=metric)
    assert found["value"] == pytest.approx(max(values_of(METRICS[metric], labels, scores, weights)))
    at_it = METRICS[metric](labels, scores > np.float32(found["threshold"]), sample_weight=weights)
    assert at_it == pytest.approx(found["value"])
    assert found["low"] <= found["threshold"] <= found["high"] and found["value_low"] < found["value_high"]
    assert found["measured"] == metric and found["rows"] == 300


def test_the_least_cost_by_hand():
    labels, scores = np.array([1.0, 0, 1, 0, 0]), np.array([0.9, 0.8, 0.6, 0.4, 0.2])
    # A missed row costs 5: both positives are kept, with one false one.
    found = chosen(labels, scores, cost={"false_positive": 1, "false_negative": 5})
    assert found["threshold"] == pytest.approx(0.5) and found["value"] == pytest.approx(1 / 5)
    # A false row costs 5: only the first is predicted, and one is missed.
    found = chosen(labels, scores, cost={"false_positive": 5, "false_negative": 1})
    assert found["threshold"] == pytest.approx(0.85) and found["value"] == pytest.approx(1 / 5)
    # Nothing is worth predicting if the likeliest row is negative.
    found = chosen(np.array([0.0, 1, 0]), np.array([0.8, 0.5, 0.1]), cost={"false_positive": 9, "false_negative": 1})
    assert found["threshold"] == pytest.approx(0.9) and found["value"] == pytest.approx(1 / 3)


def test_the_largest_recall_at_a_precision():
    labels, scores, weights = rows(2000)
    found = chosen(labels, scores, weights, recall_at={"precision": 0.45})
    precision, recall, _ = sk.precision_recall_curve(labels, scores, sample_weight=weights)
    assert found["reached"] and found["value"] == pytest.approx(recall[precision >= 0.45].max())
    said = scores > np.float32(found["threshold"])
    assert sk.precision_score(labels, said, sample_weight=weights) >= 0.45


def test_a_precision_that_no_threshold_reaches_gives_the_largest_and_says_so(caplog):
    labels, scores = np.array([0.0, 1, 0, 0, 1]), np.array([0.9, 0.8, 0.7, 0.3, 0.2])
    found = chosen(labels, scores, recall_at={"precision": 0.99})
    assert not found["reached"] and found["threshold"] == pytest.approx(0.75)
    assert "no threshold reaches evaluation.decision.recall_at.precision" in caplog.text


def test_a_threshold_separates_adjacent_scores():
    low = np.float32(0.3)
    high = np.nextafter(low, np.float32(1))
    found = chosen(np.array([0.0, 0, 1, 1]), np.array([low, low, high, high]), metric="f1")
    assert found["value"] == 1.0 and low <= np.float32(found["threshold"]) < high


@pytest.mark.parametrize("rule", [{}, {"metric": "f1", "cost": {"false_positive": 1, "false_negative": 1}}])
def test_a_decision_has_one_rule(rule):
    with pytest.raises(ValidationError, match="give one of metric, cost, recall_at"):
        DecisionConfig.model_validate(rule)
