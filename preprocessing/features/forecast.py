"""Forecasts: the label of a row is the value that a column has for the same entity some time later."""

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from fullpass.preprocessing.features.base_feature import WrittenDateFormat
from fullpass.preprocessing.spec import Duration, Name, Spec, length, microseconds


class Forecast(Spec):
    """The label is the value of the column for the same entity exactly `ahead` later (docs/forecasts.md)."""

    ahead: Duration
    """How far ahead: 7d, 12h."""
    season: Duration | None = None
    """Length of a season: 7d, 365d. Its last value is then a baseline of the model."""
    entity: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Key column, or several; null: that of `data.history`."""
    at: Name | None = None
    """Date column; null: that of `data.history`."""
    format: WrittenDateFormat = "iso"
    """Format of the date, as in a date feature; a date without an offset is UTC."""

    @field_validator("ahead", "season")
    @classmethod
    def _lasts(cls, value: str | None) -> str | None:
        if value is not None and not length(value):
            raise ValueError(f"a duration above 0, such as 7d. Received: {value}.")
        return value

    @model_validator(mode="after")
    def _has_rows(self) -> "Forecast":
        absent = [name for name in ("entity", "at") if getattr(self, name) is None]
        if absent:
            raise ValueError(
                f"{' and '.join(absent)} missing: name the column of the entity and that of the date, such as entity: "
                "shop, at: day. They may be left out only if all of data.history have the same."
            )
        return self


class ShiftedLabel(Spec):
    """The columns that Ingest adds for a forecast: values of one column for the row's entity at other times."""

    name: Name
    """The column whose values they are, raw, joined or derived."""
    keys: tuple[Name, ...]
    at: Name
    format: WrittenDateFormat
    ahead: Duration
    columns: dict[Name, int]
    """Column -> microseconds from the time of the row to that of the value. The first one is the label."""

    @property
    def label(self) -> str:
        """The column with the label."""
        return next(iter(self.columns))

    @property
    def baselines(self) -> dict[str, str]:
        """Column -> what it predicts the label by, as text for people."""
        words = ("last value", "last season")
        return {name: words[offset < 0] for name, offset in self.columns.items() if offset <= 0}


def label_column(name: str, forecast: Forecast) -> str:
    """Returns the column that holds the label of a forecast.

    Example:
        >>> label_column("sales", Forecast(ahead="7d", entity="shop", at="day"))
        'sales in 7d'
    """
    return f"{name} in {forecast.ahead}"


def shifted_label(name: str, forecast: Forecast, *, baselines: bool) -> ShiftedLabel:
    """Returns what Ingest adds for a forecast of a column.

    Baselines are the value at the time of the row and, with `season`, the newest known one that is whole seasons before
    the time of the label.

    Example:
        >>> shop = Forecast(ahead="7s", entity="shop", at="day", season="2s")
        >>> shifted_label("sales", shop, baselines=True).columns
        {'sales in 7s': 7000000, 'sales now': 0, 'sales last season': -1000000}
    """
    ahead = microseconds(forecast.ahead)
    columns = {label_column(name, forecast): ahead}
    if baselines:
        columns[f"{name} now"] = 0
    if baselines and forecast.season is not None:
        season = microseconds(forecast.season)
        before = -(-ahead // season) * season - ahead
        if before:  # else it is the value now
            columns[f"{name} last season"] = -before
    return ShiftedLabel(
        name=name,
        keys=(forecast.entity,) if isinstance(forecast.entity, str) else forecast.entity or (),
        at=forecast.at or "",
        format=forecast.format,
        ahead=forecast.ahead,
        columns=columns,
    )
