"""Finds the features that read each raw column, and the most important columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fullpass.preprocessing.columns.raw_columns import RawColumn, feature_columns, serving_columns, with_source_columns
from fullpass.preprocessing.config import PreprocessingConfig


@dataclass(frozen=True)
class ColumnReaders:
    """A raw column and the features that read it.

    Attributes:
        name: Name of the column.
        kind: Whether its values are numbers, dates, or unordered values.
        features: The features that read it, directly or through derived columns.
        formats: Formats of the dates, if it is read as dates.
        left_out: Reason why its dependence is not shown; "" if it is shown.
    """

    name: str
    kind: Literal["number", "date", "value"]
    features: tuple[str, ...]
    formats: tuple[str, ...] = ()
    left_out: str = ""


def column_readers(config: PreprocessingConfig) -> list[ColumnReaders]:
    """Returns the raw columns that features read, sorted by name."""
    readers: dict[str, list[str]] = {}
    formats: dict[str, list[str]] = {}
    for name, feature in config.features.items():
        columns = feature_columns(name, feature)
        for column in with_source_columns(columns, config.derive):
            readers.setdefault(column, []).append(name)
        if feature.type in ("date", "duration"):
            for column in columns:
                formats.setdefault(column, []).append(feature.format)
    return [
        _readers(column, config, readers.get(column.name, []), tuple(formats.get(column.name, ())))
        for column in serving_columns(config).values()
    ]


def most_important(
    readers: Sequence[ColumnReaders], importance: Sequence[Mapping[str, Any]], most: int
) -> list[ColumnReaders]:
    """Returns the columns of the most important features, the most important first.

    The importance of a column is that of the most important feature that reads it.

    Args:
        importance: Feature importances from `training.json`.
    """
    known = {entry["feature"]: float(entry["importance"]) for entry in importance}
    worth = {one.name: max((known[name] for name in one.features if name in known), default=None) for one in readers}
    measured = [one for one in readers if worth[one.name] is not None]
    return sorted(measured, key=lambda one: -(worth[one.name] or 0.0))[:most]


def _readers(
    column: RawColumn, config: PreprocessingConfig, names: list[str], formats: tuple[str, ...]
) -> ColumnReaders:
    types: set[str] = {config.features[name].type for name in names}
    sequences = [sequence for name in names if (sequence := config.sequence_of(name)) is not None]
    kind: Literal["number", "date", "value"] = "number" if column.type == "number" else "date" if formats else "value"
    return ColumnReaders(column.name, kind, (*names, *sequences), formats, _left_out(column, types, sequences))


def _left_out(column: RawColumn, types: set[str], sequences: Sequence[str]) -> str:
    if column.image or "image" in types:
        return "an image"
    if sequences:
        return "part of a sequence"
    if column.many:
        return "a list"
    if column.type == "vector":
        return "a vector"
    return "text" if types == {"text"} else ""
