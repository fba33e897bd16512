"""Infers the date format of a column and converts its dates to timestamps."""

import itertools
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa

from fullpass.pipeline.authoring.profile.value_counts import ValueCounts
from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.dates.date_format import compile_format
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.token_spelling import as_token

_DAYS = (
    "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y.%m.%d", "%Y-%m-%d",
    "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%y", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y",
    "%b %d %Y", "%B %d %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", " %H:%M:%S.%f", "T%H:%M:%S", " %H:%M:%S %z")
_DIGITS = ("%Y%m%d%H%M%S", "%Y%m%d")
_WHOLE = (
    "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z", "%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %z %Y",
    *_DIGITS, "%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%H:%M:%S", "%H:%M", "%I:%M %p",
)  # fmt: skip
CANDIDATES = ("iso", *(day + time for day, time in itertools.product(_DAYS, _TIMES)), *_WHOLE)
"""The formats that are looked for."""
_TIME_NAME = re.compile(r"time|date|stamp|epoch|(^|_)(at|ts|when)$", re.IGNORECASE)
_EPOCHS = (("epoch_seconds", 1.0), ("epoch_millis", 1e-3))
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]*")
_TRIED = 40
"""Commonest values whose formats are tried: each takes a hundred patterns."""
_ENOUGH = 0.95
"""Share of the rows that fit the format of a column of dates."""
_YEAR_1900, _YEAR_1990, _YEAR_2040, _YEAR_2100 = (
    datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1900, 1990, 2040, 2100)
)
_DAY = 86_400.0
"""Seconds of a day."""
_YEARS = 10 * 365
"""Days from which on the year is a part: effects of one or two years do not hold in the next."""
_MONTHS = 60
"""Days from which on the month is a part."""
_WEEK = 6
"""Days from which on the day of the week is a part."""


@dataclass(frozen=True, eq=False)
class Dates:
    """A column of dates.

    Attributes:
        share: Share of present rows that fit the format.
        moments: float64 [values], seconds since 1970-01-01 UTC, NaN where the value does not fit.
        has_trend: Whether the label changes over time beyond what the repeating parts explain.
    """

    format: str
    share: float
    moments: np.ndarray
    has_trend: bool = False


def find_dates(values: ValueCounts, name: str) -> Dates | None:
    """Returns the dates of a column, or None if fewer than 95 % of its present rows fit one format.

    Whole numbers count as seconds or milliseconds since 1970 only if the column's name refers to time and all of them
    lie in the years 1990 to 2040. Eight digits are a date only if all of them are days of the years 1900 to 2100.
    """
    if not values.distinct:
        return None
    if (epoch := _epoch(values, name)) is not None:
        return epoch
    formats = _fitting(values)
    if "iso" in formats:
        # Formats with directives also fit these dates; but digits alone are dates only in the usual years.
        formats = ["%Y%m%d"] if "%Y%m%d" in formats else ["iso"]
    fitting = [dates for dates in (_dates(values, text) for text in formats) if dates.share >= _ENOUGH]
    if not fitting:
        return None
    return max(fitting, key=lambda dates: dates.share)


@cache
def _pattern(format: str) -> re.Pattern[str]:
    return re.compile(compile_format(format).pattern, re.ASCII)


def _fitting(values: ValueCounts) -> list[str]:
    """Returns formats that half of the commonest values or of their rows fit: a word may be commoner than dates."""
    tried = np.arange(min(_TRIED, values.distinct))
    rows = values.counts[tried]
    matches = _matches(values, tried)
    return [text for text, fits in matches if 2 * rows[fits].sum() >= rows.sum() or 2 * fits.sum() >= len(fits)]


def _matches(values: ValueCounts, tried: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Returns the formats that any of the tried values, int [tried], fits, and which of these do, bool [tried]."""
    formats = [formats_of(values.texts[index]) for index in tried]
    found = frozenset[str]().union(*formats)
    return [(text, np.array([text in of for of in formats])) for text in CANDIDATES if text in found]


@lru_cache(maxsize=10_000)
def formats_of(value: str) -> frozenset[str]:
    """Returns the candidates that a value fits. A plain number fits no other than `iso` and digits."""
    if not any(c.isdigit() for c in value):
        return frozenset()
    candidates = ("iso", *_DIGITS) if _PLAIN_NUMBER.fullmatch(value) else CANDIDATES
    return frozenset(text for text in candidates if _pattern(text).match(value))


def _dates(values: ValueCounts, text: str) -> Dates:
    when = read_dates(pa.array(values.texts, pa.string()), text).seconds
    if text in _DIGITS:
        digits = np.array([len(as_token(value)) in (8, 14) for value in values.texts])
        usual = digits & (when >= _YEAR_1900) & (when < _YEAR_2100)
        when = when if usual.all() and values.distinct > 1 else np.full(len(when), np.nan)
    return Dates(text, values.share(~np.isnan(when)), when)


@rule("seconds since 1970")
def _epoch(values: ValueCounts, name: str) -> Dates | None:
    numbers = values.numbers
    if not _TIME_NAME.search(name) or np.isnan(numbers).any() or (numbers % 1).any():
        return None
    for text, scale in _EPOCHS:
        when = numbers * scale
        first, last = when.min(), when.max()
        if first >= _YEAR_1990 and last < _YEAR_2040:
            return Dates(text, 1.0, when)
    return None


def differing_parts(dates: Dates) -> tuple[str, ...]:
    """Returns the date parts that differ between rows, from year down to hour or minute, then `epoch` for a trend.

    The year is included only for a span of many years: effects of one or two years do not hold in the next.
    """
    when = dates.moments[~np.isnan(dates.moments)]
    days = np.floor(when / _DAY)
    span = float(days.max() - days.min()) if len(days) else 0.0
    parts = []
    if span >= _YEARS:
        parts.append("year")
    calendar = days.astype("datetime64[D]")
    months = calendar.astype("datetime64[M]")
    if span >= _MONTHS and len(np.unique(months.astype(int) % 12)) > 1:
        parts.append("month")
    if span >= _WEEK and (calendar != months).any():  # a first of the month stands for the month
        parts.append("day_of_week")
    if len(np.unique(np.floor(when % _DAY / 3600))) > 1:
        parts.append("hour")
    elif len(np.unique(np.floor(when % 3600 / 60))) > 1:
        parts.append("minute")
    if dates.has_trend:
        parts.append("epoch")
    return tuple(parts) or ("day",)


def repeating_groups(moments: np.ndarray) -> list[np.ndarray]:
    """Returns the months, the days of the week and the hours of moments, int64 [rows] each."""
    days = np.floor(moments / _DAY).astype(np.int64)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
    return [months, days % 7, np.floor(moments % _DAY / 3600).astype(np.int64)]
