"""The order of rows and batches: of every epoch, from any position, and for every worker.

The order of an epoch follows from the seed and the epoch's number alone. So a training that was cut short begins again
at any batch of any epoch without reading what comes before, and workers agree on an order without talking.
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True, kw_only=True)
class Order:
    """How the rows of a split become an endless sequence of batches, epoch after epoch.

    Attributes:
        batch_size: The rows of a batch.
        shuffle: The rows that are shuffled together, 0 for none; rows in memory are all shuffled together.
        seed: The seed of the shuffles.
        epoch: The first epoch.
        start: The batches of the first epoch to skip, counted within the shard.
        shard: The index of the shard to read: batch `shard`, `shard + shards`, ...
        shards: The number of shards that the batches are dealt out to, in turn.
        batches: The batches per epoch and shard, filled up with batches of one row of weight 0; None adds none.
        fixed: Whether batches have one shape, with rows of weight 0 and lists as long as the longest of the split, for
            devices that compile every shape anew.
    """

    batch_size: int
    shuffle: int = 0
    seed: int = 0
    epoch: int = 0
    start: int = 0
    shard: int = 0
    shards: int = 1
    batches: int | None = None
    fixed: bool = False


def seed_of(order: Order, epoch: tf.Tensor, index: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns the seed of one shuffle in an epoch, int64 [2]; index 0 is the first shuffle, that of files or rows."""
    return tf.stack([tf.constant(order.seed, tf.int64), epoch * 2**32 + tf.cast(index, tf.int64)])


def ordered(order: Order, count: int, epoch: tf.Tensor) -> tf.Tensor:
    """Returns the numbers 0 .. count-1 of rows, files or blocks in the order of an epoch, int64 [count]."""
    numbers = tf.range(count, dtype=tf.int64)
    if not order.shuffle:
        return numbers
    return tf.random.experimental.stateless_shuffle(numbers, seed=seed_of(order, epoch))
