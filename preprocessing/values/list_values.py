"""Converts columns of lists of any length for tf.Examples: float32 or binary, NaN or b"" for missing elements."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.features.lists import LONGEST_LIST
from fullpass.preprocessing.list_text import list_text
from fullpass.preprocessing.values.arrow_text import as_mask, null_where

Problems = tuple[tuple[np.ndarray, str], ...]
ConvertElements = Callable[[pa.Array], tuple[pa.Array, Problems]]
"""Elements of any type -> float32 or binary, null where missing or bad, and the bad elements."""


def is_list(kind: pa.DataType) -> bool:
    """Returns whether a type is one of Arrow's list types."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """Returns the length of each list, int64 [rows]; 0 for a null list."""
    if pa.types.is_fixed_size_list(lists.type):
        return np.where(as_mask(lists.is_valid()), lists.type.list_size, 0)
    return pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def flatten(lists: pa.Array) -> pa.Array:
    """Returns the values of all lists that are not null."""
    if lists.null_count == len(lists):  # Arrow cannot flatten fixed-size lists if all are null.
        return pa.array([], type=lists.type.value_type)
    return lists.flatten()


def sole_values(lists: pa.Array) -> pa.Array:
    """Returns the value of each list of one, as in tf.Examples; null for an empty and for a longer list."""
    lengths = lengths_of(lists)
    if (lengths == 1).all():
        return flatten(lists)
    return flatten(lists).take(pa.array(np.cumsum(lengths) - lengths, mask=lengths != 1))


def split_text(column: pa.Array, separator: str, *, strip: bool) -> pa.Array:
    """Splits text into lists at the separator (`list_text`); an empty text becomes an empty list."""
    form, text = list_text(separator), column.cast(pa.string())
    for pattern, replacement in form.replacements:
        text = pc.replace_substring_regex(text, pattern, replacement)
    text = null_where(pc.equal(pc.utf8_trim_whitespace(text), ""), text)
    if form.replacements:
        text = pc.utf8_rtrim(text, form.separator)
    lists = pc.split_pattern(text, form.separator)
    if not strip:
        return lists
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths_of(lists))]).astype(np.int32))
    return pa.ListArray.from_arrays(ends, pc.utf8_trim_whitespace(flatten(lists)))


def to_lists(column: pa.Array, convert_elements: ConvertElements) -> tuple[pa.Array, Problems]:
    """Returns large lists of float32 or binary with no null elements; null if a row has no element or is bad.

    A single value becomes a list of one. A list of one-element lists becomes a flat list.

    Args:
        column: Lists of any Arrow type, or single values.
    """
    if not is_list(column.type):
        flags = as_mask(column.is_valid())
        column = lists_of_lengths(column.drop_null(), flags.astype(np.int64))
    lengths = lengths_of(column)
    too_long = lengths > LONGEST_LIST
    column, lengths = _emptied(column, lengths, too_long)
    column, nested = without_inner_lists(column, lengths)
    column, lengths = _emptied(column, lengths, nested)
    elements, found = convert_elements(flatten(column))
    owners = np.repeat(np.arange(len(lengths)), lengths)
    problems = [(too_long, f"a list of more than {LONGEST_LIST:,} elements"), (nested, "a list of lists")]
    problems += [(_rows_with(mask, owners, len(lengths)), f"in a list: {why}") for mask, why in found]
    bad = np.any([mask for mask, _ in problems], axis=0)
    lists, lengths = _emptied(lists_of_lengths(_filled(elements), lengths), lengths, bad)
    return lists_of_lengths(flatten(lists), lengths), tuple(problems)


def length_mismatch(lists: Sequence[pa.Array]) -> np.ndarray:
    """Returns bool [rows], True where the lists of a row have different lengths."""
    lengths = np.stack([lengths_of(array) for array in lists])
    return (lengths != lengths[0]).any(axis=0)


def not_rising(lists: pa.Array) -> np.ndarray:
    """Returns whether a number of a list is below 0, larger than the one before it, or behind a missing one.

    Missing ones at the end pad the list.
    """
    numbers, of_row = flatten(lists).to_numpy(zero_copy_only=False), np.repeat(np.arange(len(lists)), lengths_of(lists))
    wrong = numbers < 0
    falls = (numbers[1:] <= numbers[:-1]) | np.isnan(numbers[1:])
    wrong[1:] |= ~falls & (of_row[1:] == of_row[:-1])
    return np.bincount(of_row[wrong], minlength=len(lists)) > 0


def lists_of_lengths(values: pa.Array, lengths: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """Returns values as large lists of these lengths; null where `missing`, bool [rows], by default where empty."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    nulls = lengths == 0 if missing is None else missing
    return pa.LargeListArray.from_arrays(pa.array(ends, mask=np.append(nulls, False)), values)


def _emptied(lists: pa.Array, lengths: np.ndarray, bad: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Returns the lists with bad lists emptied, and the new lengths."""
    kept = np.where(bad, 0, lengths)
    if not bad.any():
        return lists, kept
    return lists_of_lengths(flatten(lists).filter(pa.array(np.repeat(~bad, lengths))), kept), kept


def without_inner_lists(column: pa.Array, lengths: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Flattens lists of one-element lists; also returns bool [rows], True where an inner list has several elements."""
    several = np.zeros(len(column), bool)
    while is_list(column.type.value_type):
        inner = flatten(column)
        inner_lengths = lengths_of(inner)
        several |= _rows_with(inner_lengths > 1, np.repeat(np.arange(len(lengths)), lengths), len(lengths))
        firsts = pa.array(np.cumsum(inner_lengths) - inner_lengths, mask=inner_lengths == 0)
        column = lists_of_lengths(flatten(inner).take(firsts), lengths)
    return column, several


def _rows_with(elements: np.ndarray, owners: np.ndarray, rows: int) -> np.ndarray:
    found = np.zeros(rows, bool)
    found[owners[elements]] = True
    return found


def _filled(elements: pa.Array) -> pa.Array:
    return elements.fill_null(float("nan") if pa.types.is_floating(elements.type) else b"")
