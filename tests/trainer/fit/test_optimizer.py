import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.fit.optimizer import (
    WarmupDecay,
    batch_size_for,
    learning_rate_of,
    make_optimizer,
    peak_learning_rate,
)


@pytest.mark.parametrize(
    ("decay", "warmup", "rates"),
    [
        ("linear", 2, [0.5, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ("constant", 3, [1 / 3, 2 / 3, 1.0, 1.0, 1.0]),
        ("cosine", 0, [0.5 * (1 + math.cos(math.pi * done / 4)) for done in (1, 2, 3, 4)]),
    ],
)
def test_a_rate_rises_in_the_warmup_and_then_decays(decay, warmup, rates):
    schedule = WarmupDecay(1.0, steps=len(rates), warmup=warmup, decay=decay)
    assert [float(schedule(step)) for step in range(len(rates))] == pytest.approx(rates, abs=1e-6)


def test_a_plateau_stays_until_it_is_told_to_fall():
    schedule = WarmupDecay(1.0, steps=100, warmup=2, decay="plateau")
    assert [round(float(schedule(step)), 4) for step in (0, 1, 50, 99)] == [0.5, 1.0, 1.0, 1.0]
    schedule.reduce(2)
    assert round(float(schedule(50)), 4) == 0.04


def test_a_plateau_warms_up_for_an_epoch_at_most():
    config = TrainingConfig(warmup=0.05)
    assert (config.decay, config.max_epochs) == ("plateau", 100)
    assert learning_rate_of(config, 100 * 40, 0.1).warmup == 40
    assert learning_rate_of(TrainingConfig(epochs=10, warmup=0.05), 10 * 40, 0.1).warmup == 20


@pytest.mark.parametrize(
    ("given", "table", "rate"),
    [
        ({}, True, 0.003),
        ({}, False, 0.001),
        ({"optimizer": "sgd"}, True, 0.001),
        ({"learning_rate": 0.5}, True, 0.5),
    ],
)
def test_the_learning_rate_follows_from_what_is_read(given, table, rate):
    assert peak_learning_rate(TrainingConfig(**given), 1, table=table) == rate


def test_the_schedule_follows_from_the_epochs():
    assert TrainingConfig(epochs=3).decay == "cosine"
    assert TrainingConfig(early_stopping=None).decay == "cosine"
    assert TrainingConfig(epochs=3, schedule="plateau").decay == "plateau"
    with pytest.raises(ValueError, match="plateau reduces the learning rate after the patience of early_stopping"):
        TrainingConfig(schedule="plateau", early_stopping=None)


@pytest.mark.parametrize(
    ("rows", "size"), [(1, 32), (1000, 32), (3000, 64), (10_000, 256), (51_200, 1024), (10**8, 1024)]
)
def test_the_batch_size_is_about_a_fiftieth_of_the_rows(rows, size):
    assert batch_size_for(rows) == size


@pytest.mark.parametrize(
    ("rows", "side", "size"), [(60_000, 28, 128), (2000, 28, 32), (60_000, 128, 128), (60_000, 224, 32)]
)
def test_a_batch_of_images_is_small(rows, side, size):
    assert batch_size_for(rows, side * side) == size


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adagrad", "ftrl"])
def test_every_optimizer_takes_the_schedule(name):
    config = TrainingConfig(optimizer=name, learning_rate=0.5, warmup=0.0, schedule="constant")
    optimizer = make_optimizer(config, learning_rate_of(config, 10, 0.5))
    variable = keras.Variable(np.array([1.0, -1.0], "float32"))
    optimizer.apply([keras.ops.convert_to_tensor([1.0, -1.0])], [variable])
    assert variable.numpy()[0] < 1.0 and variable.numpy()[1] > -1.0


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.1)])
def test_adam_follows_its_moments(name, decay):
    """Source of the formula: Kingma and Ba 2014, algorithm 1 in its efficient form; Loshchilov and Hutter 2019."""
    given = {"weight_decay": decay} if decay else {}
    config = TrainingConfig(optimizer=name, warmup=0.0, schedule="constant", **given)
    optimizer = make_optimizer(config, learning_rate_of(config, 10, 0.5))
    variables = [keras.Variable(np.array(start, "float32")) for start in ([1.0, -2.0], [[3.0]])]
    gradients = [[np.array(g, "float32") for g in step] for step in ([[1, -1], [[4]]], [[0, 3], [[-1]]])]
    expected = [variable.numpy().astype(float) for variable in variables]
    mean, square = ([np.zeros_like(value) for value in expected] for _ in range(2))
    for number, step in enumerate(gradients, 1):
        optimizer.apply([tf.constant(gradient) for gradient in step], variables)
        for i, gradient in enumerate(step):
            mean[i] = 0.9 * mean[i] + 0.1 * gradient
            square[i] = 0.999 * square[i] + 0.001 * gradient**2
            rate = 0.5 * (1 - 0.999**number) ** 0.5 / (1 - 0.9**number)
            expected[i] = expected[i] * (1 - 0.5 * decay) - rate * mean[i] / (square[i] ** 0.5 + 1e-7)
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, rtol=1e-4)
