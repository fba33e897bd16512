"""The cells of a column as its picture and its comparison see them: numbers, moments, lengths or tokens."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.data_gate.distribution import Distribution, category_distribution, number_distribution
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile
from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.features.feature import (
    BooleanFeature,
    CategoryFeature,
    DateFeature,
    DurationFeature,
    Feature,
    NumberFeature,
    OrdinalFeature,
    TextFeature,
)
from fullpass.preprocessing.values.list_values import split_text
from fullpass.preprocessing.values.written_values import read_written

What = Literal["number", "date", "length", "token"]


@dataclass(frozen=True)
class CellReading:
    """How the cells of a column are read.

    Attributes:
        what: Numbers; dates, as seconds since 1970; lengths of texts, in characters; or tokens.
        format: How numbers or dates are written, as `format` of their feature.
        separator: Splits a cell into tokens.
        order: The tokens that an ordinal has, the lowest first.
    """

    what: What
    format: str | None = None
    separator: str | None = None
    order: tuple[str, ...] = ()

    def cells(self, values: ValueCounts) -> "Cells":
        """Returns the cells of a column."""
        return Cells(self, values, self._numbers(values))

    def _numbers(self, values: ValueCounts) -> np.ndarray | None:
        texts = pa.array(values.texts, pa.string())
        if self.what == "token":
            return None
        if self.what == "date":
            return read_dates(texts, self.format or "iso").seconds
        if self.what == "length":
            return pc.utf8_length(texts).to_numpy(zero_copy_only=False).astype(np.float64)
        return values.numbers if self.format is None else read_written(values.texts, self.format)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column in some rows.

    Attributes:
        numbers: float64 [values], NaN where a value is none; None for tokens.
    """

    reading: CellReading
    values: ValueCounts
    numbers: np.ndarray | None

    def of(self, rows: np.ndarray) -> "Cells":
        """Returns the cells of some of the rows, bool [rows]."""
        codes = self.values.codes[rows]
        counts = np.bincount(codes[codes >= 0], minlength=self.values.distinct)
        return replace(self, values=replace(self.values, counts=counts, codes=codes))

    @cached_property
    def distribution(self) -> Distribution:
        """The distribution, as the data gate compares it."""
        values = self.values
        if self.numbers is None:
            counted = self._tokens()
            missing = float(values.rows - values.present)
            return category_distribution(counted, sum(counted.values()), missing, complete=True)
        known = np.flatnonzero(np.isfinite(self.numbers) & (values.counts > 0))
        if not len(known):
            return Distribution("number", missing=float(values.rows))
        order = known[np.argsort(self.numbers[known], kind="stable")]
        below = np.cumsum(values.counts[order])
        return number_distribution(self.numbers[order], below, float(values.rows - below[-1]))

    def _tokens(self) -> dict[str, float]:
        """Returns the number of cells that hold each token."""
        texts, separator = self.values.texts, self.reading.separator
        if separator is None:
            return dict(zip(texts, self.values.counts.tolist(), strict=True))
        counted: Counter[str] = Counter()
        lists = split_text(pa.array(texts, pa.string()), separator, strip=True).to_pylist()
        for tokens, count in zip(lists, self.values.counts.tolist(), strict=True):
            counted.update(dict.fromkeys(filter(None, tokens or ()), count))
        return dict(counted)


_BY_FEATURE: dict[type, What] = {
    NumberFeature: "number",
    DateFeature: "date",
    DurationFeature: "date",
    TextFeature: "length",
    CategoryFeature: "token",
    BooleanFeature: "token",
    OrdinalFeature: "token",
}
_TOKENS = ("category", "categories", "boolean", "constant", "empty")
"""Kinds of profiles whose cells are tokens."""


def reading_of(column: ColumnProfile, feature: Feature | None = None) -> CellReading | None:
    """Returns how a column is read: by its feature, else by its profile; None for ids, lists, vectors and images."""
    what = _BY_FEATURE.get(type(feature)) if feature is not None else None
    if what is not None:
        own = {key: getattr(feature, key) for key in ("format", "separator", "order") if hasattr(feature, key)}
        return CellReading(what, **own)
    if column.dates is not None:
        return CellReading("date", column.dates.format)
    if column.numbers is not None and column.kind in ("number", "written_number"):
        return CellReading("number", column.like)
    if column.kind == "text":
        return CellReading("length")
    return CellReading("token", separator=column.separator) if column.kind in _TOKENS else None
