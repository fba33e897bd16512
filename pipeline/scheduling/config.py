"""The section `schedule:` of the YAML: what starts a run, and what is done when its data is late."""

from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import field_validator

from fullpass.pipeline.scheduling.cron import cron_problem
from fullpass.pipeline.scheduling.duration import Duration
from fullpass.preprocessing.spec import Flag, Name, NonNegative, Spec


class ScheduleConfig(Spec):
    """When to retrain (docs/scheduling.md). Without `cron`, `new_span` and `drift`, runs are started by hand."""

    cron: Name | None = None
    """Five fields: minute, hour, day of month, month, day of week; or six, with seconds before them. `0 3 * * *` is
    every day at three."""
    timezone: Name = "UTC"
    """Time zone of `cron`, and of the dates of spans, such as Europe/Zurich."""
    new_span: Flag = False
    """Start whenever a span has arrived that is newer than those trained on."""
    drift: Flag = False
    """Start when a span has arrived in which something moved further than a check of `gates:` with the policy `retrain`
    allows (docs/data-gate.md)."""
    lag: NonNegative = 1
    """Which span a time of `cron` asks for, where spans are dates: 1 is the last that is over, 0 the current one, 2 the
    one before the last."""
    wait_for: Name | None = None
    """Path that says a span is whole, with the date fields or {SPAN} of `data.source.path`: a marker file such as
    `data/{YYYY}-{MM}-{DD}/_SUCCESS`."""
    timeout: Duration = "0s"
    """How long a span that is not there is waited for, after the time of `cron`: `30s`, `10m`, `6h`, `2d`."""
    on_late: Literal["skip", "fail"] = "skip"
    """What becomes of the run when the span is still not there. Nothing is trained either way."""
    catch_up: Literal["once", "each", "none"] = "once"
    """What becomes of times that passed while no scheduler or another run was going on: one run for all of them, the
    newest; one for each, the oldest first; or none."""
    poll: Duration = "1m"
    """How often to look for spans."""

    @field_validator("cron")
    @classmethod
    def _valid_cron(cls, text: str | None) -> str | None:
        problem = None if text is None else cron_problem(text)
        if problem is not None:
            raise ValueError(problem)
        return text

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
