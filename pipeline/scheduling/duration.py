"""Durations as the YAML writes them: `30s`, `10m`, `6h`, `2d`."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

DURATION = r"^[0-9]{1,6}[smhd]$"
Duration = Annotated[str, Field(pattern=DURATION)]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def length(text: str) -> timedelta:
    """Returns the length of a validated duration.

    Example:
        >>> length("90m")
        datetime.timedelta(seconds=5400)
    """
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
