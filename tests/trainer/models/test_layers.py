"""Layers against values computed by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.trainer.models.layers import (
    Affine,
    Bias,
    IdTable,
    IdWeights,
    MaskedIds,
    MultiHot,
    NumberEmbedding,
    OneHot,
)
from fullpass.trainer.models.networks import CrossLayer
from fullpass.trainer.models.weight_semantics import Network


def test_one_hot_of_several_ids_side_by_side():
    ids = [np.array([0, 2]), np.array([1, 0]), np.array([3, -1])]
    assert OneHot([3, 2, 2])(ids).numpy().tolist() == [[1, 0, 0, 0, 1, 0, 0], [0, 0, 1, 1, 0, 0, 0]]


def test_multi_hot_says_which_ids_are_there_and_never_id_0():
    assert MultiHot(4)(np.array([[1, 1, 0], [3, 2, 0], [0, 0, 0]])).numpy().tolist() == [
        [0, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 0],
    ]


def test_multi_hot_adds_up_weights():
    weights = np.array([[0.5, 0.25, 9.0], [1.0, 2.0, 0.0]], np.float32)
    found = MultiHot(4)(np.array([[1, 1, 0], [3, 2, 0]]), weights)
    assert found.numpy().tolist() == [[0, 0.75, 0, 0], [0, 0, 2, 1]]


def test_multi_hot_of_a_batch_without_any_id():
    assert MultiHot(2)(np.zeros((3, 0), np.int64)).numpy().tolist() == [[0, 0]] * 3


VECTORS = np.array([[9, 9], [1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
IDS = np.array([[1, 2, 0], [0, 0, 0], [3, 4, 3]])


@pytest.fixture(params=[None, 3], ids=["any length", "one length"])
def pooled(request):
    """Returns the function that pools lists of ids with a table of VECTORS; the list length may be static or not."""
    table = IdTable(5, 2)
    table.build(None)
    table.embeddings.assign(VECTORS)

    def answer(ids, weights=None, pool="mean"):
        given = [tf.TensorSpec([None, request.param], tf.int64)]
        given += [] if weights is None else [tf.TensorSpec([None, request.param], tf.float32)]
        graph = tf.function(lambda *tensors: table(*tensors, pool=pool), autograph=False, input_signature=given)
        return graph(*(tensor for tensor in (ids, weights) if tensor is not None)).numpy().tolist()

    return answer


def test_a_table_pools_the_mean_of_the_ids_that_are_not_padding(pooled):
    assert pooled(IDS) == [[2, 3], [0, 0], [np.float32(17 / 3), np.float32(20 / 3)]]


def test_a_table_pools_a_weighted_mean(pooled):
    weights = np.array([[3, 1, 50], [1, 1, 1], [0, 1, 1]], np.float32)
    assert pooled(IDS, weights) == [[1.5, 2.5], [0, 0], [6, 7]]


def test_a_table_pools_a_sum(pooled):
    assert pooled(IDS, pool="sum") == [[4, 6], [0, 0], [17, 20]]


def test_a_batch_without_any_id_pools_to_0():
    table = IdTable(5, 2)
    assert table(np.zeros((3, 0), np.int64), pool="mean").numpy().tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("length", [None, 3])
def test_a_pooled_table_is_trained_where_ids_are(length):
    """The gradient of a sum is the number of occurrences of an id; id 0, the padding, has no gradient."""
    table = IdTable(5, 1)
    table.build(None)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, length], tf.int64)])
    def gradient(ids):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(table(ids, pool="sum"))
        return tf.convert_to_tensor(tape.gradient(total, table.embeddings.value))

    assert gradient(IDS).numpy().ravel().tolist() == [0, 1, 1, 2, 1]


def test_id_weights_add_one_row_per_feature():
    layer = IdWeights([2, 3], units=2)
    ids = [np.array([1, 0]), np.array([2, 0])]
    assert layer(ids).numpy().tolist() == [[0, 0], [0, 0]]
    layer.table.assign([[1, 1], [2, 2], [10, 10], [20, 20], [30, 31]])
    assert layer(ids).numpy().tolist() == [[2 + 30, 2 + 31], [1 + 10, 1 + 10]]


def test_affine_starts_from_its_constants():
    assert Affine(2.0, [10, 20])(np.array([[1, 3]], np.float32)).numpy().tolist() == [[12, 26]]


def test_a_function_that_was_traced_before_a_correction_applies_it():
    x = keras.Input((2,), name="x")
    network = Network(keras.Model({"x": x}, Affine(2.0, [10, 20])(x)), {}, None, ())
    rows = {"x": tf.constant([[1.0, 3.0]])}
    assert network.logits(rows).numpy().tolist() == [[12, 26]]
    head = network.model.layers[-1]
    head.correct(3.0, [1, 2])
    assert (head.scale, head.offset.tolist()) == (3.0, [1.0, 2.0])
    assert network.logits(rows | {"other": None}).numpy().tolist() == [[4, 11]]
    assert not network.model.weights


def test_bias_starts_at_0_and_is_trained():
    layer = Bias()
    assert layer(np.array([[1.0, 2.0]])).numpy().tolist() == [[1, 2]]
    assert [tuple(v.shape) for v in layer.trainable_variables] == [(2,)]


@pytest.mark.parametrize("rank", [None, 2])
def test_a_cross_layer_is_x0_times_an_affine_map_of_x_plus_x(rank):
    random = np.random.default_rng(1)
    first, x = random.normal(size=(4, 3)).astype("float32"), random.normal(size=(4, 3)).astype("float32")
    layer = CrossLayer(rank)
    found = layer(first, x).numpy()
    kernel = layer.kernel.numpy() if rank is None else layer.down.numpy() @ layer.kernel.numpy()
    np.testing.assert_allclose(found, first * (x @ kernel + layer.bias.numpy()) + x, rtol=1e-5, atol=1e-6)


def test_a_number_is_piecewise_linear_between_its_knots_and_flat_beyond_them():
    layer = NumberEmbedding(np.array([[0, 1, 3.5], [10, 20, 30]], np.float32), width=1)
    numbers = [np.array(x, np.float32) for x in ([-5, 0.5, 2.25, 99], [10, 15, 20, 1e9])]
    layer(numbers)
    layer.kernel.assign([[[2.0], [10.0]], [[3.0], [1.0]]])
    layer.bias.assign([[0.0], [1.0]])
    # The first curve rises by 2 over 0 .. 1 and by 10 over 1 .. 3.5; the second by 3 over 10 .. 20, by 1 over 20 .. 30.
    vectors, standardised = layer(numbers)
    assert vectors.numpy().tolist() == [[0, 1], [1, 2.5], [7, 4], [12, 5]]
    # The knots 0, 1, 3.5 have mean 1.5 and deviation 1.472; the other knots have mean 20 and deviation 8.165.
    expected = [[-1.019, -1.225], [-0.679, -0.612], [0.51, 0], [1.359, 1.225]]
    np.testing.assert_allclose(standardised, expected, atol=1e-3)


def test_knots_that_only_fill_up_say_nothing():
    layer = NumberEmbedding(np.array([[7, 7, 7, 7], [0, 1, 1, 1]], np.float32), width=1)
    vectors, standardised = layer([np.array([-1, 7, 1e6], np.float32), np.array([0, 1, 0.5], np.float32)])
    assert vectors[:, 0].numpy().tolist() == [0, 0, 0]
    # The knots 0 and 1 have mean 0.5 and deviation 0.5.
    assert standardised.numpy().tolist() == [[0, -1], [0, 1], [0, 0]]


@pytest.mark.parametrize("intervals", [1, 2, 48])
def test_numbers_are_the_sum_of_progress_times_weights(intervals: int):
    draw = np.random.default_rng(intervals)
    knots = np.sort(draw.normal(size=(3, intervals + 1)), axis=1).astype(np.float32)
    knots[0, -intervals // 3 :] = knots[0, -1]
    numbers = [np.concatenate([draw.normal(size=50) * 2, row, [-1e30, 1e30]]).astype(np.float32) for row in knots]
    layer = NumberEmbedding(knots, width=4)
    layer(numbers)
    kernel, bias = draw.normal(size=layer.kernel.shape), draw.normal(size=layer.bias.shape)
    layer.kernel.assign(kernel)
    layer.bias.assign(bias)
    with tf.GradientTape() as tape:
        found, _ = layer(numbers)
        total = tf.reduce_sum(found * np.arange(12.0))
    gradients = tape.gradient(total, [layer.kernel.value, layer.bias.value])

    wide = np.diff(knots)
    with np.errstate(divide="ignore", invalid="ignore"):
        progress = np.clip((np.stack(numbers, axis=1)[:, :, None] - knots[:, :-1]) / wide, 0, 1)
    progress = np.where(wide > 0, progress, 0.0)
    linear = np.einsum("bni,niw->bnw", progress, kernel) + bias
    growth = (linear > 0) * np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(found, np.maximum(linear, 0).reshape(-1, 12), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[0], np.einsum("bni,bnw->niw", progress, growth), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradients[1], growth.sum(axis=0), rtol=1e-4, atol=1e-4)


def test_ids_are_masked_in_training_only_and_by_those_of_unseen_values():
    ids = [np.full(4000, 7), np.full(4000, 5), np.full(4000, 9)]
    layer = MaskedIds([3, 0, 1], rate=0.25)
    for given, found in zip(ids, layer(ids, training=False), strict=True):
        assert np.array_equal(given, found)
    first, second, third = (values.numpy() for values in layer(ids, training=True))
    assert (second == 5).all()
    assert set(third.tolist()) == {0, 9} and np.mean(third == 0) == pytest.approx(0.25, abs=0.05)
    shares = [np.mean(first == id) for id in (0, 1, 2, 7)]
    assert shares == pytest.approx([1 / 12, 1 / 12, 1 / 12, 3 / 4], abs=0.04)
