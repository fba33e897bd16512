"""Writes tables to CSV, JSON lines, Parquet and TFRecord files, batch by batch."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from fullpass.base.errors import UsageError, UserError
from fullpass.base.files import pending_file
from fullpass.base.json_text import to_json_text
from fullpass.components.ingest.writing.encode import encode_rows
from fullpass.preprocessing.values.arrow_text import as_mask, is_binary, without_dictionary
from fullpass.preprocessing.values.list_values import flatten, is_list, lengths_of, lists_of_lengths
from fullpass.trainer.records.frames import frames

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tfrecord": "tfrecord",
}
"""Suffix -> format."""


_SAFE = "safe_"
"""Before csv and tsv: the files are for a spreadsheet, which must not compute a cell of the data."""
_FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters by which spreadsheets recognize a formula, full-width forms too (OWASP, CSV injection)."""
_WRITTEN_NUMBER = re.compile(r"[+-]?\d+(?:[.,' ]\d+)*(?:[eE][+-]?\d+)?%?")


def format_to_write(path: str, *, safe: bool = False) -> str:
    """Returns the format of a file to write, by its suffix.

    Args:
        safe: Whether a spreadsheet must not compute any text of the rows: such a cell begins with an apostrophe.

    Raises:
        UserError: The suffix is not in FORMATS, or `safe` is given for another format than CSV and TSV.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(
            f"{path}: cannot tell the format from {suffix or 'a name without a suffix'!r}. "
            f"Name it {', '.join(FORMATS)}."
        )
    file_format = FORMATS[suffix]
    if safe and file_format not in ("csv", "tsv"):
        raise UsageError(
            f"{path}: --safe-csv is for .csv and .tsv. Leave it out: no spreadsheet computes {file_format}."
        )
    return f"{_SAFE}{file_format}" if safe else file_format


def write_tables(path: str, file_format: str, tables: Iterator[pa.Table]) -> None:
    """Writes tables, one after the other, to a file that appears only when it is complete.

    Args:
        tables: The tables. The first determines the columns and, in Parquet, their types.

    Raises:
        UserError: The folder does not exist, or a later table has other columns or types.
    """
    if not (folder := Path(path).absolute().parent).is_dir():
        raise UsageError(f"{path}: there is no folder {folder}. Create it first.")
    writers: dict[str, Callable[[BinaryIO, Iterator[pa.Table]], None]] = {
        "parquet": _write_parquet,
        "jsonl": _write_json_lines,
        "tfrecord": _write_examples,
        "tsv": partial(_write_csv, separator="\t"),
        "csv": _write_csv,
        f"{_SAFE}tsv": partial(_write_csv, separator="\t", cell=_safe_cell),
        f"{_SAFE}csv": partial(_write_csv, cell=_safe_cell),
    }
    with pending_file(Path(path)) as pending, open(pending, "wb") as file:
        writers[file_format](file, tables)


def row_json(row: dict[str, Any]) -> str:
    """Returns a row as one line of JSON; dates and bytes become text, NaN becomes null."""
    return to_json_text({name: _plain(value) for name, value in row.items()}, ensure_ascii=False, default=str)


def _write_csv(
    file: BinaryIO, tables: Iterator[pa.Table], separator: str = ",", cell: Callable[[Any], Any] | None = None
) -> None:
    cell = cell or _cell
    with io.TextIOWrapper(file, "utf-8", newline="") as text:
        # Before Python 3.13, QUOTE_MINIMAL does not quote a carriage return, which readers take for the end of a line.
        minimal, quoted = (
            csv.writer(text, delimiter=separator, lineterminator="\n", quoting=how)
            for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        names: list[str] = []
        for table in tables:
            if not names:
                names = table.column_names
                (quoted if _has_return(names) else minimal).writerow(map(cell, names))
            columns = [[cell(value) for value in table[name].to_pylist()] for name in _same(names, table)]
            writer = quoted if any(map(_has_return, columns)) else minimal
            writer.writerows(zip(*columns, strict=True))


def _has_return(cells: Iterable[Any]) -> bool:
    return any("\r" in cell for cell in cells if isinstance(cell, str))


def _write_json_lines(file: BinaryIO, tables: Iterator[pa.Table]) -> None:
    for table in tables:
        file.write("".join(row_json(row) + "\n" for row in table.to_pylist()).encode())


def _write_examples(file: BinaryIO, tables: Iterator[pa.Table]) -> None:
    for table in tables:
        columns = {name: _feature(table[name].combine_chunks()) for name in table.column_names}
        file.write(frames(encode_rows(columns)))


def _feature(column: pa.Array) -> pa.Array:
    """Returns a column in the form that `encode_rows` takes; values that a tf.Example cannot hold become JSON."""
    column = without_dictionary(column)
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return column.cast(pa.float32(), safe=False)
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind)):
        return column.cast(pa.int64())
    if is_list(kind) and not is_list(kind.value_type) and not (elements := flatten(column)).null_count:
        return lists_of_lengths(_feature(elements), lengths_of(column), as_mask(column.is_null()))
    return pa.array([None if cell is None else str(_cell(cell)).encode() for cell in column.to_pylist()], pa.binary())


def _write_parquet(file: BinaryIO, tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    # A column with only missing values has no type yet.
    schema = pa.schema([f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in first.schema])
    with pa.parquet.ParquetWriter(file, schema) as writer:
        for table in chain([first], tables):
            writer.write_table(_cast(table.select(_same(schema.names, table)), schema))


def _same(names: list[str], table: pa.Table) -> list[str]:
    if set(names) != set(table.column_names):
        odd = ", ".join(sorted(set(names) ^ set(table.column_names)))
        raise UserError(f"not every row has the columns {odd}. Write JSON lines (.jsonl), where rows may differ.")
    return names


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UserError(f"a column changes its type within the input: {error}. Write JSON lines (.jsonl).") from error


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _plain(value)
    return row_json({"": value})[5:-1] if isinstance(value, list | dict) else value


def _safe_cell(value: Any) -> Any:
    """Returns a cell that no spreadsheet computes; a number stays one."""
    shown = _cell(value)
    if isinstance(shown, str) and shown.lstrip(" ").startswith(_FORMULA_MARKS) and not _WRITTEN_NUMBER.fullmatch(shown):
        return f"'{shown}"
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
