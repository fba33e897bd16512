"""The table of representations that `init` tries: which columns suggest one, its line in the YAML, and its numbers."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from fullpass.pipeline.authoring.init.propose_features import feature_of, ordinal
from fullpass.pipeline.authoring.init.propose_label import unique
from fullpass.pipeline.authoring.init.search.encodings import SMOOTHING, Encoding
from fullpass.pipeline.authoring.init.yaml_text import YamlLine
from fullpass.pipeline.authoring.profile.column_profile import ColumnProfile
from fullpass.pipeline.authoring.profile.date_formats import repeating_groups
from fullpass.pipeline.authoring.profile.word_orders import word_order

_FEWEST_VALUES = 3
"""Values of ids; the effect of two is a line."""
_SMOOTHED = {"smoothing": SMOOTHING}
_ROWS_PER_VALUE = 2
"""Rows that a value or a pair of values has at least, on average: else nearly all are new in a request."""
_FEWEST_OF_VALUE = 5
"""Rows from which on a category has an id of its own, as `init` writes it."""
FEATURES = 60
"""The most features that a search adds: each is paid for in every request."""
_REPEATED = 0.2
"""Share of the rows whose pair of values five rows have, from which on pairs occur often enough."""
_PAIRED = 24
"""Columns of which pairs are looked at, those with most values: 276 pairs take about a second."""


@dataclass(frozen=True, eq=False)
class TriedFeature:
    """A feature that may pay: its line of the YAML, and its numbers on the sample."""

    line: YamlLine
    encoding: Encoding


@dataclass(frozen=True, eq=False)
class SampledColumns:
    """The columns of the sample that candidates are made of.

    Attributes:
        used: int64 [used rows], the sampled rows with a label that are used.
        taken: Names that no feature may have; those of candidates are added.
    """

    profiles: Sequence[ColumnProfile]
    used: np.ndarray
    taken: list[str]

    def codes(self, column: ColumnProfile) -> np.ndarray:
        """Returns the value of each used row, int64 [used rows], 0 for missing."""
        return column.values.codes[self.used].astype(np.int64) + 1

    @property
    def ids(self) -> list[ColumnProfile]:
        """Columns whose values repeat as those of ids do, whether they are texts or whole numbers."""
        return [column for column in self.profiles if _may_be_ids(column)]

    def line(self, name: str, value: Mapping[str, object]) -> YamlLine:
        """Returns a feature whose name is made unique."""
        self.taken.append(unique(name, self.taken))
        return YamlLine(self.taken[-1], dict(value))


def known_encodings(column: ColumnProfile, used: np.ndarray) -> list[Encoding]:
    """Returns the columns that boosters read of a feature as `init` writes it; none of texts, lists and images."""
    values = column.values
    if column.kind in ("category", "boolean"):
        rare = np.append(values.counts < _FEWEST_OF_VALUE, False)
        return [Encoding(np.where(rare[values.codes], -2, values.codes)[used] + 2.0, "category")]
    if column.kind == "number":
        return [Encoding(values.row_numbers[used])]
    if column.kind == "date" and column.dates is not None:
        moments = values.per_row(column.dates.moments)[used]
        parts = repeating_groups(np.nan_to_num(moments)) + [moments] * column.dates.has_trend
        return [Encoding(part.astype(float)) for part in parts]
    return []


def _may_be_ids(column: ColumnProfile) -> bool:
    numbers, values = column.numbers, column.values
    whole = column.kind == "category" or (column.kind == "number" and numbers is not None and numbers.whole)
    return whole and column.like is None and _FEWEST_VALUES <= values.distinct <= values.present // _ROWS_PER_VALUE


def _categories(columns: SampledColumns) -> Iterator[TriedFeature]:
    """Yields whole numbers as categories, beside the number."""
    for column in columns.ids:
        if column.kind == "number":
            coded = replace(column, kind="category", why="whole numbers")
            written = feature_of(coded, None)
            value = written.value if isinstance(written.value, dict) else {"type": written.value}
            line = columns.line(f"{column.name}_value", {**value, "column": column.name})
            yield TriedFeature(line, known_encodings(coded, columns.used)[0])


def _ranks(columns: SampledColumns) -> Iterator[TriedFeature]:
    """Yields the ranks of words that have an order, beside the words as a category."""
    for column in columns.profiles:
        if column.kind == "category" and (order := word_order(column.values.texts)):
            places = [float(order.index(text)) if text in order else math.nan for text in column.values.texts]
            line = columns.line(f"{column.name}_rank", {**ordinal(column, order), "column": column.name})
            yield TriedFeature(line, Encoding(column.values.per_row(np.array(places))[columns.used]))


def _times(columns: SampledColumns) -> Iterator[TriedFeature]:
    """Yields the time itself, beside the parts of a date."""
    for column in columns.profiles:
        if column.kind == "date" and column.dates is not None and not column.dates.has_trend:
            form = {"format": column.dates.format} if column.dates.format != "iso" else {}
            line = columns.line(
                f"{column.name}_time", {"type": "date", "column": column.name, **form, "parts": ["epoch"]}
            )
            yield TriedFeature(line, Encoding(column.values.per_row(column.dates.moments)[columns.used]))


def _means(columns: SampledColumns) -> Iterator[TriedFeature]:
    """Yields the label's mean per id; of columns that are one to one, the first one's."""
    seen: set[bytes] = set()
    for column in columns.ids:
        groups = pd.factorize(columns.codes(column))[0]
        if (same := groups.tobytes()) not in seen:
            seen.add(same)
            line = columns.line(f"{column.name}_mean", {"type": "target", "column": column.name, **_SMOOTHED})
            yield TriedFeature(line, Encoding(groups, "means"))


def _counts(columns: SampledColumns) -> Iterator[TriedFeature]:
    """Yields how often each id occurs."""
    for column in columns.ids:
        value = {"type": "count", "column": column.name, "transforms": ["log1p"]}
        counts = np.append(column.values.counts, 0)[column.values.codes][columns.used]
        yield TriedFeature(columns.line(f"{column.name}_count", value), Encoding(counts.astype(float)))


def _pairs(columns: SampledColumns) -> Iterator[TriedFeature]:
    """Yields the label's mean per pair of ids, if pairs repeat and neither id tells the other."""
    seen: set[bytes] = set()
    most = sorted(columns.ids, key=lambda column: -column.values.distinct)[:_PAIRED]
    for one, other in combinations([column for column in columns.ids if column in most], 2):
        groups = pd.factorize(columns.codes(one) * (other.values.distinct + 1) + columns.codes(other))[0]
        rows = np.bincount(groups)
        repeated = rows[rows >= _FEWEST_OF_VALUE].sum() >= _REPEATED * len(groups)
        larger = max(one.values.distinct, other.values.distinct)
        if repeated and len(rows) > larger + 1 and (same := groups.tobytes()) not in seen:
            seen.add(same)
            value = {"type": "target", "columns": [one.name, other.name], **_SMOOTHED}
            yield TriedFeature(columns.line(f"{one.name}_{other.name}_mean", value), Encoding(groups, "means"))


@dataclass(frozen=True)
class Kind:
    """A kind of representation.

    Attributes:
        names: What one candidate is called, and several.
        propose: Yields its candidates.
        per_class: Whether a candidate has a column per class, all of which must be known then.
        sizes: How many candidates are tried together, those first that tell most of the errors of the model so far; a
            larger number must pay by itself.
        price: How many features a candidate must be worth; None for as many as it has columns.
    """

    names: tuple[str, str]
    propose: Callable[[SampledColumns], Iterator[TriedFeature]]
    per_class: bool = False
    sizes: Sequence[int] = (2, 8, FEATURES)
    price: int | None = None


KINDS: Sequence[Kind] = (
    Kind(("whole number as a category", "whole numbers as categories"), _categories),
    Kind(("rank of ordered words", "ranks of ordered words"), _ranks),
    Kind(("time itself", "times themselves"), _times),
    Kind(("target mean", "target means"), _means, per_class=True),
    Kind(("target mean of a pair", "target means of pairs"), _pairs, per_class=True, sizes=(6, 20, FEATURES)),
    Kind(("count", "counts"), _counts, sizes=(FEATURES,)),
)
"""In the order in which they are tried, each beside those that paid."""
