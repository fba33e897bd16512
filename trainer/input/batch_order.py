"""The order of rows and batches: of every epoch, from any position, and for every worker.

The order of an epoch depends only on the seed and the number of the epoch. So an interrupted training resumes at any
batch of any epoch without repeating earlier batches, and workers agree on an order without communication.
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """How the rows of a split become an endless sequence of batches, epoch after epoch.

    Attributes:
        batch_size: The rows of a batch.
        shuffle: The rows that are shuffled together, 0 for none; rows in memory are all shuffled together.
        seed: The seed of the shuffles.
        epoch: The first epoch.
        start: The batches of the first epoch to skip, counted within the shard.
        shard: The index of the shard to read: batch `shard`, `shard + shards`, ...
        shards: The number of shards, to which batches are assigned in turn.
        batches: The batches per epoch and shard; missing batches are filled with one row of weight 0. None adds none.
        fixed: Whether all batches have the same shape, for devices that recompile for every new shape. Batches are
            padded with rows of weight 0, and lists to the longest list of the split.
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


def seed_of(order: BatchOrder, epoch: tf.Tensor, index: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns the seed of one shuffle in an epoch, int64 [2]; index 0 is the first shuffle, that of files or rows."""
    return tf.stack([tf.constant(order.seed, tf.int64), epoch * 2**32 + tf.cast(index, tf.int64)])


def ordered(order: BatchOrder, count: int, epoch: tf.Tensor) -> tf.Tensor:
    """Returns the numbers 0 .. count-1 of rows, files or blocks in the order of an epoch, int64 [count]."""
    numbers = tf.range(count, dtype=tf.int64)
    if not order.shuffle:
        return numbers
    return tf.random.experimental.stateless_shuffle(numbers, seed=seed_of(order, epoch))
