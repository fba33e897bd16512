"""Cells of the request log in Arrow."""

import base64

import pyarrow as pa

from fullpass.components.serving_log.columns import COLUMNS

TYPES = {c.name: pa.list_(pa.type_for_alias(c.type)) if c.many else pa.type_for_alias(c.type) for c in COLUMNS}
"""Column of the log -> its type."""


def bytes_of_json(column: pa.ChunkedArray) -> pa.Array:
    """Returns `{"b64": ...}` of JSON lines as bytes."""
    return pa.array([one and base64.b64decode(one["b64"]) for one in column.to_pylist()], pa.binary())
