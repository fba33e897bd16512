"""Cells as readable text, for messages and for the quarantine."""

from typing import Any

import pyarrow as pa


def text_at(column: pa.Array | pa.ChunkedArray, row: int) -> str:
    """Returns the `cell_text` of a cell; for a date outside Python's range, its number."""
    cell = column[row]
    try:
        return cell_text(cell.as_py())
    except (OverflowError, ValueError):
        return str(getattr(cell, "value", column.type))


def cell_text(cell: Any) -> str:
    """Returns a cell as readable text: bytes are decoded, and a list of one value, as in tf.Examples, is unwrapped."""
    if isinstance(cell, list) and len(cell) == 1:
        return cell_text(cell[0])
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
