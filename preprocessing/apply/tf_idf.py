"""Weights of the ids of a text: their share of the text, times how rare they are among the texts of train."""

import tensorflow as tf
import tensorflow_transform as tft


def tf_idf(rows: tf.RaggedTensor, size: tf.Tensor | int) -> tuple[tf.SparseTensor, tf.SparseTensor]:
    """Returns the distinct ids of each row, ascending, and the weight of each, int64 and float32 [batch, (ids)].

    The weight of an id is (count of the id in the row) / (ids in the row) * (1 + log((n + 1) / (m + 1))), for n train
    rows, of which m have the id. `tft.tfidf` computes the same, but copies all ids several times, which took 10 GB for
    long texts.

    Args:
        rows: Ids, int64 [batch, (ids)], from 0 and less than `size`.
    """
    batch = rows.nrows()
    given = rows.to_sparse()
    # The operation refuses a batch without rows, so it gets one more, which has no ids.
    one_more = tf.SparseTensor(given.indices, given.values, given.dense_shape + tf.constant([1, 0], tf.int64))
    counted = tf.sparse.bincount(one_more, axis=-1)
    row, ids = counted.indices[:, 0], counted.indices[:, 1]
    held = tf.math.bincount(ids, minlength=size, maxlength=size, dtype=tf.int64)
    rows_with_id = tf.reshape(tft.sum(held[tf.newaxis], reduce_instance_dims=False), [-1])
    train_rows = tft.sum(batch[tf.newaxis])
    rarity = 1.0 + tf.math.log((tf.cast(train_rows, tf.float32) + 1.0) / (tf.cast(rows_with_id, tf.float32) + 1.0))
    share = tf.cast(counted.values, tf.float64) / tf.cast(tf.gather(rows.row_lengths(), row), tf.float64)
    weights = tf.cast(share, tf.float32) * tf.gather(rarity, ids)
    of_rows = tf.RaggedTensor.from_value_rowids(ids, row, batch, validate=False)
    return of_rows.to_sparse(), of_rows.with_values(weights).to_sparse()
