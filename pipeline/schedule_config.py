"""The section `schedule:` of the YAML: the triggers of runs, and the policy for late data."""

from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import field_validator

from fullpass.pipeline.cron import CronLine
from fullpass.preprocessing.spec import Duration, Flag, Name, NonNegative, Spec


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
    """Times missed while no scheduler or another run was active: `once`, one run on the newest; `each`, a run for each;
    `none`, no run."""
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
