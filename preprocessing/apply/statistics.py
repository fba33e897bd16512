"""Analyzers over the present values of number columns: one per statistic for any number of columns.

Statistics are computed in float64: the sum of a billion float32 values needs it, and the spread of a column of large
values (a timestamp) is lost in float32.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.internals.tft_internals import (
    PCACombiner,
    WeightedMeanAndVarCombiner,
    analyzer_nodes,
    combine,
    combine_per_key,
    min_and_max_per_key,
)

RANK_ERROR = 0.01
"""Share of rows by which the rank of a quantile may be off."""
_NO_WEIGHT = 1e-30
"""Weight of the value that pads a batch: too little to move a quantile, and a sketch takes no 0."""
# Deviations below this share of the mean are rounding errors of a constant column. Dividing by them would blow up any
# other value.
_ROUNDING = 1e-9


class Tukey(NamedTuple):
    """Parameters of a Tukey HH distribution, each float64 [columns]."""

    location: tf.Tensor
    scale: tf.Tensor
    left: tf.Tensor
    right: tf.Tensor


class Moments:
    """Mean, deviation and range of number columns over the train split; each is one analyzer, created on first use.

    Every result is float64 [columns]; NaN for a column that is missing in the whole train split.

    Args:
        values: float32 [batch, columns], NaN for missing; the number of columns must be static.
    """

    def __init__(self, values: tf.Tensor):
        self._columns = values.shape[1]
        self._present = tf.math.is_finite(values)
        self._values = tf.cast(values, tf.float64)

    @cached_property
    def mean(self) -> tf.Tensor:
        values = tf.where(self._present, self._values, 0.0)
        sums = tft.sum(tf.concat([values, tf.cast(self._present, tf.float64)], 1), reduce_instance_dims=False)
        total, count = tf.split(sums, 2)
        return total / count  # 0 / 0 is NaN: an empty column has no mean.

    @cached_property
    def deviation(self) -> tf.Tensor:
        """Population standard deviation; 0 for a constant or empty column."""
        # For a single column TFT's result is a scalar; newer NumPy releases refuse to convert a vector to a scalar.
        variance = tft.var(self._values, reduce_instance_dims=self._columns == 1)
        return _without_rounding(tf.reshape(variance, [self._columns]), self.mean)

    @cached_property
    def range(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Smallest and largest value."""
        least = tf.constant(-float("inf"), tf.float64)
        both = [tf.where(self._present, values, least) for values in (-self._values, self._values)]
        largest = tft.max(tf.concat(both, 1), reduce_instance_dims=False)
        minus_low, high = tf.split(tf.where(tf.math.is_finite(largest), largest, float("nan")), 2)
        return -minus_low, high


class Statistics:
    """Statistics of number columns over the train split.

    Args:
        values: float32 [batch, columns], NaN for missing; the number of columns must be static.
        moments: Moments of a matrix that contains these columns; by default, of `values`.
        first: Index of the first of these columns in that matrix.
    """

    def __init__(self, values: tf.Tensor, moments: Moments | None = None, *, first: int = 0):
        self.values = values
        self._moments = moments or Moments(values)
        self._columns = slice(first, first + values.shape[1])
        self._quantiles: dict[tuple[int, float], tf.Tensor] = {}

    @cached_property
    def mean(self) -> tf.Tensor:
        """float64 [columns], NaN for a column that is missing in the whole train split."""
        return self._moments.mean[self._columns]

    @cached_property
    def deviation(self) -> tf.Tensor:
        """Population standard deviation, float64 [columns]; 0 for a constant or empty column."""
        return self._moments.deviation[self._columns]

    @cached_property
    def range(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Smallest and largest value, each float64 [columns], NaN for an empty column."""
        low, high = self._moments.range
        return low[self._columns], high[self._columns]

    def quantiles(self, buckets: int, *, epsilon: float) -> tf.Tensor:
        """Returns the inner boundaries of `buckets` quantile buckets.

        Boundary i of n sorted present values is the value at position floor(i * n / buckets), counted from 0.

        Args:
            epsilon: Largest error of a boundary's rank, as a share of the rows. Measured on a million random
                values the error is a fiftieth of it. A sketch takes 0.2 MB per column at 0.01, 1.5 MB at 0.001.

        Returns:
            float32 [columns, buckets - 1]; infinite for a column that is missing in the whole train split.
        """
        key = (buckets, epsilon)
        if key not in self._quantiles:
            self._quantiles[key] = self._analyze_quantiles(buckets, epsilon)
        return self._quantiles[key]

    def _analyze_quantiles(self, buckets: int, epsilon: float) -> tf.Tensor:
        # The sketch omits a column without values, and the analyzer then fails. One more row of infinities with almost
        # no weight prevents that and marks such a column.
        values = tf.pad(self.values, [[0, 1], [0, 0]], constant_values=float("inf"))
        weights = tf.pad(tf.ones(tf.shape(self.values)[:1]), [[0, 1]], constant_values=_NO_WEIGHT)
        # TF Transform's cache key of a sketch lacks only its accuracy; the name adds that.
        name = f"quantiles_one_in_{round(1 / epsilon)}"
        return tft.quantiles(values, buckets, epsilon, weights=weights, reduce_instance_dims=False, name=name)

    @cached_property
    def tukey(self) -> Tukey:
        """Fit by L-moments, averaged over the batches of the analysis."""
        shape = [tf.shape(self.values, tf.int64)[0], self.values.shape[1]]
        indices = tf.where(tf.math.is_finite(self.values))
        present = tf.SparseTensor(indices, tf.cast(tf.gather_nd(self.values, indices), tf.float64), shape)
        location = tft.tukey_location(present, reduce_instance_dims=False)
        scale = tft.tukey_scale(present, reduce_instance_dims=False)
        return Tukey(location, scale, *tft.tukey_h_params(present, reduce_instance_dims=False))


def mean_and_deviation_per_key(values: tf.Tensor, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns mean and standard deviation of every row's group over the train split, each float64 [batch, 1].

    NaN where the key has no present value in the train split.

    Args:
        values: float32 [batch, 1], NaN for missing.
        keys: string [batch].
    """
    numbers, names = _present_pairs(values, keys)
    with tf.name_scope("statistics_per_key"):
        # TFT's own analyzer per key subtracts the square of the mean, which loses the spread of large values.
        distinct, index = tf.unique(names)
        total = tf.size(distinct)
        count = tf.math.unsorted_segment_sum(tf.ones_like(numbers), index, total)
        means = tf.math.unsorted_segment_mean(numbers, index, total)
        variances = tf.math.unsorted_segment_mean(tf.square(numbers - tf.gather(means, index)), index, total)
        combiner = WeightedMeanAndVarCombiner(np.float64, ())
        states = tf.cast(count, tf.int64), means, variances, tf.zeros_like(count)
        vocabulary, mean, variance = combine_per_key(combiner, distinct, *states)
    deviation = _without_rounding(variance, mean)
    return _of_each_row(mean, vocabulary, keys), _of_each_row(deviation, vocabulary, keys)


def range_per_key(values: tf.Tensor, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns smallest and largest value of every row's group, like `mean_and_deviation_per_key`."""
    numbers, names = _present_pairs(values, keys)
    # TFT's public analyzers per key are only inside mappers, which cannot be applied to a second tensor.
    with tf.name_scope("statistics_per_key"):
        vocabulary, low, high = min_and_max_per_key(numbers, names)
    return _of_each_row(low, vocabulary, keys), _of_each_row(high, vocabulary, keys)


class _CenteredPca(PCACombiner):
    """TFT's principal components, from products of centered values: E[xx'] - mean mean' loses the spread of large ones.

    The state is the sum of products of deviations from the mean, the mean and the number of rows.
    """

    def add_input(self, accumulator: list[np.ndarray], batch_values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the state after a batch, one matrix of rows."""
        (rows,) = batch_values
        mean = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
        return self.merge_accumulators([accumulator, [(rows - mean).T @ (rows - mean), mean, np.array(len(rows))]])

    def merge_accumulators(self, accumulators: Iterable[list[np.ndarray]]) -> list[np.ndarray]:
        """Returns the state of all rows. Source: Chan, Golub, LeVeque 1979, Updating Formulae."""
        products, mean, count = self.create_accumulator()
        for more_products, more_mean, more in accumulators:
            total = max(count + more, 1)
            shift = more_mean - mean
            products = products + more_products + np.outer(shift, shift) * (count * more / total)
            mean, count = mean + shift * (more / total), count + more
        return [products, mean, count]

    def extract_output(self, accumulator: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the components, [width, dimensions], and the mean, [width]."""
        products, mean, count = accumulator
        return [*super().extract_output([products, np.zeros_like(mean), count]), mean]

    def output_tensor_infos(self) -> list[analyzer_nodes.TensorInfo]:
        """Returns the types of the components and of the mean."""
        (components,) = super().output_tensor_infos()
        return [components, analyzer_nodes.TensorInfo(tf.float64, components.shape[:1], None)]


def principal_components(values: tf.Tensor, dimensions: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first principal components of the train split as columns, and its mean.

    Args:
        values: float64 [batch, width], finite.

    Returns:
        float64 [width, dimensions], in order of descending variance, and float64 [width].
    """
    with tf.name_scope("principal_components"):
        combiner = _CenteredPca((values.shape[1], dimensions), dimensions, np.float64)
        components, mean = combine(combiner, values)
    return components, mean


def _without_rounding(variance: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """Returns the standard deviation, 0 where it is a rounding error."""
    return tf.sqrt(tf.where(variance > tf.square(_ROUNDING * mean), variance, 0.0))


def _present_pairs(values: tf.Tensor, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    column = values[:, 0]
    present = tf.math.is_finite(column)
    return tf.cast(tf.boolean_mask(column, present), tf.float64), tf.boolean_mask(keys, present)


def _of_each_row(statistic: tf.Tensor, vocabulary: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """Looks up a statistic by key: `unique` numbers the vocabulary first, in its order, as it comes before the keys."""
    size = tf.size(vocabulary)
    position = tf.unique(tf.concat([vocabulary, keys], 0)).idx[size:]
    with_unseen = tf.concat([statistic, tf.constant([float("nan")], tf.float64)], 0)
    return tf.gather(with_unseen, tf.minimum(position, size))[:, tf.newaxis]
