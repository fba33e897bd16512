"""Tables of rows in files: CSV, JSON lines and Parquet, read and written batch by batch."""

import codecs
import csv
import io
import json
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from preprocessing.errors import UserError
from preprocessing.raw_text import RawText

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""Suffix -> format."""
_COMPRESSED = (".gz", ".bz2", ".zst")
_USUAL = RawText()
_ROWS = 16_384
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class Batch:
    """Rows of one file. first_row: number of the first as a reader of the file counts, a CSV header being row 1."""

    table: pa.Table
    first_row: int


def format_of(path: str, given: str | None = None) -> str:
    """Returns the format of a file: `given`, or what its suffix says; .gz, .bz2 and .zst may follow.

    Raises:
        UserError: The suffix is none of FORMATS.
    """
    if given is not None:
        return given
    name = Path(path)
    suffix = Path(name.stem).suffix if name.suffix.lower() in _COMPRESSED else name.suffix
    if suffix.lower() not in FORMATS:
        raise UserError(
            f"{path}: cannot tell the format from {suffix or 'a name without a suffix'!r}. "
            f"Name it {', '.join(FORMATS)}, or give the format."
        )
    return FORMATS[suffix.lower()]


def read_tables(path: str, file_format: str, text: RawText = _USUAL) -> Iterator[Batch]:
    """Yields the rows of a file, in order, with all columns. CSV cells are text.

    Args:
        path: of the file; compressed by suffix.
        file_format: csv, tsv, jsonl or parquet.
        text: separator, encoding and quoting of csv; the cells of tsv are always parted by tabs.

    Raises:
        UserError: The file is not there, is empty, or is not what its format says.
    """
    if not os.path.isfile(path):
        raise UserError(f"{path}: no such file.")
    with _readable(path):
        if file_format == "parquet":
            yield from _read_parquet(path)
        elif file_format == "jsonl":
            yield from _read_json_lines(path)
        else:
            yield from _read_csv(path, "\t" if file_format == "tsv" else text.separator or ",", text)


def write_tables(path: str, file_format: str, tables: Iterator[pa.Table]) -> None:
    """Writes tables, one after the other, to a file that is there only once it is whole.

    Args:
        path: of the file; replaced if it exists.
        file_format: csv, tsv, jsonl or parquet.
        tables: the first decides the columns, and in Parquet their types.

    Raises:
        UserError: A later table does not fit the first.
    """
    write = {"parquet": _write_parquet, "jsonl": _write_json_lines, "tsv": _write_tsv, "csv": _write_csv}[file_format]
    pending = f"{path}.tmp"
    try:
        with open(pending, "wb") as file:
            write(file, tables)
        os.replace(pending, path)
    finally:
        if os.path.exists(pending):
            os.unlink(pending)


def to_json(row: dict[str, Any]) -> str:
    """Returns a row as one line of JSON; dates and bytes as text, NaN as null."""
    return json.dumps({name: _plain(value) for name, value in row.items()}, ensure_ascii=False, default=str)


def _read_csv(path: str, separator: str, text: RawText) -> Iterator[Batch]:
    names = _header(path, separator, text)
    options = {
        "read_options": pa.csv.ReadOptions(block_size=_BLOCK_BYTES, encoding=text.encoding),
        "parse_options": pa.csv.ParseOptions(
            delimiter=separator, quote_char='"' if text.quoting else False, newlines_in_values=text.quoting
        ),
        "convert_options": pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, strings_can_be_null=False
        ),
    }
    row = 2
    with pa.input_stream(path) as stream:
        for batch in pa.csv.open_csv(stream, **options):
            yield Batch(pa.Table.from_batches([batch]), row)
            row += batch.num_rows


def _header(path: str, separator: str, text: RawText) -> list[str]:
    encoding = "utf-8-sig" if codecs.lookup(text.encoding).name == "utf-8" else text.encoding
    with pa.input_stream(path) as stream, io.TextIOWrapper(stream, encoding, newline="") as lines:
        # A quote is a letter like any other where the character that quotes is none.
        names = next(csv.reader(lines, delimiter=separator, quotechar='"' if text.quoting else None), [])
    if not names:
        raise UserError(f"{path}: the file is empty; a header line with the column names was expected.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: column {twice!r} stands twice in the header; rename one.")
    return names


def _read_json_lines(path: str) -> Iterator[Batch]:
    rows: list[dict[str, Any]] = []
    first = 1
    with pa.input_stream(path) as stream, io.TextIOWrapper(stream, "utf-8") as text:
        for number, line in enumerate(text, start=1):
            rows.append(_json_row(path, number, line))
            if len(rows) == _ROWS:
                yield Batch(_table_of(rows), first)
                rows, first = [], number + 1
    if rows:
        yield Batch(_table_of(rows), first)


def _json_row(path: str, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"{path} row {number}: no JSON: {error}. Every line must hold one JSON object.") from error
    if not isinstance(row, dict):
        raise UserError(f"{path} row {number}: every line must hold one JSON object. Received: {line.strip()[:60]}")
    return row


def _table_of(rows: list[dict[str, Any]]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _array([row.get(name) for row in rows]) for name in names})


def _array(values: list[Any]) -> pa.Array:
    """Returns values of one type as that type, of several as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values], pa.string())


def _read_parquet(path: str) -> Iterator[Batch]:
    row = 1
    for batch in pa.parquet.ParquetFile(path).iter_batches(batch_size=_ROWS):
        yield Batch(pa.Table.from_batches([batch]), row)
        row += batch.num_rows


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError, EOFError, zlib.error, UnicodeError) as error:
        raise UserError(
            f"{path}: reading stopped: {error}. Is it cut short, in another format, or encoding?"
        ) from error


def _write_csv(file: BinaryIO, tables: Iterator[pa.Table], separator: str = ",") -> None:
    with io.TextIOWrapper(file, "utf-8", newline="") as text:
        writer = csv.writer(text, delimiter=separator, lineterminator="\n")
        names: list[str] = []
        for table in tables:
            if not names:
                names = table.column_names
                writer.writerow(names)
            columns = [[_cell(value) for value in table[name].to_pylist()] for name in _same(names, table)]
            writer.writerows(zip(*columns, strict=True))


def _write_tsv(file: BinaryIO, tables: Iterator[pa.Table]) -> None:
    _write_csv(file, tables, "\t")


def _write_json_lines(file: BinaryIO, tables: Iterator[pa.Table]) -> None:
    for table in tables:
        file.write("".join(to_json(row) + "\n" for row in table.to_pylist()).encode())


def _write_parquet(file: BinaryIO, tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    # A column that is missing throughout has no type yet.
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
    return to_json({"": value})[5:-1] if isinstance(value, list | dict) else value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
