"""Hashes the content of rows: equal rows have equal hashes, independent of the file, the format and the YAML."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.arrow_text import (
    EXACT_IN_FLOAT64,
    as_array,
    is_binary,
    joined_rows,
    null_where,
    to_text,
    without_dictionary,
)
from fullpass.preprocessing.values.list_values import is_list, lengths_of, sole_values

_MARK = "\x1f"
_BINARY = pa.binary()
_HASH_BYTES = 8
"""Bytes of a hash: two of a billion different rows have the same one with a probability of three percent."""


def hashes(values: pa.Array) -> np.ndarray:
    """Returns BLAKE2b-64 of each value's bytes, uint64 [rows]; null has the hash of zero bytes.

    `b2sum -l 64` prints the same number in hexadecimal. Source: RFC 7693 with an 8-byte digest.
    """
    blake2b, cells = hashlib.blake2b, values.cast(_BINARY).to_numpy(zero_copy_only=False)
    digests = [blake2b(value or b"", digest_size=_HASH_BYTES).digest() for value in cells]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def equality_hashes(values: pa.BinaryArray) -> np.ndarray:
    """Returns SipHash-64 of each value's bytes, uint64 [rows], to compare rows within a run; none is null.

    It takes a tenth of the time of `hashes`, whose numbers split rows, so they must stay.
    """
    from pandas.util import hash_array  # takes a quarter of a second, which a check of a sample does without

    return hash_array(values.to_numpy(zero_copy_only=False), categorize=False)


def contents(table: pa.Table) -> pa.BinaryArray:
    """Returns the bytes of each row: name and content of every present cell, sorted by name, with U+001F before each.

    An absent or null cell contributes no bytes, so a new empty column changes no row. Cells have the form of `to_text`,
    except that bytes are unchanged, and lists and structs are JSON.

    Example:
        A row with city = Oslo, at = null and n = 5 is the bytes `\\x1fcity\\x1fOslo\\x1fn\\x1f5`.
    """
    fields: list[Any] = []
    for position, column in sorted(enumerate(table.column_names), key=itemgetter(1)):
        name = f"{_MARK}{column}{_MARK}".encode()
        cells = _cells(table.column(position))
        names = null_where(cells.is_null(), pa.repeat(name, len(cells))) if cells.null_count else pa.scalar(name)
        fields += [names, cells]
    if not fields:
        return pa.array([b""] * table.num_rows, _BINARY)
    return joined_rows(fields, "", null="")


def table_of_dicts(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Returns rows that are dicts as a table of all their cells, each as bytes for `contents`."""
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return pa.table([pa.array([_bytes(row.get(n)) for row in rows], _BINARY) for n in names], names=list(names))


def _cells(column: pa.ChunkedArray) -> pa.Array:
    """Returns each cell as bytes; null for a missing cell."""
    cells = without_dictionary(as_array(column))
    kind = cells.type
    if is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return cells.cast(_BINARY)
    if is_list(kind):
        return _lists(cells)
    if pa.types.is_null(kind) or pa.types.is_nested(kind) or pa.types.is_interval(kind):
        return pa.array([_bytes(cell) for cell in cells.to_pylist()], _BINARY)
    return to_text(cells, strip=False, missing=())[0].cast(_BINARY)


def _lists(lists: pa.Array) -> pa.Array:
    """Returns lists of one value as that value, as in TFRecords, longer lists as JSON, and an empty list as null."""
    cells = _cells(pa.chunked_array([sole_values(lists)]))
    longer = lengths_of(lists) > 1
    if not longer.any():
        return cells
    texts = [_bytes(v) if is_longer else None for v, is_longer in zip(lists.to_pylist(), longer, strict=True)]
    return pc.if_else(pa.array(longer), pa.array(texts, _BINARY), cells)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_IN_FLOAT64:
        value = int(value)
    return json.dumps(
        value, default=lambda v: v.hex() if isinstance(v, bytes) else str(v), sort_keys=True, ensure_ascii=True
    ).encode()
