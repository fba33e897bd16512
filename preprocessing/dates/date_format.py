"""Date formats and the parts of a date, as data: the only specification of the spellings of a date.

`date_ops.py` reads it in the graph, and `read_dates.py` everywhere else. A format has the syntax of Python's
`strptime`, or is one of four words:

* `iso`: `2024-02-29`, `20240229` or the day of a week, `2024-W09-4`; or with a time after a `T` or a blank:
  `2024-02-29 13`, `2024-02-29T13:05`, `20240229T130559`, `2024-02-29T13:05:59.25Z`, `2024-02-29 13:05:59 UTC`.
* `epoch_seconds`, `epoch_millis`, `epoch_days`: a decimal number counted from 1970-01-01T00:00:00Z.

Blanks around a date are ignored, a run of blanks in a format matches any run of blanks, and letters match
case-insensitively. Years run from 1 to 9999, in the proleptic Gregorian calendar, as in Python. Digits of a fraction
beyond the microsecond are dropped, as in Python; a number since 1970 is rounded. Digits alone may end with `.0`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from fullpass.base.errors import UserError, did_you_mean

MICROSECONDS_PER_DAY = 86_400_000_000
FIRST_DAY = -719_162
"""0001-01-01 in days since 1970-01-01."""
LAST_DAY = 2_932_896
"""9999-12-31 in days since 1970-01-01."""
WEEK = 7
THURSDAY, SATURDAY = 3, 5
"""Days of a week that begins with 0 on Monday. 1970-01-01 was a Thursday, and an ISO week is of its Thursday's year."""
FIRST_OF_1900S = 69
"""POSIX: years 69 to 99 of a century are 1969 to 1999, and 00 to 68 are 2000 to 2068."""
MOST_EPOCH = 1e18
"""A larger number of seconds is no date, and its conversion to int64 stays defined."""
OFFSET_DIGITS, FRACTION_DIGITS, CLOCK_DIGITS, ISO_DAY_DIGITS = 6, 6, 4, 4
"""Digits of an offset (HHMMSS), a fraction (microseconds), minutes and seconds (MMSS), and month and day (MMDD)."""


@dataclass(frozen=True)
class Part:
    """A numeric part of a date.

    low, size: the part is a whole number in low .. low + size - 1; size is None if the range is not small.
    period: number of units after which the part repeats; None if it does not repeat.
    """

    low: int
    size: int | None
    period: float | None
    doc: str


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "year": Part(1, None, None, "1 to 9999."),
        "quarter": Part(1, 4, 4, "1 to 4."),
        "month": Part(1, 12, 12, "1 (January) to 12."),
        "day": Part(1, 31, 31, "1 to 31."),
        "hour": Part(0, 24, 24, "0 to 23; 0 where the format has no time."),
        "minute": Part(0, 60, 60, "0 to 59."),
        "second": Part(0, 60, 60, "0 to 59, whole."),
        "day_of_week": Part(0, 7, 7, "0 (Monday) to 6 (Sunday)."),
        "day_of_year": Part(1, 366, 365.25, "1 to 366."),
        "week_of_year": Part(1, 53, 365.25 / 7, "ISO 8601 week, 1 to 53; week 1 has the first Thursday."),
        "weekend": Part(0, 2, None, "1 on Saturday and Sunday, else 0."),
        "epoch": Part(0, None, None, "Days with fraction since 1970-01-01 UTC, accurate to 84 s until 2059."),
    }
)


def date_part_kind(part: str, *, cyclic: bool) -> Literal["dense", "ids", "cyclic"]:
    """Returns the representation of a date part: a z-scored number, an id, or a (sin, cos) pair."""
    if PARTS[part].size is None:
        return "dense"
    return "cyclic" if cyclic and PARTS[part].period is not None else "ids"


UNITS: Mapping[str, int] = MappingProxyType(
    {"seconds": 1_000_000, "minutes": 60_000_000, "hours": 3_600_000_000, "days": MICROSECONDS_PER_DAY}
)
"""Unit of a time difference -> microseconds."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class Directive:
    """A `%` directive: the field it fills (None: ignored), the regular expression of its text, and its doc.

    meaning: the meaning of the field; a format may contain each meaning only once.
    """

    field: str | None
    pattern: str
    meaning: str
    doc: str


_LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_LONG_WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_60 = r"[0-5]\d"
_OFFSET = rf"z|utc|gmt|[+-](?:[01]\d|2[0-3])(?::{_60}(?::{_60})?|{_60}(?:{_60})?)?"

_NUMBERS = (
    "Four digits of a year; month, day, day of the year (instead of month and day), hour, minute, second, with or "
    "without leading zeros."
)
_HALVES = "Hour of 12, with AM or PM."
_MONTH_NAMES = "Month, English, three letters or in full."
_WEEKDAYS = "Weekday, English; ignored."

DIRECTIVES: Mapping[str, Directive] = MappingProxyType(
    {
        "%Y": Directive("year", r"\d{4}", "year", _NUMBERS),
        "%y": Directive("year_of_century", r"\d{2}", "year", "Two digits: 69 to 99 are 19xx, 00 to 68 are 20xx."),
        "%m": Directive("month", r"1[0-2]|0[1-9]|[1-9]", "month", _NUMBERS),
        "%b": Directive("month_name", "|".join(MONTHS), "month", _MONTH_NAMES),
        "%B": Directive("month_name", _LONG_MONTHS, "month", _MONTH_NAMES),
        "%d": Directive("day", r"3[01]|[12]\d|0[1-9]|[1-9]", "day", _NUMBERS),
        "%j": Directive(
            "day_of_year",
            r"36[0-6]|3[0-5]\d|[12]\d\d|0[1-9]\d|00[1-9]|[1-9]\d|0[1-9]|[1-9]",
            "day of the year",
            _NUMBERS,
        ),
        "%H": Directive("hour", r"2[0-3]|[01]\d|\d", "hour", _NUMBERS),
        "%I": Directive("hour_of_half", r"1[0-2]|0[1-9]|[1-9]", "hour", _HALVES),
        "%p": Directive("half", "am|pm", "half of the day", _HALVES),
        "%M": Directive("minute", r"[0-5]\d|\d", "minute", _NUMBERS),
        "%S": Directive("second", r"[0-5]\d|\d", "second", _NUMBERS),
        "%f": Directive("fraction", r"\d{1,9}", "fraction", "Fraction of a second, 1 to 9 digits."),
        "%z": Directive("offset", _OFFSET, "offset", "Offset from UTC: +HHMM, +HH:MM, +HH, Z, UTC or GMT."),
        "%a": Directive(None, "mon|tue|wed|thu|fri|sat|sun", "weekday", _WEEKDAYS),
        "%A": Directive(None, _LONG_WEEKDAYS, "weekday", _WEEKDAYS),
    }
)
DEFAULTS: Mapping[str, int | str] = MappingProxyType(
    {
        "year": 1900,
        "year_of_century": 0,
        "month": 1,
        "month_name": "jan",
        "day": 1,
        "day_of_year": 1,
        "day_of_iso": "0101",
        "hour": 0,
        "hour_of_half": 0,
        "half": "",
        "minute": 0,
        "second": 0,
        "clock": "",
        "short_clock": "",
        "fraction": "",
        "offset": "",
        "sign": "",
        "epoch": 0,
        "only_fraction": "",
        "exponent": "0",
    }
)
"""Value of a field that the text omits; its type determines how the field is parsed."""

_DIGITS = {"%Y", "%y", "%m", "%d", "%j", "%H", "%M", "%S"}
_POINT = r"(?:\.0+)?"  # Tools write 20240630 as 20240630.0 in a column with gaps.
_SHORTHANDS = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S"}
_ACCEPTED = (*DIRECTIVES, *_SHORTHANDS, "%%")


@dataclass(frozen=True)
class DateFormat:
    """A compiled format.

    text: the format as written by the user.
    pattern: RE2 expression of the whole text; group i + 1 has the name fields[i], and is empty if absent.
    fields: at most nine, because an RE2 rewrite can refer to nine groups.
    unit: microseconds per unit of an epoch format, else None.
    """

    text: str
    pattern: str
    fields: tuple[str, ...]
    unit: int | None = None


def compile_format(text: str) -> DateFormat:
    """Returns the compiled form of a date format.

    Example:
        >>> compile_format("%d/%m/%Y").fields
        ('day', 'month', 'year')

    Args:
        text: `iso`, `epoch_seconds`, `epoch_millis`, `epoch_days`, or text with `DIRECTIVES`.

    Raises:
        UserError: A directive or word is unknown, or directives conflict or lack a required partner.
    """
    if text in SPECIAL_FORMATS:
        return SPECIAL_FORMATS[text]
    tokens = tuple(_tokens(text, text))
    used = [token for token in tokens if token in DIRECTIVES]
    _check(used, text)
    fields = tuple(field for field in (DIRECTIVES[token].field for token in used) if field is not None)
    pattern = "".join(map(_pattern, tokens))
    return DateFormat(text, _whole(pattern if set(tokens) - _DIGITS else f"{pattern}{_POINT}"), fields)


def _tokens(part: str, text: str) -> Iterator[str]:
    """Yields directives, single blanks for runs of blanks, and single literal characters."""
    for found in re.finditer(r"%.?|\s+|.", part, flags=re.DOTALL):
        token = found.group()
        if token in _SHORTHANDS:
            yield from _tokens(_SHORTHANDS[token], text)
        elif token.startswith("%") and token not in _ACCEPTED:
            raise UserError(
                f"date format {text!r}: unknown directive {token!r}. Accepted: {', '.join(_ACCEPTED)}."
                f"{did_you_mean(token, _ACCEPTED)}"
            )
        else:
            yield " " if token.isspace() else token


def _pattern(token: str) -> str:
    if token == " ":
        return r"\s+"
    if token not in DIRECTIVES:
        return re.escape(token.removeprefix("%") or token)
    directive = DIRECTIVES[token]
    return f"(?:{directive.pattern})" if directive.field is None else f"(?P<{directive.field}>{directive.pattern})"


def _whole(pattern: str) -> str:
    return rf"(?i)^\s*(?:{pattern})\s*$"


def _check(used: list[str], text: str) -> None:
    if not used:
        raise UserError(
            f"date format {text!r} has no directive. Accepted: {', '.join(SPECIAL_FORMATS)}, or text with "
            f"directives such as '%Y-%m-%d %H:%M:%S'.{did_you_mean(text, SPECIAL_FORMATS)}"
        )
    if all(DIRECTIVES[token].field is None for token in used):
        raise UserError(f"date format {text!r} contains only a weekday, which is not a date. Add day, month and year.")
    by_meaning: dict[str, str] = {}
    for token in used:
        meaning = DIRECTIVES[token].meaning
        if meaning in by_meaning:
            raise UserError(
                f"date format {text!r} contains the {meaning} twice: {by_meaning[meaning]} and {token}. Keep one."
            )
        by_meaning[meaning] = token
    if "%j" in used and ("month" in by_meaning or "day" in by_meaning):
        raise UserError(f"date format {text!r}: %j already contains month and day. Remove their directives.")
    if ("%I" in used) != ("%p" in used):
        raise UserError(f"date format {text!r}: %I (hour of 12) and %p (AM, PM) require each other.")


def _epoch(text: str, unit: int) -> DateFormat:
    number = (
        r"(?:\+|(?P<sign>-))?(?:(?P<epoch>\d{1,18})(?:\.(?P<fraction>\d{1,15})?\d*)?|\.(?P<only_fraction>\d{1,15})\d*)"
        r"(?:e(?P<exponent>[+-]?\d{1,2}))?"
    )
    return DateFormat(text, _whole(number), ("sign", "epoch", "fraction", "only_fraction", "exponent"), unit)


_MONTH, _DAY = "(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_WEEK = r"W(?:0[1-9]|[1-4]\d|5[0-3])"
_ISO = (
    rf"(?P<year>\d{{4}})(?P<day_of_iso>-{_MONTH}-{_DAY}|{_MONTH}{_DAY}{_POINT}|-{_WEEK}(?:-[1-7])?|{_WEEK}[1-7]?)"
    rf"(?:[t ](?P<hour>[01]\d|2[0-3])"
    rf"(?:(?P<clock>:{_60}:{_60}|{_60}{_60})[.,](?P<fraction>\d+)|(?P<short_clock>(?::{_60}){{1,2}}|(?:{_60}){{1,2}}))?"
    rf"\s?(?P<offset>{_OFFSET})?)?"
)
_ISO_FIELDS = ("year", "day_of_iso", "hour", "clock", "fraction", "short_clock", "offset")

SPECIAL_FORMATS: Mapping[str, DateFormat] = MappingProxyType(
    {
        "iso": DateFormat("iso", _whole(_ISO), _ISO_FIELDS),
        "epoch_seconds": _epoch("epoch_seconds", 1_000_000),
        "epoch_millis": _epoch("epoch_millis", 1_000),
        "epoch_days": _epoch("epoch_days", MICROSECONDS_PER_DAY),
    }
)
