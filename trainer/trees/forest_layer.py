"""Boosted trees as a Keras layer of plain TensorFlow operations: no library of trees is needed to load it."""

import keras
import numpy as np
import tensorflow as tf

from fullpass.trainer.trees.forest import Forest

_CELLS = 1 << 21
"""Leaves of all trees times rows that are processed at a time; each takes some tens of bytes of memory."""
_WORD_BITS = 5
_MAX_ID = 2.0**30


class ForestLayer(keras.layers.Layer):
    """columns float32 [batch, columns], NaN where missing and ids as numbers -> output float32 [batch, outputs].

    All decisions of all trees are evaluated at once. A matrix product then finds the leaf of each row (Nakandala et al.
    2020, A Tensor Compiler for Unified Machine Learning Prediction Serving). Following each row from node to node would
    take several times as long. The leaf values are summed in float64. The layer has no gradient.
    """

    def __init__(self, forest: Forest, **options):
        super().__init__(trainable=False, autocast=False, dtype="float32", **options)
        self._forest = forest
        self._follow = tf.function(self._outputs, autograph=False, reduce_retracing=True)

    def build(self, shape):
        forest = self._forest
        columns, reads_ids = shape[1], forest.in_set >= 0
        # Missing numbers are -inf in a first copy of the columns and inf in a second copy. The results of the sets
        # follow. So a decision takes only one comparison.
        source = np.where(reads_ids, 2 * columns + forest.in_set, forest.column + columns * ~forest.missing_left)
        held = {
            "source": source.astype(np.int32).ravel(),
            "threshold": np.where(reads_ids, np.float32(0.5), forest.threshold)[:, :, None],
            "path": forest.path,
            "turns": forest.turns[:, :, None],
            "value": forest.value[:, None, :],
            "set_column": forest.column[reads_ids][np.argsort(forest.in_set[reads_ids])],
            "set_start": forest.set_start[:, None],
            "set_words": forest.set_words[:, None],
            "words": forest.words,
        }
        for name, array in held.items():
            weight = self.add_weight(shape=array.shape, dtype=array.dtype.name, trainable=False, name=name)
            weight.assign(array)
            setattr(self, f"_{name}", weight)

    def call(self, columns):
        return self._follow(tf.convert_to_tensor(columns))

    def compute_output_shape(self, shape):
        return (shape[0], self._forest.outputs)

    def _outputs(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns the output for rows, chunk by chunk, so that a large batch takes no more memory than a chunk."""
        columns = tf.transpose(columns)
        rows, together = tf.shape(columns)[1], max(1, _CELLS // self._forest.value.size)
        chunks = tf.maximum(1, (rows + together - 1) // together)
        outputs = tf.TensorArray(tf.float32, size=chunks, infer_shape=False)

        def add(chunk: tf.Tensor, outputs: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            part = columns[:, chunk * together : (chunk + 1) * together]
            return chunk + 1, outputs.write(chunk, self._chunk_outputs(part))

        _, outputs = tf.while_loop(lambda chunk, _: chunk < chunks, add, (0, outputs))
        return tf.ensure_shape(outputs.concat(), [None, self._forest.outputs])

    def _chunk_outputs(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns the output, float32 [rows, outputs], for columns [columns, rows]."""
        missing = tf.math.is_nan(columns)
        known = [tf.where(missing, -np.inf, columns), tf.where(missing, np.inf, columns)]
        if len(self._forest.set_start):
            known.append(self._outside(tf.where(missing, -1.0, columns)))
        shape = [*self._forest.column.shape, tf.shape(columns)[1]]
        seen = tf.reshape(tf.gather(tf.concat(known, 0), self._tensor("source")), shape)
        left = tf.cast(seen <= self._tensor("threshold"), tf.float32)
        on_leaf = tf.cast(tf.matmul(self._tensor("path"), left) == self._tensor("turns"), tf.float32)
        # Each tree has exactly one active leaf per row, so this product is exact.
        of_trees = tf.cast(tf.matmul(self._tensor("value"), on_leaf), tf.float64)
        by_round = tf.reshape(of_trees, [-1, self._forest.outputs, shape[2]])
        return tf.cast(tf.transpose(tf.reduce_sum(by_round, axis=0)), tf.float32)

    def _outside(self, columns: tf.Tensor) -> tf.Tensor:
        """Returns 0 if the set contains the id of the row and 1 if it does not, float32 [sets, rows]."""
        ids = tf.cast(tf.clip_by_value(tf.gather(columns, self._tensor("set_column")), -1.0, _MAX_ID), tf.int32)
        word = tf.bitwise.right_shift(ids, _WORD_BITS)
        within = (ids >= 0) & (word < self._tensor("set_words"))
        bits = tf.gather(self._tensor("words"), tf.where(within, self._tensor("set_start") + word, 0))
        bit = tf.bitwise.right_shift(bits, tf.bitwise.bitwise_and(ids, (1 << _WORD_BITS) - 1))
        held = within & (tf.bitwise.bitwise_and(bit, 1) > 0)
        return tf.where(held, 0.0, 1.0)

    def _tensor(self, name: str) -> tf.Tensor:
        return tf.convert_to_tensor(getattr(self, f"_{name}"))
