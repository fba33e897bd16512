"""When a cron line means, by hand around changes of the clock, and otherwise by readers that are not ours."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.pipeline.schedule_config import Cron, cron_problem

ZURICH = ZoneInfo("Europe/Zurich")
SPRING, AUTUMN = datetime(2024, 3, 31, tzinfo=UTC), datetime(2024, 10, 27, tzinfo=UTC)


def times(line, start, number, zone=ZURICH):
    """Returns the next times in UTC as `day hour:minute`."""
    assert cron_problem(line) is None
    found = []
    for _ in range(number):
        start = Cron.parse(line).next_after(start, zone)
        found.append(start.strftime("%d %H:%M"))
    return found


def test_times_of_day_are_those_of_the_zone_in_summer_and_winter():
    assert times("0 3 * * *", SPRING - timedelta(days=1), 3) == ["30 02:00", "31 01:00", "01 01:00"]
    assert times("0 3 * * *", AUTUMN - timedelta(days=1), 3) == ["26 01:00", "27 02:00", "28 02:00"]


def test_a_time_that_the_clock_leaves_out_counts_when_it_is_changed():
    assert times("30 2 * * *", SPRING - timedelta(days=1), 3) == ["30 01:30", "31 01:00", "01 00:30"]
    assert times("30,45 2 * * *", SPRING, 2) == ["31 01:00", "01 00:30"], "two times left out are one run"


def test_a_time_that_comes_twice_counts_once():
    assert times("30 2 * * *", AUTUMN - timedelta(days=1), 3) == ["26 00:30", "27 00:30", "28 01:30"]
    between = AUTUMN.replace(hour=0, minute=40)
    assert times("30 2 * * *", between, 1) == ["28 01:30"], "asked between the two as well"


def test_every_hour_is_every_hour_that_there_is():
    assert times("30 * * * *", SPRING, 3) == ["31 00:30", "31 01:30", "31 02:30"]
    assert times("30 * * * *", AUTUMN - timedelta(minutes=1), 4) == ["27 00:30", "27 01:30", "27 02:30", "27 03:30"]
    half = ZoneInfo("Australia/Lord_Howe")  # puts its clocks on by half an hour, at 15:30 UTC
    assert times("0 * * * *", datetime(2024, 10, 5, 14, tzinfo=UTC), 3, half) == ["05 14:30", "05 16:00", "05 17:00"]


def test_a_day_of_the_month_or_of_the_week_where_both_are_named():
    july = datetime(2024, 7, 1, tzinfo=UTC)  # a Monday
    assert times("0 3 5 * wed", july, 4, UTC) == ["03 03:00", "05 03:00", "10 03:00", "17 03:00"]
    assert times("0 3 */2 * wed", july, 2, UTC) == ["03 03:00", "17 03:00"], "a star names no day"
    assert times("0 3 * * 7", july, 1, UTC) == times("0 3 * * 0", july, 1, UTC) == ["07 03:00"]
    assert times("0 3 * * */3", july, 4, UTC) == ["03 03:00", "06 03:00", "07 03:00", "10 03:00"]


def test_a_step_from_a_day_of_the_week_ends_with_saturday():
    july = datetime(2024, 7, 1, tzinfo=UTC)
    for line in ("0 3 * * tue/2", "0 3 * * 2/2"):
        assert times(line, july, 3, UTC) == ["02 03:00", "04 03:00", "06 03:00"]
    assert times("0 3 * * 1/2", july, 4, UTC) == ["01 03:00", "03 03:00", "05 03:00", "08 03:00"]


@pytest.mark.parametrize(
    "line", ["* * * * *", "0 3 * * *", "*/15 0-6 1,15 jan-jun mon-fri", "5/10 * * * 7", "0 0 31 12 0"]
)
def test_a_line_that_is_right_has_no_problem(line):
    assert cron_problem(line) is None


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("*/0 * * * *", "minute"),
        ("5-1 * * * *", "minute"),
        ("a * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("* * * foo *", "month"),
        # Some readers of cron lines know these, and others do not.
        ("0 3 L * *", "day of month"),
        ("0 3 LW * *", "day of month"),
        ("0 3 * * 5#2", "day of week"),
    ],
)
def test_a_line_that_is_wrong_names_the_field(line, field):
    assert cron_problem(line).startswith(f"{field} takes")


def test_six_fields_begin_with_seconds():
    cron = Cron.parse("15,45 0 3 * * *")
    start = datetime(2024, 7, 1, tzinfo=UTC)
    found = list(islice(cron.between(start, start + timedelta(days=1), ZoneInfo("UTC")), 3))
    assert [f"{time:%d %H:%M:%S}" for time in found] == ["01 03:00:15", "01 03:00:45"]


@pytest.mark.parametrize("line", ["0 3 30 2 *", "0 0 31 4,6 *"])
def test_a_line_that_names_no_date_is_refused(line):
    assert "no date is one of" in cron_problem(line)


fields = st.tuples(
    st.sampled_from(["*", "0", "*/20", "5,35", "10-40/15"]),
    st.sampled_from(["*", "3", "1-3", "*/6", "0,2,23", "2"]),
    st.sampled_from(["*", "31", "1-10", "*/7"]),
    st.sampled_from(["*", "3,10"]),
    st.sampled_from(["*", "sun", "1-5", "7", "*/2", "0-7/3"]),
).map(" ".join)


@pytest.mark.integration
@settings(max_examples=12, deadline=None)
@given(line=fields, zone=st.sampled_from(["UTC", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe"]))
def test_instants_are_those_of_a_walk_through_every_minute(line, zone):
    zone = ZoneInfo(zone)
    for start in (SPRING - timedelta(days=1), AUTUMN - timedelta(days=1), datetime(2024, 3, 9, 12, tzinfo=UTC)):
        end = start + timedelta(days=2)
        assert list(Cron.parse(line).between(start, end, zone)) == walked(line, start, end, zone)


def walked(line, start, end, zone):
    """Returns the instants of a line by looking at every minute; the rules of the module, told another way."""
    minute, hour, *_ = line.split()
    found = set()
    instant = start
    shown = start.astimezone(zone).replace(tzinfo=None)
    seen = {shown}
    while instant < end:
        instant += timedelta(minutes=1)
        wall = instant.astimezone(zone).replace(tzinfo=None)
        if hour == "*":
            found |= {instant} if fits(line, wall) else set()
            continue
        if wall > shown:
            # All times that the clock has come to show or has left out since the last minute, once each.
            passed = [shown + timedelta(minutes=n) for n in range(1, int((wall - shown) / timedelta(minutes=1)) + 1)]
            found |= {instant} if any(fits(line, time) for time in passed) and wall not in seen else set()
            shown = wall
        seen.add(wall)
    return sorted(found)


def fits(line, wall):
    minute, hour, day, month, weekday = line.split()
    of_day, of_week = takes(day, wall.day, 1), takes(weekday, wall.isoweekday() % 7, 0)
    both_named = not day.startswith("*") and not weekday.startswith("*")
    days = (of_day or of_week) if both_named else (of_day and of_week)
    return takes(minute, wall.minute, 0) and takes(hour, wall.hour, 0) and takes(month, wall.month, 1) and days


def takes(field, value, low):
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            good = (value - low) % int(step or 1) == 0
        elif first == "sun":
            good = value == 0
        else:
            numbers = range(int(first), int(last or first) + 1, int(step or 1))
            good = value in numbers or (value == 0 and 7 in numbers and low == 0)
        if good:
            return True
    return False


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there to ask")
def test_systemd_names_the_same_times():
    expression = "Mon,Wed *-1,7-* 3,15:10,40:00 Europe/Zurich"
    base = "2024-07-01 00:00:00 UTC"
    command = ["systemd-analyze", "calendar", "--iterations=8", f"--base-time={base}", expression]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env={"TZ": "UTC"}).stdout
    theirs = [line.split(": ", 1)[1] for line in told.splitlines() if "elapse:" in line or "Iter" in line]
    ours, start = [], datetime(2024, 7, 1, tzinfo=UTC)
    for _ in theirs:
        start = Cron.parse("10,40 3,15 * jan,jul mon,wed").next_after(start, ZURICH)
        ours.append(start.strftime("%a %Y-%m-%d %H:%M:%S UTC"))
    assert len(ours) == 8 and ours == theirs
