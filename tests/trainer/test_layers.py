"""Layers against values worked out by hand."""

import numpy as np
import pytest


def test_one_hot():
    from trainer.layers import OneHot

    assert OneHot(3)(np.array([0, 2])).numpy().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_multi_hot_says_which_ids_are_there_and_never_id_0():
    from trainer.layers import MultiHot

    assert MultiHot(4)(np.array([[1, 1, 0], [3, 2, 0], [0, 0, 0]])).numpy().tolist() == [
        [0, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 0],
    ]


def test_multi_hot_adds_up_weights():
    from trainer.layers import MultiHot

    weights = np.array([[0.5, 0.25, 9.0], [1.0, 2.0, 0.0]], np.float32)
    found = MultiHot(4)(np.array([[1, 1, 0], [3, 2, 0]]), weights)
    assert found.numpy().tolist() == [[0, 0.75, 0, 0], [0, 0, 2, 1]]


def test_multi_hot_of_a_batch_without_any_id():
    from trainer.layers import MultiHot

    assert MultiHot(2)(np.zeros((3, 0), np.int64)).numpy().tolist() == [[0, 0]] * 3


VECTORS = np.array([[[1, 2], [3, 4], [100, 100]], [[5, 6], [7, 8], [9, 10]]], np.float32)


def test_pool_takes_the_mean_over_ids_that_are_not_padding():
    from trainer.layers import Pool

    ids = np.array([[7, 3, 0], [0, 0, 0]])
    assert Pool("mean")(VECTORS, ids).numpy().tolist() == [[2, 3], [0, 0]]


def test_pool_takes_a_weighted_mean():
    from trainer.layers import Pool

    ids, weights = np.array([[7, 3, 0], [1, 2, 3]]), np.array([[3, 1, 50], [0, 1, 1]], np.float32)
    assert Pool("mean")(VECTORS, ids, weights).numpy().tolist() == [[1.5, 2.5], [8, 9]]


def test_pool_sums():
    from trainer.layers import Pool

    assert Pool("sum")(VECTORS, np.array([[7, 3, 0], [1, 1, 1]])).numpy().tolist() == [[4, 6], [21, 24]]


def test_id_weights_add_one_row_per_feature():
    from trainer.layers import IdWeights

    layer = IdWeights([2, 3], units=2)
    ids = [np.array([1, 0]), np.array([2, 0])]
    assert layer(ids).numpy().tolist() == [[0, 0], [0, 0]]
    layer.table.assign([[1, 1], [2, 2], [10, 10], [20, 20], [30, 31]])
    assert layer(ids).numpy().tolist() == [[2 + 30, 2 + 31], [1 + 10, 1 + 10]]


def test_affine_starts_from_its_constants():
    from trainer.layers import Affine

    assert Affine(2.0, [10, 20])(np.array([[1, 3]], np.float32)).numpy().tolist() == [[12, 26]]


def test_bias_starts_at_0_and_is_trained():
    from trainer.layers import Bias

    layer = Bias()
    assert layer(np.array([[1.0, 2.0]])).numpy().tolist() == [[1, 2]]
    assert [tuple(v.shape) for v in layer.trainable_variables] == [(2,)]


@pytest.mark.parametrize("rank", [None, 2])
def test_a_cross_layer_is_x0_times_an_affine_map_of_x_plus_x(rank):
    from trainer.models.dcn import Cross

    random = np.random.default_rng(1)
    first, x = random.normal(size=(4, 3)).astype("float32"), random.normal(size=(4, 3)).astype("float32")
    layer = Cross(rank)
    found = layer(first, x).numpy()
    kernel = layer.kernel.numpy() if rank is None else layer.down.numpy() @ layer.kernel.numpy()
    np.testing.assert_allclose(found, first * (x @ kernel + layer.bias.numpy()) + x, rtol=1e-5, atol=1e-6)
