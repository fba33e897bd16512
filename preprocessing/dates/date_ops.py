"""Dates in the graph: text -> `DateColumn` -> parts, (sin, cos) pairs and differences.

It uses only TensorFlow ops, so it runs with any batch size, in a saved model, without Python. Text that does not match
the format or is no day of the calendar is missing: no text makes an op fail.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError, did_you_mean
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
    PARTS,
    SATURDAY,
    THURSDAY,
    UNITS,
    WEEK,
    DateFormat,
)

_ERA_YEARS, _ERA_DAYS = 400, 146_097
"""After an era, the calendar repeats."""
_ERA_START = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


class DateColumn(NamedTuple):
    """Points in time in local time, as written in the text. All fields have the shape [batch].

    days: int64, since 1970-01-01, in -719,162 .. 2,932,896 (years 1 to 9999).
    microseconds: int64, since midnight, 0 .. 86,399,999,999.
    offset: int64, microseconds by which local time is ahead of UTC; 0 if the text has no offset.
    valid: bool; the other three are 0 where it is false.
    """

    days: tf.Tensor
    microseconds: tf.Tensor
    offset: tf.Tensor
    valid: tf.Tensor


class _Civil(NamedTuple):
    year: tf.Tensor
    month: tf.Tensor
    day: tf.Tensor


def parse_dates(values: tf.Tensor, format: DateFormat) -> DateColumn:
    """Parses dates.

    Fields that the format lacks have the defaults of Python's `strptime`: year 1900, January, the 1st, midnight.

    Args:
        values: string [batch]; an empty string is missing.
    """
    fits = tf.strings.regex_full_match(values, format.pattern)
    fields = _read_fields(values, fits, format)
    if format.unit is None:
        days, exists = _calendar_days(fields)
        microseconds = _time_of_day(fields)
    else:
        days, microseconds = _since_epoch(fields, format.unit)
        exists = fits
    # The fraction of a number since 1970 may round up to the next day.
    days += microseconds // MICROSECONDS_PER_DAY
    microseconds %= MICROSECONDS_PER_DAY
    valid = fits & exists & (days >= FIRST_DAY) & (days <= LAST_DAY)
    return DateColumn(
        days=_or_zero(valid, days),
        microseconds=_or_zero(valid, microseconds),
        offset=_or_zero(valid, _offset(fields)),
        valid=valid,
    )


def part(column: DateColumn, name: str) -> tf.Tensor:
    """Returns one part of every date: float32 [batch], NaN where missing.

    All parts except `epoch` are whole numbers in the range of `date_format.PARTS`, in the local time of the text, like
    those of Python's datetime. `epoch` is in days since 1970-01-01T00:00Z. Its float32 steps are 2**-9 days (169
    seconds) from 2014 to 2059; use `difference` for exact time spans.

    Raises:
        UserError: The part does not exist.
    """
    if name not in PARTS:
        raise UserError(f"unknown date part {name!r}. Accepted: {', '.join(PARTS)}.{did_you_mean(name, PARTS)}")
    return _or_nan(column.valid, _PARTS[name](column))


def cyclic(column: DateColumn, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a part as a point on the unit circle: (sin, cos), each float32 [batch], NaN where missing.

    The lowest value of the part is at angle 0, and a period is one turn: hour 6 is (1, 0), and December is next to
    January.

    Raises:
        UserError: The part does not exist or does not repeat.
    """
    value = part(column, name)
    period = PARTS[name].period
    if period is None:
        repeating = ", ".join(known for known, p in PARTS.items() if p.period is not None)
        raise UserError(f"date part {name!r} does not repeat. Accepted as cyclic: {repeating}.")
    angle = (value - PARTS[name].low) * np.float32(2 * np.pi / period)
    return tf.sin(angle), tf.cos(angle)


def difference(later: DateColumn, earlier: DateColumn, *, unit: str = "seconds") -> tf.Tensor:
    """Returns later - earlier in `unit`: float32 [batch], NaN where either is missing.

    It subtracts whole microseconds of UTC in int64, so there is no cancellation; only the result is rounded.

    Raises:
        UserError: The unit does not exist.
    """
    if unit not in UNITS:
        raise UserError(f"unknown unit of time {unit!r}. Accepted: {', '.join(UNITS)}.{did_you_mean(unit, UNITS)}")
    microseconds = tf.cast(_utc_microseconds(later) - _utc_microseconds(earlier), tf.float64)
    return _or_nan(later.valid & earlier.valid, microseconds / UNITS[unit])


def _int64(value: int) -> tf.Tensor:
    return tf.constant(value, tf.int64)


def _or_zero(valid: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.where(valid, value, _int64(0))


def _or_nan(valid: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.where(valid, tf.cast(value, tf.float32), np.float32("nan"))


def _read_fields(values: tf.Tensor, fits: tf.Tensor, format: DateFormat) -> dict[str, tf.Tensor]:
    """Returns the fields of `format`: int64 or string [batch], with defaults for absent fields.

    It uses one rewrite to comma-separated fields and one decoding; a rewrite per field takes four times as long. The
    last field is a dot, because a record of one empty field would be rejected.
    """
    rewrite = "".join(rf"\{group}," for group in range(1, len(format.fields) + 1)) + "."
    records = tf.strings.regex_replace(values, format.pattern, rewrite, replace_global=False)
    records = tf.where(fits, records, "," * len(format.fields) + ".")
    decoded = tf.io.decode_csv(records, [*map(_default, format.fields), ""])
    return dict(zip(format.fields, decoded[:-1], strict=True))


def _default(field: str) -> tf.Tensor:
    value = DEFAULTS[field]
    return tf.constant(value) if isinstance(value, str) else _int64(value)


def _get(fields: Mapping[str, tf.Tensor], field: str) -> tf.Tensor:
    """Returns a field, or its scalar default if the format lacks the field."""
    return fields[field] if field in fields else _default(field)


def _calendar_days(fields: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns days since 1970-01-01, and whether the day exists in the calendar."""
    if "day_of_iso" in fields:
        return _days_of_iso(fields["year"], fields["day_of_iso"])
    civil = _Civil(_year(fields), _month(fields), _get(fields, "day"))
    first = _days_from_civil(civil)
    days = first + _get(fields, "day_of_year") - 1
    read_back = _civil_from_days(first)
    in_month = tf.equal(read_back.month, civil.month) & tf.equal(read_back.day, civil.day)
    return days, in_month & tf.equal(_civil_from_days(days).year, civil.year)


def _days_of_iso(year: tf.Tensor, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the days of `-MM-DD`, `MMDD`, `-Www-D`, `WwwD` or a week alone, and whether they exist."""
    digits = _digits(tf.strings.join([text, "11"]), ISO_DAY_DIGITS)  # A week alone means its Monday.
    first, day = digits // 100, digits % 100
    is_week = tf.strings.regex_full_match(text, "-?[Ww].*")
    month = tf.where(is_week, _int64(1), first)
    civil = _Civil(year, month, tf.where(is_week, _int64(4), day))  # January 4th is in the first week.
    days = _days_from_civil(civil)
    monday = days - _day_of_week(days) + WEEK * (first - 1)
    read_back = _civil_from_days(tf.where(is_week, monday + THURSDAY, days))
    exists = tf.equal(read_back.year, year) & (is_week | tf.equal(read_back.month, month))
    return tf.where(is_week, monday + day // 10 - 1, days), exists


def _since_epoch(fields: Mapping[str, tf.Tensor], unit: int) -> tuple[tf.Tensor, tf.Tensor]:
    digits = tf.strings.join([fields["fraction"], fields["only_fraction"], "0"])
    written = tf.strings.join([tf.strings.as_string(fields["epoch"]), ".", digits, "e", fields["exponent"]])
    number = tf.minimum(tf.strings.to_number(written, tf.float64), MOST_EPOCH)
    # float64 is sufficient for a number with an exponent; the digits of any other number count exactly.
    plain = tf.equal(fields["exponent"], "0")
    whole = tf.where(plain, fields["epoch"], tf.cast(number, tf.int64))
    fraction = tf.strings.to_number(tf.strings.join(["0.", digits]), tf.float64)
    fraction = tf.where(plain, fraction, number - tf.floor(number))
    sign = tf.where(tf.equal(fields["sign"], "-"), _int64(-1), _int64(1))
    whole *= sign
    units_per_day = MICROSECONDS_PER_DAY // unit
    days = whole // units_per_day
    return days, (whole - days * units_per_day) * unit + sign * tf.cast(tf.round(fraction * unit), tf.int64)


def _year(fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
    if "year_of_century" not in fields:
        return _get(fields, "year")
    year = fields["year_of_century"]
    return year + tf.where(year >= FIRST_OF_1900S, _int64(1900), _int64(2000))


def _month(fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
    if "month_name" not in fields:
        return _get(fields, "month")
    names = tf.strings.substr(tf.strings.lower(fields["month_name"]), 0, 3)
    return tf.argmax(tf.equal(names[:, tf.newaxis], tf.constant(MONTHS)), axis=1) + 1


def _time_of_day(fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
    fraction = _digits(_get(fields, "fraction"), FRACTION_DIGITS)
    if "clock" in fields:
        clock = _digits(tf.strings.join([fields["clock"], fields["short_clock"]]), CLOCK_DIGITS)
        return ((fields["hour"] * 60 + clock // 100) * 60 + clock % 100) * UNITS["seconds"] + fraction
    if "hour_of_half" in fields:
        afternoon = tf.equal(tf.strings.lower(fields["half"]), "pm")
        hour = fields["hour_of_half"] % 12 + tf.where(afternoon, _int64(12), _int64(0))
    else:
        hour = _get(fields, "hour")
    seconds = (hour * 60 + _get(fields, "minute")) * 60 + _get(fields, "second")
    return seconds * UNITS["seconds"] + fraction


def _digits(text: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the first `count` digits in a text as a number, int64, with zeros for those that it lacks."""
    padded = tf.strings.join([tf.strings.regex_replace(text, "[^0-9]", ""), "0" * count])
    return tf.strings.to_number(tf.strings.substr(padded, 0, count), tf.int64)


def _offset(fields: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Parses `+HH:MM:SS`, `+HHMM`, `+HH`, `Z` or an empty text to microseconds ahead of UTC."""
    text = _get(fields, "offset")
    number = _digits(text, OFFSET_DIGITS)
    seconds = (number // 10_000 * 60 + number // 100 % 100) * 60 + number % 100
    behind = tf.strings.regex_full_match(text, "-.*")
    return tf.where(behind, -seconds, seconds) * UNITS["seconds"]


def _days_from_civil(civil: _Civil) -> tf.Tensor:
    """Returns days since 1970-01-01, int64; days past the end of a month continue into the next month.

    Source: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, `days_from_civil`: years start in March, which
    makes the leap day the last day; an era is 400 years.
    """
    in_old_year = civil.month <= 2
    year = civil.year - tf.cast(in_old_year, tf.int64)
    month_from_march = (civil.month + 9) % 12
    era = year // _ERA_YEARS
    year_of_era = year - era * _ERA_YEARS
    day_of_year = (153 * month_from_march + 2) // 5 + civil.day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _ERA_DAYS + day_of_era - _ERA_START


def _civil_from_days(days: tf.Tensor) -> _Civil:
    """Returns the date of int64 days: the inverse of `_days_from_civil`. Source: same article, `civil_from_days`."""
    shifted = days + _ERA_START
    era = shifted // _ERA_DAYS
    day_of_era = shifted - era * _ERA_DAYS
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = (month_from_march + 2) % 12 + 1
    year = year_of_era + era * _ERA_YEARS + tf.cast(month <= 2, tf.int64)
    return _Civil(year, month, day)


def _utc_microseconds(column: DateColumn) -> tf.Tensor:
    return column.days * MICROSECONDS_PER_DAY + column.microseconds - column.offset


def _day_of_week(days: tf.Tensor) -> tf.Tensor:
    return (days + THURSDAY) % WEEK


def _day_of_year(days: tf.Tensor) -> tf.Tensor:
    new_year = _Civil(_civil_from_days(days).year, _int64(1), _int64(1))
    return days - _days_from_civil(new_year) + 1


def _week_of_year(days: tf.Tensor) -> tf.Tensor:
    thursday = days - _day_of_week(days) + THURSDAY
    return (_day_of_year(thursday) - 1) // WEEK + 1


_PARTS: Mapping[str, Callable[[DateColumn], tf.Tensor]] = MappingProxyType(
    {
        "year": lambda column: _civil_from_days(column.days).year,
        "quarter": lambda column: (_civil_from_days(column.days).month + 2) // 3,
        "month": lambda column: _civil_from_days(column.days).month,
        "day": lambda column: _civil_from_days(column.days).day,
        "hour": lambda column: column.microseconds // UNITS["hours"],
        "minute": lambda column: column.microseconds // UNITS["minutes"] % 60,
        "second": lambda column: column.microseconds // UNITS["seconds"] % 60,
        "day_of_week": lambda column: _day_of_week(column.days),
        "day_of_year": lambda column: _day_of_year(column.days),
        "week_of_year": lambda column: _week_of_year(column.days),
        "weekend": lambda column: _day_of_week(column.days) >= SATURDAY,
        "epoch": lambda column: tf.cast(_utc_microseconds(column), tf.float64) / MICROSECONDS_PER_DAY,
    }
)
