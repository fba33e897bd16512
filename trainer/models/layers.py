"""Keras layers that encode ids and numbers for a network. Id 0 of a multi-valued feature is padding."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

_ABSENT = -1e4
"""Score of what is absent before a softmax: its power is 0, and float16, whose largest number is 65,504, holds it."""


class OneHot(keras.layers.Layer):
    """A list of ids int64 [batch] -> float [batch, sum of sizes]: each one-hot, side by side.

    Attributes:
        owners: The position in the list of the ids of each column.
        places: The id that each column stands for.
    """

    def __init__(self, sizes: Sequence[int], **options):
        super().__init__(**options)
        self.owners = np.repeat(np.arange(len(sizes)), sizes)
        self.places = np.concatenate([np.arange(size, dtype=np.int64) for size in sizes])

    def call(self, ids):
        of_columns = tf.gather(tf.stack(ids, axis=1), self.owners, axis=1)
        return tf.cast(tf.equal(of_columns, self.places), self.compute_dtype)

    def compute_output_shape(self, shapes):
        return (shapes[0][0], len(self.places))


class MultiHot(keras.layers.Layer):
    """ids int64 [batch, n] -> float [batch, size]: 1 for every id in the row, or the sum of its weights.

    The column of id 0 stays 0.

    Args:
        how: The pooling of `Pool` that determines the value of an id; None as above.
    """

    def __init__(self, size: int, how: str | None = None, **options):
        super().__init__(**options)
        self.size, self.how = size, how

    def call(self, ids, weights=None):
        """Weights: float32 [batch, n] or None."""
        limits = {"minlength": self.size, "maxlength": self.size, "axis": -1}
        present = (np.arange(self.size) > 0).astype(np.float32)
        if self.how == "max" or (self.how is None and weights is None):
            counts = tf.math.bincount(ids, binary_output=True, dtype=tf.float32, **limits)
        else:
            share = _share(ids, weights, "float32")
            counts = tf.math.bincount(ids, weights=share, **limits)
            counts = _divided(counts, share, self.how or "sum")
        return tf.cast(counts * present, self.compute_dtype)

    def compute_output_shape(self, ids_shape, weights_shape=None):
        return (ids_shape[0], self.size)


class MaskedIds(keras.layers.Layer):
    """A list of ids int64 [batch] -> the same; in training a few are replaced by ids of unseen values.

    So the weights of missing and unknown categories are trained even if train has no such values.

    Args:
        unseen: The number n of ids of unseen values, per feature: they are 0 .. n - 1 and equally likely. 0 replaces
            none.
    """

    def __init__(self, unseen: Sequence[int], rate: float, **options):
        super().__init__(**options)
        self.unseen, self.rate = np.asarray(unseen, np.float32), rate
        self._seeds = keras.random.SeedGenerator()

    def call(self, ids, training=False):
        if not training:
            return list(ids)
        together = keras.ops.stack(ids, axis=1)
        drawn = keras.random.uniform(keras.ops.shape(together), dtype="float32", seed=self._seeds) / self.rate
        other = keras.ops.cast(keras.ops.floor(drawn * self.unseen), together.dtype)
        masked = (drawn < 1.0) & (self.unseen > 0)
        return keras.ops.unstack(keras.ops.where(masked, other, together), num=len(ids), axis=1)

    def compute_output_spec(self, ids, training=False):
        return [keras.KerasTensor(tensor.shape, tensor.dtype) for tensor in ids]


class NumberEmbedding(keras.layers.Layer):
    """A list of numbers float32 [batch] -> float [batch, numbers * width] and [batch, numbers], linear between knots.

    Each number is encoded as its progress through each interval, 0 before the interval and 1 after it. Weights per
    number map the progress to a vector. Beside all vectors are the numbers themselves, in standard deviations of
    their knots. Beyond the outer knots the output is constant, so that an extreme number gets an ordinary prediction.
    Source: Gorishniy et al. 2022, On Embeddings for Numerical Features in Tabular Deep Learning.

    Args:
        knots: float32 [numbers, intervals + 1], each row rising; an interval of width 0 stays 0.
    """

    def __init__(self, knots: np.ndarray, width: int, **options):
        super().__init__(autocast=False, **options)
        self._first_knots, self.width = knots, width

    def build(self, shapes):
        numbers, intervals = self._first_knots.shape[0], self._first_knots.shape[1] - 1
        self.knots = self.add_weight(shape=(numbers, intervals + 1), dtype="float32", trainable=False, name="knots")
        self.knots.assign(self._first_knots)
        start = keras.initializers.RandomUniform(-(intervals**-0.5), intervals**-0.5)
        self.kernel = self.add_weight(shape=(numbers, intervals, self.width), initializer=start, name="kernel")
        self.bias = self.add_weight(shape=(numbers, self.width), initializer="zeros", name="bias")

    def call(self, numbers):
        x = keras.ops.stack(numbers, axis=1)
        vectors = keras.ops.reshape(keras.ops.relu(self._vectors(numbers, x)), (-1, len(numbers) * self.width))
        return [tf.cast(part, self.compute_dtype) for part in (vectors, self._standardised(x))]

    def compute_output_shape(self, shapes):
        return [(shapes[0][0], len(shapes) * width) for width in (self.width, 1)]

    def _vectors(self, numbers, x):
        """Returns progress * weights summed over the intervals, with the bias, float32 [batch, numbers, width].

        Progress is 1 in all intervals before that of a number and 0 in all intervals after it. So the sum is gathered
        from running sums of the weights, which takes far less time than a product over all intervals.
        """
        lower, wide = self.knots[:, :-1], self.knots[:, 1:] - self.knots[:, :-1]
        rises = tf.where(wide[:, :, None] > 0, tf.convert_to_tensor(self.kernel), 0.0)
        reached = tf.cumsum(rises, axis=1, exclusive=True) + self.bias[:, None, :]
        # A transposition would take three times as long.
        intervals = tf.searchsorted(self.knots[:, 1:-1], tf.stack(numbers), side="right")
        interval = tf.stack(tf.unstack(intervals, num=len(numbers)), axis=1)
        rows = interval + np.arange(wide.shape[0], dtype=np.int32) * wide.shape[1]

        def of_interval(values, width):
            return tf.gather(tf.reshape(values, [-1, width]), rows)

        begin, length = tf.unstack(of_interval(tf.stack([lower, wide], axis=2), 2), axis=2)
        progress = keras.ops.clip(tf.math.divide_no_nan(x - begin, length), 0.0, 1.0)
        return of_interval(reached, self.width) + progress[:, :, None] * of_interval(rises, self.width)

    def _standardised(self, x):
        """Returns numbers float32 [batch, numbers], clipped to their knots and standardised by the knots' moments."""
        # Knots at the end that repeat the last one are padding.
        rises = self.knots[:, 1:] > self.knots[:, :-1]
        share = keras.ops.cast(keras.ops.pad(rises, [[0, 0], [1, 0]], constant_values=True), "float32")
        share /= keras.ops.sum(share, axis=1, keepdims=True)
        mean = keras.ops.sum(share * self.knots, axis=1)
        deviation = keras.ops.sqrt(keras.ops.sum(share * (self.knots - mean[:, None]) ** 2, axis=1))
        return tf.math.divide_no_nan(keras.ops.clip(x, self.knots[:, 0], self.knots[:, -1]) - mean, deviation)


class IdTable(keras.layers.Embedding):
    """One vector per id: ids int64 [batch] -> float [batch, width].

    For lists of ids, int64 [batch, n], `pool` (sum, mean or sqrt_n) combines the vectors of the ids that are not 0 into
    one vector, float [batch, width], as `Pool` does.
    """

    def call(self, ids, weights=None, pool=None):
        """Weights: float32 [batch, n] or None; pool: None looks up every id."""
        if pool is None:
            return tf.cast(_looked_up(self.embeddings, ids), self.compute_dtype)
        share = _share(ids, weights, "float32")
        return tf.cast(_divided(self._sum(ids, share), share, pool), self.compute_dtype)

    def compute_output_shape(self, ids_shape, weights_shape=None, pool=None):
        return (*(ids_shape if pool is None else ids_shape[:1]), self.output_dim)

    def compute_output_spec(self, ids, weights=None, pool=None):
        return keras.KerasTensor(self.compute_output_shape(ids.shape, pool=pool), self.compute_dtype)

    def _sum(self, ids, share):
        """Returns the sum of share * vector over each row, float32 [batch, width].

        It is the product of a sparse matrix [batch, ids] and the table. So the vectors of a batch, of which a long text
        has thousands, are never in memory. In a graph, rows of one known length, the only ones that XLA compiles, use a
        dense product.
        """
        table = tf.cast(tf.convert_to_tensor(self.embeddings), tf.float32)
        if ids.shape[1] is not None and not tf.executing_eagerly():
            return tf.einsum("bnw,bn->bw", tf.gather(table, ids), share)
        positions = tf.where(tf.not_equal(share, 0.0))
        indices = tf.stack([positions[:, 0], tf.cast(tf.gather_nd(ids, positions), tf.int64)], axis=1)
        shape = [tf.shape(ids, out_type=tf.int64)[0], self.input_dim]
        return tf.sparse.sparse_dense_matmul(tf.SparseTensor(indices, tf.gather_nd(share, positions), shape), table)


class Pool(keras.layers.Layer):
    """vectors float [batch, n, width] of ids int64 [batch, n] -> float [batch, width], over the ids that are not 0.

    mean divides by their number, or by the sum of their weights; sqrt_n by the root of the sum of squared weights; sum
    divides by nothing; max takes the largest of each dimension, whatever the weights. A row without ids becomes 0.
    """

    def __init__(self, how: str, **options):
        super().__init__(**options)
        self.how = how

    def call(self, vectors, ids, weights=None):
        """Weights: float32 [batch, n] or None."""
        if self.how == "max":
            return _largest(vectors, keras.ops.not_equal(ids, 0))
        share = _share(ids, weights, vectors.dtype)
        return _divided(keras.ops.einsum("bnw,bn->bw", vectors, share), share, self.how)

    def compute_output_shape(self, vectors_shape, ids_shape, weights_shape=None):
        return (vectors_shape[0], vectors_shape[2])


def _looked_up(table, ids):
    """Returns the rows of a variable for ids; keras.ops.take would first check for negative ids, which never occur."""
    return tf.gather(tf.convert_to_tensor(table), ids)


def _share(ids, weights, dtype):
    """Returns the weight of each id, [batch, n]: 0 for padding, and without weights 1 for all others."""
    share = keras.ops.cast(keras.ops.not_equal(ids, 0), dtype)
    return share if weights is None else share * keras.ops.cast(weights, dtype)


def _largest(vectors, present):
    lowest = keras.ops.where(present[:, :, None], vectors, vectors.dtype.min)
    # One more element, so that a row without any has a maximum.
    largest = keras.ops.max(keras.ops.pad(lowest, [[0, 0], [0, 1], [0, 0]], constant_values=vectors.dtype.min), axis=1)
    return keras.ops.where(keras.ops.any(present, axis=1)[:, None], largest, 0.0)


def _divided(total, share, how: str):
    if how == "sum":
        return total
    mass = keras.ops.sum(share if how == "mean" else keras.ops.square(share), axis=1, keepdims=True)
    return tf.math.divide_no_nan(total, mass if how == "mean" else keras.ops.sqrt(mass))


class AttentionPool(keras.layers.Layer):
    """vectors float [batch, n, width] of ids int64 [batch, n] -> float [batch, width]: a mean with learned weights.

    The weight of an element is the softmax of its vector's product with a trained query, over the ids of its row that
    are not 0. The query is initialized with 0, so that training begins from the plain mean. A row without ids gives 0.
    Source: Yang et al. 2016, Hierarchical Attention Networks, equations 5 to 7, without their projection.
    """

    def build(self, vectors_shape, ids_shape, weights_shape=None):
        self.query = self.add_weight(shape=(vectors_shape[2],), initializer="zeros", name="query")

    def call(self, vectors, ids, weights=None):
        """Weights: float32 [batch, n], by which the learned ones are multiplied, or None."""
        scores = keras.ops.einsum("bnw,w->bn", vectors, self.query)
        shares = masked_softmax(scores, keras.ops.not_equal(ids, 0))
        if weights is not None:
            shares *= keras.ops.cast(weights, shares.dtype)
            shares = tf.math.divide_no_nan(shares, keras.ops.sum(shares, axis=1, keepdims=True))
        return keras.ops.einsum("bnw,bn->bw", vectors, shares)


def masked_softmax(scores, present):
    """Returns the softmax of scores float [..., n] over those present, bool [..., n]; 0 if none is."""
    scores = keras.ops.where(present, scores, _ABSENT)
    padded = keras.ops.pad(scores, [[0, 0]] * (len(scores.shape) - 1) + [[0, 1]], constant_values=_ABSENT)
    highest = keras.ops.max(padded, axis=-1, keepdims=True)
    powers = keras.ops.where(present, keras.ops.exp(scores - keras.ops.stop_gradient(highest)), 0.0)
    return tf.math.divide_no_nan(powers, keras.ops.sum(powers, axis=-1, keepdims=True))


class IdWeights(keras.layers.Layer):
    """The linear part over single-valued ids: a list of int64 [batch] -> float [batch, units].

    One weight per id and unit, summed over the features. All tables are one variable, so that a step has one gather
    and one update, however many features there are.
    """

    def __init__(self, sizes: Sequence[int], units: int, regularizer=None, **options):
        super().__init__(**options)
        self.offsets = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
        self.total = sum(sizes)
        self.units = units
        self.regularizer = regularizer

    def build(self, shapes):
        self.table = self.add_weight(
            shape=(self.total, self.units), initializer="zeros", regularizer=self.regularizer, name="table"
        )

    def call(self, ids):
        rows = keras.ops.stack(ids, axis=1) + self.offsets
        return keras.ops.sum(_looked_up(self.table, rows), axis=1)


class Bias(keras.layers.Layer):
    """x float [batch, n] -> x + b, one trained number per column, 0 at first."""

    def build(self, shape):
        self.bias = self.add_weight(shape=(shape[-1],), initializer="zeros", name="bias")

    def call(self, x):
        return x + self.bias


class Affine(keras.layers.Layer):
    """x float [batch, n] -> x * scale + offset float32, with numbers computed from the data.

    It sets the initial output and the unit of a network to those of the labels: a regression's mean and deviation, or
    the log odds of the classes. A calibration changes them, and functions that were traced before follow: the numbers
    are variables, though not weights, which updates, checkpoints and warm starts would change.

    Attributes:
        numbers: scale float32 [] and offset float32 [n].
    """

    def __init__(self, scale: float, offset: Sequence[float] | np.ndarray, **options):
        super().__init__(dtype="float32", **options)
        self.numbers = [tf.Variable(np.asarray(value, np.float32), trainable=False) for value in (scale, offset)]

    @property
    def scale(self) -> float:
        """The factor of every column."""
        return float(self.numbers[0].numpy())

    @property
    def offset(self) -> np.ndarray:
        """What is added to each column, float32 [n]."""
        return self.numbers[1].numpy()

    def correct(self, scale: float, offset: Sequence[float] | np.ndarray) -> None:
        """Sets both."""
        for number, value in zip(self.numbers, (scale, offset), strict=True):
            number.assign(value)

    def call(self, x):
        scale, offset = self.numbers
        return x * scale + offset
