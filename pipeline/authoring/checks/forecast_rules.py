"""Checks of `label.forecast`: features know nothing of the future, and rows are split by time."""

from collections.abc import Iterator

from fullpass.components.ingest.config import ColumnSplit, HashSplit, TimeSplit
from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.derived_columns import parsed
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import with_source_columns
from fullpass.preprocessing.spec import length

_FORECAST: Keys = ("label", "forecast")


def check_forecast_is_no_feature(loaded: Loaded) -> Iterator[Finding]:
    """Nothing reads the columns that Ingest adds for a forecast, which exist in training only."""
    config = loaded.config
    expressions, _ = parsed(config.data.derive)
    for keys, column in columns_read(loaded):
        future = sorted(with_source_columns([column], expressions) & {*config.label.added})
        if future and keys[0] != "label":
            yield Finding(
                keys, f"leaks the label: {future[0]} is not known when the model predicts. Read {config.label.name}."
            )


def check_forecast_columns(loaded: Loaded) -> Iterator[Finding]:
    """Entity and date are columns of the rows or of a join."""
    forecast, data = loaded.config.label.forecast, loaded.config.data
    if forecast is None:
        return
    entity = (forecast.entity,) if isinstance(forecast.entity, str) else forecast.entity or ()
    for key, columns in (("entity", entity), ("at", (forecast.at,))):
        for column in columns:
            if column in data.derive:
                yield Finding((*_FORECAST, key), f"{column} is derived. Name a raw or joined column.")


def check_forecast_split(loaded: Loaded) -> Iterator[Finding]:
    """A forecast is evaluated on later rows than it is trained on, with a gap in which no label of train lies."""
    forecast, data = loaded.config.label.forecast, loaded.config.data
    if forecast is None or data.source.given_splits or isinstance(data.split, ColumnSplit):
        return
    split = data.split
    if isinstance(split, HashSplit) and split.column is not None:
        yield warning(("data", "split"), "train and eval are of the same time, so metrics do not show the future.")
    elif not isinstance(split, TimeSplit):
        yield Finding(
            ("data", "split"),
            f"{split.method} puts rows of one time into train and eval, so labels of train are known values of eval. "
            f"Split a forecast by time: {{method: time, column: {forecast.at}, until: {{train: ...}}}}.",
        )
    elif split.gap is not None and length(split.gap) < length(forecast.ahead):
        yield Finding(
            ("data", "split", "gap"),
            f"{split.gap} is shorter than label.forecast.ahead, {forecast.ahead}: labels of train are of the time of "
            "eval. Remove it.",
        )
