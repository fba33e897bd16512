"""Transforms each part of a date into an id, a point on the circle, or a number."""

import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.number_chains import Quantity, or_zero
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.dates.date_format import PARTS, compile_format
from fullpass.preprocessing.dates.date_ops import DateColumn, cyclic, difference, parse, part
from fullpass.preprocessing.features.feature import DateFeature, DurationFeature, transformed_name
from fullpass.preprocessing.features.outputs import date_part_kind
from fullpass.preprocessing.features.transforms import ZScore


def date(name: str, feature: DateFeature, columns: Columns) -> dict[str, tf.Tensor | Quantity]:
    """Transforms every part of a date: int64 ids [batch], float32 [batch, 2] (sin, cos), or a number."""
    dates = _parsed(feature.column or name, feature.format, columns)
    return {
        transformed_name(name, chosen): _part(dates, chosen, f"features.{name}", cyclic=feature.cyclic)
        for chosen in feature.parts
    }


def _part(dates: DateColumn, name: str, path: str, *, cyclic: bool) -> tf.Tensor | Quantity:
    kind = date_part_kind(name, cyclic=cyclic)
    if kind == "cyclic":
        return _on_circle(dates, name)
    value = part(dates, name)
    if kind == "dense":
        return Quantity(f"{path}.parts.{name}", value, missing="mean", transforms=(ZScore(),))
    known = PARTS[name]
    ids = tf.where(dates.valid, tf.cast(or_zero(value), tf.int64) - known.low + 1, 0)
    return with_domain(ids, (known.size or 0) + 1)


def _on_circle(dates: DateColumn, name: str) -> tf.Tensor:
    return or_zero(tf.stack(cyclic(dates, name), axis=1))


def elapsed(name: str, feature: DurationFeature, columns: Columns) -> tf.Tensor:
    """Returns the time from start to end in the feature's unit: float32 [batch], NaN where either is missing."""
    start = _parsed(feature.start, feature.format, columns)
    end = _parsed(feature.end, feature.format, columns)
    return difference(end, start, unit=feature.unit)


def _parsed(column: str, format: str, columns: Columns) -> DateColumn:
    return parse(columns.string(column).values, compile_format(format))
