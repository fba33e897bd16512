import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullpass.base.errors import UserError
from fullpass.preprocessing.dates.date_format import DIRECTIVES, PARTS, SPECIAL_FORMATS, UNITS, compile_format


def groups(format_text, text):
    """Returns the fields of a text, matched with Python's re; these patterns have the same meaning in RE2."""
    compiled = compile_format(format_text)
    found = re.match(compiled.pattern, text, flags=re.ASCII)
    return None if found is None else dict(zip(compiled.fields, found.groups(), strict=True))


def test_a_format_becomes_one_group_per_field_in_order():
    compiled = compile_format("%d/%m/%Y %H:%M")
    assert compiled.text == "%d/%m/%Y %H:%M"
    assert compiled.fields == ("day", "month", "year", "hour", "minute")
    assert compiled.unit is None
    assert groups("%d/%m/%Y %H:%M", "1/12/2024  7:05") == {
        "day": "1",
        "month": "12",
        "year": "2024",
        "hour": "7",
        "minute": "05",
    }


@pytest.mark.parametrize(
    ("format_text", "text"),
    [
        ("%Y.%m", "2024x01"),  # a literal dot is no wildcard
        ("%Y-%m-%d", "2024-01-01x"),
        ("%Y-%m-%d", "x2024-01-01"),
        ("%Y-%m-%d", "2024-13-01"),
        ("%Y-%m-%d", "2024-01-32"),
        ("%Y", "24"),
        ("%H:%M", "24:00"),
        ("%H:%M", "23:60"),
        ("%H:%M %z", "23:00 +2400"),
        ("%d %b", "1 january"),
        ("iso", "2024-1-1"),
        ("iso", "2024-01-01T24:00"),
        ("iso", "2024-0101"),
        ("iso", "2024-01-01T12.5"),
        ("iso", "2024-01-01T12:0559"),
        ("iso", "2024-01-01Z"),
        ("epoch_seconds", "1e"),
        ("epoch_seconds", "."),
        ("epoch_seconds", "-"),
        ("epoch_seconds", "1234567890123456789"),
    ],
)
def test_text_that_does_not_fit(format_text, text):
    assert groups(format_text, text) is None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("2024-02-29", {"year": "2024", "day_of_iso": "-02-29"}),
        ("2024W093", {"year": "2024", "day_of_iso": "W093"}),
        ("2024-02-29 13:05", {"hour": "13", "short_clock": ":05"}),
        ("2024-02-29T13:05:59", {"short_clock": ":05:59"}),
        ("2024-02-29T13:05:59.25+01:00", {"clock": ":05:59", "fraction": "25", "offset": "+01:00"}),
        ("2024-02-29T130559,123456789123Z", {"clock": "0559", "fraction": "123456789123", "offset": "Z"}),
        ("2024-02-29 13:05:59 UTC", {"offset": "UTC"}),
        ("  2024-02-29\r\n", {"day_of_iso": "-02-29"}),
    ],
)
def test_iso(text, fields):
    assert groups("iso", text).items() >= fields.items()


def test_epoch_formats_have_a_unit_in_microseconds():
    units = {name: compiled.unit for name, compiled in SPECIAL_FORMATS.items()}
    assert units == {
        "iso": None,
        "epoch_seconds": 10**6,
        "epoch_millis": 10**3,
        "epoch_days": 86_400 * 10**6,
    }
    absent = dict.fromkeys(compile_format("epoch_millis").fields)
    assert groups("epoch_millis", "-12.5") == {**absent, "sign": "-", "epoch": "12", "fraction": "5"}
    assert groups("epoch_millis", "+12.") == {**absent, "epoch": "12"}
    assert groups("epoch_millis", "-.5e+3") == {**absent, "sign": "-", "only_fraction": "5", "exponent": "+3"}


def test_shorthands_are_their_long_forms():
    assert compile_format("%F %T").pattern == compile_format("%Y-%m-%d %H:%M:%S").pattern
    assert groups("100%% %F", "100% 2024-01-02") == {"year": "2024", "month": "01", "day": "02"}


def test_weekdays_are_read_over():
    assert compile_format("%a %d %b %Y").fields == ("day", "month_name", "year")
    assert groups("%A %d %B", "Thursday 29 February") == {"day": "29", "month_name": "February"}


@pytest.mark.parametrize(
    ("format_text", "expected"),
    [
        ("%Y-%Q", r"unknown directive '%Q'. Accepted: %Y, %y, %m"),
        ("%Y-%", r"unknown directive '%'"),
        ("%Y-%é", r"unknown directive '%é'"),
        ("%Y-%h", r"unknown directive '%h'.*Did you mean \"%H\""),
        ("", r"has no directive. Accepted: iso, epoch_seconds"),
        ("ISO", r"has no directive.*Did you mean \"iso\""),
        ("epoch_second", r"Did you mean \"epoch_seconds\""),
        ("yyyy-mm-dd", r"such as '%Y-%m-%d %H:%M:%S'"),
        ("%a", r"contains only a weekday"),
        ("%Y %y", r"contains the year twice: %Y and %y"),
        ("%F %b", r"contains the month twice: %m and %b"),
        ("%H %I %p", r"contains the hour twice: %H and %I"),
        ("%Y %j %d", r"%j already contains month and day"),
        ("%I:%M", r"%I .* and %p .* require each other"),
        ("%H:%M %p", r"%I .* and %p .* require each other"),
    ],
)
def test_what_a_format_may_not_be(format_text, expected):
    with pytest.raises(UserError, match=expected) as error:
        compile_format(format_text)
    assert repr(format_text) in str(error.value)


@given(st.text())
def test_any_text_is_a_format_or_a_user_error(text):
    try:
        compiled = compile_format(text)
    except UserError:
        return
    assert len(compiled.fields) == re.compile(compiled.pattern).groups <= 9


def test_no_format_needs_more_groups_than_a_rewrite_can_name():
    longest = "%A %Y %b %d %I %p %M %S %f %z"
    assert len(compile_format(longest).fields) == 9


@given(st.datetimes(min_value=datetime(1600, 1, 1), max_value=datetime(2400, 12, 31)))
def test_what_python_writes_fits(moment):
    for directive in DIRECTIVES:
        if directive not in ("%I", "%p", "%z", "%a", "%A"):
            fields = groups(directive, moment.strftime(directive))
            assert fields == {DIRECTIVES[directive].field: moment.strftime(directive)}
    halves = groups("%I%p", moment.strftime("%I%p"))
    assert halves == {"hour_of_half": moment.strftime("%I"), "half": moment.strftime("%p")}


def test_parts_are_the_ranges_of_the_calendar():
    ranges = {name: range(p.low, p.low + p.size) for name, p in PARTS.items() if p.size is not None}
    assert ranges == {
        "quarter": range(1, 5),
        "month": range(1, 13),
        "day": range(1, 32),
        "hour": range(24),
        "minute": range(60),
        "second": range(60),
        "day_of_week": range(7),
        "day_of_year": range(1, 367),
        "week_of_year": range(1, 54),
        "weekend": range(2),
    }
    assert {name for name, p in PARTS.items() if p.period is None} == {"year", "weekend", "epoch"}


def test_units_are_microseconds():
    assert [UNITS[unit] // 10**6 for unit in ("seconds", "minutes", "hours", "days")] == [1, 60, 3600, 86_400]
