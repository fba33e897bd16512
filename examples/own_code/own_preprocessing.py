"""A `preprocessing_fn` of TF Transform in place of all generated transforms."""

from collections.abc import Mapping

import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the transformed features by name. Fullpass adds the label.

    Args:
        inputs: The columns that serving has: numbers as float32 [batch] with NaN for a missing value, text as string
            [batch] with "" for a missing one. The label and other columns of training are not among them.
    """
    known = tf.logical_not(tf.math.is_nan(inputs["miles"]))
    miles = tf.where(known, inputs["miles"], tf.zeros_like(inputs["miles"]))
    return {
        "miles_scaled": tft.scale_to_z_score(tf.math.log1p(miles)),
        "miles_known": tf.cast(known, tf.float32),
        # An id of its own for unknown tokens: -1, the default, is no id.
        "payment_id": tft.compute_and_apply_vocabulary(inputs["payment"], num_oov_buckets=1, vocab_filename="payment"),
    }
