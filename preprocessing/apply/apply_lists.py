"""Transforms lists: each element as a single value is, then those of a row to one number or to a row of ids."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.list_tensors import Kept, keep, pool, present_elements, take, used_lengths
from fullpass.preprocessing.apply.number_chains import MISSING, Quantity, apply_quantities
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.features.feature import NumberFeature, transformed_name
from fullpass.preprocessing.features.lists import ListOf
from fullpass.preprocessing.features.outputs import weight_name

Rows = dict[str, tf.Tensor | tf.SparseTensor]


@dataclass(frozen=True)
class Elements:
    """The elements of a column of lists that are kept.

    values: float32 or string [elements], NaN or "" for missing. kept: their rows. options: what becomes of them.
    weights: float32 [elements], None without any.
    """

    values: tf.Tensor
    kept: Kept
    options: ListOf
    weights: tf.Tensor | None

    def pooled(self, numbers: tf.Tensor, present: tf.Tensor, empty: tf.Tensor | float) -> tf.Tensor:
        """Returns one number or vector per row; see `list_tensors.pool`."""
        return pool(numbers, present, self.kept, self.options, self.weights, empty)

    def rows_of_ids(self, names: tuple[str, str], ids: tf.Tensor, present: tf.Tensor, size: tf.Tensor | int) -> Rows:
        """Returns the ids of the elements that are present as sparse rows, and their weights if there are any.

        Args:
            names: of the two.
            ids: int64 [elements].
            present: bool [elements].
            size: how many different ids there are.
        """
        key, weight_key = names
        rows: Rows = {key: self._sparse(ids, present, lambda values: with_domain(values, size))}
        if self.weights is not None:
            rows[weight_key] = self._sparse(self.weights, present, tf.identity)
        return rows

    def _sparse(self, values: tf.Tensor, present: tf.Tensor, mark: Callable[[tf.Tensor], tf.Tensor]) -> tf.SparseTensor:
        rows = tf.ragged.boolean_mask(self.kept.ragged(values), self.kept.ragged(present)).to_sparse()
        return tf.SparseTensor(rows.indices, mark(rows.values), rows.dense_shape)


def elements_of(lists: tf.RaggedTensor, options: ListOf, columns: Columns) -> Elements:
    """Returns what is kept of lists, from `Columns.elements`; a missing weight is 1."""
    kept = keep(used_lengths(lists), options)
    weights = None
    if options.weights is not None:
        weights = take(columns.elements(options.weights, numbers=True), kept)
        weights = tf.where(tf.math.is_nan(weights), 1.0, weights)
    return Elements(take(lists, kept), kept, options, weights)


def numbers(name: str, feature: NumberFeature, options: ListOf, columns: Columns) -> Rows:
    """Transforms lists of numbers: float32 [batch], or after bucketize a sparse row of ids; and their indicator."""
    elements = elements_of(columns.elements(feature.column or name, numbers=True), options, columns)
    present = present_elements(elements.values)
    keys = {key: columns.string(key).values for spec in feature.transforms if (key := getattr(spec, "key", None))}
    quantity = Quantity(f"features.{name}", elements.values, feature.missing, feature.transforms, keys)
    transformed = transform_elements(quantity, elements.kept)
    key = transformed_name(name)
    if feature.bucketized:
        size = tft.get_num_buckets_for_transformed_feature(transformed)
        result = elements.rows_of_ids((key, weight_name(name)), transformed[:-1], present, size)
    else:
        result = {key: elements.pooled(transformed[:-1], present, transformed[-1])}
    if feature.indicator:
        held = tf.math.unsorted_segment_sum(tf.cast(present, tf.float32), elements.kept.rows, columns.batch_size)
        result[transformed_name(name, "missing")] = tf.cast(tf.equal(held, 0.0), tf.float32)
    return result


def transform_elements(quantity: Quantity, kept: Kept) -> tf.Tensor:
    """Returns elements transformed, and behind them what a missing element becomes: [elements + 1].

    Args:
        quantity: values float32 [elements], NaN for missing; keys string [batch].
        kept: the rows of the elements.
    """
    keys = {name: tf.concat([tf.gather(texts, kept.rows), [""]], 0) for name, texts in quantity.keys.items()}
    with_missing = tf.concat([quantity.values, [MISSING]], 0)
    return apply_quantities({"elements": replace(quantity, values=with_missing, keys=keys)})["elements"]
