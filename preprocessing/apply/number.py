"""Number transforms: each analyzes a group of columns and returns a function of such columns.

`number_chains` applies the function to the columns and to the fills of their missing values.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

from fullpass.preprocessing.apply.statistics import RANK_ERROR, Statistics, mean_and_deviation_per_key, range_per_key
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.features import transforms
from fullpass.preprocessing.features.transforms import TransformSpec
from fullpass.preprocessing.internals.tft_internals import inverse_tukey_hh

Apply = Callable[[tf.Tensor], tf.Tensor]
"""float32 [batch or 1, columns] to float32 of the same shape; NaN means missing and stays NaN."""

MISSING = float("nan")


_STEPS = 1000
"""Quantiles of which `clip` takes one, so that its ranks are off by at most 0.1 % of the rows."""


class Group(NamedTuple):
    """One transform of columns that are analyzed together: their specs differ only in numbers.

    specs: the transform of each column. statistics: statistics of the inputs of the transform; None if it needs no
    analysis. keys: string [batch] for every column that a transform names as its key.
    """

    specs: Sequence[TransformSpec]
    statistics: Statistics | None = None
    keys: Mapping[str, tf.Tensor] = MappingProxyType({})

    @property
    def spec(self) -> Any:
        """The first spec; the other specs differ from it only in their numbers."""
        return self.specs[0]

    @property
    def analyzed(self) -> Statistics:
        """The statistics of the columns, for an analyzer."""
        if self.statistics is None:
            raise RuntimeError(f"{type(self.spec).__name__} was not analysed")
        return self.statistics

    def constants(self, field: str) -> tf.Tensor:
        """Returns the values of a field in all specs: float32 [columns]."""
        return tf.constant([getattr(spec, field) for spec in self.specs], tf.float32)


def nonfinite_to_nan(values: tf.Tensor) -> tf.Tensor:
    """Replaces infinite values by NaN: a value outside the domain of a transform becomes missing."""
    return tf.where(tf.math.is_finite(values), values, MISSING)


Analyze = Callable[[Group], Apply]
ANALYZE: dict[type[TransformSpec], Analyze] = {
    transforms.Log1p: lambda group: tf.math.log1p,
    transforms.Sqrt: lambda group: tf.sqrt,
}
"""Class of a transform -> function that analyzes it; `bucketize` is absent because it ends a chain with ids."""


def _analyzes(transform: type[TransformSpec]) -> Callable[[Analyze], Analyze]:
    """Returns a decorator that enters the function of a transform in `ANALYZE`."""

    def enter(function: Analyze) -> Analyze:
        ANALYZE[transform] = function
        return function

    return enter


def _where_varied(varied: tf.Tensor, scaled: tf.Tensor, constant: tf.Tensor | float, values: tf.Tensor) -> tf.Tensor:
    """Returns `scaled` where a column varies in the train split, else `constant`; missing values stay missing."""
    result = tf.cast(tf.where(varied, scaled, tf.cast(constant, scaled.dtype)), tf.float32)
    return tf.where(tf.math.is_nan(values), values, result)


@_analyzes(transforms.ZScore)
def _z_score(group: Group) -> Apply:
    if group.spec.key is None:
        mean, deviation = group.analyzed.mean, group.analyzed.deviation
    else:
        mean, deviation = mean_and_deviation_per_key(group.analyzed.values, group.keys[group.spec.key])
    divisor = tf.where(deviation > 0, deviation, 1.0)
    return lambda values: _where_varied(deviation > 0, (tf.cast(values, tf.float64) - mean) / divisor, 0.0, values)


@_analyzes(transforms.MinMax)
def _min_max(group: Group) -> Apply:
    low, high = (
        group.analyzed.range
        if group.spec.key is None
        else range_per_key(group.analyzed.values, group.keys[group.spec.key])
    )
    bottom = tf.cast(group.constants("min"), tf.float64)
    top = tf.cast(group.constants("max"), tf.float64)
    width = tf.where(high > low, high - low, 1.0)

    def apply(values: tf.Tensor) -> tf.Tensor:
        scaled = bottom + (tf.cast(values, tf.float64) - low) / width * (top - bottom)
        return _where_varied(high > low, scaled, (bottom + top) / 2, values)

    return apply


@_analyzes(transforms.ScaleToGaussian)
def _scale_to_gaussian(group: Group) -> Apply:
    fit, deviation = group.analyzed.tukey, group.analyzed.deviation
    long_tailed = (fit.left > 0) | (fit.right > 0)
    divisor = tf.where(deviation > 0, tf.where(long_tailed, fit.scale, deviation), 1.0)

    def apply(values: tf.Tensor) -> tf.Tensor:
        standard = (tf.cast(values, tf.float64) - fit.location) / divisor
        gaussian = inverse_tukey_hh(standard, fit.left, fit.right)
        return _where_varied(deviation > 0, gaussian, 0.0, values)

    return apply


@_analyzes(transforms.Power)
def _power(group: Group) -> Apply:
    exponent = group.constants("exponent")

    def apply(values: tf.Tensor) -> tf.Tensor:
        # x ** 0 is 1 even for NaN.
        return tf.where(tf.math.is_nan(values), values, tf.pow(values, exponent))

    return apply


@_analyzes(transforms.Clip)
def _clip(group: Group) -> Apply:
    low = _bound(group, "min", "min_quantile")
    high = _bound(group, "max", "max_quantile")

    def apply(values: tf.Tensor) -> tf.Tensor:
        if low is not None:
            values = tf.where(values < low, low, values)
        if high is not None:
            values = tf.where(values > high, high, values)
        return values

    return apply


def _bound(group: Group, value: str, quantile: str) -> tf.Tensor | None:
    first = group.spec
    if getattr(first, value) is not None:
        return group.constants(value)
    if getattr(first, quantile) is not None:
        return _quantiles_at(group.analyzed, [getattr(spec, quantile) for spec in group.specs])
    return None


def _quantiles_at(statistics: Statistics, shares: Sequence[float]) -> tf.Tensor:
    """Returns one quantile per column: float32 [columns]. Ranks are off by at most 0.1 % of the rows."""
    low, high = statistics.range
    inner = statistics.quantiles(_STEPS, epsilon=0.5 / _STEPS)
    ends = [tf.cast(end, tf.float32)[:, tf.newaxis] for end in (low, high)]
    ranks = tf.constant([round(share * _STEPS) for share in shares])
    # For a column that is empty in the train split the result is NaN, and no value compares below or above NaN.
    return nonfinite_to_nan(tf.gather(tf.concat([ends[0], inner, ends[1]], 1), ranks, batch_dims=1))


@_analyzes(transforms.QuantileScale)
def _quantile_scale(group: Group) -> Apply:
    low, high = (tf.cast(end, tf.float32)[:, tf.newaxis] for end in group.analyzed.range)
    intervals = group.spec.quantiles
    inner = group.analyzed.quantiles(intervals, epsilon=_epsilon(intervals))
    points = tf.concat([low, inner, high], 1)
    known = tf.math.is_finite(low[:, 0])
    return lambda values: _where_varied(known, _rank(values, points) / intervals, 0.5, values)


def _rank(values: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Returns positions of values among `points` [columns, n + 1], in 0 .. n; the middle position for equal points."""
    across = tf.transpose(values)
    above = tf.searchsorted(points, across, side="right")
    below = tf.searchsorted(points, across, side="left")
    last = points.shape[1] - 1
    upper = tf.clip_by_value(above, 1, last)
    start = tf.gather(points, upper - 1, batch_dims=1)
    end = tf.gather(points, upper, batch_dims=1)
    between = tf.cast(upper - 1, tf.float32) + (across - start) / (end - start)
    tied = tf.cast(above + below - 1, tf.float32) / 2
    return tf.transpose(tf.clip_by_value(tf.where(above > below, tied, between), 0.0, float(last)))


def bucketize(group: Group, values: tf.Tensor) -> list[tf.Tensor]:
    """Returns ids for each column of `values`, with their domain: int64 [batch] each."""
    boundaries = _boundaries(group)
    # Only the first of equal boundaries counts. A column with no values in the train split has no boundaries.
    first = tf.concat([tf.ones_like(boundaries[:, :1], tf.bool), boundaries[:, 1:] > boundaries[:, :-1]], 1)
    distinct = tf.cast(first & tf.math.is_finite(boundaries), tf.int64)
    buckets_below = tf.pad(tf.cumsum(distinct, axis=1), [[0, 0], [1, 0]])
    bucket = tf.searchsorted(boundaries, tf.transpose(values), side="right")
    ids = 1 + tf.transpose(tf.gather(buckets_below, bucket, batch_dims=1))
    ids = tf.where(tf.math.is_nan(values), tf.constant(0, tf.int64), ids)
    count = len(group.specs)
    highest = tf.unstack(1 + buckets_below[:, -1], num=count)
    columns = tf.unstack(ids, num=count, axis=1)
    return [with_domain(column, high) for column, high in zip(columns, highest, strict=True)]


def _boundaries(group: Group) -> tf.Tensor:
    """Returns increasing inner boundaries: float32 [columns, boundaries]."""
    spec = group.spec
    if spec.boundaries is not None:
        return tf.tile(tf.constant([spec.boundaries], tf.float32), [len(group.specs), 1])
    return group.analyzed.quantiles(spec.buckets, epsilon=_epsilon(spec.buckets))


def _epsilon(buckets: int) -> float:
    """Returns the share of rows by which a boundary may be off: half a bucket at most."""
    return min(RANK_ERROR, 0.5 / buckets)
