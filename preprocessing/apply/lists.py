"""Transforms lists: each element like a single value, then the elements of a row into one number or a row of ids."""

from dataclasses import dataclass, replace

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.list_tensors import (
    KeptElements,
    gather_kept,
    pool,
    present_elements,
    rows_where,
    select_kept,
    used_lengths,
)
from fullpass.preprocessing.apply.number_chains import MISSING, Quantity, apply_quantities
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.expressions.tensor_ops import number_tensor
from fullpass.preprocessing.features.feature import NumberFeature
from fullpass.preprocessing.features.lists import ListOf
from fullpass.preprocessing.features.number_features import QuantityFeature
from fullpass.preprocessing.features.output import transformed_name, weight_name

Rows = dict[str, tf.Tensor | tf.SparseTensor]


@dataclass(frozen=True)
class Elements:
    """The kept elements of a column of lists.

    values: float32 or string [elements], NaN or "" for missing. kept: their rows. options: how they are pooled.
    weights: float32 [elements], or None. keeps_missing: whether rows of ids hold 0 for missing elements; otherwise
    missing elements are omitted.
    """

    values: tf.Tensor
    kept: KeptElements
    options: ListOf
    weights: tf.Tensor | None
    keeps_missing: bool = False

    def pooled(self, numbers: tf.Tensor, present: tf.Tensor, empty: tf.Tensor | float) -> tf.Tensor:
        """Returns one number or vector per row; see `list_tensors.pool`."""
        return pool(numbers, present, self.kept, self.options, self.weights, empty)

    def rows_of_ids(self, names: tuple[str, str], present: tf.Tensor, ids: tf.Tensor, high: tf.Tensor | int) -> Rows:
        """Returns the ids of the present elements as sparse rows, and their weights if there are any.

        Args:
            present: bool [elements].
            ids: int64 [elements].
            high: The greatest id that there may be.
        """
        key, weight_key = names
        rows: Rows = {key: with_domain(self._sparse(ids, present), high)}
        if self.weights is not None:
            rows[weight_key] = self._sparse(self.weights, present)
        return rows

    def _sparse(self, values: tf.Tensor, present: tf.Tensor) -> tf.SparseTensor:
        rows = self.kept.ragged(values)
        return (rows if self.keeps_missing else rows_where(rows, present)).to_sparse()


def kept_elements(name: str, lists: tf.RaggedTensor, options: ListOf, columns: Columns) -> Elements:
    """Returns the kept elements of a feature's lists, which are from `Columns.elements`; a missing weight is 1."""
    sequence = columns.config.sequence_of(name)
    if sequence is not None:
        kept = kept_of_sequence(sequence, options, columns)
        return Elements(gather_kept(lists, kept), kept, options, None, keeps_missing=True)
    kept = select_kept(used_lengths(lists), options)
    weights = None
    if options.weights is not None:
        weights = gather_kept(columns.elements(options.weights, numbers=True), kept)
        weights = tf.where(tf.math.is_nan(weights), 1.0, weights)
    return Elements(gather_kept(lists, kept), kept, options, weights)


def kept_of_sequence(sequence: str, options: ListOf, columns: Columns) -> KeptElements:
    """Returns the kept elements of the columns of a sequence: up to the last element that any column has."""
    members = columns.config.sequences[sequence].features(sequence).values()
    lists = [columns.elements(feature.column, numbers=feature.type == "number") for feature in members]
    lengths = tf.reduce_max(tf.stack([used_lengths(one) for one in lists]), axis=0)
    return select_kept(lengths, options)


def quantity_of(name: str, feature: QuantityFeature, values: tf.Tensor, columns: Columns) -> Quantity:
    """Returns the values of a feature, float32 [n], NaN for missing, with its transforms and their keys."""
    keys = {key: columns.token(key).values for spec in feature.transforms if (key := getattr(spec, "key", None))}
    return Quantity(f"features.{name}", values, feature.missing, feature.transforms, keys)


def numbers(name: str, feature: NumberFeature, options: ListOf, columns: Columns) -> Rows:
    """Transforms lists of numbers: float32 [batch], or a sparse row of ids after bucketize; and their indicator."""
    lists = columns.elements(feature.column or name, numbers=feature.format is None)
    if feature.format is not None:
        lists = lists.with_values(number_tensor(lists.values, feature.format))
    elements = kept_elements(name, lists, options, columns)
    present = present_elements(elements.values)
    transformed = transform_elements(quantity_of(name, feature, elements.values, columns), elements.kept)
    names = transformed_name(name), weight_name(name)
    if feature.bucketized:
        high = tft.get_num_buckets_for_transformed_feature(transformed) - 1
        result = elements.rows_of_ids(names, present, transformed[:-1], high)
    else:
        result = rows_of_numbers(names, transformed, present, elements)
    if feature.indicator:
        held = tf.math.unsorted_segment_sum(tf.cast(present, tf.float32), elements.kept.rows, columns.batch_size)
        result[transformed_name(name, "missing")] = tf.cast(tf.equal(held, 0.0), tf.float32)
    return result


def rows_of_numbers(names: tuple[str, str], transformed: tf.Tensor, present: tf.Tensor, elements: Elements) -> Rows:
    """Returns one number per row; of a sequence, the numbers as weights of ids: 2, or 1 for the fill of a missing one.

    Args:
        transformed: float32 [elements + 1], from `transform_elements`.
        present: bool [elements].
    """
    values = transformed[:-1]
    if not elements.keeps_missing:
        return {names[0]: elements.pooled(values, present, transformed[-1])}
    ids = tf.where(present, tf.constant(2, tf.int64), tf.constant(1, tf.int64))
    return replace(elements, weights=values).rows_of_ids(names, present, ids, 2)


def transform_elements(quantity: Quantity, kept: KeptElements) -> tf.Tensor:
    """Returns the transformed elements, followed by the transformed value of a missing element: [elements + 1].

    Args:
        quantity: Values float32 [elements], NaN for missing; keys string [batch].
    """
    keys = {name: tf.concat([tf.gather(texts, kept.rows), [""]], 0) for name, texts in quantity.keys.items()}
    with_missing = tf.concat([quantity.values, [MISSING]], 0)
    return apply_quantities({"elements": replace(quantity, values=with_missing, keys=keys)})["elements"]
