"""Decodes images and resizes them to one size."""

import math

import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.feature import ImageFeature
from fullpass.preprocessing.features.output import transformed_name

_AT_THE_SAME_TIME = 16
"""Number of images that are decoded in parallel if there are enough cores."""
_JPEG_RATIOS = (2, 4, 8)
"""Factors by which the JPEG decoder can shrink an image."""
_LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in gray (ITU-R BT.601)."""


def image(name: str, feature: ImageFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms an image: pixels [batch, height, width, channels]; a missing image is all 0.

    Pixels are uint8, cast to int64 at the end because TF Transform has no smaller integer. A `GraphPart` omits that
    cast.
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
        return tf.cond(there, lambda: _decode_and_resize(value, feature), lambda: tf.zeros(feature.shape, tf.uint8))

    signature = tf.TensorSpec(feature.shape, tf.uint8)
    pixels = tf.map_fn(one, (raw, is_there), parallel_iterations=_AT_THE_SAME_TIME, fn_output_signature=signature)
    return {transformed_name(name): tf.cast(tf.ensure_shape(pixels, [None, *feature.shape]), tf.int64)}


def _decode_and_resize(value: tf.Tensor, feature: ImageFeature) -> tf.Tensor:
    """Returns the pixels of one image, uint8 of shape `feature.shape`, from its bytes or its numbers."""
    if feature.pixels is None:
        pixels = tf.cond(tf.io.is_jpeg(value), lambda: _decode_jpeg(value, feature.size), lambda: _decode_file(value))
        decoded = tf.cast(tf.ensure_shape(pixels, [None, None, None]), tf.float32)
    else:
        decoded = tf.reshape(value, feature.pixels)
    resized = _resize_by_mode(_convert_channels(decoded, feature.channels), feature)
    whole = tf.cast(tf.clip_by_value(tf.round(resized), 0.0, 255.0), tf.uint8)
    return tf.ensure_shape(whole, feature.shape)


def _decode_file(value: tf.Tensor) -> tf.Tensor:
    """Returns the pixels of a file, uint8 [height, width, channels], with all channels of the file.

    The channels are not converted while decoding, because the result of TensorFlow's decoders depends on the format.
    """
    return tf.io.decode_image(value, channels=0, dtype=tf.uint8, expand_animations=False)


def _decode_jpeg(value: tf.Tensor, size: tuple[int, int]) -> tf.Tensor:
    """Returns the pixels of a JPEG, as `_decode_file`; a far too large image at 1/2, 1/4 or 1/8 of its size.

    The decoder averages while decoding, which takes half the time of decoding all pixels. The decoded image is at least
    twice as large as wanted, so the final resize averages too.
    """
    shape = tf.image.extract_jpeg_shape(value)[:2]
    times_too_large = tf.reduce_min(tf.cast(shape, tf.float32) / tf.constant(size, tf.float32))
    shrunk = [lambda ratio=ratio: tf.io.decode_jpeg(value, channels=0, ratio=ratio) for ratio in _JPEG_RATIOS]
    fits = [times_too_large >= 2.0 * ratio for ratio in _JPEG_RATIOS]
    return tf.switch_case(tf.reduce_sum(tf.cast(fits, tf.int32)), [lambda: _decode_file(value), *shrunk])


def _convert_channels(pixels: tf.Tensor, channels: int) -> tf.Tensor:
    """Returns float32 [height, width, channels] from 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels."""
    is_colour = tf.shape(pixels)[2] >= 3
    if channels == 1:
        grey = lambda: tf.reduce_sum(pixels[:, :, :3] * tf.constant(_LUMINANCE), axis=2, keepdims=True)  # noqa: E731
        return tf.cond(is_colour, grey, lambda: pixels[:, :, :1])
    return tf.cond(is_colour, lambda: pixels[:, :, :3], lambda: tf.repeat(pixels[:, :, :1], 3, axis=2))


def _resize_by_mode(pixels: tf.Tensor, feature: ImageFeature) -> tf.Tensor:
    size = tf.constant(feature.size)
    if feature.resize == "pad":
        return _pad(_resize(pixels, _largest_size_within(pixels, size)), size)
    if feature.resize == "crop":
        pixels = _center_crop(pixels, size)
    return _resize(pixels, size)


def _resize(pixels: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the pixels resized to `size`, int32 [2]: by the mean of areas, or interpolated if a side grows.

    The mean of areas takes a quarter of the time of `antialias`, which is used only if a side grows.
    """
    given = tf.shape(pixels)[:2]
    larger = lambda: tf.image.resize(pixels, size, antialias=True)  # noqa: E731
    smaller = lambda: tf.image.resize(pixels, size, tf.image.ResizeMethod.AREA)  # noqa: E731
    resized = lambda: tf.cond(tf.reduce_all(given >= size), smaller, larger)  # noqa: E731
    return tf.cond(tf.reduce_all(tf.equal(given, size)), lambda: pixels, resized)


def _largest_size_within(pixels: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns rows and columns of the largest image within `size` that keeps the aspect ratio."""
    given = tf.cast(tf.shape(pixels)[:2], tf.float32)
    fitting = tf.round(given * tf.reduce_min(tf.cast(size, tf.float32) / given))
    return tf.clip_by_value(tf.cast(fitting, tf.int32), 1, size)


def _pad(pixels: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    free = size - tf.shape(pixels)[:2]
    first = free // 2
    return tf.pad(pixels, [[first[0], free[0] - first[0]], [first[1], free[1] - first[1]], [0, 0]])


def _center_crop(pixels: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the largest central crop with the aspect ratio of `size`."""
    given = tf.cast(tf.shape(pixels)[:2], tf.float32)
    wanted = tf.cast(size, tf.float32)
    kept = tf.cast(tf.round(wanted * tf.reduce_min(given / wanted)), tf.int32)
    kept = tf.clip_by_value(kept, 1, tf.shape(pixels)[:2])
    first = (tf.shape(pixels)[:2] - kept) // 2
    return pixels[first[0] : first[0] + kept[0], first[1] : first[1] + kept[1]]
