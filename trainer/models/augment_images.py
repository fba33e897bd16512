"""Random augmentation of images in training, on the training device.

All geometric changes (mirror, crop, shift, turn) are one map from positions in the new image to positions in the old
image, so that pixels are interpolated once. The map consists of gathers, which XLA can compile too.
"""

import math

import keras
import numpy as np
import tensorflow as tf

from fullpass.preprocessing.features.image_feature import Augment

RANGE = 255.0
"""The largest value of a pixel."""


class AugmentImages(keras.layers.Layer):
    """images uint8 [batch, h, w, c] -> float32 of the same shape, 0 to 255; each changed at random, in training only.

    Args:
        fill: The values that cutout fills with, float [c].
    """

    def __init__(self, config: Augment, fill: np.ndarray, **options):
        super().__init__(dtype="float32", autocast=False, **options)
        self.config, self._fill = config, np.asarray(fill, np.float32)
        self._seeds = keras.random.SeedGenerator()

    def call(self, images, training=False):
        if not training:
            return tf.cast(images, tf.float32)
        config = self.config
        if config.crop or config.shift or config.rotate:
            pixels = self._moved(tf.cast(images, tf.float32))
        else:
            pixels = tf.cast(self._mirrored(images), tf.float32)
        if config.brightness or config.contrast:
            pixels = self._lit(pixels)
        return self._cut_out(pixels) if config.cutout else pixels

    def compute_output_spec(self, images, training=False):
        return keras.KerasTensor(images.shape, "float32")

    def _uniform(self, images: tf.Tensor, low: float = -1.0, high: float = 1.0) -> tf.Tensor:
        """Returns one number per image, float32 [batch]."""
        return keras.random.uniform((tf.shape(images)[0],), low, high, dtype="float32", seed=self._seeds)

    def _signs(self, images: tf.Tensor, *, mirrored: bool) -> tf.Tensor:
        """Returns -1 for the half of the images that are mirrored, else 1."""
        return tf.where(self._uniform(images) < 0.0, -1.0, 1.0) if mirrored else tf.ones_like(self._uniform(images))

    def _mirrored(self, images: tf.Tensor) -> tf.Tensor:
        """Returns images of which half are mirrored; in three dimensions, as four would take ten times as long."""
        height, width, channels = images.shape[1:]
        for names, middle in (
            (("horizontal", "both"), [-1, width, channels]),
            (("vertical", "both"), [-1, height, width * channels]),
        ):
            if self.config.flip in names:
                mirror = tf.reshape(tf.reverse(tf.reshape(images, middle), [1]), tf.shape(images))
                # Select, unlike SelectV2, copies whole images.
                chosen = self._signs(images, mirrored=True) < 0
                images = tf.raw_ops.Select(condition=chosen, x=mirror, y=images)
        return images

    def _moved(self, pixels: tf.Tensor) -> tf.Tensor:
        config, (height, width) = self.config, pixels.shape[1:3]
        scale = 1.0 - config.crop * self._uniform(pixels, 0.0)
        angle = math.radians(config.rotate) * self._uniform(pixels)
        across = self._signs(pixels, mirrored=config.flip in ("horizontal", "both"))
        down = self._signs(pixels, mirrored=config.flip in ("vertical", "both"))
        room = (1.0 - scale) / 2 + config.shift
        x_off, y_off = (size * room * self._uniform(pixels) for size in (width, height))
        y, x = np.meshgrid(np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij")
        y, x = (tf.constant(value[None], tf.float32) for value in (y, x))
        cos, sin, across, down, x_off, y_off = (
            value[:, None, None] for value in (scale * tf.cos(angle), scale * tf.sin(angle), across, down, x_off, y_off)
        )
        from_x = cos * across * x - sin * down * y + x_off + (width - 1) / 2
        from_y = sin * across * x + cos * down * y + y_off + (height - 1) / 2
        return _interpolated(pixels, from_y, from_x)

    def _lit(self, pixels: tf.Tensor) -> tf.Tensor:
        """Returns pixels with random contrast and brightness: a factor and an offset per image."""
        added = RANGE * self.config.brightness * self._uniform(pixels)[:, None, None, None]
        if self.config.contrast:
            factor = 1.0 + self.config.contrast * self._uniform(pixels)[:, None, None, None]
            added += (1.0 - factor) * tf.reduce_mean(pixels, axis=[1, 2, 3], keepdims=True)
            pixels *= factor
        return tf.clip_by_value(pixels + added, 0.0, RANGE)

    def _cut_out(self, pixels: tf.Tensor) -> tf.Tensor:
        inside = tf.constant(True)
        for axis, size in ((1, pixels.shape[1]), (2, pixels.shape[2])):
            middle = self._uniform(pixels, 0.0, float(size))
            shape = [1, 1, 1, 1]
            shape[axis] = size
            position = tf.reshape(tf.range(size, dtype=tf.float32) + 0.5, shape)
            inside &= tf.abs(position - middle[:, None, None, None]) < self.config.cutout * size / 2
        return tf.where(inside, tf.constant(self._fill), pixels)


def _interpolated(pixels: tf.Tensor, y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns pixels [batch, h, w, c] at fractional positions, float32 [batch, h, w], by bilinear interpolation.

    Beyond an edge it is the nearest pixel of the edge.
    """
    height, width, channels = pixels.shape[1:]
    y = tf.clip_by_value(y, 0.0, height - 1.0)
    x = tf.clip_by_value(x, 0.0, width - 1.0)
    top, left = tf.floor(y), tf.floor(x)
    flat = tf.reshape(pixels, [-1, height * width, channels])

    def at(row: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
        row, column = tf.minimum(row, height - 1.0), tf.minimum(column, width - 1.0)
        position = tf.cast(row * width + column, tf.int32)
        found = tf.gather(flat, tf.reshape(position, [-1, height * width]), batch_dims=1)
        return tf.reshape(found, [-1, height, width, channels])

    right_share, low_share = (x - left)[..., None], (y - top)[..., None]
    upper = at(top, left) * (1.0 - right_share) + at(top, left + 1.0) * right_share
    lower = at(top + 1.0, left) * (1.0 - right_share) + at(top + 1.0, left + 1.0) * right_share
    return upper * (1.0 - low_share) + lower * low_share
