"""Functions that a user might name in `function`; the module is imported by path, as a user's module is."""

import tensorflow as tf
import tensorflow_transform as tft


def ratio_to_mean(columns):
    x = columns["x"]
    present = tf.where(tf.math.is_nan(x), 0.0, x)
    return present / tft.mean(present)


def pair(columns):
    length = tf.cast(tf.strings.length(columns["s"]), tf.float32)
    return tf.stack([length, -length], axis=1)


def rank_less_mean(columns):
    ranks = tf.cast(tft.compute_and_apply_vocabulary(next(iter(columns.values()))), tf.float32)
    return ranks - tft.mean(ranks)


def ids(columns):
    return tf.cast(tf.strings.length(columns["s"]), tf.int64)


def raises(columns):
    return _inner(columns["x"])


def _inner(x):
    raise ValueError("no luck")


def asks(columns):
    return columns["tips"]


def float64(columns):
    return tf.cast(columns["x"], tf.float64)


def no_tensor(columns):
    return "x"


def whole(columns):
    assert set(columns) == {"x", "s", "double"}
    return {"x_scaled": tf.where(tf.math.is_nan(columns["double"]), 0.0, columns["double"]), "s_copy": columns["s"]}


def whole_with_label(columns):
    return {"label": columns["x"]}
