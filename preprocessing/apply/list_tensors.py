"""Columns of lists in the graph: selects the kept elements, and pools the elements of a row to one number."""

from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from fullpass.preprocessing.features.lists import ListOf


@dataclass(frozen=True, eq=False)
class KeptElements:
    """The kept elements of each row. first: position of the first one, int64 [batch]. count: int64 [batch]."""

    first: tf.Tensor
    count: tf.Tensor

    @cached_property
    def rows(self) -> tf.Tensor:
        """The row of each kept element: int64 [elements]."""
        return group_of_each(self.count)

    def ragged(self, values: tf.Tensor) -> tf.RaggedTensor:
        """Returns values of elements, [elements] or [elements, width], as ragged rows."""
        return tf.RaggedTensor.from_row_lengths(values, self.count, validate=False)


def group_of_each(counts: tf.Tensor) -> tf.Tensor:
    """Returns the number of the group of each element, for groups of `counts` elements: int64 [elements].

    It takes a third of the operations of tf.repeat, which are traced several times and run for every request.
    """
    each = tf.range(tf.reduce_sum(counts))
    of_each = tf.raw_ops.UpperBound(sorted_inputs=[tf.cumsum(counts)], values=[each], out_type=tf.int64)
    return tf.squeeze(of_each, [0])


def rows_where(rows: tf.RaggedTensor, chosen: tf.Tensor) -> tf.RaggedTensor:
    """Returns the elements of each row for which `chosen`, bool [elements], is true.

    tf.ragged.boolean_mask asserts in the graph that both have equal rows.
    """
    counts = tf.math.unsorted_segment_sum(tf.cast(chosen, tf.int64), rows.value_rowids(), rows.nrows())
    return tf.RaggedTensor.from_row_lengths(tf.gather(rows.values, tf.where(chosen)[:, 0]), counts, validate=False)


def rows_of_sparse(sparse: tf.SparseTensor) -> tf.RaggedTensor:
    """Returns the values of each row; tf.RaggedTensor.from_sparse asserts in the graph that rows have no gaps."""
    rows, size = sparse.indices[:, 0], sparse.dense_shape[0]
    return tf.RaggedTensor.from_value_rowids(sparse.values, rows, size, validate=False)


def rows_of_rows(inner: tf.RaggedTensor, outer: tf.Tensor, size: tf.Tensor) -> tf.RaggedTensor:
    """Returns the values of all rows of `inner` that are in the same one of `size` rows: [size, (values)].

    RaggedTensor.merge_dims asserts in the graph that the rows of both fit.

    Args:
        outer: The row of each row of `inner`, ascending, int64 [rows of inner].
    """
    rows = tf.gather(outer, inner.value_rowids())
    return tf.RaggedTensor.from_value_rowids(inner.values, rows, size, validate=False)


def present_elements(values: tf.Tensor) -> tf.Tensor:
    """Returns whether each element is present: bool of the shape of `values`."""
    return tf.not_equal(values, "") if values.dtype == tf.string else ~tf.math.is_nan(values)


def used_lengths(lists: tf.RaggedTensor) -> tf.Tensor:
    """Returns the length of each row up to its last present element: int64 [batch]."""
    rows = lists.value_rowids()
    positions = tf.range(tf.size(rows, tf.int64)) - tf.gather(lists.row_starts(), rows) + 1
    used = tf.where(present_elements(lists.flat_values), positions, 0)
    return tf.maximum(tf.math.unsorted_segment_max(used, rows, lists.nrows()), 0)


def select_kept(lengths: tf.Tensor, options: ListOf) -> KeptElements:
    """Returns the kept elements of rows with these lengths, int64 [batch]."""
    if options.max_length is None:
        return KeptElements(tf.zeros_like(lengths), lengths)
    count = tf.minimum(lengths, options.max_length)
    return KeptElements(lengths - count if options.keep == "last" else tf.zeros_like(lengths), count)


def gather_kept(lists: tf.RaggedTensor, kept: KeptElements) -> tf.Tensor:
    """Returns the kept elements, [elements]; NaN or "" for missing ones and for positions beyond the end of a row."""
    counts = kept.count
    rows = kept.rows
    positions = tf.range(tf.size(rows, tf.int64)) - tf.gather(tf.cumsum(counts, exclusive=True), rows)
    positions += tf.gather(kept.first, rows)
    there = positions < tf.gather(lists.row_lengths(), rows)
    missing = tf.constant("" if lists.dtype == tf.string else float("nan"), lists.dtype)
    # One more element at the end serves all positions beyond the end of a row.
    values = tf.concat([lists.flat_values, missing[tf.newaxis]], 0)
    last = tf.size(values, tf.int64) - 1
    return tf.gather(values, tf.where(there, tf.gather(lists.row_starts(), rows) + positions, last))


def pool(
    values: tf.Tensor, used: tf.Tensor, kept: KeptElements, options: ListOf, weights: tf.Tensor | None, empty: tf.Tensor
) -> tf.Tensor:
    """Returns one number per row, or one vector: float32 [batch] or [batch, width].

    Args:
        values: float32 [elements] or [elements, width].
        used: bool [elements], whether an element is present; missing elements are ignored.
        weights: float32 [elements], or None.
        empty: Result for rows without any present element; has the shape of an element.
    """
    rows, batch = kept.rows, tf.size(kept.count, tf.int64)
    values = tf.cast(values, tf.float64)  # a sum of large numbers loses their spread in float32
    share = tf.cast(used, tf.float64) * (1.0 if weights is None else tf.cast(weights, tf.float64))
    counts = tf.math.unsorted_segment_sum(tf.cast(used, tf.int64), rows, batch)
    if options.pooling == "max":
        held = tf.where(_expand_to_rank(used, values), values, values.dtype.min)
        pooled = tf.math.unsorted_segment_max(held, rows, batch)
    else:
        total = tf.math.unsorted_segment_sum(values * _expand_to_rank(share, values), rows, batch)
        pooled = _divided(total, share, rows, batch, options)
    return tf.where(_expand_to_rank(counts > 0, pooled), tf.cast(pooled, tf.float32), empty)


def _divided(total: tf.Tensor, share: tf.Tensor, rows: tf.Tensor, batch: tf.Tensor, options: ListOf) -> tf.Tensor:
    if options.pooling == "sum":
        return total
    if options.pooling == "sqrt_n":
        mass = tf.sqrt(tf.math.unsorted_segment_sum(tf.square(share), rows, batch))
    else:
        mass = tf.math.unsorted_segment_sum(share, rows, batch)
    return tf.math.divide_no_nan(total, _expand_to_rank(mass, total))


def _expand_to_rank(flags: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns `flags`, one value per row or element, expanded to the rank of `values`."""
    return flags if values.shape.rank == 1 else flags[:, tf.newaxis]
