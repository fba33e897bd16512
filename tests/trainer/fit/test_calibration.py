import keras
import numpy as np
import pytest

from fullpass.trainer.fit.calibration import (
    calibration_gap,
    fit_correction,
    platt_targets,
    predict_mean,
    prior_shift,
)
from fullpass.trainer.fit.sampled_rows import SampledRows
from fullpass.trainer.models.layers import Affine
from fullpass.trainer.models.tasks import Exponential
from fullpass.trainer.models.weight_semantics import Network

ROWS = 4000
WEIGHTS = np.ones(ROWS, np.float32)


@pytest.fixture
def random():
    return np.random.default_rng(3)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def drawn(logits, random):
    """Returns labels drawn with the probabilities of the logits, float32 [rows]."""
    return (random.random(len(logits)) < sigmoid(logits)).astype(np.float32)


@pytest.mark.integration
def test_logits_that_are_too_sure_are_pressed_together_and_shifted_back(random):
    true = random.normal(0, 1.5, ROWS)
    found = fit_correction((3 * true + 1)[:, None].astype(np.float32), drawn(true, random), WEIGHTS, "binary")
    assert found.scale == pytest.approx(1 / 3, rel=0.1)
    assert found.shift == pytest.approx([-1 / 3], abs=0.1)


@pytest.mark.integration
def test_a_temperature_of_many_classes(random):
    true = random.normal(0, 1.5, (ROWS, 4))
    labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)
    found = fit_correction((2.5 * true).astype(np.float32), labels, WEIGHTS, "multiclass")
    assert found.scale == pytest.approx(0.4, rel=0.1)
    assert found.shift.tolist() == [0, 0, 0, 0]


def test_what_is_right_is_left_alone(random):
    true = random.normal(0, 1.5, ROWS)
    found = fit_correction(true[:, None].astype(np.float32), drawn(true, random), WEIGHTS, "binary")
    assert (found.scale, found.shift.tolist()) == (1.0, [0.0])


def test_class_weights_are_taken_back():
    """With class weights 5 and 5 / 9, training learns a share of 0.1 as 0.5."""
    shift = prior_shift("binary", np.array([5 / 9, 5.0]), 1)
    assert sigmoid(0.0 + shift) == pytest.approx([0.1])
    three = prior_shift("multiclass", np.array([0.5, 1.0, 2.0]), 3)
    assert np.exp(three) == pytest.approx([2.0, 1.0, 0.5])
    assert prior_shift("multiclass", np.zeros(0), 3).tolist() == [0, 0, 0]


def test_the_gap_of_what_is_said_and_what_comes_true(random):
    predicted = random.random(100_000)
    observed = (random.random(len(predicted)) < predicted).astype(float)
    assert calibration_gap(predicted, observed) < 0.01
    assert calibration_gap(np.full(1000, 0.7), np.arange(1000) % 2) == pytest.approx(0.2, abs=0.01)


def test_platts_targets():
    assert np.unique(platt_targets(np.array([1.0] * 8 + [0.0] * 3))) == pytest.approx([1 / 5, 9 / 10])


@pytest.mark.integration
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_classes_that_are_told_apart_do_not_stretch_without_end(task):
    """For 50 rows per class with logits of 1, the target probability decides the scale."""
    labels = np.arange(100) % 2
    if task == "binary":
        logits, expected = np.where(labels, 1.0, -1.0)[:, None], np.log(51)
    else:
        logits, expected = np.eye(2)[labels], np.log(101)
    found = fit_correction(
        logits.astype(np.float32), labels.astype(np.float32 if task == "binary" else int), np.ones(100), task
    )
    assert found.scale == pytest.approx(expected, rel=1e-3)


def test_the_mean_of_what_is_log_normal(random):
    x = keras.Input((1,), name="x")
    model = keras.Model({"x": x}, Exponential()(Affine(1.0, [0.0], name="head")(x)))
    median = random.normal(1, 1, 100_000)
    labels = np.exp(median + random.normal(0, 0.8, len(median)))
    rows = SampledRows({"x": median[:, None].astype(np.float32)}, labels, np.ones(len(labels)))
    network = Network(model, {}, None, ("logarithm",))
    assert predict_mean(network, rows)["deviation"] == pytest.approx(0.8, rel=0.01)
    assert rows.logits(network).mean() == pytest.approx(labels.mean(), rel=0.05)
