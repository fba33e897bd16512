"""Proposes the feature for a column from its profile, with the reason that is written beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fullpass.pipeline.authoring.defaults import FEWEST_SEARCHED
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import (
    FEW_VALUES,
    ColumnProfile,
    is_without_blanks,
    shown,
    words_of,
)
from fullpass.pipeline.authoring.profile.date_formats import differing_parts
from fullpass.pipeline.authoring.profile.number_profile import NumberProfile
from fullpass.pipeline.authoring.profile.strength import Strength
from fullpass.pipeline.authoring.profile.word_orders import word_order
from fullpass.pipeline.authoring.rules import UNCHANGED, rule

_SKEWED = 2.0
"""Skewness of an exponential distribution, from which on a logarithm helps."""
_LEAST_FOR_LOG1P = 0.1
"""The logarithm of 1 + x is x, within a twentieth, for numbers up to here."""
_TOLD_MISSING = 0.0005
"""Share of missing cells from which on the reason tells it."""
_OFTEN_MISSING = 0.01
"""Share of missing cells from which on it is a feature by itself."""
_HARDLY_NEGATIVE = 0.01
"""Share of negative numbers that become 0 before a logarithm."""
_OFTEN_BEFORE = 0.05
"""Share of rows whose end may lie before their start."""
_VERY_MANY_VALUES = 200
"""Values from which on a vocabulary has a limit."""
_TOP_K = 10_000
"""That limit: a larger table of embeddings learns little from rare values."""
_MANY_PIXELS = 10_000_000
"""Pixels of all images from which an epoch of the default network takes long: 8 s on two cores of 2024."""
_MANY_ROWS = 1000
"""Rows from which on a value needs five rows for an id of its own, instead of two."""
_OFTEN = 0.02
"""Share of the commonest value from which on the reason names it."""
_LATITUDE, _LONGITUDE = ("latitude", "lat"), ("longitude", "lon", "lng", "long")
WEIGHTED_PAIRS = {"ngrams": [1, 2], "output": "tf_idf"}
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))


def feature_of(column: ColumnProfile, strength: Strength | None) -> YamlLine:
    """Returns the entry of `features` for a column whose kind can be a feature."""
    ordered = column.kind == "category" and column.values.rows < FEWEST_SEARCHED and word_order(column.values.texts)
    what, value = _ordinal(column, ordered) if ordered else _BY_KIND[column.kind](column)
    told = f"; {strength.shown} alone" if strength is not None else ""
    missing = column.values.missing_share
    told = (f"; {missing:.1%} missing" if missing >= _TOLD_MISSING else "") + told
    return YamlLine(column.name, value, f"{what}{told}")


def is_usable(column: ColumnProfile) -> bool:
    """Returns whether a column can be a feature at all."""
    return column.kind in _BY_KIND


def duration_of(name: str, start: ColumnProfile, end: ColumnProfile, seconds: np.ndarray) -> YamlLine:
    """Returns the time between two date columns as a feature, in the largest unit that its median reaches."""
    median = float(np.nanmedian(seconds))
    unit, size = next((u, s) for u, s in _UNITS if median >= s or s == 1)
    form = {"format": start.dates.format} if start.dates is not None and start.dates.format != "iso" else {}
    transforms = [{"clip": {"min": 0, "max_quantile": 0.999}}, "log1p", "z_score"]
    value: dict[str, Any] = {"type": "duration", "start": start.name, "end": end.name, **form}
    value |= {"unit": unit, "missing": "median", "transforms": transforms}
    return YamlLine(name, value, f"from {start.name} to {end.name}, median {median / size:.3g} {unit}")


@rule("time between dates")
def seconds_between(start: ColumnProfile, end: ColumnProfile) -> np.ndarray | None:
    """Returns the seconds from one date to another, float64 [rows], NaN where either is missing.

    None if the two columns have different formats, or if `start` is often later than `end`.
    """
    if start.dates is None or end.dates is None or start.dates.format != end.dates.format:
        return None
    between = end.values.per_row(end.dates.moments) - start.values.per_row(start.dates.moments)
    known = between[~np.isnan(between)]
    if not len(known) or (known < 0).mean() > _OFTEN_BEFORE or np.median(known) <= 0:
        return None
    return between


@rule("distance between positions", otherwise=[])
def position_pairs(columns: Sequence[ColumnProfile]) -> list[tuple[ColumnProfile, ColumnProfile]]:
    """Returns matching latitude and longitude columns: by name, with values in -90 .. 90 and -180 .. 180."""
    latitudes, longitudes = _positions(columns, 90, _LATITUDE), _positions(columns, 180, _LONGITUDE)
    return [(column, longitudes[of]) for of, column in latitudes.items() if of in longitudes]


def _positions(
    columns: Sequence[ColumnProfile], limit: float, words: Sequence[str]
) -> dict[frozenset[str], ColumnProfile]:
    """Returns the columns of latitudes or longitudes by the other words of their names."""
    found = {}
    for column in columns:
        numbers, name = column.numbers, words_of(column.name)
        if column.kind == "number" and column.like is None and numbers is not None and name.intersection(words):
            if -limit <= numbers.low and numbers.high <= limit:
                found[name.difference(words)] = column
    return found


def _number(column: ColumnProfile) -> tuple[str, Any]:
    numbers = column.numbers
    fields: dict[str, Any] = {} if column.like is None else {"format": column.like}
    if numbers is None:
        return "numbers", {"type": "number", **fields} if fields else "number"
    transforms, why = _transforms(numbers)
    missing, is_usual = column.values.missing_share, transforms == ["z_score"]
    if missing >= _OFTEN_MISSING or (missing and not is_usual):
        fields["missing"] = "median"
    if missing >= _OFTEN_MISSING:
        fields["indicator"] = True
    if not is_usual:
        fields["transforms"] = transforms
    what = f"{numbers.low:.6g} to {numbers.high:.6g}, median {numbers.median:.6g}"
    if column.like is not None:
        what = f"{column.why}: {what}"
    elif column.bad:
        what += f"; {column.bad:.2%} are no number and set aside"
    return f"{what}; {why}" if why else what, {"type": "number", **fields} if fields else "number"


def _transforms(numbers: NumberProfile) -> tuple[list[Any], str]:
    """Returns the transforms of a number and why: a logarithm for skew, a clip for outliers, always a z-score."""
    below, above = numbers.outliers
    skewed = numbers.skew > _SKEWED and numbers.negative <= _HARDLY_NEGATIVE
    clip: dict[str, Any] = {}
    if skewed and numbers.low < 0:
        clip["min"] = 0
    elif below is not None:
        clip["min_quantile"] = 0.001
    if above is not None:
        clip["max_quantile"] = 0.999
    if skewed and numbers.usual[1] < _LEAST_FOR_LOG1P:
        return ["quantile_scale"], "skewed and small: by rank, as log1p changes nothing below 0.1"
    reasons = ["skewed"] if skewed else []
    reasons += ["outliers are clipped"] if {"min_quantile", "max_quantile"} & set(clip) else []
    reasons += ["values below 0 become 0"] if "min" in clip else []
    transforms = [*([{"clip": clip}] if clip else []), *(["log1p"] if skewed else []), "z_score"]
    return transforms, ", ".join(reasons)


def _category(column: ColumnProfile) -> tuple[str, Any]:
    values = column.values
    fields: dict[str, Any] = {"top_k": _TOP_K} if values.distinct > _VERY_MANY_VALUES else {}
    if values.distinct > FEW_VALUES:
        fields |= {"min_count": 5 if values.present >= _MANY_ROWS else 2, "oov_buckets": 4}
    share = values.counts[0] / values.present if values.present else 0.0
    what = f"{values.distinct:,} value{'s' * (values.distinct != 1)}"
    if share >= _OFTEN:
        what += f", most often {shown(values.texts[0], 24)} {share:.0%}"
    if column.numbers is not None:
        what = f"{column.why}: {what}"
    if fields:
        what += ", rare ones share ids"
    return what, {"type": "category", "vocabulary": fields} if fields else "category"


def _ordinal(column: ColumnProfile, order: Sequence[str]) -> tuple[str, Any]:
    what = f"{len(order)} words in order, {shown(order[0], 24)} to {shown(order[-1], 24)}"
    return what + (", others are missing" if len(order) < column.values.distinct else ""), ordinal(column, order)


def ordinal(column: ColumnProfile, order: Sequence[str]) -> dict[str, Any]:
    """Returns the ranks of words that have an order as a feature; other words and missing ones as one more number."""
    fields: dict[str, Any] = {"type": "ordinal", "order": list(order)}
    if len(order) < column.values.distinct or column.values.missing_share >= _OFTEN_MISSING:
        fields |= {"missing": "median", "indicator": True}
    return fields


def _categories(column: ColumnProfile) -> tuple[str, Any]:
    vocabulary = {"top_k": _TOP_K, "min_count": 2}
    return column.why, {"type": "category", "separator": column.separator, "vocabulary": vocabulary}


def _date(column: ColumnProfile) -> tuple[str, Any]:
    dates = column.dates
    if dates is None:
        return column.why, "date"
    known = dates.moments[~np.isnan(dates.moments)]
    first, last = (np.datetime64(int(moment), "s").astype("datetime64[D]") for moment in (known.min(), known.max()))
    fields: dict[str, Any] = {"format": dates.format} if dates.format != "iso" else {}
    what = f"{column.why}, {first} to {last}"
    what += f"; {column.bad:.2%} of cells are no such dates and missing" if column.bad >= 0.00005 else ""
    what += "; the label changes over time: epoch" if dates.has_trend else ""
    return what, {"type": "date", **fields, "parts": list(differing_parts(dates))}


def _text(column: ColumnProfile) -> tuple[str, Any]:
    if is_without_blanks(column.values):
        return f"{column.why}; its letters and pairs of them", {"type": "text", "tokenize": "words", "ngrams": [1, 2]}
    return f"{column.why}; a bag of its words", "text"


def weighted_pairs(line: YamlLine) -> YamlLine:
    """Returns the entry of a text with words and pairs of them of which rare ones count more, for several classes."""
    value = {"type": "text", **(line.value if isinstance(line.value, dict) else {}), **WEIGHTED_PAIRS}
    return replace(line, value=value, why=f"{line.why}; with pairs, and rare ones count more: it has several classes")


def _image(column: ColumnProfile) -> tuple[str, Any]:
    shape = column.image
    if shape is None:
        return column.why, "image"
    return column.why, {"type": "image", "size": list(shape.size), **({"channels": 1} if shape.channels == 1 else {})}


@rule("network for many pixels", otherwise=UNCHANGED)
def with_fast_encoder(line: YamlLine, rows: int) -> YamlLine:
    """Returns the entry of an image with a network for many pixels, if `rows` such images have many."""
    height, width = line.value["size"]
    if rows * height * width < _MANY_PIXELS:
        return line
    why = f"{line.why}; about {rows:,} images: stride 2 trains five times as fast"
    return replace(line, value={**line.value, "encoder": {"cnn": {"stride": 2}}}, why=why)


def _list(column: ColumnProfile) -> tuple[str, Any]:
    """Returns a list feature of the kind of its elements, without `missing` and `indicator`."""
    elements = column.elements
    if elements is None:
        return column.why, {"type": "category", "list": True}
    kind = "category" if elements.kind == "boolean" else elements.kind
    what, value = _BY_KIND[kind](replace(elements, kind=kind))
    fields = {"type": value} if isinstance(value, str) else value
    kept = {key: field for key, field in fields.items() if key not in ("missing", "indicator")}
    return f"{column.why}; {what}", {**kept, "list": True}


_BY_KIND: Mapping[str, Callable[[ColumnProfile], tuple[str, Any]]] = {
    "number": _number,
    "category": _category,
    "categories": _categories,
    "boolean": lambda column: (column.why, "boolean"),
    "date": _date,
    "text": _text,
    "vector": lambda column: (column.why, {"type": "vector", "width": column.width}),
    "image": _image,
    "list": _list,
}
