"""Profiles the numbers of a column: range, quantiles, skew, and values that mean "missing"."""

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.pipeline.authoring.profile.value_counts import FLOAT32_MAX, NUMBER, ValueCounts

_QUANTILES = (0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999)
_SENTINEL = re.compile(r"-9{2,}(\.0+)?")
_WORDS = frozenset(
    "? - -- --- . .. ... na n/a n.a. #n/a #na nan null none nil nat <na> (null) \\n missing unknown undefined inf -inf "
    "infinity tbd x * ** #value! #div/0! #ref!".split()
) | {"", "not available", "not applicable"}
SURE_WORDS = frozenset({"", *"? NA N/A n/a #N/A NaN nan NULL null <NA> (null) \\N NaT".split()})
"""Words that almost always mean "missing"."""
_MOST_OTHER_WORDS = 3
_MOSTLY = 0.8
_FAR_OUT = 10.0


@dataclass(frozen=True)
class NumberProfile:
    """A column of numbers.

    Attributes:
        low: the minimum.
        high: the maximum.
        quantiles: at 0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999.
        skew: the third standardized moment of the values clipped to the 0.001 and 0.999 quantiles.
        whole: whether all numbers are whole.
        negative: share of present rows with a negative number.
    """

    low: float
    high: float
    quantiles: tuple[float, ...]
    skew: float
    whole: bool
    negative: float

    @property
    def median(self) -> float:
        """The 0.5 quantile."""
        return self.quantiles[3]

    @property
    def usual(self) -> tuple[float, float]:
        """The range of all but 2 in 1,000 rows."""
        return self.quantiles[0], self.quantiles[-1]

    @property
    def outliers(self) -> tuple[float | None, float | None]:
        """Limits far below and far above the usual range; None for a side without values beyond the limit."""
        low, high = self.usual
        reach = _FAR_OUT * max(high - self.median, self.median - low, 1e-9)
        below, above = low - reach, high + reach
        return below if self.low < below else None, above if self.high > above else None


def profile_numbers(numbers: np.ndarray) -> NumberProfile | None:
    """Returns the profile of numbers, float64 [rows] with NaN for missing; None if there are no numbers."""
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return None
    quantiles = tuple(float(q) for q in np.quantile(numbers, _QUANTILES))
    usual = np.clip(numbers, quantiles[0], quantiles[-1])
    deviation = float(usual.std())
    return NumberProfile(
        low=float(numbers.min()),
        high=float(numbers.max()),
        quantiles=quantiles,
        skew=float((((usual - usual.mean()) / deviation) ** 3).mean()) if deviation > 0 else 0.0,
        whole=not (numbers % 1).any(),
        negative=float((numbers < 0).mean()),
    )


def read_numbers(column: pa.Array, *, missing: Collection[str], decimal: str) -> tuple[np.ndarray, int]:
    """Returns a text column as float64 [rows], NaN where missing or no number, and the number of non-numeric cells.

    It reads like `ValueCounts.numbers`, but vectorized over many rows.
    """
    if missing:
        gone = pc.is_in(column, value_set=pa.array(list(missing), pa.string()))
        column = pc.if_else(gone, pa.scalar(None, pa.string()), column)
    present = len(column) - column.null_count
    if decimal != ".":
        column = pc.if_else(pc.match_substring(column, "."), "", pc.replace_substring(column, decimal, "."))
    fits = pc.match_substring_regex(column, f"^(?:{NUMBER.pattern})$").fill_null(False)
    text = pc.utf8_ltrim(pc.if_else(fits, column, pa.scalar(None, pa.string())), characters="+")
    numbers = text.cast(pa.float64()).to_numpy(zero_copy_only=False)
    numbers = np.where(np.abs(numbers) <= FLOAT32_MAX, numbers, np.nan)
    return numbers, present - int((~np.isnan(numbers)).sum())


def missing_tokens(values: ValueCounts) -> tuple[str, ...]:
    """Returns the values of a column that mean "missing".

    In a column that mostly holds numbers, these are words such as `?`, up to three other words without a digit, and
    -99, -999 ... if all other numbers are far from it. In other columns, these are only words that are hardly ever a
    value.

    Example:
        of ["1", "2", "?", "-999"] with many more small numbers: ("?", "-999")
    """
    if values.number_share < _MOSTLY:
        return tuple(text for text in values.texts if text in SURE_WORDS)
    words = [text for text, number in zip(values.texts, values.numbers, strict=True) if np.isnan(number)]
    known = [text for text in words if text.lower() in _WORDS]
    others = [text for text in words if text.lower() not in _WORDS and not any(c.isdigit() for c in text)]
    return (*known, *(others if len(others) <= _MOST_OTHER_WORDS else ()), *_sentinels(values))


def _sentinels(values: ValueCounts) -> tuple[str, ...]:
    """Returns -99, -999 ... as written, if it is the smallest number and all others are far from it."""
    found = np.array([_SENTINEL.fullmatch(text) is not None for text in values.texts], dtype=bool)
    numbers = values.numbers
    others = numbers[~found & ~np.isnan(numbers)]
    if not found.any() or len(others) < 2:
        return ()
    low, high = float(others.min()), float(others.max())
    gap = low - numbers[found].max()
    kept_away = gap > 0 and (low >= 0 or gap > high - low)
    return tuple(values.examples(found, most=len(found))) if kept_away else ()
