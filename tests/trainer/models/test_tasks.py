"""Losses, starting points and scores against numpy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.tasks import add_head, logit_names, probabilities_of

LOGITS = np.array([[2.0], [-1.0], [0.5]], np.float32)
LABELS = np.array([1.0, 0.0, 0.0], np.float32)


def log_loss(probability, label):
    return -(label * np.log(probability) + (1 - label) * np.log(1 - probability))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softmax(z):
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)


def loss(task, labels, logits, *, smoothing=0.0, deviation=1.0) -> np.ndarray:
    function = loss_of(task, label_smoothing=smoothing, label_deviation=deviation)
    return function(tf.constant(labels), tf.constant(logits)).numpy()


def test_binary_loss():
    assert loss("binary", LABELS, LOGITS) == pytest.approx(log_loss(sigmoid(LOGITS[:, 0]), LABELS), rel=1e-5)


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_smoothing_moves_labels_towards_a_half(task):
    labels = LABELS if task == "binary" else LABELS[:, None]
    expected = log_loss(sigmoid(LOGITS[:, 0]), LABELS * 0.8 + 0.1)
    assert loss(task, labels, LOGITS, smoothing=0.2) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_multiclass_takes_ids(smoothing):
    logits = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]], np.float32)
    labels = np.eye(3)[[1, 2]] * (1 - smoothing) + smoothing / 3
    expected = -(labels * np.log(softmax(logits))).sum(axis=1)
    assert loss("multiclass", np.array([1, 2]), logits, smoothing=smoothing) == pytest.approx(expected, rel=1e-5)


def test_multilabel_is_a_mean_over_classes():
    logits = np.array([[1.0, -2.0], [0.0, 3.0]], np.float32)
    labels = np.array([[1.0, 1.0], [0.0, 1.0]], np.float32)
    expected = log_loss(sigmoid(logits), labels).mean(axis=1)
    assert loss("multilabel", labels, logits) == pytest.approx(expected, rel=1e-5)


def test_a_regression_is_measured_in_deviations():
    found = loss("regression", np.array([10.0, 30.0], "f"), np.array([[14.0], [30.0]], "f"), deviation=8.0)
    assert found == pytest.approx([(4 / 8) ** 2, 0])


def start(task, class_weight, weight, factors=(), mean=0.0, deviation=0.0) -> np.ndarray:
    """Returns the initial scores of a model whose network outputs 0."""
    columns = len(logit_names(task, [str(i) for i in range(len(class_weight))]))
    counts = SplitCounts(
        rows=10,
        weightless=0,
        class_rows=np.array(class_weight, int),
        class_weight=np.array(class_weight, float),
        weight=weight,
        label_sum=mean * weight,
        label_squares=(deviation**2 + mean**2) * weight,
        not_finite={},
    )
    x = keras.Input((1,), name="x")
    network = keras.Model(x, keras.layers.Dense(columns, kernel_initializer="zeros")(x))
    return add_head(network, task, counts, np.array(factors))({"x": np.ones((1, 1))}).numpy()[0]


def test_a_new_model_predicts_the_share_of_each_class():
    assert sigmoid(start("binary", [90, 10], 100.0)) == pytest.approx([0.1])
    assert softmax(start("multiclass", [50, 30, 20], 100.0)[None])[0] == pytest.approx([0.5, 0.3, 0.2])
    assert sigmoid(start("multilabel", [75, 10], 100.0)) == pytest.approx([0.75, 0.1])


def test_class_weights_count_in_the_share():
    assert sigmoid(start("binary", [90, 10], 100.0, factors=[100 / 180, 100 / 20])) == pytest.approx([0.5])


def test_a_class_that_train_lacks_starts_finite():
    assert np.isfinite(start("multiclass", [50, 0], 50.0)).all()
    assert np.isfinite(start("multilabel", [50, 0], 50.0)).all()


def test_a_new_regression_predicts_the_mean():
    assert start("regression", [], 10.0, mean=250.0, deviation=4.0) == pytest.approx([250.0])


def test_probabilities():
    np.testing.assert_allclose(probabilities_of("binary", LOGITS)[:, 1], sigmoid(LOGITS[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(np.sum(probabilities_of("binary", LOGITS), axis=1), 1)
    logits = np.array([[1.0, 2.0]], np.float32)
    np.testing.assert_allclose(probabilities_of("multiclass", logits), softmax(logits), rtol=1e-6)
    np.testing.assert_allclose(probabilities_of("multilabel", logits), sigmoid(logits), rtol=1e-6)


def test_no_probability_is_exactly_0_or_1():
    found = probabilities_of("binary", np.array([[100.0], [-100.0]], np.float32)).numpy()
    assert (found > 0).all() and (found < 1).all()
