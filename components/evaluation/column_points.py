"""Selects the values of a raw column at which its partial dependence is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fullpass.components.evaluation.column_readers import ColumnReaders
from fullpass.preprocessing.dates.date_format import MICROSECONDS_PER_DAY, DateFormat, compile_format
from fullpass.preprocessing.dates.date_ops import parse

DenseRows = Mapping[str, np.ndarray]
"""Raw column -> its values, dense: float32 or object of bytes."""


@dataclass(frozen=True, eq=False)
class Points:
    """The values of a column at which the dependence is measured.

    Attributes:
        kind: `number`, `date` or `value`.
        values: The values as model inputs, [points].
        texts: The values as text, [points].
        places: Positions on the axis: numbers, or days since 1970, ascending, [points]; empty for unordered values.
    """

    kind: str
    values: np.ndarray
    texts: tuple[str, ...]
    places: tuple[float, ...]


def points_of(column: ColumnReaders, values: np.ndarray, most: int) -> Points | str:
    """Returns the points of a column, or the reason why it has none.

    Args:
        column: The column and the features that read it.
        values: Values of some rows, dense.
    """
    if column.left_out:
        return column.left_out
    if column.kind == "number":
        known = values[np.isfinite(values)]
        points = _ordered("number", known, known.astype(np.float64), [f"{value:.7g}" for value in known], most)
    elif column.kind == "date":
        points = _dates(values[values != b""], compile_format(column.formats[0]), most)
    else:
        return _frequent(values[values != b""], most)
    return points if len(points.values) > 1 else "it has one value or none"


def _dates(values: np.ndarray, written: DateFormat, most: int) -> Points:
    """Returns dates, with positions in days since 1970 in UTC; epoch numbers get dates as their texts."""
    read = parse(tf.constant(values, tf.string), written)
    valid = read.valid.numpy()
    values = values[valid]
    microseconds = (read.days * MICROSECONDS_PER_DAY + read.microseconds - read.offset).numpy()[valid]
    dates = np.datetime_as_string(microseconds.astype("datetime64[us]"), unit="s") if written.unit else values
    texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in dates]
    return _ordered("date", values, microseconds / MICROSECONDS_PER_DAY, texts, most)


def _ordered(kind: str, values: np.ndarray, places: np.ndarray, texts: Sequence[str], most: int) -> Points:
    """Returns all distinct values; if there are too many, those at evenly spaced quantiles without the tails."""
    distinct, first = np.unique(places, return_index=True)
    if len(distinct) > most:
        levels = (np.arange(most) + 0.5) / most
        wanted = np.unique(np.quantile(places, levels, method="nearest"))
        first = first[np.searchsorted(distinct, wanted)]
        distinct = wanted
    return Points(kind, values[first], tuple(texts[i] for i in first), tuple(distinct.tolist()))


def _frequent(values: np.ndarray, most: int) -> Points | str:
    """Returns the most frequent values, the most frequent first."""
    distinct, counts = np.unique(values.astype(object), return_counts=True)
    if len(distinct) < 2:
        return "it has one value or none"
    if len(distinct) > most and counts.max() == 1:
        return "its values do not repeat"
    chosen = distinct[np.argsort(-counts, kind="stable")[:most]]
    return Points("value", chosen, tuple(value.decode("utf-8", "replace") for value in chosen), ())
