"""Target encoding: sums of the label per value and fold, counted exactly, and what they give, looked up in the graph.

The analyzer counts tokens of the form FOLD, PART and VALUE. A part is the number of rows, the number of rows of a
class, or a sum of numbers or of their squares. A number is added as a whole number of steps, whose size depends on its
magnitude only; a float32 is exact, and so is its square. So sums depend neither on the order of the rows nor on the
spans, which are cached and merged as those of a vocabulary. The encodings follow from whole numbers, rounded once:
numbers that differ by little of their size, such as times in seconds since 1970, keep their differences.
"""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Limits, counted_vocabulary
from fullpass.preprocessing.apply.label import labelled
from fullpass.preprocessing.apply.token_table import look_up
from fullpass.preprocessing.apply.vocabulary import as_word
from fullpass.preprocessing.columns.outputs import target_name
from fullpass.preprocessing.expressions.tensor_ops import StringColumn
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import TargetFeature
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.features.output import transformed_name
from fullpass.preprocessing.features.target_feature import encoded_parts

_ALL = Limits(min_count=-(2**63))
"""Keeps every token, since a sum of labels may be negative."""
_NO_VALUE = b"*"
_VALUE = "="
_LEAST, _STEP, _MAGNITUDES, _FRACTION = -40, 10, 12, 24
"""Numbers from 2**-40 to 2**80 in twelve magnitudes of 2**10, with at least 24 bits each, as float32 has: a number has
at most 2**34 steps, and a sum has room for 2**29 numbers."""
_HALF = 17
"""Half of the bits of the largest number of steps. A square is its lower 2 * _HALF bits (part r), and the bits above
(part q)."""


class _Amounts(NamedTuple):
    """What rows add to a part: part and words, string [batch]; steps, int64 [batch]. The word "" is of no value."""

    part: tf.Tensor
    steps: tf.Tensor
    words: tf.Tensor


def target(name: str, feature: TargetFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a category into the label's mean for it: float32 [batch], or [batch, classes] if multiclass."""
    found = [columns.token(one) for one in feature.columns or (feature.column or name,)]
    present = tf.reduce_all(tf.stack([column.present for column in found]), axis=0)
    values = tf.strings.join([column.values for column in found], Cross.separator)
    return target_of_values(name, feature, columns, StringColumn(values, present))


def target_of_values(name: str, feature: TargetFeature, columns: Columns, values: StringColumn) -> dict[str, tf.Tensor]:
    """Transforms values, such as those of a cross, into the label's mean for them, as `target` does."""
    numbers = encoded_parts(columns.config.label)
    words = tf.where(values.present, tf.strings.join([_VALUE, as_word(values.values)]), "")
    hashed = tf.strings.to_hash_bucket_fast(tf.strings.as_string(columns.train_row), feature.folds)
    fold = tf.where(columns.train_row >= 0, hashed, -1)
    path = _encodings(words, fold, numbers, columns, feature, name)
    unseen = _encoded(np.zeros((feature.folds + 1, len(numbers))))

    def make(path: tf.Tensor) -> tf.lookup.StaticHashTable:
        initializer = tf.lookup.TextFileInitializer(path, tf.string, 0, tf.string, 1, delimiter=" ")
        return tf.lookup.StaticHashTable(initializer, unseen)

    of_words = tf.io.decode_raw(tf.io.decode_base64(look_up(make, path, words)), tf.float32)
    by_fold = tf.reshape(of_words, [-1, feature.folds + 1, len(numbers)])
    # A train row takes the encoding without its fold; other rows have no fold, and take the last one, of all rows.
    encoded = tf.gather(by_fold, tf.where(fold < 0, tf.constant(feature.folds, tf.int64), fold), batch_dims=1)
    return {transformed_name(name): encoded if columns.config.label.task == "multiclass" else encoded[:, 0]}


def _encodings(
    words: tf.Tensor, fold: tf.Tensor, numbers: Sequence[str], columns: Columns, feature: TargetFeature, name: str
) -> tf.Tensor:
    """Returns the path of the file of encodings by word. An analyzer."""
    value, usable = labelled(columns.config.label, columns)
    usable &= fold >= 0
    of_fold = tf.strings.as_string(fold)
    added = _amounts(columns.config.label, value, words)
    tokens = [tf.strings.join([of_fold, one.part, one.words], " ") for one in added]
    kept = [usable & tf.not_equal(one.steps, 0) for one in added]
    learn = partial(_lines, folds=feature.folds, numbers=numbers, smoothing=feature.smoothing)
    return counted_vocabulary(
        tf.concat([tf.boolean_mask(*pair) for pair in zip(tokens, kept, strict=True)], 0),
        _ALL,
        target_name(name),
        learn=learn,
        amounts=tf.concat([tf.boolean_mask(one.steps, keep) for one, keep in zip(added, kept, strict=True)], 0),
    )


def _amounts(label: Label, value: tf.Tensor, words: tf.Tensor) -> list[_Amounts]:
    """Returns what rows with this label add to the parts; squares are added for all values together."""
    one = tf.ones(tf.shape(value), tf.int64)
    rows = _Amounts(tf.fill(tf.shape(value), "n"), one, words)
    if label.task == "binary":
        return [rows, _Amounts(tf.fill(tf.shape(value), "1"), tf.cast(value, tf.int64), words)]
    if label.task == "multiclass":
        return [rows, _Amounts(tf.strings.as_string(value), one, words)]
    magnitude, steps = _steps(tf.cast(value, tf.float64))
    high, low = tf.bitwise.right_shift(tf.abs(steps), _HALF), tf.abs(steps) % (1 << _HALF)
    below = (2 * high * low) * (1 << _HALF) + low * low
    parts = {
        "s": (steps, words),
        "q": (high * high + tf.bitwise.right_shift(below, 2 * _HALF), tf.zeros_like(words)),
        "r": (below % (1 << 2 * _HALF), tf.zeros_like(words)),
    }
    return [rows, *(_Amounts(tf.strings.join([part, magnitude]), *added) for part, added in parts.items())]


def _steps(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the magnitude of each number, as text, and its number of steps, int64 [batch]."""
    limits = tf.constant([2.0 ** (_LEAST + _STEP * (i + 1)) for i in range(_MAGNITUDES - 1)], tf.float64)
    magnitude = tf.reduce_sum(tf.cast(tf.abs(value)[:, tf.newaxis] >= limits, tf.int32), axis=1)
    sizes = tf.constant([2.0 ** (_LEAST + _STEP * i - _FRACTION) for i in range(_MAGNITUDES)], tf.float64)
    bound = 2.0 ** (_LEAST + _STEP * _MAGNITUDES)
    steps = tf.round(tf.clip_by_value(value, -bound, bound) / tf.gather(sizes, magnitude))
    return tf.strings.as_string(magnitude), tf.cast(steps, tf.int64)


def _lines(pairs: list[tuple[int, bytes]], *, folds: int, numbers: Sequence[str], smoothing: float) -> list[bytes]:
    """Returns a line per value: a word, and its encodings without each fold and of all rows, in base64."""
    # Sums of classes have room in int64; those of numbers are Python's integers, which have no limit.
    kind: Any = object if numbers == ("s",) else np.int64
    places = {word: i for i, word in enumerate(sorted({token.rpartition(b" ")[2] for _, token in pairs} | {b""}))}
    sums = np.zeros((len(places), folds, 1 + len(numbers)), kind)
    squares = np.zeros((folds, 1), kind)
    columns = {part: i for i, part in enumerate(("n", *numbers))}
    for count, token in pairs:
        fold, part, word = token.split(b" ")
        name = part.decode()
        if name[0] in "qr":
            squares[int(fold)] += count << 2 * _STEP * int(name[1:]) + (2 * _HALF if name[0] == "q" else 0)
        elif name[0] == "s":
            sums[places[word], int(fold), columns["s"]] += count << _STEP * int(name[1:])
        else:
            sums[places[word], int(fold), columns[name]] += count
    of_all = _without_each(sums.sum(axis=0))
    # The square of a class is the class itself: 0 or 1.
    of_squares = _without_each(squares) if numbers == ("s",) else of_all[:, 1:]
    # Of n rows with sum s, among N rows with sum S and squares Q, the smoothed mean less the mean of all is
    # (s + smoothing * S / N) / (n + smoothing) - S / N, and the variance of all is Q / N - (S / N)**2.
    variance = of_all[:, :1] * of_squares - of_all[:, 1:] ** 2
    deviation = np.sqrt(variance.astype(np.float64))
    rows, values = (part for part in np.split(_without_each(sums), [1], axis=2))
    difference = (values * of_all[:, :1] - rows * of_all[:, 1:]).astype(np.float64)
    unit = (rows.astype(np.float64) + smoothing) * deviation
    encodings = np.divide(difference, unit, out=np.zeros_like(difference), where=unit > 0)
    return [(word or _NO_VALUE) + b" " + _encoded(encodings[place]) for word, place in places.items()]


def _without_each(sums: np.ndarray) -> np.ndarray:
    """Returns the sums of all rows but those of each fold, and of all rows: [..., folds + 1, parts].

    Args:
        sums: Those of each fold, [..., folds, parts].
    """
    of_all = sums.sum(axis=-2, keepdims=True)
    return np.concatenate([of_all - sums, of_all], axis=-2)


def _encoded(array: np.ndarray) -> bytes:
    """Returns numbers as `tf.io.decode_base64` and `tf.io.decode_raw` read them, as float32."""
    return base64.urlsafe_b64encode(array.astype("<f4").tobytes()).rstrip(b"=")
