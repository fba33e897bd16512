"""Metrics of an epoch against numpy, for any division of the rows into batches."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.fit.epoch_metrics import metrics_of, sums_of
from fullpass.trainer.models.losses import loss_of

RANDOM = np.random.default_rng(1)
ROWS = 60


def measured(task, label, logits, weight, cuts=(0, 7, 8, ROWS), unit=1.0, levels=()) -> dict[str, float]:
    totals: dict[str, np.ndarray] = {}
    for first, end in zip(cuts, cuts[1:], strict=False):
        part = [tf.constant(values[first:end]) for values in (label, logits, weight)]
        for name, value in sums_of(task, loss_of(task, label_deviation=unit), *part, levels).items():
            totals[name] = totals.get(name, 0.0) + value.numpy()
    return metrics_of(task, totals, levels, unit)


def pairwise_auc(score, label, weight) -> float:
    """Returns the weighted share of correctly ordered pairs, computed over all pairs."""
    right = total = 0.0
    for i in np.flatnonzero(label == 1):
        for j in np.flatnonzero(label == 0):
            pair = weight[i] * weight[j]
            total += pair
            right += pair * (1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0)
    return right / total


def data(columns: int = 1):
    logits = RANDOM.normal(size=(ROWS, columns)).astype("float32") * 3
    weight = RANDOM.integers(0, 4, ROWS).astype("float32")
    return logits, weight


def test_binary():
    logits, weight = data()
    label = (RANDOM.random(ROWS) < 1 / (1 + np.exp(-logits[:, 0]))).astype("float32")
    found = measured("binary", label, logits, weight)
    p = 1 / (1 + np.exp(-logits[:, 0].astype(float)))
    expected = np.average(-label * np.log(p) - (1 - label) * np.log(1 - p), weights=weight)
    assert found["log_loss"] == found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.average((p > 0.5) == label, weights=weight))
    assert found["auc"] == pytest.approx(pairwise_auc(logits[:, 0], label, weight), abs=2e-3)


def test_auc_of_equal_scores_and_of_one_class():
    label = np.array([1.0, 0.0, 0.0], "float32")
    weight = np.ones(3, "float32")
    assert measured("binary", label, np.zeros((3, 1), "float32"), weight, (0, 3))["auc"] == 0.5
    assert measured("binary", label, np.array([[3], [2], [1]], "float32"), weight, (0, 3))["auc"] == 1.0
    assert measured("binary", label, np.array([[1], [2], [3]], "float32"), weight, (0, 3))["auc"] == 0.0
    assert measured("binary", np.ones(3, "float32"), np.zeros((3, 1), "float32"), weight, (0, 3))["auc"] == 0.5


def test_auc_tells_extreme_scores_apart():
    logits = np.array([[30.0], [15.0], [-15.0], [-30.0]], "float32")
    found = measured("binary", np.array([1, 0, 1, 0], "float32"), logits, np.ones(4, "float32"), (0, 4))
    assert found["auc"] == 0.75


def test_multiclass():
    logits, weight = data(3)
    label = RANDOM.integers(0, 3, ROWS)
    found = measured("multiclass", label, logits, weight)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert found["log_loss"] == pytest.approx(np.average(-np.log(p[np.arange(ROWS), label]), weights=weight), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.average(logits.argmax(axis=1) == label, weights=weight))


def test_multilabel():
    logits, weight = data(2)
    label = RANDOM.integers(0, 2, (ROWS, 2)).astype("float32")
    found = measured("multilabel", label, logits, weight)
    p = 1 / (1 + np.exp(-logits.astype(float)))
    losses = (-label * np.log(p) - (1 - label) * np.log(1 - p)).mean(axis=1)
    assert found["log_loss"] == pytest.approx(np.average(losses, weights=weight), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.average(((p > 0.5) == label).mean(axis=1), weights=weight))


@pytest.mark.parametrize("unit", [1e-35, 1e-25, 1.0, 1e20, 1e36])
def test_regression(unit):
    """The squares of errors of 1e20 are beyond float32, and those of 1e-25 are 0 in it."""
    logits, weight = data(3)
    logits *= unit
    label = (unit * RANDOM.normal(size=ROWS)).astype("float32")
    found = measured("regression", label, logits, weight, unit=unit, levels=(0.1, 0.5))
    errors = label.astype(float)[:, None] - logits
    assert found["rmse"] == pytest.approx(np.sqrt(np.average(errors[:, 0] ** 2, weights=weight)), rel=1e-5)
    assert found["mae"] == pytest.approx(np.average(np.abs(errors[:, 0]), weights=weight), rel=1e-5)
    assert found["loss"] == pytest.approx((found["rmse"] / unit) ** 2, rel=1e-5)
    for level, error in ((0.1, errors[:, 1]), (0.5, errors[:, 2])):
        lost = np.average(np.where(error > 0, level * error, (level - 1) * error), weights=weight)
        assert found[f"pinball_{level:g}"] == pytest.approx(lost, rel=1e-5)
        assert found[f"coverage_{level:g}"] == pytest.approx(np.average(error <= 0, weights=weight))
