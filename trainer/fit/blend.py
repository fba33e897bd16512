"""Blends the images and the labels of a batch. Source: Zhang et al. 2018, mixup: Beyond Empirical Risk."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf


class Blended(NamedTuple):
    """The two labels of each blended example, with their weights, float32 [batch]."""

    label: tf.Tensor
    weight: tf.Tensor
    other_label: tf.Tensor
    other_weight: tf.Tensor

    def pairs(self) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Yields each of the two labels with its weight."""
        yield self.label, self.weight
        yield self.other_label, self.other_weight


@dataclass(frozen=True)
class Blend:
    """Blends every example of a batch with the next one; all use one share, which is drawn anew for every update.

    Attributes:
        images: The names of the inputs that are images.
        alpha: The share is drawn from Beta(alpha, alpha).
        seed: The seed of the draws. A draw depends on the seed and the number of the update, so that a resumed training
            draws the same shares.
    """

    images: tuple[str, ...]
    alpha: float
    seed: int

    def __call__(
        self, features: Mapping[str, tf.Tensor], label: tf.Tensor, weight: tf.Tensor, update: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], Blended]:
        """Returns the features and labels of a batch blended.

        Args:
            features: The features by input name; images are uint8 [batch, h, w, c] and keep dtype and shape.
            label: The labels of the rows.
            weight: The weights of the rows, float32 [rows]; the weights of all parts have the same total.
            update: The number of the update, integer [].
        """
        share = self._share(update)
        found = dict(features)
        for name in self.images:
            pixels = tf.cast(features[name], tf.float32)
            mixed = share * pixels + (1.0 - share) * tf.roll(pixels, 1, axis=0)
            found[name] = tf.cast(tf.round(mixed), features[name].dtype)
        other = tf.roll(label, 1, axis=0), tf.roll(weight, 1, axis=0)
        return found, Blended(label, share * weight, other[0], (1.0 - share) * other[1])

    def _share(self, update: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        seed = tf.stack(
            [tf.constant(self.seed, tf.int64), tf.cast(update, tf.int64) * 4096 + tf.cast(replica, tf.int64)]
        )
        one, other = tf.unstack(tf.random.stateless_gamma([2], seed, self.alpha))
        return tf.math.divide_no_nan(one, one + other)
