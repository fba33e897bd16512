"""The series that the gate compares: numbers or tokens of each raw column, and of the label.

A number column contributes its numbers, a vector column the mean of each vector, a text column lengths in characters,
and a category column its tokens. A column of lists contributes the values of its elements. Dates always advance, so a
date column contributes positions in the periods that a span covers completely: the hour if a span is a day; also the
day of the week and the day of the month if a span is a month. `sketches.py` counts them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from fullpass.base.json_text import parse_json
from fullpass.components.data_gate.distribution import Kind
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns, with_source_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.feature import (
    CategoryFeature,
    DateFeature,
    DurationFeature,
    NumberFeature,
    TextFeature,
)

LABEL = "label"
"""Prefix of the name of the label's series."""
DatePart = Literal["month", "day", "day_of_week", "hour"]
_PARTS: Mapping[str | None, tuple[DatePart, ...]] = {
    "year": ("month", "day_of_week", "hour"),
    "month": ("day", "day_of_week", "hour"),
    "day": ("hour",),
    "hour": (),
    "number": ("day_of_week", "hour"),
    None: ("day_of_week", "hour"),
}


@dataclass(frozen=True)
class Series:
    """A series of numbers or tokens from one column.

    Attributes:
        what: Conversion of the column to numbers or tokens. It applies to each element of a column of lists.
        positive: The label's value that counts as 1.
        decimal: Decimal sign of numbers in texts of the source.
    """

    name: str
    column: str
    what: Literal["number", "mean", "length", "token", "date"]
    format: str | None = None
    part: DatePart | None = None
    separator: str | None = None
    positive: str | float | None = None
    decimal: str = "."

    @property
    def kind(self) -> Kind:
        """The kind of the distribution."""
        return "category" if self.what in ("token", "date") else "number"

    @property
    def is_label(self) -> bool:
        """Whether the series is the label."""
        return self.name.startswith(f"{LABEL} ")


def series_of(config: PreprocessingConfig, unit: str | None) -> tuple[Series, ...]:
    """Returns the series of a config, by column, the label last.

    Args:
        unit: Length of a span; None for a source without spans.
    """
    series: list[Series] = []
    for name, column in raw_columns(config).items():
        if name == config.label.column or name in config.label.added:
            continue
        if column.type == "string":
            series += _of_text(name, config, unit)
        else:
            series.append(Series(name, name, "mean" if column.type == "vector" else "number"))
    return tuple(replace(one, decimal=config.decimal) for one in (*series, _label(config)))


def _of_text(column: str, config: PreprocessingConfig, unit: str | None) -> Iterator[Series]:
    for name, feature in config.features.items():
        if isinstance(feature, DateFeature) and (feature.column or name) == column:
            yield from _dates(column, feature.format, unit)
            return
        if isinstance(feature, DurationFeature) and column in (feature.start, feature.end):
            yield from _dates(column, feature.format, unit)
            return
        if isinstance(feature, NumberFeature) and feature.format is not None and (feature.column or name) == column:
            yield Series(column, column, "number", feature.format)
            return
        if isinstance(feature, TextFeature) and (feature.column or name) == column:
            yield Series(f"{column}, length", column, "length")
            return
        if isinstance(feature, CategoryFeature) and (feature.column or name) == column:
            yield Series(column, column, "token", separator=feature.separator)
            return
    yield Series(column, column, "token")


def _dates(column: str, format: str, unit: str | None) -> Iterator[Series]:
    for part in _PARTS[unit]:
        yield Series(f"{column}, {part.replace('_', ' ')}", column, "date", format, part)


def _label(config: PreprocessingConfig) -> Series:
    label = config.label
    what: Literal["number", "token"] = "number" if label.task == "regression" else "token"
    positive = label.classes[1] if label.task == "binary" and label.classes is not None else label.positive
    return Series(f"{LABEL} {label.column}", label.column, what, separator=label.separator, positive=positive)


@dataclass(frozen=True)
class SeriesSource:
    """The series of a config, and what they are computed from; nothing else of the config affects them.

    Attributes:
        derive: The derived columns that the series read -> their expressions, in the order of the YAML.
    """

    series: tuple[Series, ...]
    columns: tuple[RawColumn, ...]
    derive: Mapping[str, str]

    @staticmethod
    def of(config: PreprocessingConfig, unit: str | None) -> "SeriesSource":
        """Returns the series of a config. unit: length of a span; None for a source without spans."""
        series = series_of(config, unit)
        needed = with_source_columns({one.column for one in series}, config.derive)
        derive = {name: text for name, text in config.derive.items() if name in needed}
        return SeriesSource(series, tuple(raw_columns(config).values()), derive)

    def to_json(self) -> str:
        """Returns the series as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "SeriesSource":
        """Returns the series that `to_json` wrote."""
        return parse_json(SeriesSource, text)
