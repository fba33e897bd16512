"""Reductions of the lists of a history to one value per row, for the functions `past_...` of expressions.

Every sum is float64 and in the order of the list, so one request and a batch of training give the same number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.spec import length

_MISSING = np.float32("nan")


@dataclass(frozen=True, eq=False)
class PastColumn:
    """A list column of a history.

    values: ragged float32 or string [batch, events], NaN or "" for missing, the oldest event first.
    ages: ragged float32 [batch, events] with the same rows, in seconds.
    """

    values: tf.RaggedTensor
    ages: tf.RaggedTensor

    @cached_property
    def batch_size(self) -> tf.Tensor:
        """The number of rows: int64 []."""
        return self.values.nrows()

    @cached_property
    def rows(self) -> tf.Tensor:
        """The row of each element: int64 [elements]."""
        return self.values.value_rowids()

    def used(self, within: str | None) -> tf.Tensor:
        """Returns whether an element is present and not older than `within`: bool [elements]."""
        flat = self.values.flat_values
        present = tf.not_equal(flat, "") if flat.dtype == tf.string else ~tf.math.is_nan(flat)
        return present if within is None else present & (self.ages.flat_values <= _seconds(within))


def _seconds(text: str) -> float:
    return length(text) / timedelta(seconds=1)


def _total(numbers: tf.Tensor, x: PastColumn) -> tf.Tensor:
    """Returns the sum of each row: float64 [batch]."""
    return tf.math.unsorted_segment_sum(tf.cast(numbers, tf.float64), x.rows, x.batch_size)


def _where_any(used: tf.Tensor, numbers: tf.Tensor, x: PastColumn) -> tf.Tensor:
    """Returns numbers, [batch], as float32; NaN in rows without a used element."""
    return tf.where(_total(used, x) > 0, tf.cast(numbers, tf.float32), _MISSING)


def _count(x: PastColumn, within: str | None = None) -> tf.Tensor:
    return tf.cast(_total(x.used(within), x), tf.float32)


def _distinct(x: PastColumn, within: str | None = None) -> tf.Tensor:
    used = x.used(within)
    values, ids = tf.unique(tf.boolean_mask(x.values.flat_values, used), tf.int64)
    different = tf.maximum(tf.size(values, tf.int64), 1)
    pairs, _ = tf.unique(tf.boolean_mask(x.rows, used) * different + ids)
    rows = pairs // different
    return tf.math.unsorted_segment_sum(tf.ones_like(rows, tf.float32), rows, x.batch_size)


def _sum(x: PastColumn, within: str | None = None) -> tf.Tensor:
    return tf.cast(_total(tf.where(x.used(within), x.values.flat_values, 0.0), x), tf.float32)


def _mean(x: PastColumn, within: str | None = None) -> tf.Tensor:
    used = x.used(within)
    total = _total(tf.where(used, x.values.flat_values, 0.0), x)
    return _where_any(used, tf.math.divide_no_nan(total, _total(used, x)), x)


def _min(x: PastColumn, within: str | None = None) -> tf.Tensor:
    used = x.used(within)
    held = tf.where(used, x.values.flat_values, tf.float32.max)
    return _where_any(used, tf.math.unsorted_segment_min(held, x.rows, x.batch_size), x)


def _max(x: PastColumn, within: str | None = None) -> tf.Tensor:
    used = x.used(within)
    held = tf.where(used, x.values.flat_values, tf.float32.min)
    return _where_any(used, tf.math.unsorted_segment_max(held, x.rows, x.batch_size), x)


def _decayed_mean(x: PastColumn, half_life: str) -> tf.Tensor:
    used = x.used(None)
    # Ages count from the newest element, as otherwise all weights of an old history would be 0.
    held = tf.where(used, x.ages.flat_values, tf.float32.max)
    newest = tf.gather(tf.math.unsorted_segment_min(held, x.rows, x.batch_size), x.rows)
    halvings = tf.cast(x.ages.flat_values - newest, tf.float64) / _seconds(half_life)
    weights = tf.where(used, tf.pow(tf.constant(0.5, tf.float64), halvings), 0.0)
    values = tf.cast(tf.where(used, x.values.flat_values, 0.0), tf.float64)
    return _where_any(used, tf.math.divide_no_nan(_total(weights * values, x), _total(weights, x)), x)


def _last(x: PastColumn, lag: int = 1) -> tf.Tensor:
    flat = x.values.flat_values
    missing = tf.constant([""] if flat.dtype == tf.string else [_MISSING], flat.dtype)
    there = x.values.row_lengths() >= lag
    return tf.gather(tf.concat([missing, flat], 0), tf.where(there, x.values.row_limits() - lag + 1, 0))


PAST: Mapping[str, Callable[..., tf.Tensor]] = MappingProxyType(
    {
        "past_count": _count,
        "past_distinct": _distinct,
        "past_sum": _sum,
        "past_mean": _mean,
        "past_min": _min,
        "past_max": _max,
        "past_decayed_mean": _decayed_mean,
        "past_last": _last,
    }
)
"""Function -> reduction of a `PastColumn` to float32 or string [batch], NaN or "" for missing."""
