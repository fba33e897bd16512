"""Cron lines: checked, and the instants that they name in a time zone.

APScheduler finds the wall-clock times; what they are in a time zone is decided here, since its own answers around the
end of summer time repeat and go backwards (3.11).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo

_SECOND = ("second", 0, 59)
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day of week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_ITEM = re.compile(r"(?P<from>\*|\w+)(?:-(?P<to>\w+))?(?:/(?P<every>\d+))?")
_MOMENT = timedelta(microseconds=1)
# Clocks are changed at whole quarters of an hour of UTC.
_BETWEEN_CHANGES = timedelta(minutes=15)


def cron_problem(text: str) -> str | None:
    """Returns what is wrong with a cron line, or None.

    Example:
        >>> cron_problem("0 25 * * *")
        'hour takes 0 to 23, *, ranges (1-5), lists (1,3) and steps (*/2). Received: 25.'
    """
    fields = text.split()
    if len(fields) not in (5, 6):
        return (
            "cron has five fields: minute, hour, day of month, month, day of week, or six with seconds before them. "
            f'Received {len(fields)}: "{text}". For example, every day at three: "0 3 * * *".'
        )
    for field, (name, low, high) in zip(fields, _form(fields), strict=True):
        if not all(_fits(item, name, low, high) for item in field.split(",")):
            names = f" or {_NAMES[name][0]} to {_NAMES[name][-1]}" if name in _NAMES else ""
            return (
                f"{name} takes {low} to {high}{names}, *, ranges (1-5), lists (1,3) and steps (*/2). Received: {field}."
            )
    if Cron.parse(text).wall_time_after(datetime(2000, 1, 1)) is None:
        return f'no date is one of "{text}". Give a day that its months have.'
    return None


@dataclass(frozen=True)
class Cron:
    """A cron line: the numbers that each field takes, in order; weekdays from 0, Sunday, to 6.

    every_hour: whether the hours are not restricted, so that the line means intervals rather than a time of day.
    any_day, any_weekday: whether these say nothing; where both say something, a day of either is taken.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    every_hour: bool
    any_day: bool
    any_weekday: bool

    @staticmethod
    @lru_cache(maxsize=64)
    def parse(text: str) -> "Cron":
        """Returns a checked line of five or six fields."""
        fields = text.split()
        numbers = [_numbers(field, *form) for field, form in zip(fields, _form(fields), strict=True)]
        seconds, minutes, hours, days, months, weekdays = numbers if len(fields) == 6 else [(0,), *numbers]
        return Cron(
            seconds=seconds,
            minutes=minutes,
            hours=hours,
            days=days,
            months=months,
            weekdays=tuple(sorted({day % 7 for day in weekdays})),
            every_hour=fields[-4] == "*",
            any_day=fields[-3].startswith("*"),
            any_weekday=fields[-1].startswith("*"),
        )

    def next_after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Returns the first instant of the line after `instant`, both in UTC.

        A time of day that a change of the clock leaves out counts when the clock has been changed; one that comes twice
        counts the first time. Where every hour is named, the hours that there are count, as often as they come.
        """
        if self.every_hour:
            return self._next_hour_after(instant, zone)
        wall = instant.astimezone(zone).replace(tzinfo=None)
        while True:
            wall = _checked(self.wall_time_after(wall))
            found = _instant(wall, zone)
            if found > instant:
                return found

    def between(self, after: datetime, until: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yields the instants after `after`, up to `until` itself, in UTC."""
        found = self.next_after(after, zone)
        while found <= until:
            yield found
            found = self.next_after(found, zone)

    def wall_time_after(self, time: datetime) -> datetime | None:
        """Returns the first time of the line after a time without zone; None if there is none."""
        now = time.replace(tzinfo=UTC) + _MOMENT
        found = [trigger.get_next_fire_time(None, now) for trigger in self._triggers]
        return min((one.replace(tzinfo=None) for one in found if one is not None), default=None)

    def _next_hour_after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        start, offset = instant, _offset(instant, zone)
        while True:
            time = self.wall_time_after((start + offset).replace(tzinfo=None))
            found = _checked(time).replace(tzinfo=UTC) - offset
            if _offset(found, zone) == offset:
                return found
            # The clock is changed on the way, and from there on the times are those of the new offset.
            change = start.replace(minute=0, second=0, microsecond=0)
            while _offset(change, zone) == offset or change <= start:
                change += _BETWEEN_CHANGES
            start, offset = change - _MOMENT, _offset(change, zone)

    @cached_property
    def _triggers(self) -> list[Any]:
        # Takes 0.1 s, which `check` of a file without schedule should not spend.
        from apscheduler.triggers.cron import CronTrigger

        days = {"day": _listed(self.days)}
        # Numbers of weekdays differ between cron and APScheduler, names do not.
        weekdays = {"day_of_week": ",".join(_NAMES["day of week"][day] for day in self.weekdays)}
        either = not self.any_day and not self.any_weekday
        forms = [days, weekdays] if either else [days | weekdays]
        common = {
            "second": _listed(self.seconds),
            "minute": _listed(self.minutes),
            "hour": _listed(self.hours),
            "month": _listed(self.months),
        }
        return [CronTrigger(timezone=UTC, **common, **form) for form in forms]


def six_fields(text: str) -> str:
    """Returns a checked cron line with seconds, as Kubeflow reads it.

    It counts days of the week from 0, Sunday, to 6; a 7 is written as the days that it means.

    Example:
        >>> six_fields("30 3 * * 5-7")
        '0 30 3 * * 0,5,6'
    """
    *others, weekdays = text.split()
    if "7" in weekdays:
        weekdays = ",".join(str(day) for day in Cron.parse(text).weekdays)
    return " ".join([*(["0"] if len(others) == 4 else []), *others, weekdays])


def _form(fields: Sequence[str]) -> tuple[tuple[str, int, int], ...]:
    return (_SECOND, *_FIELDS) if len(fields) == 6 else _FIELDS


def _fits(item: str, name: str, low: int, high: int) -> bool:
    found = _ITEM.fullmatch(item)
    if found is None or found["every"] == "0":
        return False
    if found["from"] == "*":
        return found["to"] is None
    start = _number(found["from"], name, low)
    end = _number(found["to"], name, low) if found["to"] else start
    return start is not None and end is not None and low <= start <= end <= high


def _number(text: str, name: str, low: int) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text)
    names = _NAMES.get(name, ())
    return names.index(text.lower()) + low if text.lower() in names else None


def _numbers(field: str, name: str, low: int, high: int) -> tuple[int, ...]:
    """Returns what a checked field takes, in order."""
    return tuple(sorted({number for item in field.split(",") for number in _items(item, name, low, high)}))


def _items(item: str, name: str, low: int, high: int) -> range:
    numbers, _, every = item.partition("/")
    first, _, last = numbers.partition("-")
    # Both 0 and 7 are Sunday: without an end in the line, a week has seven days.
    high = 6 if name == "day of week" else high
    start = low if first == "*" else _checked(_number(first, name, low))
    end = _checked(_number(last, name, low)) if last else (max(start, high) if first == "*" or every else start)
    return range(start, end + 1, int(every or 1))


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def _instant(time: datetime, zone: ZoneInfo) -> datetime:
    """Returns when a wall-clock time is first shown; the moment of the change where the clock leaves it out."""
    instant = time.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == time:
        return instant
    # The clock is put forward by less than what it shows beyond the change.
    before = (time - timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)
    offset = _offset(before, zone)
    change = before.replace(minute=0, second=0, microsecond=0)
    while _offset(change, zone) == offset:
        change += _BETWEEN_CHANGES
    return change


def _checked(value: Any) -> Any:
    """Returns what a checked line always has."""
    if value is None:
        raise ValueError("the cron line was not checked by cron_problem")
    return value
