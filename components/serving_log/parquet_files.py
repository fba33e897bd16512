"""Converts a complete file of the request log from JSON lines to Parquet."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from fullpass.base.files import pending_file
from fullpass.components.serving_log.cells import TYPES, bytes_of_json
from fullpass.components.serving_log.log_files import final_name
from fullpass.preprocessing.columns.raw_columns import RawColumn

_BYTES = pa.struct([("b64", pa.string())])
_MOST_BYTES = 1 << 30
"""Bytes of a line at most."""


def log_to_parquet(lines: Path, raw: Mapping[str, RawColumn]) -> None:
    """Writes a complete file as Parquet beside it, atomically, and removes it.

    Args:
        raw: The raw columns of the log; they have the same types in every file.
    """
    schema = pa.schema({**TYPES, **{name: _of_raw(column) for name, column in raw.items()}})
    table = pa.json.read_json(
        lines,
        read_options=pa.json.ReadOptions(block_size=min(lines.stat().st_size + 1, _MOST_BYTES)),
        parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    for place, column in enumerate(table.schema):
        if column.type == _BYTES:
            table = table.set_column(place, column.name, bytes_of_json(table[place]))
    with pending_file(final_name(lines).with_suffix(".parquet")) as pending:
        pq.write_table(table, pending)
        shutil.copymode(lines, pending)  # not everyone may read the requests
    lines.unlink()


def _of_raw(column: RawColumn) -> pa.DataType:
    if column.image:
        return _BYTES
    cell = pa.string() if column.type == "string" else pa.float32()
    return cell if column.is_single else pa.list_(cell)
