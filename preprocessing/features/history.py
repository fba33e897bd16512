"""Histories: the earlier rows of each row's entity, as columns of lists."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from fullpass.preprocessing.expressions.syntax_tree import AGE, age_column
from fullpass.preprocessing.features.base_feature import WrittenDateFormat
from fullpass.preprocessing.features.lists import LONGEST_LIST
from fullpass.preprocessing.spec import Duration, Name, Spec, microseconds


class History(Spec):
    """The earlier rows of each row's entity, its events, as lists named HISTORY.COLUMN, the oldest event first.

    Which rows are events, and the list `HISTORY.at`: docs/history.md.
    """

    example: ClassVar[str] = """\
trips: {entity: customer, at: started_at, columns: [fare, shop], within: 90d, max_length: 200}
"""

    entity: Name | Annotated[tuple[Name, ...], Field(min_length=1)]
    """Key column, or several. Rows with equal tokens have one history."""
    at: Name
    """Date column."""
    format: WrittenDateFormat = "iso"
    """Format of the date, as in a date feature; a date without an offset is UTC."""
    columns: tuple[Name, ...] = ()
    """Columns of the events to keep: raw, joined or derived; also the label."""
    within: Duration | None = None
    """Greatest age of an event: 7d, 12h; null takes any, and then a new span reads all spans before it."""
    max_length: Annotated[int, Field(strict=True, ge=1, le=LONGEST_LIST)] = 200
    """The last events that are kept."""
    available_after: Duration = "0s"
    """Delay until an event is known, such as that of a label: it counts from then on."""

    @model_validator(mode="after")
    def _holds_events(self) -> "History":
        if AGE in self.columns:
            raise ValueError(f"columns: {AGE} is the age of an event, which every history has. Rename the column.")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns: every column must be listed only once. Received: {list(self.columns)}.")
        if self.longest is not None and self.longest <= self.delay:
            raise ValueError(f"within: {self.within} is not longer than available_after: {self.available_after}.")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns."""
        return (self.entity,) if isinstance(self.entity, str) else self.entity

    @property
    def delay(self) -> int:
        """Microseconds until an event is known."""
        return microseconds(self.available_after)

    @property
    def longest(self) -> int | None:
        """Greatest age of an event in microseconds; None for any."""
        return None if self.within is None else microseconds(self.within)


def _plain_names(histories: dict[str, History]) -> dict[str, History]:
    for name in histories:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"a history's name is made of letters, digits and _. Received: {name!r}.")
    return histories


Histories = Annotated[dict[Name, History], AfterValidator(_plain_names)]


def list_group(history: str) -> str:
    """Returns the YAML path of a history, the `RawColumn.group` of its lists."""
    return f"data.history.{history}"


def holds_ages(column: str, group: str | None) -> bool:
    """Returns whether a raw column of a group is the list with the ages of a history's events."""
    return column == age_column(column) and group == list_group(column.partition(".")[0])


def lists_of(histories: Mapping[str, History]) -> dict[str, str]:
    """Returns list column -> the column of the events that it holds; the lists of ages hold none of them.

    Example:
        >>> lists_of({"trips": History(entity="customer", at="started_at", columns=("fare",))})
        {'trips.fare': 'fare'}
    """
    return {f"{name}.{column}": column for name, history in histories.items() for column in history.columns}


def history_of(column: str, histories: Mapping[str, History]) -> str | None:
    """Returns the history that a list column belongs to; None for any other column."""
    name, dot, base = column.partition(".")
    history = histories.get(name) if dot else None
    return name if history is not None and base in (AGE, *history.columns) else None
