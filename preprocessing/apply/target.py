"""Target encoding: sums of the label per value and fold, counted exactly, and looked up in the transform graph.

The analyzer counts tokens of the form FOLD, PART and VALUE. A part is the number of rows, the number of rows of a
class, or a sum of numbers. A number is added as a whole number of steps, whose size depends on its magnitude only, so
sums do not depend on the order of the rows. Spans are cached and merged as those of a vocabulary.
"""

import base64
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.counted_vocabulary import Limits, counted_vocabulary
from fullpass.preprocessing.apply.label import labelled
from fullpass.preprocessing.apply.vocabulary import as_word
from fullpass.preprocessing.columns.outputs import target_name
from fullpass.preprocessing.expressions.tensor_ops import StringColumn
from fullpass.preprocessing.features.cross import Cross
from fullpass.preprocessing.features.feature import TargetFeature, transformed_name
from fullpass.preprocessing.features.label import Label
from fullpass.preprocessing.features.target_feature import encoded_parts
from fullpass.preprocessing.internals.tft_internals import lookup_in_file

_ALL = Limits(min_count=-(2**63))
_TOTAL = b"*"
_VALUE = "="
_LEAST, _STEP, _MAGNITUDES, _FRACTION = -40, 10, 12, 24
"""Numbers from 2**-40 to 2**80 in twelve magnitudes of 2**10, with at least 24 bits each: relative errors are below
2**-25, and a sum has room for 2**29 numbers of the greatest size of a magnitude."""
_ROUNDING = 1e-9


class _Amounts(NamedTuple):
    """What rows add to a part: part, string [batch]; steps, int64 [batch]."""

    part: tf.Tensor
    steps: tf.Tensor


def target(name: str, feature: TargetFeature, columns: Columns) -> dict[str, tf.Tensor]:
    """Transforms a category into the label's mean for it: float32 [batch], or [batch, classes] if multiclass."""
    label = columns.config.label
    parts = encoded_parts(label)
    keys = _keys([columns.token(one) for one in feature.columns or (feature.column or name,)])
    fold = tf.where(columns.train_row >= 0, _fold(columns.train_row, feature.folds), -1)
    sums = _sums(keys, fold, parts, columns, feature.folds, name)
    found = sums(tf.concat([keys.values, [_TOTAL]], 0))
    # Of a train row the sums of its own fold are left out; other rows have no fold.
    others = tf.one_hot(fold, feature.folds, on_value=0.0, off_value=1.0, dtype=tf.float64)[:, :, tf.newaxis]
    of_key, of_all = (tf.reduce_sum(of * others, axis=1) for of in (found[:-1], found[-1:]))
    encoded = _encode(of_key, of_all, label, feature.smoothing)
    return {transformed_name(name): encoded if label.task == "multiclass" else encoded[:, 0]}


def _keys(columns: Sequence[StringColumn]) -> StringColumn:
    """Returns the words by which values are looked up; those of missing values are empty."""
    present = tf.reduce_all(tf.stack([column.present for column in columns]), axis=0)
    words = as_word(tf.strings.join([column.values for column in columns], Cross.separator))
    return StringColumn(tf.where(present, tf.strings.join([_VALUE, words]), ""), present)


def _fold(row: tf.Tensor, folds: int) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(tf.strings.as_string(row), folds)


def _sums(
    keys: StringColumn, fold: tf.Tensor, parts: Sequence[str], columns: Columns, folds: int, name: str
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function from words, string [n], to sums in train: float64 [n, folds, parts], 0 if unseen."""
    label = columns.config.label
    value, usable = labelled(label, columns)
    usable &= fold >= 0
    of_fold = tf.strings.as_string(fold)
    added = _amounts(label, value)
    tokens = [tf.strings.join([of_fold, one.part, keys.values], " ") for one in added]
    kept = [usable & tf.not_equal(one.steps, 0) for one in added]
    path = counted_vocabulary(
        tf.concat([tf.boolean_mask(*pair) for pair in zip(tokens, kept, strict=True)], 0),
        _ALL,
        target_name(name),
        learn=partial(_lines, folds=folds, parts=parts),
        amounts=tf.concat([tf.boolean_mask(one.steps, keep) for one, keep in zip(added, kept, strict=True)], 0),
    )
    unseen = _encoded(np.zeros((folds, len(parts))))

    def make(path: tf.Tensor) -> tf.lookup.StaticHashTable:
        initializer = tf.lookup.TextFileInitializer(path, tf.string, 0, tf.string, 1, delimiter=" ")
        return tf.lookup.StaticHashTable(initializer, unseen)

    def find(words: tf.Tensor) -> tf.Tensor:
        found, _ = lookup_in_file(make, path, words)
        numbers = tf.io.decode_raw(tf.io.decode_base64(found), tf.float64)
        return tf.reshape(numbers, [-1, folds, len(parts)])

    return find


def _amounts(label: Label, value: tf.Tensor) -> list[_Amounts]:
    """Returns what rows with this label add to the parts."""
    one = tf.ones(tf.shape(value), tf.int64)
    rows = _Amounts(tf.fill(tf.shape(value), "n"), one)
    if label.task == "binary":
        return [rows, _Amounts(tf.fill(tf.shape(value), "1"), tf.cast(value, tf.int64))]
    if label.task == "multiclass":
        return [rows, _Amounts(tf.strings.as_string(value), one)]
    number = tf.cast(value, tf.float64)
    return [rows, _steps("s", number), _steps("q", tf.square(number))]


def _steps(part: str, value: tf.Tensor) -> _Amounts:
    limits = tf.constant([2.0 ** (_LEAST + _STEP * (i + 1)) for i in range(_MAGNITUDES - 1)], tf.float64)
    magnitude = tf.reduce_sum(tf.cast(tf.abs(value)[:, tf.newaxis] >= limits, tf.int32), axis=1)
    sizes = tf.constant([2.0 ** (_LEAST + _STEP * i - _FRACTION) for i in range(_MAGNITUDES)], tf.float64)
    bound = 2.0 ** (_LEAST + _STEP * _MAGNITUDES)
    steps = tf.round(tf.clip_by_value(value, -bound, bound) / tf.gather(sizes, magnitude))
    return _Amounts(tf.strings.join([part, tf.strings.as_string(magnitude)]), tf.cast(steps, tf.int64))


def _lines(pairs: list[tuple[int, bytes]], *, folds: int, parts: Sequence[str]) -> list[bytes]:
    """Returns a line per value, and one for the total: a word, and float64 [folds, parts] in base64."""
    sums: dict[bytes, dict[tuple[int, int], int]] = defaultdict(lambda: defaultdict(int))
    for count, token in pairs:
        fold, part, word = token.split(b" ")
        of_number = part[:1] in (b"s", b"q")
        column = parts.index((part[:1] if of_number else part).decode())
        exact = count << (_STEP * int(part[1:])) if of_number else count
        for key in (word, _TOTAL) if word else (_TOTAL,):
            sums[key][int(fold), column] += exact
    lines = []
    for word in sorted(sums.keys() | {_TOTAL}):
        array = np.zeros((folds, len(parts)))
        for (row, column), exact in sums[word].items():
            array[row, column] = exact / 2 ** (_FRACTION - _LEAST) if parts[column] in ("s", "q") else exact
        lines.append(word + b" " + _encoded(array))
    return lines


def _encoded(array: np.ndarray) -> bytes:
    """Returns numbers as `tf.io.decode_base64` and `tf.io.decode_raw` read them."""
    return base64.urlsafe_b64encode(array.astype("<f8").tobytes()).rstrip(b"=")


def _encode(of_key: tf.Tensor, of_all: tf.Tensor, label: Label, smoothing: float) -> tf.Tensor:
    """Returns the smoothed means in deviations from those of all rows: float32 [batch, numbers].

    Args:
        of_key, of_all: Sums over the value's rows, and over all rows: float64 [batch, parts].
    """
    sums = slice(1, 2) if label.task == "regression" else slice(1, None)
    mean = tf.math.divide_no_nan(of_all[:, sums], of_all[:, :1])
    smoothed = of_key[:, sums] + smoothing * mean
    rows = of_key[:, :1] + smoothing
    encoded = tf.where(rows > 0, tf.math.divide_no_nan(smoothed, rows), mean)
    square = tf.math.divide_no_nan(of_all[:, 2:3], of_all[:, :1]) if label.task == "regression" else mean
    variance = square - tf.square(mean)
    constant = variance <= _ROUNDING * tf.square(mean)
    deviation = tf.sqrt(tf.where(constant, tf.ones_like(variance), variance))
    return tf.cast(tf.where(constant, tf.zeros_like(mean), (encoded - mean) / deviation), tf.float32)
