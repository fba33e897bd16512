"""Dates as NumPy arrays: what `date_ops.py` reads in the graph, for splits, spans, the gate and the checks.

Arrow and the graph match texts with the same library, RE2, and the same expression of `date_format.py`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.dates.date_format import (
    CLOCK_DIGITS,
    DEFAULTS,
    FIRST_DAY,
    FIRST_OF_1900S,
    FRACTION_DIGITS,
    ISO_DAY_DIGITS,
    LAST_DAY,
    MICROSECONDS_PER_DAY,
    MONTHS,
    MOST_EPOCH,
    OFFSET_DIGITS,
    THURSDAY,
    UNITS,
    WEEK,
    DateFormat,
    compile_format,
)

_EPOCH = 1970
_FIELDS = np.dtype("int64"), np.dtype("int64"), np.dtype("bool")


class ReadDates(NamedTuple):
    """Points in time. All fields have the shape [texts].

    local: int64, microseconds since 1970-01-01 in local time, as written in the text; 0 where it is no date.
    offset: int64, microseconds by which local time is ahead of UTC; 0 if the text has no offset.
    valid: bool, whether the text is a date.
    """

    local: np.ndarray
    offset: np.ndarray
    valid: np.ndarray

    @property
    def utc(self) -> np.ndarray:
        """int64, microseconds since 1970-01-01 UTC; text without an offset counts as UTC."""
        return self.local - self.offset

    @property
    def seconds(self) -> np.ndarray:
        """float64, seconds since 1970-01-01 UTC; NaN where the text is no date."""
        return np.where(self.valid, self.utc / UNITS["seconds"], np.nan)


def read_dates(texts: pa.Array, format: str) -> ReadDates:
    """Reads dates; each distinct text is parsed once.

    Args:
        texts: string [texts]; null is no date.

    Raises:
        UserError: The format is none; see `compile_format`.
    """
    compiled = compile_format(format)
    distinct = texts.dictionary_encode()
    read = _read(distinct.dictionary.cast(pa.string()), compiled)
    indices = distinct.indices.fill_null(len(distinct.dictionary)).to_numpy(zero_copy_only=False)
    return ReadDates(*(np.append(field, np.zeros(1, field.dtype))[indices] for field in read))  # the last is for null


def instant(text: str, format: str) -> int | None:
    """Returns a date in microseconds since 1970-01-01 UTC, or None if the text is no date of the format."""
    read = read_dates(pa.array([text], pa.string()), format)
    return int(read.utc[0]) if read.valid[0] else None


@dataclass(frozen=True)
class _Fields:
    """The fields of texts that match a format. matched: struct [matched]."""

    names: tuple[str, ...]
    matched: pa.StructArray

    def texts(self, name: str) -> pa.Array:
        """Returns a field as string [matched], with its default where the text or the format lacks it."""
        if name not in self.names:
            return pa.array([str(DEFAULTS[name])] * len(self.matched), pa.string())
        field = self.matched.field(self.names.index(name))
        return pc.if_else(pc.equal(field, ""), str(DEFAULTS[name]), field)

    def numbers(self, name: str) -> np.ndarray:
        """Returns a field as int64 [matched]."""
        return self.texts(name).cast(pa.int64()).to_numpy()

    def equal(self, name: str, text: str) -> np.ndarray:
        """Returns whether a field has a value, in any case: bool [matched]."""
        return pc.equal(pc.utf8_lower(self.texts(name)), text).to_numpy(zero_copy_only=False).astype(bool)


def _read(texts: pa.Array, format: DateFormat) -> ReadDates:
    found = pc.extract_regex(texts, pattern=format.pattern)
    fits = found.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    read = ReadDates(*(np.zeros(len(texts), kind) for kind in _FIELDS))
    if not fits.any():
        return read
    fields = _Fields(format.fields, found.filter(pa.array(fits)))
    if format.unit is None:
        days, exists = (_days_of_iso if "day_of_iso" in format.fields else _calendar_days)(fields)
        microseconds = _time_of_day(fields)
    else:
        days, microseconds = _since_epoch(fields, format.unit)
        exists = np.ones(len(days), dtype=bool)
    days = days + microseconds // MICROSECONDS_PER_DAY
    exists &= (days >= FIRST_DAY) & (days <= LAST_DAY)
    local = np.where(exists, days, 0) * MICROSECONDS_PER_DAY + microseconds % MICROSECONDS_PER_DAY
    for field, values in zip(read, (local, _offset(fields), exists), strict=True):
        field[fits] = np.where(exists, values, 0)
    return read


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns days since 1970-01-01, and whether the month has that day."""
    months = ((year - _EPOCH) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + day - 1
    return days.astype(np.int64), days.astype("datetime64[M]") == months


def _year_of(days: np.ndarray) -> np.ndarray:
    return days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + _EPOCH


def _calendar_days(fields: _Fields) -> tuple[np.ndarray, np.ndarray]:
    year, month = fields.numbers("year"), fields.numbers("month")
    if "year_of_century" in fields.names:
        in_century = fields.numbers("year_of_century")
        year = in_century + np.where(in_century >= FIRST_OF_1900S, 1900, 2000)
    if "month_name" in fields.names:
        names = pc.utf8_lower(pc.utf8_slice_codeunits(fields.texts("month_name"), 0, 3))
        month = pc.index_in(names, value_set=pa.array(MONTHS)).fill_null(0).cast(pa.int64()).to_numpy() + 1
    first, in_month = _days(year, month, fields.numbers("day"))
    days = first + fields.numbers("day_of_year") - 1
    return days, in_month & (_year_of(days) == year)


def _days_of_iso(fields: _Fields) -> tuple[np.ndarray, np.ndarray]:
    year, text = fields.numbers("year"), fields.texts("day_of_iso")
    is_week = pc.match_substring(text, "w", ignore_case=True).to_numpy(zero_copy_only=False).astype(bool)
    digits = _digits(pc.binary_join_element_wise(text, "11", ""), ISO_DAY_DIGITS)  # A week alone means its Monday.
    first, day = digits // 100, digits % 100
    days, in_month = _days(year, np.where(is_week, 1, first), np.where(is_week, 4, day))
    monday = days - (days + THURSDAY) % WEEK + WEEK * (first - 1)  # January 4th is in the first week.
    in_year = _year_of(monday + THURSDAY) == year
    return np.where(is_week, monday + day // 10 - 1, days), np.where(is_week, in_year, in_month)


def _digits(text: pa.Array, count: int) -> np.ndarray:
    """Returns the first `count` digits in a text as int64, with zeros for those that it lacks."""
    padded = pc.binary_join_element_wise(pc.replace_substring_regex(text, "[^0-9]", ""), "0" * count, "")
    return pc.utf8_slice_codeunits(padded, 0, count).cast(pa.int64()).to_numpy()


def _time_of_day(fields: _Fields) -> np.ndarray:
    hour = fields.numbers("hour")
    if "hour_of_half" in fields.names:
        hour = fields.numbers("hour_of_half") % 12 + np.where(fields.equal("half", "pm"), 12, 0)
    clock = _digits(pc.binary_join_element_wise(fields.texts("clock"), fields.texts("short_clock"), ""), CLOCK_DIGITS)
    minute, second = fields.numbers("minute") + clock // 100, fields.numbers("second") + clock % 100
    return ((hour * 60 + minute) * 60 + second) * UNITS["seconds"] + _digits(fields.texts("fraction"), FRACTION_DIGITS)


def _since_epoch(fields: _Fields, unit: int) -> tuple[np.ndarray, np.ndarray]:
    digits = pc.binary_join_element_wise(fields.texts("fraction"), fields.texts("only_fraction"), "0", "")
    whole = fields.numbers("epoch")
    written = pc.binary_join_element_wise(fields.texts("epoch"), ".", digits, "e", fields.texts("exponent"), "")
    number = np.minimum(written.cast(pa.float64()).to_numpy(), MOST_EPOCH)
    # float64 is sufficient for a number with an exponent; the digits of any other number count exactly.
    plain = fields.equal("exponent", "0")
    fraction = pc.binary_join_element_wise("0.", digits, "").cast(pa.float64()).to_numpy()
    fraction = np.where(plain, fraction, number - np.floor(number))
    sign = np.where(fields.equal("sign", "-"), -1, 1)
    whole = np.where(plain, whole, number.astype(np.int64)) * sign
    units_per_day = MICROSECONDS_PER_DAY // unit
    days = whole // units_per_day
    return days, (whole - days * units_per_day) * unit + sign * np.round(fraction * unit).astype(np.int64)


def _offset(fields: _Fields) -> np.ndarray:
    """Returns `+HH:MM:SS`, `+HHMM`, `+HH`, `Z` or an empty text as microseconds ahead of UTC."""
    text = fields.texts("offset")
    number = _digits(text, OFFSET_DIGITS)
    seconds = (number // 10_000 * 60 + number // 100 % 100) * 60 + number % 100
    behind = pc.starts_with(text, "-").to_numpy(zero_copy_only=False).astype(bool)
    return np.where(behind, -seconds, seconds) * UNITS["seconds"]
