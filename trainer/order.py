"""Which rows make which batch: the order of every epoch, where to begin in it, and whose share a batch is.

The order of an epoch follows from the seed and the epoch's number alone. So a training that was cut short begins again
at any batch of any epoch without reading what comes before, and workers agree on an order without talking.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

Epoch = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]
"""(number of the epoch, first batch wanted), int64 [] both -> the batches of that epoch from there on."""


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
        fixed: give every batch `batch_size` rows, with rows of weight 0, for devices that need static shapes.
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


@tf.autograph.experimental.do_not_convert
def in_order(order: Order, epoch: Epoch, filler: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the endless sequence of (rows of a batch, factor of their weights float32 [] or [rows]).

    Args:
        order: of the batches.
        epoch: gives the batches of an epoch, all shares together; a batch is one tensor [rows].
        filler: one such batch, of one row.
    """

    def rows_of(number: tf.Tensor) -> tf.data.Dataset:
        skipped = tf.where(number == order.epoch, tf.constant(order.start, tf.int64), tf.constant(0, tf.int64))
        own = epoch(number, skipped * order.shares)
        if order.shares > 1:
            own = own.shard(order.shares, order.share)
        own = own.map(lambda rows: (rows, tf.constant(1.0)))
        if order.batches is None:
            return own
        without_weight = filler.repeat().map(lambda rows: (rows, tf.constant(0.0)))
        return own.concatenate(without_weight).take(order.batches - skipped)

    endless = tf.data.Dataset.counter(order.epoch).flat_map(rows_of)
    return endless.map(lambda rows, factor: _filled(rows, factor, order.batch_size)) if order.fixed else endless


@tf.autograph.experimental.do_not_convert
def row_numbers(rows: int, order: Order) -> Epoch:
    """Returns how an epoch gives the numbers 0 .. rows-1 in batches, int64 [batch].

    An epoch's order is one shuffled tensor, cut up: four times as fast as a shuffle of single elements.
    """

    def epoch(number: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        starts = tf.data.Dataset.range(first * order.batch_size, rows, order.batch_size)
        if not order.shuffle:
            return starts.map(lambda start: tf.range(start, tf.minimum(start + order.batch_size, rows)))
        everything = tf.range(rows, dtype=tf.int64)
        shuffled = tf.random.experimental.stateless_shuffle(everything, seed=[number, order.seed])
        return starts.map(lambda start: shuffled[start : start + order.batch_size])

    return epoch


def _filled(rows: tf.Tensor, factor: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    missing = size - tf.shape(rows)[0]
    filled = tf.concat([rows, tf.repeat(rows[:1], missing)], axis=0)
    factors = tf.concat([tf.fill([size - missing], factor), tf.zeros([missing])], axis=0)
    return tf.ensure_shape(filled, [size]), tf.ensure_shape(factors, [size])
