"""Losses and heads of regressions, and the focal loss, against values computed by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from pydantic import TypeAdapter, ValidationError
from scipy import stats
from sklearn.metrics import mean_tweedie_deviance

from fullpass.trainer.input.split_counts import count_rows
from fullpass.trainer.loss_config import LossConfig
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.tasks import add_head, logit_names

LABELS = np.array([2.0, 0.0, 10.0], np.float32)
SAID = np.array([[4.0], [1.0], [4.0]], np.float32)


def parsed(loss):
    return TypeAdapter(LossConfig).validate_python(loss)


def losses(loss, labels=LABELS, outputs=SAID, *, task="regression", deviation=2.0) -> list[float]:
    function = loss_of(task, parsed(loss), label_deviation=deviation)
    return function(tf.constant(labels), tf.constant(outputs)).numpy().tolist()


def answers(loss, labels, logits=0.0) -> np.ndarray:
    """Returns the output for one row of a model whose network outputs `logits`."""
    counts = count_rows(len(labels), np.float32(labels), np.ones(len(labels), np.float32), "regression", 0)
    columns = len(logit_names("regression", (), parsed(loss)))
    x = keras.Input((columns,), name="x")
    network = keras.Model(x, keras.layers.Activation("linear")(x))
    model = add_head(network, "regression", counts, np.zeros(0), parsed(loss))
    given = np.full((1, columns), logits, np.float32) if np.isscalar(logits) else np.float32([logits])
    return model({"x": given}).numpy()[0]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("squared", [1.0, 0.25, 9.0]),
        ("absolute", [1.0, 0.5, 3.0]),
        ({"kind": "huber", "delta": 1.0}, [0.5, 0.125, 2.5]),  # 1 * (3 - 1 / 2)
        ("poisson", [2 * np.log(0.5) + 2, 1.0, 10 * np.log(2.5) - 6]),
    ],
)
def test_losses_of_a_number(loss, expected):
    """The errors are -2, -1 and 6; losses are in units of the deviation, 2."""
    assert losses(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("power", [1.1, 1.5, 1.9])
def test_the_tweedie_deviance_is_that_of_scikit_learn(power):
    expected = [mean_tweedie_deviance([y / 2], [z / 2], power=power) for y, z in zip(LABELS, SAID[:, 0], strict=True)]
    assert losses({"kind": "tweedie", "power": power}) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("power", [-110, -83, 66, 120])
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "poisson", "tweedie", "log_normal", "quantile"])
def test_a_loss_and_its_gradient_do_not_depend_on_the_unit_of_the_label(loss, power):
    """A power of two changes the exponents of floats only, so that nothing is rounded otherwise."""
    unit = 2.0**power

    def loss_and_step(unit):
        labels, outputs = LABELS + 1, np.repeat(SAID, 4, axis=1)
        function = loss_of("regression", parsed(loss), label_deviation=2.0 * unit)
        growth = tf.Variable(0.0)
        with tf.GradientTape() as tape:
            found = function(
                tf.constant(labels * unit, tf.float32), tf.constant(outputs * unit, tf.float32) * (1 + growth)
            )
        return found.numpy(), tape.gradient(found, growth).numpy()

    for one, other in zip(loss_and_step(unit), loss_and_step(1.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_new_model_of_counts_begins_at_their_mean_in_any_unit():
    for unit in (1e-25, 1.0, 1e20):
        assert answers("poisson", [100 * unit, 300 * unit]) == pytest.approx([200 * unit], rel=1e-5)
    assert 0 < answers("poisson", [0.0, 0.0])[0] < 1e-5


def test_the_logarithm_of_a_label():
    assert losses("log_normal", np.float32([np.e, 1]), np.float32([[1], [np.e**2]])) == pytest.approx([1, 4])
    assert np.isfinite(losses("log_normal")).all(), "a row of weight 0 has the label 0"


def test_pinball():
    """For the quantile 0.9, an error of 2 counts nine tenths if it is too low, and one tenth if it is too high."""
    outputs = np.float32([[5.0, 3.0, 7.0]])  # the prediction, then the quantiles
    found = losses({"kind": "quantile", "levels": [0.5, 0.9]}, np.float32([5.0]), outputs, deviation=1.0)
    assert found == pytest.approx([(0.5 * 2 + 0.1 * 2) / 2])


def test_focal():
    """A prediction with probability 0.8 counts 0.2 ** 2 of its log loss."""
    logit = np.float32([[np.log(4.0)]])
    expected = [-(0.2**2) * np.log(0.8)]
    assert losses("focal", np.float32([1]), logit, task="binary") == pytest.approx(expected)
    two = np.float32([[np.log(4.0), 0.0]])
    assert losses("focal", np.array([0]), two, task="multiclass") == pytest.approx(expected)
    wrong = losses({"kind": "focal", "gamma": 1.0}, np.float32([0]), logit, task="binary")
    assert wrong == pytest.approx([-0.8 * np.log(0.2)])


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "poisson", "tweedie"])
def test_a_new_model_predicts_the_mean(loss):
    assert answers(loss, [100.0, 300.0]) == pytest.approx([200.0])


def test_a_new_model_of_logarithms_predicts_the_median():
    labels = np.exp(np.random.default_rng(1).normal(3, 0.5, 100_000))
    assert answers("log_normal", labels) == pytest.approx([np.exp(3)], rel=0.02)


def test_a_new_model_predicts_the_quantiles_of_a_normal_distribution():
    labels = np.random.default_rng(1).normal(50, 10, 10_000)
    levels = [0.05, 0.5, 0.8, 0.95]
    found = answers({"kind": "quantile", "levels": levels}, labels)
    assert found[1:] == pytest.approx(labels.mean() + labels.std() * stats.norm.ppf(levels), rel=1e-4)
    assert found[0] == found[2], "the middle is the prediction"


@pytest.mark.integration
def test_quantiles_never_cross():
    logits = np.random.default_rng(2).normal(0, 50, (100, 3)).tolist()
    found = np.array([answers({"kind": "quantile"}, [1.0, 2.0], z)[1:] for z in logits])
    assert (np.diff(found, axis=1) >= 0).all()


def test_counts_and_amounts_stay_finite_and_above_0():
    for loss in ("poisson", "tweedie", "log_normal"):
        low, high = answers(loss, [1.0, 3.0], -1e6), answers(loss, [1.0, 3.0], 1e6)
        assert 0 < low[0] < high[0] < np.inf


def test_levels_must_rise():
    for levels in ([0.5, 0.1], [0.5, 0.5], [], [0.0, 0.5]):
        with pytest.raises(ValidationError, match="levels"):
            parsed({"kind": "quantile", "levels": levels})
