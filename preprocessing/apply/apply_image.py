"""Decodes images and brings them to one size."""

import math

import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.features.feature import ImageFeature, transformed_name
from fullpass.preprocessing.features.raw_columns import RawColumn

_AT_THE_SAME_TIME = 16
"""Images that are decoded at the same time, if there are as many cores."""
_LUMINANCE = (0.299, 0.587, 0.114)


def image(name: str, feature: ImageFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms an image: pixels [batch, height, width, channels]; a missing one is all 0.

    They are uint8, cast to int64 in the end, since TF Transform has no smaller integer. A `GraphPart` leaves that cast
    out.
    """
    column = feature.column or name
    if feature.pixels is None:
        raw = columns.string(column).values
        is_there = tf.not_equal(raw, "")
    else:
        raw = columns.vector(RawColumn(column, "vector", math.prod(feature.pixels)))
        is_there = tf.reduce_all(tf.math.is_finite(raw), axis=1)

    def one(item: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        value, there = item
        return tf.cond(there, lambda: _made(value, feature), lambda: tf.zeros(feature.shape, tf.uint8))

    signature = tf.TensorSpec(feature.shape, tf.uint8)
    pixels = tf.map_fn(one, (raw, is_there), parallel_iterations=_AT_THE_SAME_TIME, fn_output_signature=signature)
    return {transformed_name(name): tf.cast(tf.ensure_shape(pixels, [None, *feature.shape]), tf.int64)}


def _made(value: tf.Tensor, feature: ImageFeature) -> tf.Tensor:
    """Returns the pixels of one image, uint8 of `feature.shape`, of its bytes or its numbers."""
    if feature.pixels is None:
        # All of its channels, whatever their number: what TensorFlow's decoders make of others depends on the format.
        decoded = tf.io.decode_image(value, channels=0, dtype=tf.uint8, expand_animations=False)
        decoded = tf.cast(tf.ensure_shape(decoded, [None, None, None]), tf.float32)
    else:
        decoded = tf.reshape(value, feature.pixels)
    resized = _resized(_with_channels(decoded, feature.channels), feature)
    whole = tf.cast(tf.clip_by_value(tf.round(resized), 0.0, 255.0), tf.uint8)
    return tf.ensure_shape(whole, feature.shape)


def _with_channels(pixels: tf.Tensor, channels: int) -> tf.Tensor:
    """Returns float32 [height, width, channels] of an image of 1 (grey), 2 (and alpha), 3 (RGB) or 4 (and alpha)."""
    is_colour = tf.shape(pixels)[2] >= 3
    if channels == 1:
        grey = lambda: tf.reduce_sum(pixels[:, :, :3] * tf.constant(_LUMINANCE), axis=2, keepdims=True)  # noqa: E731
        return tf.cond(is_colour, grey, lambda: pixels[:, :, :1])
    return tf.cond(is_colour, lambda: pixels[:, :, :3], lambda: tf.repeat(pixels[:, :, :1], 3, axis=2))


def _resized(pixels: tf.Tensor, feature: ImageFeature) -> tf.Tensor:
    """Returns float32 [*feature.size, channels]."""
    size = tf.constant(feature.size)
    if feature.resize == "pad":
        return tf.image.resize_with_pad(pixels, *feature.size, antialias=True)
    if feature.resize == "crop":
        pixels = _cut_to_shape(pixels, size)
    same = tf.reduce_all(tf.equal(tf.shape(pixels)[:2], size))
    return tf.cond(same, lambda: pixels, lambda: tf.image.resize(pixels, size, antialias=True))


def _cut_to_shape(pixels: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the largest part around the middle that has the proportions of `size`."""
    given = tf.cast(tf.shape(pixels)[:2], tf.float32)
    wanted = tf.cast(size, tf.float32)
    kept = tf.cast(tf.round(wanted * tf.reduce_min(given / wanted)), tf.int32)
    kept = tf.clip_by_value(kept, 1, tf.shape(pixels)[:2])
    first = (tf.shape(pixels)[:2] - kept) // 2
    return pixels[first[0] : first[0] + kept[0], first[1] : first[1] + kept[1]]
