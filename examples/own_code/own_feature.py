"""A feature: TensorFlow operations on columns, with analyzers of TF Transform where it needs the whole train split."""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft


def from_center(columns: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the scaled distance from the mean place of train, float32 [batch].

    Args:
        columns: `x` and `y`, float32 [batch] with NaN for a missing value.
    """
    squares = [tf.square(_filled(columns[name]) - tft.mean(_filled(columns[name]))) for name in ("x", "y")]
    return tft.scale_to_z_score(tf.sqrt(tf.add_n(squares)))


def _filled(values: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)
