"""Converts cells of a source to values of raw examples. Training and prediction share this conversion."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fullpass.base.errors import prefix_errors
from fullpass.components.ingest.readers.reader import Reading, Rows, text_at
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import convert_raw
from fullpass.preprocessing.values.list_values import length_mismatch
from fullpass.preprocessing.values.raw_text import RawText


def convert_rows(
    columns: Iterable[RawColumn], text: RawText, reading: Reading, rows: Rows
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns the columns by name in the form of a tf.Example, and bool [rows], True if a row is usable.

    Each unusable row is added to `reading`, with its column and the reason.

    Args:
        columns: The columns to convert; `rows` contains each of them.
        text: Rules for reading text as values.
        reading: Collects the bad rows.
        rows: Rows yielded by a reader.
    """
    good = np.ones(len(rows.numbers), dtype=bool)
    arrays: dict[str, pa.Array] = {}
    columns = tuple(columns)
    for raw in columns:
        column = rows.table.column(raw.name).combine_chunks()
        with prefix_errors(reading.path):
            converted = convert_raw(column, raw, text)
        arrays[raw.name] = converted.flat
        bad = converted.bad
        for row in np.flatnonzero(bad).tolist():
            reading.add_bad(int(rows.numbers[row]), raw.name, converted.reason_of(row), _shown(column, row, raw))
        good &= ~bad
    for group in sorted({raw.group for raw in columns if raw.group is not None}):
        members = [raw.name for raw in columns if raw.group == group]
        for row in np.flatnonzero(length_mismatch([arrays[name] for name in members]) & good).tolist():
            lengths = ", ".join(f"{name} {len(arrays[name][row].as_py() or ())}" for name in members)
            reading.add_bad(
                int(rows.numbers[row]), members[0], f"another length than the other lists of {group}", lengths
            )
            good[row] = False
    return arrays, good


def _shown(column: pa.Array, row: int, raw: RawColumn) -> str:
    """Returns a cell as readable text; for an image, its size and first bytes."""
    content = column[row].as_py() if raw.image else None
    if not isinstance(content, bytes):
        return text_at(column, row)
    return f"{len(content):,} bytes, which begin with {content[:8].hex(' ')}"
