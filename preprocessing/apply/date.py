"""Transforms each part of a date into an id, a point on the circle, or a number."""

import tensorflow as tf

from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.apply.lists import Rows, kept_elements, rows_of_numbers, transform_elements
from fullpass.preprocessing.apply.number_chains import Quantity, fill_remaining_with_zero
from fullpass.preprocessing.apply.vocabulary import with_domain
from fullpass.preprocessing.dates.date_format import PARTS, compile_format, date_part_kind
from fullpass.preprocessing.dates.date_ops import DateColumn, cyclic, difference, parse_dates, part
from fullpass.preprocessing.features.feature import DateFeature, DurationFeature
from fullpass.preprocessing.features.lists import ListOf
from fullpass.preprocessing.features.output import transformed_name, weight_name
from fullpass.preprocessing.features.transforms import ZScore


def date(name: str, feature: DateFeature, columns: Columns) -> dict[str, tf.Tensor | tf.SparseTensor | Quantity]:
    """Transforms every part of a date: int64 ids [batch], float32 [batch, 2] (sin, cos), or a number.

    For a list of dates, ids become a sparse row; pairs and numbers are pooled.
    """
    if feature.list is not None:
        return _of_lists(name, feature, feature.list, columns)
    dates = _parsed(feature.column or name, feature.format, columns)
    return {
        transformed_name(name, chosen): _part(dates, chosen, f"features.{name}", cyclic=feature.cyclic)
        for chosen in feature.parts
    }


def _part(dates: DateColumn, name: str, path: str, *, cyclic: bool) -> tf.Tensor | Quantity:
    kind = date_part_kind(name, cyclic=cyclic)
    if kind == "cyclic":
        return _on_circle(dates, name)
    if kind == "dense":
        return _quantity(dates, name, path)
    return with_domain(*_ids(dates, name))


def _quantity(dates: DateColumn, name: str, path: str) -> Quantity:
    return Quantity(f"{path}.parts.{name}", part(dates, name), missing="mean", transforms=(ZScore(),))


def _ids(dates: DateColumn, name: str) -> tuple[tf.Tensor, int]:
    """Returns the ids of a part, int64, and the greatest id that there may be."""
    known = PARTS[name]
    ids = tf.where(dates.valid, tf.cast(fill_remaining_with_zero(part(dates, name)), tf.int64) - known.low + 1, 0)
    return ids, known.size or 0


def _of_lists(name: str, feature: DateFeature, options: ListOf, columns: Columns) -> Rows:
    elements = kept_elements(name, columns.elements(feature.column or name, numbers=False), options, columns)
    dates = parse_dates(elements.values, compile_format(feature.format))
    result: Rows = {}
    for chosen in feature.parts:
        key, kind = transformed_name(name, chosen), date_part_kind(chosen, cyclic=feature.cyclic)
        if kind == "ids":
            ids, high = _ids(dates, chosen)
            result |= elements.rows_of_ids((key, weight_name(name, chosen)), dates.valid, ids, high)
        elif kind == "cyclic":
            result[key] = elements.pooled(_on_circle(dates, chosen), dates.valid, 0.0)
        else:
            done = transform_elements(_quantity(dates, chosen, f"features.{name}"), elements.kept)
            result |= rows_of_numbers((key, weight_name(name, chosen)), done, dates.valid, elements)
    return result


def _on_circle(dates: DateColumn, name: str) -> tf.Tensor:
    return fill_remaining_with_zero(tf.stack(cyclic(dates, name), axis=1))


def elapsed(name: str, feature: DurationFeature, columns: Columns) -> tf.Tensor:
    """Returns the time from start to end in the feature's unit: float32 [batch], NaN where either is missing."""
    start = _parsed(feature.start, feature.format, columns)
    end = _parsed(feature.end, feature.format, columns)
    return difference(end, start, unit=feature.unit)


def _parsed(column: str, format: str, columns: Columns) -> DateColumn:
    return parse_dates(columns.string(column).values, compile_format(format))
