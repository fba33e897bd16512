"""Checks of the section `data.joins`: the tables can be read, have the keys, and something reads their columns."""

from collections.abc import Iterator
from itertools import product

from fullpass.base.errors import UserError, did_you_mean
from fullpass.components.ingest.joins.config import is_joined, joined_columns
from fullpass.components.ingest.spans.joined_tables import find_tables, require_tables
from fullpass.components.ingest.spans.spans import find_window, span_unit
from fullpass.pipeline.authoring.checks.data_rules import columns_read
from fullpass.pipeline.authoring.checks.source_rules import columns_of_table
from fullpass.pipeline.authoring.loading.load import Finding, Loaded
from fullpass.pipeline.authoring.loading.problems import Keys


def check_tables(loaded: Loaded) -> Iterator[Finding]:
    """Every joined table exists, has its declared format, and has the columns of its key and date."""
    for name, join in loaded.config.data.joins.items():
        keys: Keys = ("data", "joins", name)
        try:
            present = columns_of_table(loaded, name)
        except UserError as error:
            yield Finding((*keys, "source"), str(error).removeprefix(f"data.joins.{name}.source."))
            continue
        for column in join.right_columns if present is not None else ():
            if column not in (present or ()):
                hint = did_you_mean(column, present or ())
                yield Finding(keys, f'no column "{column}" in the table.{hint} Columns: {", ".join(present or ())}.')


def check_complete_tables(loaded: Loaded) -> Iterator[Finding]:
    """Every span of the window has its table, if a joined table is one per span."""
    data = loaded.config.data
    try:
        tables = find_tables(data.joins, loaded.resolve, span_unit(data))
        window = find_window(data.model_copy(update={"joins": {}}), loaded.resolve)
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
