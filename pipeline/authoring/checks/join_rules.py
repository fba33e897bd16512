"""Checks of what a row is joined with: tables, earlier rows of its entity (history), its later label (forecast)."""

from collections.abc import Iterator, Sequence
from itertools import product

from fullpass.base.errors import UserError, absent_column
from fullpass.components.ingest.config import ColumnSplit, DataConfig, HashSplit, TimeSplit
from fullpass.components.ingest.joins.config import is_joined, joined_columns
from fullpass.components.ingest.spans.joined_tables import find_tables, require_tables
from fullpass.components.ingest.spans.spans import span_unit
from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.checks.source_rules import columns_of_table, window_of
from fullpass.pipeline.authoring.derived_columns import parsed
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import with_source_columns
from fullpass.preprocessing.expressions.expression import past_literals
from fullpass.preprocessing.features.history import history_of
from fullpass.preprocessing.spec import length, wrong_length


def check_tables(loaded: Loaded) -> Iterator[Finding]:
    """Every joined table exists, has its declared format, and the columns of its key, date and `missing_in`."""
    for name, join in loaded.config.data.joins.items():
        keys: Keys = ("data", "joins", name)
        try:
            present = columns_of_table(loaded, name)
        except UserError as error:
            yield Finding((*keys, "source"), str(error).removeprefix(f"data.joins.{name}.source."))
            continue
        for column in (*join.right_columns, *join.source.missing_in) if present is not None else ():
            if column not in (present or ()):
                yield Finding(keys, absent_column(column, present or (), "the table"))


def check_complete_tables(loaded: Loaded) -> Iterator[Finding]:
    """Every span of the window has its table, if a joined table is one per span."""
    data = loaded.config.data
    try:
        tables = find_tables(data.joins, loaded.resolve, span_unit(data))
        window = window_of(loaded, data.model_copy(update={"joins": {}}))
    except UserError:
        return  # other checks report it
    for name, span in product(tables, window.spans):
        try:
            require_tables({name: tables[name]}, window.unit, span.number)
        except UserError as error:
            path = f"data.joins.{name}.source.path: "
            yield Finding(("data", "joins", name, "source", "path"), str(error).removeprefix(path))


def unread_joins(loaded: Loaded) -> list[str]:
    """Returns the joins of which nothing reads a column."""
    joins = loaded.config.data.joins
    read = [column for keys, column in columns_read(loaded) if keys[:2] != ("data", "joins")]
    read += [column for join in joins.values() for column in join.left_columns]
    return [name for name in joins if not joined_columns(name, read)]


def check_joins(loaded: Loaded) -> Iterator[Finding]:
    """Every join has a reader, reads only columns of the source or of joins above it, and determines no span."""
    data, unread = loaded.config.data, unread_joins(loaded)
    above: set[str] = set()
    for name, join in data.joins.items():
        keys: Keys = ("data", "joins", name)
        if name in unread:
            yield Finding(keys, f"nothing reads a column of it, such as {name}.COLUMN. Add a feature, or remove it.")
        for column in join.left_columns:
            if is_joined(column, data.joins.keys() - above):
                yield Finding((*keys, "on"), f"{column} is a column of a join that is not above it. Move that one up.")
            elif column in data.derive:
                yield Finding((*keys, "on"), f"{column} is derived, but joins come before derived columns.")
        above.add(name)
    if data.span is not None and is_joined(data.span.column, data.joins):
        yield Finding(("data", "span", "column"), "is a joined column. The span of a row must be in the row itself.")


def unread_histories(loaded: Loaded) -> list[str]:
    """Returns the histories of which nothing reads a list."""
    read = [column for keys, column in columns_read(loaded) if keys[:2] != ("data", "history")]
    of_columns = {history_of(column, loaded.config.data.history) for column in read}
    return [name for name in loaded.config.data.history if name not in of_columns]


def check_histories(loaded: Loaded) -> Iterator[Finding]:
    """Every history has a name of its own and a reader, and its columns are there before its lists."""
    data = loaded.config.data
    expressions, _ = parsed(data.derive)
    read = {column for keys, column in columns_read(loaded) if keys[:2] != ("data", "history")}
    unread = unread_histories(loaded)
    for name, history in data.history.items():
        keys: Keys = ("data", "history", name)
        if name in data.joins:
            yield Finding(keys, f"{name} is a join, too. Give one of them another name.")
        if name in unread:
            yield Finding(keys, f"nothing reads a list of it, such as past_count({name}.at). Use it, or remove it.")
        yield from _derived(data, keys, entity=history.keys, at=(history.at,))
        for column in history.columns:
            if any(history_of(source, data.history) for source in with_source_columns([column], expressions)):
                yield Finding((*keys, "columns"), f"{column} is computed from a history. Events hold no lists.")
            elif f"{name}.{column}" not in read:
                yield warning((*keys, "columns"), f"nothing reads {name}.{column}.")


def check_windows(loaded: Loaded) -> Iterator[Finding]:
    """No expression reduces the events of a longer time than the history keeps, or of one in which none is known."""
    expressions, _ = parsed(loaded.config.data.derive)
    for name, expression in expressions.items():
        for column, within in past_literals(expression, "within"):
            of = history_of(column, loaded.config.data.history)
            if of is None or not isinstance(within, str) or wrong_length(within):
                continue  # other checks report it
            history, path, window = loaded.config.data.history[of], f"data.history.{of}", length(within)
            if history.within is not None and window > length(history.within):
                why = f"but {path} keeps events of {history.within} only. Raise its `within`"
            elif window < length(history.available_after):
                why = f"but {path} knows events from {history.available_after} on (available_after), so none is in it"
            else:
                continue
            yield Finding(("data", "derive", name), f'reduces {column} within "{within}", {why}, or change "{within}".')


def check_lags(loaded: Loaded) -> Iterator[Finding]:
    """No expression reads an event beyond the last ones that the history keeps."""
    expressions, _ = parsed(loaded.config.data.derive)
    for name, expression in expressions.items():
        for column, lag in past_literals(expression, "lag"):
            of = history_of(column, loaded.config.data.history)
            longest = None if of is None else loaded.config.data.history[of].max_length
            if longest is not None and float(lag) > longest:
                yield Finding(
                    ("data", "derive", name),
                    f"reads event {lag:g} of {column} from the end, but data.history.{of} keeps the last {longest:,}, "
                    f"so it is always missing. Raise its `max_length`, or the lag is at most {longest:,}.",
                )


def check_not_of_history(loaded: Loaded) -> Iterator[Finding]:
    """Label, weight and split depend on no history, as they are read before the lists are reduced."""
    data = loaded.config.data
    expressions, _ = parsed(data.derive)
    for keys, column in columns_read(loaded):
        if keys[0] == "label" or keys[:2] == ("data", "split"):
            lists = [c for c in with_source_columns([column], expressions) if history_of(c, data.history)]
            if lists:
                yield Finding(keys, f"{column} is computed from {sorted(lists)[0]}, a list of data.history.")


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
    yield from _derived(data, _FORECAST, entity=entity, at=(forecast.at,))


def _derived(data: DataConfig, keys: Keys, **columns_of: Sequence[str | None]) -> Iterator[Finding]:
    """Yields the columns that keys below `keys` name and that are derived, which they cannot be."""
    for key, columns in columns_of.items():
        for column in columns:
            if column in data.derive:
                yield Finding((*keys, key), f"{column} is derived. Name a raw or joined column.")


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
    elif isinstance(split.column, str) and split.column != forecast.at:  # several columns may be the parts of `at`
        yield warning(
            ("data", "split", "column"),
            f"rows are split by {split.column}, but their labels lie {forecast.ahead} after {forecast.at}: where these "
            f"dates differ, labels of train are of the time of eval. Split by {forecast.at}.",
        )
