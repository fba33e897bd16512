"""Which rows make which batch: the order of every epoch, where to begin in it, and whose share a batch is.

The order of an epoch follows from the seed and the epoch's number alone. So a training that was cut short begins again
at any batch of any epoch without reading what comes before, and workers agree on an order without talking.
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True, kw_only=True)
class Order:
    """How the rows of a split become an endless sequence of batches, epoch after epoch.

    Attributes:
        batch_size: rows per batch.
        shuffle: rows to shuffle among, 0 for none; rows in memory are all shuffled.
        seed: of the shuffles.
        epoch: the first one.
        start: batches of the first epoch that are left out, counted after `share`.
        share: of `shares`, the one wanted: batch `share`, `share + shares`, ...
        shares: in how many the batches are divided, in turn.
        batches: per epoch and share; where there are fewer, batches of one row of weight 0 follow. None: what there is.
        fixed: give every batch one shape, with rows of weight 0 and lists as long as the longest of the split, for
            devices that compile every shape anew.
    """

    batch_size: int
    shuffle: int = 0
    seed: int = 0
    epoch: int = 0
    start: int = 0
    share: int = 0
    shares: int = 1
    batches: int | None = None
    fixed: bool = False


def seed_of(order: Order, epoch: tf.Tensor, place: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns the seed of one shuffle in an epoch, int64 [2]; 0 is the place of the first, that of files or rows."""
    return tf.stack([tf.constant(order.seed, tf.int64), epoch * 2**32 + tf.cast(place, tf.int64)])


def ordered(order: Order, count: int, epoch: tf.Tensor) -> tf.Tensor:
    """Returns the numbers 0 .. count-1 of rows, files or blocks in the order of an epoch, int64 [count]."""
    numbers = tf.range(count, dtype=tf.int64)
    if not order.shuffle:
        return numbers
    return tf.random.experimental.stateless_shuffle(numbers, seed=seed_of(order, epoch))
