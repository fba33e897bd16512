"""Leaves out TensorFlow's graph optimizer where a graph runs a few times.

TensorFlow optimizes a graph at its first call. That takes 0.4 of the 0.5 s of the first call of a signature of the taxi
example; later calls take the same time without it, or up to 3 % longer. Serving keeps it, and so do training and
ServingCheck, which measures the latency.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from fullpass.preprocessing.config import PreprocessingConfig

_OFF = "disable_meta_optimizer"
_FEW_ROWS = 500_000
"""A quarter of the rows for which it takes as long as it saves, because other models may gain more from it."""


@contextmanager
def optimized_for(rows: int, config: PreprocessingConfig) -> Iterator[None]:
    """Runs the graphs that are first called within the block as they were traced, if few rows pass through them.

    Images are many at once: the optimizer joins convolutions with what follows them.

    Args:
        rows: The rows that pass through the graphs.
    """
    before = tf.config.optimizer.get_experimental_options().get(_OFF, False)
    few = rows <= _FEW_ROWS and all(feature.type != "image" for feature in config.features.values())
    tf.config.optimizer.set_experimental_options({_OFF: before or few})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({_OFF: before})
