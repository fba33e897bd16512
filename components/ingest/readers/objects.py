"""Converts Python objects to Arrow: rows as mappings or tuples, from JSON, Avro, databases and generators."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.ingest.readers.row_hash import table_of_dicts
from fullpass.components.ingest.readers.rows import Reading, Rows
from fullpass.preprocessing.values.arrow_text import to_text


def rows_from_dicts(rows: Sequence[Mapping[str, Any]], numbers: np.ndarray, reading: Reading) -> Rows:
    """Returns the columns that `reading` needs of rows that are dicts; `numbers` is int64 [rows]."""
    return Rows(table_of(rows, reading), numbers, table_of_all_columns(rows, reading))


def table_of_all_columns(rows: Sequence[Mapping[str, Any]], reading: Reading) -> pa.Table | None:
    """Returns rows with every column of the source, in the form of `reading.all_columns`; None if that is None."""
    if reading.all_columns != "to_show":
        return table_of_dicts(rows) if reading.all_columns else None
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: array_of([row.get(name) for row in rows]) for name in names})


def table_of(rows: Sequence[Mapping[str, Any]], reading: Reading) -> pa.Table:
    """Returns rows as a table of the needed columns; an absent key is null. Adds found columns to `reading.seen`."""
    arrays = []
    for column in reading.columns:
        values = [_look_up(row, column) for row in rows]
        if column not in reading.seen and any(value is not _ABSENT for value in values):
            reading.seen.add(column)
        values = [None if value is _ABSENT else value for value in values]
        raw = reading.columns[column]
        arrays.append(array_of(values, numbers=raw.type == "number", decimal=raw.decimal))
    return pa.table(arrays, names=list(reading.columns))


def array_of(values: Iterable[Any], *, numbers: bool = False, decimal: str = ".") -> pa.Array:
    """Returns values as one Arrow array.

    Values of several types all become text. If one of them is a list, all become lists, and a single value becomes a
    list of one. Thus an odd value affects only its own row.

    Args:
        numbers: Whether they are read as numbers: then true is 1 beside other types, as it is in a column of booleans.
        decimal: The sign with which fractions beside other types become text.

    Raises:
        UnicodeEncodeError: A text contains half a character (a lone surrogate).
    """
    values = list(values)
    try:
        return pa.array(values)
    except UnicodeEncodeError:
        raise
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        if any(isinstance(value, list | tuple) for value in values):
            lists = [_texts(value, decimal) for value in values]
            nested = any(isinstance(item, list) for one in lists for item in one or ())
            if nested:
                lists = [None if one is None else [i if isinstance(i, list) else [i] for i in one] for one in lists]
            return pa.array(lists, type=pa.list_(pa.list_(pa.string()) if nested else pa.string()))
        if numbers:
            values = [int(value) if isinstance(value, bool) else value for value in values]
        return pa.array(_as_texts(values, decimal), type=pa.string())


def _as_texts(values: Sequence[Any], decimal: str) -> list[str | None]:
    """Returns values as texts, which do not depend on each other: numbers as `arrow_text.to_text` writes them."""
    floats = pa.array([value for value in values if isinstance(value, float)], pa.float64())
    texts, _ = to_text(floats, strip=False, missing=())
    written = iter(pc.replace_substring(texts, ".", decimal).to_pylist())
    return [next(written) if isinstance(value, float) else _as_text(value) for value in values]


def _as_text(value: Any) -> str | None:
    """Returns a value other than a float as text: booleans as true and false, lists and objects as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | int | list | dict):
        return json.dumps(value, default=str)
    return str(value)


class _Absent:
    """The value of a row without the key."""


_ABSENT = _Absent()


def _look_up(row: Mapping[str, Any], column: str) -> Any:
    """Returns a row's value of a column. Column `a.b` is the value of key b in the object under key a.

    For a list of objects, the value is the list of the objects' values.
    """
    if column in row or "." not in column:
        return row.get(column, _ABSENT)
    name, _, inner = column.partition(".")
    nested = row.get(name)
    if isinstance(nested, list) and any(isinstance(item, Mapping) for item in nested):
        values = [_look_up(item, inner) if isinstance(item, Mapping) else None for item in nested]
        return [None if value is _ABSENT else value for value in values]
    return _look_up(nested, inner) if isinstance(nested, Mapping) else _ABSENT


def _texts(value: Any, decimal: str) -> list[Any] | None:
    """Returns the texts of a list; an inner list becomes a list of texts."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        return _as_texts([value], decimal)
    if not any(isinstance(item, list | tuple) for item in value):
        return _as_texts(value, decimal)
    return [
        _as_texts(item, decimal) if isinstance(item, list | tuple) else _as_texts([item], decimal)[0] for item in value
    ]
