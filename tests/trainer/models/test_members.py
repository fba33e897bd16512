"""An ensemble in one network, against its members computed one by one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.fit.steps import Steps
from fullpass.trainer.models.layers import IdTable
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.members import MeanOfMembers, MemberDense, MemberLogits


def drawn(layer: keras.layers.Layer, seed: int) -> keras.layers.Layer:
    """Sets every weight of a layer to a different random number."""
    random = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(random.normal(size=weight.shape))
    return layer


def test_each_member_is_a_network_of_its_own():
    x = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    layers = [MemberDense(4, 2), MemberDense(3, 2), MemberLogits(2)]
    for layer, shape in zip(layers, [(None, 3), (None, 2, 4), (None, 2, 3)], strict=True):
        layer.build(shape)
    first, second, logits = (drawn(layer, i) for i, layer in enumerate(layers))
    found = logits(second(first(x))).numpy()
    for i in range(2):
        one = x @ (first.kernel.numpy() * first.scale.numpy()[i]) + first.bias.numpy()[i]
        kernel = second.input_scale.numpy()[i][:, None] * second.kernel.numpy() * second.scale.numpy()[i]
        two = one @ kernel + second.bias.numpy()[i]
        np.testing.assert_allclose(found[:, i], two @ logits.kernel.numpy()[i] + logits.bias.numpy()[i], rtol=2e-4)


def test_members_begin_as_different_networks():
    layer = MemberDense(100, 3)
    layer.build((None, 4))
    assert set(layer.scale.numpy().ravel().tolist()) == {-1.0, 1.0}
    assert np.abs(np.corrcoef(layer.scale.numpy())[np.triu_indices(3, 1)]).max() < 0.5
    assert 0.4 < np.abs(layer.bias.numpy()).max() <= 0.5


def test_the_answer_is_the_mean_of_the_members_and_training_sees_each():
    logits = np.array([[[1, 2], [3, 6]]], np.float32)
    assert MeanOfMembers()(logits, training=False).numpy().tolist() == [[2, 4]]
    assert MeanOfMembers()(logits, training=True).numpy().tolist() == logits.tolist()


def steps_of(model: keras.Model) -> Steps:
    optimizer = keras.optimizers.Adam(0.25)
    optimizer.build(model.trainable_variables)
    return Steps(model, optimizer, loss_of("regression"), "regression", tf.distribute.get_strategy())


def test_each_member_is_trained_by_its_own_loss():
    """The loss of the mean output would be 0 here, and no member would learn; the mean loss is (1 + 1) / 2."""
    x = keras.Input((2, 1), name="x")
    bias = keras.layers.EinsumDense("bmi,ic->bmc", (None, 1), kernel_initializer="ones")
    model = keras.Model({"x": x}, MeanOfMembers()(bias(x)))
    given = {"x": tf.constant([[[1.0], [-1.0]]])}
    one = tf.ones([1])
    loss, gradients = steps_of(model).gradients(given, tf.zeros([1]), one, tf.constant(1.0))
    assert float(loss) == pytest.approx(1.0)
    assert gradients[0].numpy().tolist() == [[2.0]]


def test_an_id_that_a_batch_has_often_takes_one_step():
    """Adam's first step is the learning rate, whatever the gradient."""
    x = keras.Input((), name="x", dtype="int64")
    table = IdTable(2, 1, embeddings_initializer="zeros")
    steps = steps_of(keras.Model({"x": x}, table(x)))
    given = {"x": tf.ones([4], tf.int64)}
    _, gradients = steps.gradients(given, tf.ones([4]), tf.ones([4]), tf.constant(4.0))
    steps.optimizer.apply(gradients, steps.model.trainable_variables)
    assert table.embeddings.numpy().ravel().tolist() == pytest.approx([0.0, 0.25], abs=1e-5)
