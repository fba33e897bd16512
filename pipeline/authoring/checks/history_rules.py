"""Checks of the section `data.history`: its columns are there before the lists are, and something reads the lists."""

from collections.abc import Iterator

from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.derived_columns import parsed
from fullpass.pipeline.authoring.loading.load import Finding, Loaded, warning
from fullpass.pipeline.authoring.loading.problems import Keys
from fullpass.preprocessing.columns.raw_columns import with_source_columns
from fullpass.preprocessing.expressions.expression import past_literals
from fullpass.preprocessing.features.history import history_of
from fullpass.preprocessing.spec import length, wrong_length


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
        for key, columns in (("entity", history.keys), ("at", (history.at,))):
            for column in columns:
                if column in data.derive:
                    yield Finding((*keys, key), f"{column} is derived. Name a raw or joined column.")
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
                said = f"but {path} keeps events of {history.within} only. Raise its `within`"
            elif window < length(history.available_after):
                said = f"but {path} knows events from {history.available_after} on (available_after), so none is in it"
            else:
                continue
            yield Finding(
                ("data", "derive", name), f'reduces {column} within "{within}", {said}, or change "{within}".'
            )


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
