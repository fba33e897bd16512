"""The section `data.joins` of the YAML: tables whose columns are added to the rows."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from fullpass.components.ingest.sources.formats import Source
from fullpass.preprocessing.features.base_feature import WrittenDateFormat
from fullpass.preprocessing.spec import Duration, Name, Spec, microseconds


class AsOf(Spec):
    """Takes the newest row of the table that is known at the row's time: never one from its future."""

    left: Name
    """Date column of the rows. A row without a readable date is a bad row; one without a date has no match."""
    right: Name
    """Date column of the table."""
    within: Duration | None = None
    """Greatest age of the table's row: 3h, 7d; null takes any."""
    available_after: Duration = "0s"
    """Delay until a row of the table is known: with 1h a measurement of 12:00 counts from 13:00 on."""
    format: WrittenDateFormat = "iso"
    """Format of both dates, as in a date feature; a date without an offset is UTC."""
    right_format: WrittenDateFormat | None = None
    """Format of the table's date, if it differs."""

    @model_validator(mode="after")
    def _finds_rows(self) -> "AsOf":
        if self.oldest is not None and self.oldest < self.delay:
            raise ValueError(
                f"within: {self.within} is shorter than available_after: {self.available_after}, so every row of the "
                "table is too old when it is known."
            )
        return self

    @property
    def delay(self) -> int:
        """Microseconds until a row of the table is known."""
        return microseconds(self.available_after)

    @property
    def oldest(self) -> int | None:
        """Greatest age in microseconds of a row of the table; None for any."""
        return None if self.within is None else microseconds(self.within)


class Join(Spec):
    """A table whose columns are added to each row, as NAME.COLUMN; null in a row without a match."""

    source: Source
    """The table, in any format."""
    on: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | Annotated[dict[Name, Name], Field(min_length=1)]
    """Key column, or several, of the same names in both; or column of the rows -> column of the table. Keys are
    compared as tokens (docs/sources.md)."""
    as_of: AsOf | None = None
    """Join by time, too."""
    duplicates: Literal["refuse", "first", "last"] = "refuse"
    """What several rows of the table with the same key (and date) mean: an error, or which of them counts."""
    serve: Literal["given", "lookup"] = "given"
    """given: a request contains the joined columns. lookup: the model contains the table, and a request the key."""

    @model_validator(mode="after")
    def _one_table(self) -> "Join":
        if self.source.given_splits:
            raise ValueError("a join has one table for all splits. Give one path, query or function.")
        if self.serve == "lookup" and self.as_of is not None:
            raise ValueError("serve: lookup joins by key only, since a model does not know newer rows. Remove one.")
        return self

    def description(self) -> dict[str, Any]:
        """Returns the join as JSON, without the location of the table; it is exported with the model."""
        return {**self.model_dump(mode="json", exclude={"source", "serve"}), "source": self.source.description()}

    @property
    def keys(self) -> dict[str, str]:
        """Key column of the rows -> key column of the table."""
        if isinstance(self.on, Mapping):
            return dict(self.on)
        return {name: name for name in ((self.on,) if isinstance(self.on, str) else self.on)}

    @property
    def left_columns(self) -> tuple[str, ...]:
        """Columns of the rows that the join reads."""
        return left_columns(self.on, self.as_of.left if self.as_of else None)

    @property
    def right_columns(self) -> tuple[str, ...]:
        """Columns of the table that determine the match."""
        return (*self.keys.values(), *([self.as_of.right] if self.as_of else []))


def _plain_names(joins: dict[str, Join]) -> dict[str, Join]:
    for name in joins:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ValueError(f"a join is named by letters, digits and _, since a dot ends its name. Got {name!r}.")
    return joins


Joins = Annotated[dict[Name, Join], AfterValidator(_plain_names)]


MOST_LOOKED_UP = 100_000
"""Most rows of a table that a model contains; they are constants of its graph."""


def joined_columns(join: str, columns: Iterable[str]) -> dict[str, str]:
    """Returns column -> column of the table, for those of some columns that a join adds.

    Example:
        >>> joined_columns("weather", ["fare", "weather.temp"])
        {'weather.temp': 'temp'}
    """
    prefix = f"{join}."
    return {name: name.removeprefix(prefix) for name in columns if name.startswith(prefix)}


def left_columns(on: str | Iterable[str], at: str | None) -> tuple[str, ...]:
    """Returns the columns of the rows that a join reads, given its key and the date of its as-of rule."""
    return (*([on] if isinstance(on, str) else on), *([at] if at else []))


def is_joined(column: str, joins: Iterable[str]) -> bool:
    """Returns whether one of some joins adds a column."""
    return column.partition(".")[0] in joins and "." in column
