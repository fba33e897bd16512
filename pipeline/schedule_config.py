"""The section `schedule:` of the YAML: the triggers of runs, and the policy for late data.

Cron lines are validated with messages that name the field. cronsim parses them and finds their instants in a time zone.
Around clock changes it follows the rules of Debian's cron.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import takewhile
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, field_validator

from fullpass.preprocessing.spec import Duration, Flag, Name, NonNegative, Spec

_FIELDS = (
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31"),
    ("month", "1 to 12 or jan to dec"),
    ("day of week", "0 to 7 or sun to sat"),
)
_ANY_TIME = datetime(2000, 1, 1)


def cron_problem(text: str) -> str | None:
    """Returns the problem of a cron line, or None.

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
    for field, index in zip(fields, range(6 - len(fields), 6), strict=True):
        if not _is_valid(field, index):
            name, accepted = _FIELDS[index]
            return f"{name} takes {accepted}, *, ranges (1-5), lists (1,3) and steps (*/2). Received: {field}."
    try:
        next(CronSim(text, _ANY_TIME))
    except (CronSimError, StopIteration):
        return f'no date is one of "{text}". Give a day that its months have.'
    return None


@dataclass(frozen=True)
class Cron:
    """A cron line as cronsim reads it.

    Attributes:
        weekdays: The days of the week that it matches, ascending from 0, Sunday, to 6.
    """

    text: str
    weekdays: tuple[int, ...]

    @staticmethod
    @lru_cache(maxsize=64)
    def parse(text: str) -> "Cron":
        """Returns a checked line of five or six fields."""
        written = _for_cronsim(text.split())
        line = CronSim(written, _ANY_TIME)
        weekdays = {day % 7 for day in line.weekdays if isinstance(day, int)}
        return Cron(written, tuple(sorted(weekdays)))

    def after(self, instant: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yields the instants of the line after `instant`, in UTC.

        A time of day that a clock change skips fires right after the change; a time that occurs twice fires the first
        time. If the hour is `*`, every hour fires as often as it occurs. Lines with seconds skip and repeat times like
        the clock.
        """
        found = (time.astimezone(UTC) for time in CronSim(self.text, instant.astimezone(zone)))
        return (time for time in found if time > instant)

    def next_after(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """Returns the first instant of the line after `instant`, in UTC."""
        return next(self.after(instant, zone))

    def between(self, after: datetime, until: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yields the instants after `after`, up to `until` itself, in UTC."""
        return takewhile(lambda found: found <= until, self.after(after, zone))


def _valid(text: str) -> str:
    if (problem := cron_problem(text)) is not None:
        raise ValueError(problem)
    return text


CronLine = Annotated[Name, AfterValidator(_valid)]
"""A cron line in a config, whose problem is that of `cron_problem`."""


def six_fields(text: str) -> str:
    """Returns a checked cron line with seconds, as Kubeflow reads it.

    Kubeflow numbers days of the week from 0, Sunday, to 6. A field with a 7 is written as a list of its days.

    Example:
        >>> six_fields("30 3 * * 5-7")
        '0 30 3 * * 0,5,6'
    """
    *others, weekdays = text.split()
    if "7" in weekdays:
        weekdays = ",".join(str(day) for day in Cron.parse(text).weekdays)
    return " ".join([*(["0"] if len(others) == 4 else []), *others, weekdays])


def _is_valid(field: str, index: int) -> bool:
    """Returns whether a field is plain cron: cronsim also accepts L, W and #, which other cron programs do not."""
    fields = ["*"] * 6
    fields[index] = field
    try:
        line = CronSim(" ".join(fields), _ANY_TIME)
    except CronSimError:
        return False
    return min(line.days) > 0 and all(isinstance(day, int) for day in line.weekdays)


def _for_cronsim(fields: list[str]) -> str:
    """Returns a line that cronsim reads by Debian's rules unless its hour is `*`, and with weeks of seven days.

    cronsim follows these rules for five fields if neither the minute nor the hour begins with a star. It counts steps
    from a day of the week up to 7, a second Sunday, so they are limited to 6.
    """
    *seconds, minute, hour, day, month, weekday = fields
    weekday = re.sub(r"(?<![\w-])([0-6]|[A-Za-z]{3})/", r"\1-6/", weekday)
    if hour != "*":
        minute, hour = (re.sub(r"^\*", f"0-{last}", field) for field, last in ((minute, 59), (hour, 23)))
        seconds = [] if seconds == ["0"] else seconds
    return " ".join([*seconds, minute, hour, day, month, weekday])


class ScheduleConfig(Spec):
    """When to retrain (docs/scheduling.md)."""

    cron: CronLine | None = None
    """Minute, hour, day of month, month, day of week; or six fields, with seconds first."""
    timezone: Name = "UTC"
    """Time zone of `cron` and of dates of spans."""
    new_span: Flag = False
    """Run when a newer span arrives."""
    drift: Flag = False
    """Run when a newer span fails a check of `gates` with policy `retrain`."""
    lag: NonNegative = 1
    """Span that a time of `cron` requests, if spans are dates: 0 the current, 1 the last completed."""
    wait_for: Name | None = None
    """Path that marks a span as complete, with its date fields or {SPAN}: `data/{YYYY}-{MM}-{DD}/_SUCCESS`."""
    timeout: Duration = "0s"
    """How long to wait for a missing span after the time of `cron`."""
    on_late: Literal["skip", "fail"] = "skip"
    """Outcome if the span is still missing after `timeout`. Neither trains."""
    catch_up: Literal["once", "each", "none"] = "once"
    """Times missed while no scheduler or another run was active: `once`, one run on the newest; `each`, a run for each,
    the oldest first; `none`, no run."""
    poll: Duration = "1m"
    """Interval between checks for new spans."""

    @field_validator("timezone")
    @classmethod
    def _valid_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, OSError, ValueError) as error:  # no such name, a folder of zones, no name at all
            raise ValueError(
                f'there is no time zone "{name}". Accepted: UTC, or a name such as Europe/Zurich.'
            ) from error
        return name

    @field_validator("poll")
    @classmethod
    def _some_time(cls, text: str) -> str:
        if not int(text[:-1]):
            raise ValueError("poll must be at least 1s.")
        return text

    @property
    def zone(self) -> ZoneInfo:
        """The time zone."""
        return ZoneInfo(self.timezone)
