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
_IMPOSSIBLE = frozenset(
    int(np.datetime64(day).astype(int)) for day in ("0001-01-01", "2999-12-31", "9999-12-30", "9999-12-31")
)
_UNLIKELY = frozenset(
    int(np.datetime64(day).astype(int))
    for day in ("1753-01-01", "1899-12-30", "1899-12-31", "1900-01-01", "1970-01-01", "2099-12-31")
)
"""Days since 1970 that programs write for no date; the latter may be dates, too."""
_MARKS = ("0001", "1753", "1899", "1900", "1970", "2099", "2999", "9999")
"""Parts of the texts of these days."""
_YEAR, _FEWEST_OTHER_DAYS, _FEWEST_ROWS_OF_DAY, _PILE_OF_DAY = 365, 3, 5, 2.0
_ENOUGH = 0.95
_YEAR_1900, _YEAR_1990, _YEAR_2040, _YEAR_2100 = (
    datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1900, 1990, 2040, 2100)
)
_DAY = 86_400.0
_TEN_YEARS = 10 * 365 * _DAY


@dataclass(frozen=True, eq=False)
class Dates:
    """A column of dates.

    Attributes:
        share: Share of present rows that fit the format.
        moments: float64 [values], seconds since 1970-01-01 UTC, NaN where the value does not fit.
        ambiguous: Another format that fits equally many rows.
        has_trend: Whether the label changes over time beyond what the repeating parts explain.
    """

    format: str
    share: float
    moments: np.ndarray
    ambiguous: str | None = None
    has_trend: bool = False


def find_dates(values: ValueCounts, name: str) -> Dates | None:
    """Returns the dates of a column, or None if fewer than 95 % of its present rows fit one format.

    Whole numbers count as seconds or milliseconds since 1970 only if the column's name refers to time and all of them
    lie in the years 1990 to 2040, or, if some are negative, in 1900 to 2040 and over more than ten years. Eight digits
    are a date only if all of them are days of the years 1900 to 2100.
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
    best = max(fitting, key=lambda dates: dates.share)
    other = next((d.format for d in fitting if d.share == best.share and _swapped(d.format, best.format)), None)
    return Dates(best.format, best.share, best.moments, other)


@rule("placeholder days", otherwise=())
def placeholder_dates(values: ValueCounts, name: str) -> tuple[str, ...]:
    """Returns the values, as written, of days that programs write for no date, such as 9999-12-31 and 1900-01-01.

    The first and the last possible days always are placeholders, others that are a year or more before or after all
    other dates, in many rows. Both need other dates beside them.
    """
    if not any(mark in text for text in values.texts for mark in _MARKS) or (dates := find_dates(values, name)) is None:
        return ()
    days = np.floor(dates.moments / _DAY)
    known = ~np.isnan(days)
    chosen = np.isin(days, [*_IMPOSSIBLE])
    others = days[known & ~np.isin(days, [*_IMPOSSIBLE, *_UNLIKELY])]
    if len(np.unique(others)) < _FEWEST_OTHER_DAYS:
        return ()
    usual = float(np.median(values.counts[known & ~np.isin(days, [*_IMPOSSIBLE, *_UNLIKELY])]))
    for day in _UNLIKELY:
        rows = values.counts[days == day].sum()
        far = day < others.min() - _YEAR or day > others.max() + _YEAR
        chosen |= (days == day) & far & bool(rows >= max(_FEWEST_ROWS_OF_DAY, _PILE_OF_DAY * usual))
    return tuple(values.examples(chosen, most=values.distinct))


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


@rule("two date formats", otherwise="")
def mixed_formats(values: ValueCounts) -> str:
    """Returns the two date formats of a column that has no single one, as text for people; empty without them.

    Together they fit 95 % of the present rows, and the rarer one alone at least 5 %. Of formats that fit equally many
    values, the first of `CANDIDATES` is named.
    """
    # Values that are equally often are in alphabetical order, and so in that of their formats.
    tried = np.unique(np.linspace(0, values.distinct - 1, _TRIED).astype(int))
    matches = [(text, fits) for text, fits in _matches(values, tried) if text not in _DIGITS]
    if not matches:
        return ""
    first, fits = max(matches, key=lambda match: match[1].sum())
    second, others = max(((text, more & ~fits) for text, more in matches), key=lambda match: match[1].sum())
    if not others.any():
        return ""
    known = [~np.isnan(_dates(values, text).moments) for text in (first, second)]
    share, rest = values.share(known[0]), values.share(known[1] & ~known[0])
    if share + rest < _ENOUGH or rest < 1 - _ENOUGH:
        return ""
    return f"{first} in {share:.0%} of rows, {second} in {rest:.0%}"


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
        has_years_before_1970 = _YEAR_1900 <= first < 0 and last - first > _TEN_YEARS
        if (first >= _YEAR_1990 or has_years_before_1970) and last < _YEAR_2040:
            return Dates(text, 1.0, when)
    return None


def _swapped(one: str, other: str) -> bool:
    """Returns whether two formats differ only in the order of day and month."""
    return one != other and one.replace("%d", "%m").replace("%B", "%b") == other.replace("%d", "%m").replace("%B", "%b")


def differing_parts(dates: Dates) -> tuple[str, ...]:
    """Returns the date parts that differ between rows, from year down to hour or minute, then `epoch` for a trend.

    The year is included only for a span of many years: effects of one or two years do not hold in the next.
    """
    when = dates.moments[~np.isnan(dates.moments)]
    days = np.floor(when / _DAY)
    span = float(days.max() - days.min()) if len(days) else 0.0
    parts = []
    if span >= 10 * 365:
        parts.append("year")
    calendar = days.astype("datetime64[D]")
    months = calendar.astype("datetime64[M]")
    if span >= 60 and len(np.unique(months.astype(int) % 12)) > 1:
        parts.append("month")
    if span >= 6 and (calendar != months).any():  # a first of the month stands for the month
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
