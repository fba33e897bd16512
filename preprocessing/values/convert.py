"""The only conversion from Arrow values to values of a tf.Example.

null is missing, zero is zero, false is false, and "" is text unless it is declared missing. `docs/sources.md` has a
table of the conversion of each Arrow type.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.token_spelling import as_token
from fullpass.preprocessing.values.arrow_text import (
    as_mask,
    as_seconds,
    as_tokens,
    is_binary,
    null_where,
    to_text,
    without_dictionary,
)
from fullpass.preprocessing.values.encoded_images import image_problems
from fullpass.preprocessing.values.list_values import (
    Problems,
    flatten,
    is_list,
    lengths_of,
    lists_of_lengths,
    sole_values,
    split_text,
    to_lists,
)
from fullpass.preprocessing.values.raw_text import RawText

_REMEMBERED = 1000
"""Lists of missing texts whose numbers are remembered: one per column with texts of its own."""

_DOT_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|infinity|nan(\(\w*\))?)$"
_COMMA_NUMBER = r"(?i)^[+-]?((\d+,?\d*|,\d+)(e[+-]?\d+)?|inf|infinity|nan(\(\w*\))?)$"
_OUT_OF_RANGE = "outside the range of float32"
_SEVERAL = "several values, expected one (a feature reads lists with `list: true`, a label text with `separator`)"


@dataclass(frozen=True)
class Converted:
    """A column ready to encode.

    flat: float32 or binary, null where missing or bad. A vector is a list array of float32. A list of any length is a
    large list array of float32 or binary, with NaN or b"" for missing elements.
    problems: pairs of bool [rows] and the problem of the rows where it is true; the first problem of a row counts.
    """

    flat: pa.Array
    problems: Problems = ()

    @property
    def bad(self) -> np.ndarray:
        """bool [rows], True where a present value does not fit the declared type."""
        bad = np.zeros(len(self.flat), dtype=bool)
        for mask, _ in self.problems:
            bad |= mask
        return bad

    @property
    def reason(self) -> str:
        """The problem of the first bad row; "" without one."""
        bad = self.bad
        return self.reason_of(int(bad.argmax())) if bad.any() else ""

    def reason_of(self, row: int) -> str:
        """Returns the problem of a bad row."""
        return next(reason for mask, reason in self.problems if mask[row])

    @property
    def values(self) -> pa.ListArray:
        """A list of one value (`width` for a vector) per present row, null where missing."""
        if is_list(self.flat.type):
            return self.flat
        valid = as_mask(self.flat.is_valid())
        ends = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
        missing = np.concatenate([~valid, [False]])
        return pa.ListArray.from_arrays(pa.array(ends, mask=missing), self.flat.drop_null())


def convert(column: pa.Array, raw: RawColumn, *, strip: bool, missing: Sequence[str], decimal: str = ".") -> Converted:
    """Returns `column` converted to the declared raw column.

    Args:
        column: One batch of one column, of any type that a source yields.
        missing: Texts that mean missing; a numeric text also matches the equal number in number columns.

    Raises:
        UserError: No value of the column's type can have the declared type.
    """
    column = without_dictionary(column)
    if pa.types.is_null(column.type):
        return Converted(pa.nulls(len(column), arrow_type(raw)))
    if raw.type == "vector":
        return _vector(column, raw)
    if raw.many:
        return _lists(column, raw, strip=strip, missing=missing, decimal=decimal)
    if is_list(column.type):
        return _sole_values(column, raw, strip=strip, missing=missing, decimal=decimal)
    column = as_declared(column, raw)
    if raw.type == "string":
        return _string(column, raw, strip=strip, missing=missing, decimal=decimal)
    if not _is_text(column.type):
        return _number(column, missing)
    text, undecodable = to_text(column, strip=strip, missing=missing)
    converted = _number_of_text(text, missing, decimal)
    return Converted(converted.flat, ((undecodable, "not UTF-8"), *converted.problems))


def convert_raw(column: pa.Array, raw: RawColumn, text: RawText) -> Converted:
    """Returns `column` converted to the declared raw column, with the text options of `text`; see `convert`."""
    if raw.image:
        converted = convert(column, raw, strip=False, missing=())
        return Converted(converted.flat, (*converted.problems, *image_problems(converted.flat)))
    return convert(column, raw, strip=text.strip, missing=text.missing_of(raw.name), decimal=text.decimal)


def arrow_type(raw: RawColumn) -> pa.DataType:
    """Returns the type of `Converted.flat` of a raw column."""
    kind = {"number": pa.float32(), "string": pa.binary(), "vector": pa.list_(pa.float32())}[raw.type]
    return pa.large_list(kind) if raw.many else kind


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or is_binary(kind)


def as_declared(column: pa.Array, raw: RawColumn) -> pa.Array:
    """Returns single values as text or numbers: what a declared number is read from, and other columns unchanged.

    Raises:
        UserError: No value of the column's type can have the declared type.
    """
    column = without_dictionary(column)
    _check_type(column.type, raw)
    return _as_numbers(column) if raw.type == "number" else column


def _check_type(kind: pa.DataType, raw: RawColumn) -> None:
    if pa.types.is_struct(kind):
        fields = ", ".join(f"{raw.name}.{kind[i].name}" for i in range(kind.num_fields))
        raise UserError(f"column {raw.name!r} is a struct. Name one of its fields: {fields}.")
    if pa.types.is_map(kind) or pa.types.is_union(kind) or pa.types.is_interval(kind):
        raise UserError(f"column {raw.name!r} is of the type {kind}, which raw columns do not support. Remove it.")
    if raw.type == "number" and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise UserError(
            f"column {raw.name!r} is of the type {kind}, but is read as a number. Declare a feature of type date on it."
        )


def _string(column: pa.Array, raw: RawColumn, *, strip: bool, missing: Sequence[str], decimal: str) -> Converted:
    """Returns text as UTF-8, and bytes unchanged; tokens in their spelling, and numbers with their decimal sign."""
    if not is_binary(column.type):
        text, bad = to_text(column, strip=strip, missing=missing, tokens=raw.token, decimal=decimal)
        if raw.decimal != "." and not _is_text(column.type):
            text = pc.replace_substring(text, ".", raw.decimal)
        return Converted(text.cast(pa.binary()), ((bad, "outside the years 1 to 9999"),) if bad.any() else ())
    column = column.cast(pa.binary())
    if raw.token:
        column, missing = as_tokens(column, decimal), [as_token(text, decimal) for text in missing]
    if missing:
        is_missing = pc.is_in(column, value_set=pa.array([token.encode() for token in missing], type=pa.binary()))
        column = null_where(is_missing, column)
    return Converted(column)


def _as_numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
        return as_seconds(column)
    return column


def _number(column: pa.Array, missing: Sequence[str]) -> Converted:
    """Returns numbers as the nearest float32; NaN and missing tokens are null."""
    absent = as_mask(column.is_null())
    if absent.any() and pa.types.is_integer(column.type):
        column = column.fill_null(0)
    values, absent, too_large = _rounded(column.to_numpy(zero_copy_only=False), absent, missing)
    flat = pa.array(values, mask=absent | too_large)
    return Converted(flat, ((too_large, _OUT_OF_RANGE),) if too_large.any() else ())


def _rounded(
    exact: np.ndarray, absent: np.ndarray, missing: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns numbers as the nearest float32, and which are missing and which are too large, bool [rows] each.

    Args:
        absent: bool [rows], the rows that are missing whatever `missing` says.
    """
    with np.errstate(over="ignore"):
        values = exact.astype(np.float32)
        for token in numbers_of(tuple(missing)):  # NumPy 2 rounds a large token to infinity
            absent = absent | ((exact == token) & (np.isfinite(exact) | np.isinf(token)))
    absent = absent | np.isnan(values)
    return values, absent, np.isinf(values) & ~absent


@lru_cache(maxsize=_REMEMBERED)
def numbers_of(tokens: tuple[str, ...]) -> tuple[float, ...]:
    """Returns the numbers that tokens stand for; infinity only if it is written so, not by 1e400."""
    kept = [token.lower() for token in tokens if re.fullmatch(_DOT_NUMBER, token, re.ASCII)]
    numbers = [(token, float(token)) for token in kept if "nan" not in token]
    return tuple(number for token, number in numbers if np.isfinite(number) or "inf" in token)


def read_numbers(text: pa.Array, *, missing: Collection[str], decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers that `convert` reads from text, before they are rounded to float32.

    Args:
        text: Text without undecodable cells.
        missing: Texts that mean missing; a numeric text also matches the equal number.

    Returns:
        float64 [rows], NaN where a cell is missing or bad; and bool [rows], True where it is bad.
    """
    text, _ = to_text(text, strip=False, missing=tuple(missing))
    exact, unreadable = _parsed(text, decimal)
    numbers = exact.to_numpy(zero_copy_only=False).astype(np.float64)
    _, absent, too_large = _rounded(numbers, np.isnan(numbers), tuple(missing))
    return np.where(absent | too_large, np.nan, numbers), too_large | unreadable


def _number_of_text(text: pa.Array, missing: Sequence[str], decimal: str) -> Converted:
    exact, unreadable = _parsed(text, decimal)
    converted = _number(exact, missing)
    return Converted(converted.flat, ((unreadable, "not a number"), *converted.problems))


def _parsed(text: pa.Array, decimal: str) -> tuple[pa.Array, np.ndarray]:
    """Returns the numbers in text as float64, null where missing or unreadable, and a mask of the unreadable cells."""
    if decimal == ".":
        try:
            return text.cast(pa.float64()), np.zeros(len(text), dtype=bool)
        except pa.ArrowInvalid:
            pass
    readable = pc.match_substring_regex(text, pattern=_DOT_NUMBER if decimal == "." else _COMMA_NUMBER)
    kept = null_where(pc.invert(readable), text)
    kept = pc.utf8_ltrim(pc.replace_substring(kept, decimal, "."), characters="+")  # Arrow parses no leading plus.
    return kept.cast(pa.float64()), as_mask(pc.invert(readable).fill_null(False))


def _lists(column: pa.Array, raw: RawColumn, *, strip: bool, missing: Sequence[str], decimal: str) -> Converted:
    if raw.separator is not None and _is_text(column.type):
        column, undecodable = to_text(column, strip=strip, missing=missing)
        split = split_text(column, raw.separator, strip=strip)
        converted = _lists(split, replace(raw, separator=None), strip=strip, missing=missing, decimal=decimal)
        return Converted(converted.flat, ((undecodable, "not UTF-8"), *converted.problems))

    def elements(values: pa.Array) -> tuple[pa.Array, Problems]:
        one = RawColumn(raw.name, raw.type, token=raw.token, decimal=raw.decimal)
        converted = convert(values, one, strip=strip, missing=missing, decimal=decimal)
        return converted.flat, converted.problems

    return Converted(*to_lists(column, elements))


def _sole_values(lists: pa.Array, raw: RawColumn, *, strip: bool, missing: Sequence[str], decimal: str) -> Converted:
    inner = convert(sole_values(lists), raw, strip=strip, missing=missing, decimal=decimal)
    return Converted(inner.flat, ((lengths_of(lists) > 1, _SEVERAL), *inner.problems))


def _vector(column: pa.Array, raw: RawColumn) -> Converted:
    if not is_list(column.type):
        return Converted(
            pa.nulls(len(column), arrow_type(raw)), ((as_mask(column.is_valid()), "not a list of numbers"),)
        )
    while is_list(column.type.value_type):
        column = _joined(column)
    lengths = lengths_of(column)
    numbers = convert(flatten(column), RawColumn(raw.name, "number"), strip=True, missing=())
    owner = np.repeat(np.arange(len(column)), lengths)
    unusable = np.zeros(len(column), dtype=bool)
    unusable[owner[as_mask(numbers.flat.is_null())]] = True
    wrong = (lengths != raw.width) & (lengths != 0)
    keep = (lengths == raw.width) & ~unusable
    ends = np.concatenate([[0], np.cumsum(np.where(keep, raw.width, 0))]).astype(np.int32)
    kept = numbers.flat.filter(pa.array(np.repeat(keep, lengths)))
    flat = pa.ListArray.from_arrays(pa.array(ends, mask=np.concatenate([~keep, [False]])), kept)
    return Converted(
        flat, ((wrong, f"not {raw.width} numbers long"), (unusable, "an element is missing or not a number"))
    )


def _joined(lists: pa.Array) -> pa.Array:
    """Returns lists of lists as lists, in row-major order."""
    inner = flatten(lists)
    inner_ends = np.concatenate([[0], np.cumsum(lengths_of(inner))])
    ends = inner_ends[np.concatenate([[0], np.cumsum(lengths_of(lists))])]
    return lists_of_lengths(flatten(inner), np.diff(ends))
