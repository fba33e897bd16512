"""Reads rows that a user-defined Python function returns."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from fullpass.base.errors import UserError, prefix_errors
from fullpass.base.user_modules import import_function, own_code
from fullpass.components.ingest.readers.objects import table_of, table_of_all_columns
from fullpass.components.ingest.readers.readable import check_columns
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.rows import BATCH_ROWS, Reading, Rows, numbered
from fullpass.components.ingest.readers.tables import columns_of_schema, only_columns, validated
from fullpass.components.ingest.sources.config import ModuleSource
from fullpass.preprocessing.values.byte_batches import gather, object_bytes

_ACCEPTED = (
    "a pandas or polars DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or an iterator of any of these "
    "or of dicts"
)


class ModuleReader(Reader[ModuleSource]):
    """Rows are numbered in the order in which the function returns them. Finding the columns would take a call."""

    def rows(self, reading: Reading) -> Iterator[Rows]:
        first = 1
        with prefix_errors(f"data.source.function {self._path}"):
            for needed, all_columns in _tables(_call(self._path), reading):
                yield numbered(needed, first, all_columns)
                first += needed.num_rows


def _call(path: str) -> Any:
    function = import_function(path)
    with own_code(path):
        returned = function()
    return _own(returned, path) if isinstance(returned, Iterator) else returned


def _own(items: Iterator[Any], path: str) -> Iterator[Any]:
    with own_code(path):
        yield from items


def _tables(returned: Any, reading: Reading) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """Yields the result of a user's function as tables of the needed columns, and of all columns if requested."""
    table = as_table(returned)
    if table is not None:
        yield _needed(table, reading)
    elif isinstance(returned, Iterable) and not isinstance(returned, str | bytes | Mapping):
        yield from _tables_of_items(iter(returned), reading)
    else:
        raise UserError(f"returned {_name(returned)}. Accepted: {_ACCEPTED}.")


def _tables_of_items(items: Iterator[Any], reading: Reading) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    for item in items:
        table = as_table(item)
        if table is not None:
            yield _needed(table, reading)
        elif isinstance(item, Mapping):
            for rows in gather(map(_row, chain([item], items)), object_bytes, rows=BATCH_ROWS):
                yield table_of(rows, reading), table_of_all_columns(rows, reading)
        else:
            raise UserError(f"yielded {_name(item)}. Accepted: {_ACCEPTED}.")


def _row(item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise UserError(f"yielded {_name(item)} after a dict. Yield values of one type.")
    return item


def as_table(value: Any) -> pa.Table | None:
    """Returns a table for any kind of table, else None. pandas and polars are recognized by name, not imported."""
    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    package, kind = type(value).__module__.partition(".")[0], type(value).__name__
    if (package, kind) == ("pandas", "DataFrame"):
        value = value.copy(deep=False)
        for name in {name for name, kind in value.dtypes.items() if type(kind).__name__ == "SparseDtype"}:
            value[name] = value[name].sparse.to_dense()  # Arrow has no sparse columns
        return pa.Table.from_pandas(value, preserve_index=False)
    if (package, kind) == ("polars", "DataFrame"):
        return value.to_arrow()
    return None


def _needed(table: pa.Table, reading: Reading) -> tuple[pa.Table, pa.Table | None]:
    check_columns("the table it returned", list(reading.columns), columns_of_schema(table.schema))
    table = validated(table)
    reading.seen.update(reading.columns)
    return only_columns(table, list(reading.columns)), table if reading.all_columns else None


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"
