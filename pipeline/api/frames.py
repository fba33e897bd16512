"""Tables in memory: rows of any kind become Arrow, and results become the kind of table that the rows came in.

pandas and polars are recognized by name: a process that does not use them does not import them.
"""

import hashlib
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fullpass.base.errors import UserError, escaped
from fullpass.base.files import write_atomically

Rows = Any
"""A pyarrow Table or RecordBatch, a pandas or polars DataFrame, a list of dicts, or a dict of columns."""


def as_arrow(rows: Rows, *, row_by_row: bool = False) -> pa.Table:
    """Returns rows in memory as an Arrow table.

    Args:
        row_by_row: Whether the rows of a list of dicts may differ in types, as JSON lines may: an odd value then
            affects only its own row.

    Raises:
        UserError: The rows have none of the types of `Rows`, or a column holds values of several types.
    """
    from fullpass.components.ingest.readers.frames import as_table
    from fullpass.components.ingest.readers.tables import without_extensions

    try:
        table = as_table(rows)
        if table is None and isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            rows = {key: [row.get(key) for row in rows] for key in dict.fromkeys(n for r in rows for n in r)}
        else:
            row_by_row = False
        if table is None and isinstance(rows, dict):
            table = pa.table({_name(name): _column(name, values, mixed=row_by_row) for name, values in rows.items()})
    except UserError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        said = escaped("; ".join(map(str, error.args)).rstrip("."))
        raise UserError(f"The rows are no table: {said}. Give each column values of one type, one per row.") from error
    if table is None:
        raise UserError(
            f"Received: {type(rows).__module__}.{type(rows).__name__}. Accepted: a pyarrow Table or RecordBatch, a "
            "pandas or polars DataFrame, a list of dicts, or a dict of columns."
        )
    return without_extensions(table)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise UserError(f"The rows are no table: the names of columns are text. Received: {name!r}.")
    return name


def _column(name: str, values: Any, *, mixed: bool) -> Any:
    """Returns a column that `pa.table` takes; whole numbers beyond 64 bits become text, as in JSON lines.

    Args:
        mixed: Whether values of several types become text, too.
    """
    from fullpass.components.ingest.readers.frames import as_table
    from fullpass.components.ingest.readers.objects import array_of

    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise UserError(
            f"The rows are no table: column {name!r} is one value, {values!r:.40}. Give a list of the values of all "
            "rows; or for one row, a list with one dict."
        )
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        of_pandas = type(values).__module__.partition(".")[0] == "pandas"
        table = as_table(sys.modules["pandas"].DataFrame({name: values})) if of_pandas else None
        return pa.array(values) if table is None else table.column(0)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, OverflowError) or (mixed and not isinstance(error, UnicodeEncodeError)):
            return array_of(values)
        raise TypeError(f"column {name!r}: {error}") from error


def concatenated(tables: Iterable[pa.Table]) -> pa.Table:
    """Returns the tables of files as one: an absent column is null, and values of several types are as in JSON lines.

    Files and batches may differ in the types of a column, such as whole numbers in one and fractions in another.
    """
    from fullpass.components.ingest.readers.objects import array_of

    tables, kinds = list(tables), defaultdict[str, set[pa.DataType]](set)
    for field in (field for table in tables for field in table.schema if not pa.types.is_null(field.type)):
        kinds[field.name].add(field.type)
    for name in (name for name, found in kinds.items() if len(found) > 1):
        having = [i for i, table in enumerate(tables) if name in table.column_names]
        values = array_of(value for i in having for value in tables[i][name].to_pylist())
        first = 0
        for i in having:
            place, rows = tables[i].column_names.index(name), tables[i].num_rows
            tables[i] = tables[i].set_column(place, name, values.slice(first, rows))
            first += rows
    return pa.concat_tables(tables, promote=True)


def like(rows: Rows, table: pa.Table, given: Collection[str] = ()) -> Any:
    """Returns a table as a pandas or polars DataFrame if `rows` is one, and unchanged otherwise.

    Args:
        rows: The rows that `table` was computed from, one by one. The result has the index of a pandas DataFrame.
        given: Columns of `table` that are those of `rows`; a frame gets them back with its own types.
    """
    package = type(rows).__module__.partition(".")[0]
    if package not in ("pandas", "polars"):
        return table
    library, made = sys.modules[package], table.select([name for name in table.column_names if name not in given])
    kept = [name for name in rows.columns if str(name) in given and str(name) in table.column_names]
    if package == "polars":
        return library.concat([rows.select(kept), library.from_arrow(made)], how="horizontal")
    frame = made.to_pandas().set_axis(rows.index)
    return library.concat([rows[kept], frame], axis=1) if kept else frame


def to_parquet(rows: Rows) -> bytes:
    """Returns rows as the content of a Parquet file; equal rows have equal content.

    Raises:
        UserError: As `as_arrow`.
    """
    content = pa.BufferOutputStream()
    pq.write_table(as_arrow(rows), content, version="2.6")
    return content.getvalue().to_pybytes()


def write_parquet(rows: Rows, folder: Path) -> Path:
    """Writes rows to a Parquet file that is named by its content, and returns its absolute path.

    Equal rows have the same file, so a run with them is a run with unchanged data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = to_parquet(rows)
    file = folder.absolute() / f"{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    if not file.exists():
        write_atomically(file, content)
    return file
