"""Converts Arrow columns of any type to text, from which categories, ids and dates are parsed."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.token_spelling import BOOLEANS, WHOLE_NUMBER, as_token

_FIRST_YEAR, _LAST_YEAR = 1, 9999
"""Years that ISO 8601 writes with four digits, as Python does."""
EXACT_IN_FLOAT64 = 2**53
"""Below it, float64 holds every whole number (IEEE 754)."""
_FIXED_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
"""Zone of a timestamp without a name: pandas makes it of texts with an offset, `2024-01-02T03:04+05:30`."""


def to_text(
    column: pa.Array, *, strip: bool, missing: Sequence[str], tokens: bool = False, decimal: str = "."
) -> tuple[pa.Array, np.ndarray]:
    """Returns a column as UTF-8 text with missing values as null, and a mask of the cells that cannot be text.

    Whole floats lose their point ("8.0" in a float column is "8"), and other floats have the fewest digits that
    identify them. Booleans are "true" and "false". Decimals keep their digits. Dates and times are ISO 8601, with the
    offset of their zone, and with a fraction only if it is not zero. Durations are seconds.

    Args:
        column: Any type except lists, structs, maps, unions and calendar intervals.
        tokens: Whether to return and compare tokens; see `token_spelling`.
        decimal: Decimal sign of numbers in texts.
    """
    text, bad = _text(without_dictionary(column))
    if strip:
        text = pc.utf8_trim_whitespace(text)
    if tokens:
        text, missing = as_tokens(text, decimal), [as_token(one, decimal) for one in missing]
    if missing:
        is_missing = pc.is_in(text, value_set=pa.array(list(missing), type=pa.string()))
        text = null_where(is_missing, text)
    return text, bad


def as_tokens(texts: pa.Array, decimal: str = ".") -> pa.Array:
    """Returns texts or bytes with the spelling of their tokens; see `token_spelling`."""
    ends = pc.match_substring(texts, pattern=f"{decimal}0")
    if pc.any(ends).as_py():
        texts = pc.replace_substring_regex(texts, pattern=WHOLE_NUMBER[decimal], replacement=r"\1")
    index = pc.index_in(texts, value_set=pa.array(BOOLEANS, pa.string()).cast(texts.type))
    if index.null_count == len(index):
        return texts
    return pc.coalesce(pa.array(BOOLEANS.values(), pa.string()).cast(texts.type).take(index), texts)


def as_readable(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns text, or bytes without nulls as text, with U+FFFD for bytes that are not UTF-8."""
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([cell.decode("utf-8", "replace") for cell in cells.to_pylist()], pa.string())


def without_dictionary(column: pa.Array) -> pa.Array:
    """Returns a column without dictionaries and extension types."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def null_where(mask: pa.BooleanArray, column: pa.Array) -> pa.Array:
    """Returns a column with null where the mask is true or null.

    The nulls are an array, since pyarrow 17 to 21 returns other bytes for a slice of texts and a null scalar. Source:
    https://github.com/apache/arrow/issues/41479
    """
    return pc.if_else(mask, pa.nulls(len(column), column.type), column)


def is_binary(kind: pa.DataType) -> bool:
    """Returns whether a type holds bytes that may not be text."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _text(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    kind = column.type
    good = np.zeros(len(column), dtype=bool)
    if pa.types.is_string(kind):
        return column, good
    if is_binary(kind):
        return _decoded(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column)
    if pa.types.is_floating(kind):
        return _floats(column), good
    if pa.types.is_time(kind):
        return _without_zeros(column.cast(pa.string())), good
    if pa.types.is_duration(kind):
        return _floats(as_seconds(column)), good
    if pa.types.is_decimal(kind):
        return pa.array([None if d is None else f"{d:f}" for d in column.to_pylist()], type=pa.string()), good
    return column.cast(pa.string()), good


def as_seconds(column: pa.Array) -> pa.Array:
    """Returns durations as float64 seconds, or times as seconds since midnight."""
    unit = str(column.type).partition("[")[2].rstrip("]")  # Time types have no attribute `unit`.
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    whole = column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_time32(column.type) else column.cast(pa.int64())
    return pc.divide(whole.cast(pa.float64(), safe=False), float(per_second))


def _decoded(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    bad = np.zeros(len(column), dtype=bool)
    try:
        return column.cast(pa.binary()).cast(pa.string()), bad
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for i, cell in enumerate(column.to_pylist()):
            try:
                texts.append(None if cell is None else cell.decode("utf-8"))
            except UnicodeDecodeError:
                bad[i] = True
                texts.append(None)
        return pa.array(texts, type=pa.string()), bad


def _floats(column: pa.Array) -> pa.Array:
    if pa.types.is_float16(column.type):
        column = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32), from_pandas=True)
    values = column.to_numpy(zero_copy_only=False)
    whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < EXACT_IN_FLOAT64)
    as_integers = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.string())
    text = pc.if_else(pa.array(whole), as_integers, column.cast(pa.string()))
    return null_where(pa.array(np.isnan(values)), text)


def _timestamps(column: pa.Array) -> tuple[pa.Array, np.ndarray]:
    years = pc.year(column.cast(pa.timestamp(column.type.unit)))
    bad = pc.or_(pc.less(years, _FIRST_YEAR), pc.greater(years, _LAST_YEAR)).fill_null(False)
    column = null_where(bad, column)
    zone = column.type.tz
    if zone is not None and (fixed := _FIXED_OFFSET.fullmatch(zone)):  # Arrow knows the names of zones only
        sign, hours, minutes = fixed.groups()
        ahead = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
        local = pc.add(column.cast(pa.timestamp(column.type.unit)), pa.scalar(ahead, pa.duration(column.type.unit)))
        offset: Any = sign + hours + minutes
    else:
        local, offset = column, None if zone is None else pc.strftime(column, format="%z")
    text = _without_zeros(pc.strftime(local, format="%Y-%m-%dT%H:%M:%S"))
    if offset is not None:
        text = pc.binary_join_element_wise(text, offset, "")
    return text, bad.to_numpy(zero_copy_only=False).astype(bool)


def _without_zeros(text: pa.Array) -> pa.Array:
    return (
        pc.replace_substring_regex(text, pattern=r"\.?0*$", replacement="")
        if pc.any(pc.match_substring(text, ".")).as_py()
        else text
    )


def as_array(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column as one array, without a copy if it is one: `combine_chunks` copies in any case."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_JOINED_AT_ONCE = 64
"""Number of arrays of which a processor's cache holds the cells of one row."""


def joined_rows(arrays: Sequence[Any], separator: str, *, null: str) -> pa.Array:
    """Returns the texts, or bytes, of each row, joined; `null` replaces a missing one.

    Args:
        arrays: One or more, all of text or all of bytes; also scalars, but two of them never beside each other.
    """
    between = pa.scalar(separator, arrays[-1].type)
    while True:
        groups = [arrays[start : start + _JOINED_AT_ONCE] for start in range(0, len(arrays), _JOINED_AT_ONCE)]
        arrays = [
            pc.binary_join_element_wise(*group, between, null_handling="replace", null_replacement=null)
            for group in groups
        ]
        if len(arrays) == 1:
            return arrays[0]


def as_mask(column: pa.Array) -> np.ndarray:
    """Returns an Arrow boolean array as a NumPy array."""
    return column.to_numpy(zero_copy_only=False).astype(bool)
