"""Converts rows to the form of a tf.Example; each unusable row is a bad row, with its column and the reason."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fullpass.base.errors import prefix_errors
from fullpass.components.ingest.readers.rows import Reading, Rows
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.features.history import holds_ages
from fullpass.preprocessing.values.convert import convert_raw
from fullpass.preprocessing.values.list_values import length_mismatch, not_rising
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.shown_cells import text_at

_SHOWN_BYTES = 8
"""First bytes of an image in messages: as many as the longest magic number, that of PNG."""


def convert_rows(
    columns: Iterable[RawColumn], text: RawText, reading: Reading, rows: Rows
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns the columns by name in the form of a tf.Example, and bool [rows], True if a row is usable.

    Each unusable row is added to `reading`, with its column and the reason.
    """
    good, arrays = rows.good, dict[str, pa.Array]()
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
    for ages in (raw.name for raw in columns if holds_ages(raw.name, raw.group)):
        for row in np.flatnonzero(not_rising(arrays[ages]) & good).tolist():
            cell = text_at(rows.table.column(ages), row)
            reading.add_bad(int(rows.numbers[row]), ages, "not the ages of events, the oldest first", cell)
            good[row] = False
    return arrays, good


def _shown(column: pa.Array, row: int, raw: RawColumn) -> str:
    """Returns a cell as readable text; for an image, its size and first bytes."""
    content = column[row].as_py() if raw.image else None
    if not isinstance(content, bytes):
        return text_at(column, row)
    return f"{len(content):,} bytes, which begin with {content[:_SHOWN_BYTES].hex(' ')}"
