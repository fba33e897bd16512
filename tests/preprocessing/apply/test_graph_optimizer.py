"""`graph_optimizer.py`: which graphs TensorFlow optimizes, read from the graphs that it ran."""

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from fullpass.preprocessing.apply.graph_optimizer import optimized_for
from fullpass.preprocessing.config import PreprocessingConfig

pytestmark = pytest.mark.usefixtures("optimizer")


@pytest.fixture
def optimizer():
    """TensorFlow's graph optimizer, which other tests turn off."""
    before = tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": before})


def config_with(feature):
    return PreprocessingConfig.model_validate({"label": {"name": "y", "task": "binary"}, "features": {"x": feature}})


def is_optimized():
    """Whether TensorFlow computes 2 * 3 before it runs a graph, so that it runs no product of constants."""

    @tf.function
    def compute(x):
        return x + tf.constant(2.0, name="two") * tf.constant(3.0, name="three")

    context.enable_run_metadata()
    try:
        assert compute(tf.constant([1.0, 2.0])).numpy().tolist() == [7.0, 8.0]
        ran = context.export_run_metadata().partition_graphs
    finally:
        context.disable_run_metadata()
    return not any(node.op == "Mul" for graph in ran for node in graph.node)


def test_graphs_of_few_rows_run_as_they_were_traced_within_the_block():
    assert is_optimized()
    with pytest.raises(KeyError), optimized_for(500_000, config_with("number")):
        assert not is_optimized()
        raise KeyError
    assert is_optimized()


def test_graphs_that_many_rows_pass_or_that_read_images_are_optimized():
    with optimized_for(500_001, config_with("number")):
        assert is_optimized()
    with optimized_for(1, config_with({"type": "image", "size": [8, 8]})):
        assert is_optimized()


def test_a_process_without_the_optimizer_stays_without_it():
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    with optimized_for(1, config_with({"type": "image", "size": [8, 8]})):
        assert not is_optimized()
    assert not is_optimized()
