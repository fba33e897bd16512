"""Assigns each row to a split."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.ingest.config import ColumnSplit, HashSplit, RandomSplit, Split, StratifiedSplit, TimeSplit
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.preprocessing.dates.read_dates import instant, read_dates
from fullpass.preprocessing.spec import microseconds
from fullpass.preprocessing.token_spelling import as_token
from fullpass.preprocessing.values.arrow_text import to_text, without_dictionary
from fullpass.preprocessing.values.list_values import is_list, lengths_of, sole_values
from fullpass.preprocessing.values.raw_text import RawText
from fullpass.preprocessing.values.row_sample import mixed

NO_SPLIT = -1
GAP = -2
"""A row in the gap before a split by time."""
_SEED_WITHOUT_KEY = 1
HASHES = 1 << 64
"""Number of hashes of 64 bits."""
_GOLDEN = 0x9E3779B97F4A7C15
"""Step of SplitMix64: 2**64 over the golden ratio."""
_FILE_SHIFT = 40
"""Bits for the number of a row, so that the rows of two files have different seeds."""
_ALL_GIVEN = RawText(missing=())


def raw_split_columns(split: Split) -> tuple[str, ...]:
    """Returns the raw columns that assigning a split reads by name, in addition to those that features read."""
    return () if isinstance(split, StratifiedSplit) else columns_of_split(split)


def columns_of_split(split: Split) -> tuple[str, ...]:
    """Returns the columns named in the split section, raw or derived."""
    column = getattr(split, "column", None)
    return () if column is None else (column,) if isinstance(column, str) else tuple(column)


def reads_whole_rows(split: Split) -> bool:
    """Returns whether a row's split depends on all columns of the source."""
    return isinstance(split, StratifiedSplit) or (isinstance(split, HashSplit) and split.column is None)


def assign(
    split: Split, table: pa.Table, numbers: np.ndarray, *, file_index: int, text: RawText = _ALL_GIVEN
) -> np.ndarray:
    """Returns the index into the split names for each row, int64 [rows]; NO_SPLIT if a row fits no split, GAP if it is
    in a gap.

    This function assigns a stratified split by hash, which is sufficient for a sample; Ingest uses `stratified.Cuts`.

    Args:
        table: The rows, with at least `raw_split_columns`; with all columns of the source if it `reads_whole_rows`.
        file_index: Position of the file among all files; with the row number it seeds the random split.
        text: Tells which cells of a key are missing, besides null.
    """
    if isinstance(split, HashSplit) and split.column is not None:
        return _by_ratio(_key_fractions(_keys(table, columns_of_split(split), text), numbers, file_index), split.ratios)
    if isinstance(split, HashSplit | StratifiedSplit):
        return _by_ratio(hashes(contents(table)) / HASHES, split.ratios)
    if isinstance(split, RandomSplit):
        return _by_ratio(_random_fractions(split.seed, numbers, file_index), split.ratios)
    if isinstance(split, TimeSplit):
        return _by_time(split, joined_texts(table, split, text))
    return _by_value(split, cell_tokens(table.column(split.column), decimal=text.decimal), text.decimal)


def _by_ratio(fractions: np.ndarray, ratios: Mapping[str, float]) -> np.ndarray:
    """Returns the split of each fraction in [0, 1). The splits are consecutive ranges, each as wide as its share."""
    shares = np.cumsum(np.array(list(ratios.values())))
    return np.searchsorted(shares / shares[-1], fractions, side="right").clip(max=len(shares) - 1)


def _key_fractions(keys: pa.Array, numbers: np.ndarray, file_index: int) -> np.ndarray:
    """Returns BLAKE2b-64 of the key's UTF-8 text over 2**64; a random number for a row without a key."""
    fractions = hashes(keys) / HASHES
    if keys.null_count:
        absent = keys.is_null().to_numpy(zero_copy_only=False)
        fractions[absent] = _random_fractions(_SEED_WITHOUT_KEY, numbers, file_index)[absent]
    return fractions


def _random_fractions(seed: int, numbers: np.ndarray, file_index: int) -> np.ndarray:
    """Returns a counter-based random number per row, which does not depend on how the file is cut into batches.

    It is that of SplitMix64 (Steele et al. 2014).
    """
    start = ((seed + 1) * _GOLDEN + (file_index << _FILE_SHIFT)) % HASHES
    return mixed(numbers.astype(np.uint64) + np.uint64(start)) / HASHES


def _by_time(split: TimeSplit, texts: pa.Array) -> np.ndarray:
    limits = np.array([instant(limit, split.format) for limit in split.until.values()], np.int64)
    read = read_dates(texts, split.format)
    found = np.searchsorted(limits, read.utc, side="right")
    if split.gap is not None:
        in_gap = np.searchsorted(limits, read.utc + microseconds(split.gap), side="right") > found
        found = np.where(in_gap, GAP, found)
    return np.where(read.valid, found, NO_SPLIT)


def joined_texts(table: pa.Table, split: Split, text: RawText) -> pa.Array:
    """Returns the text that determines the split of each row, string [rows]: the split's columns, joined by `-`."""
    cells = (table.column(name) for name in columns_of_split(split))
    return pc.binary_join_element_wise(*(cell_tokens(one, decimal=text.decimal) for one in cells), "-")


def _keys(table: pa.Table, columns: Sequence[str], text: RawText) -> pa.Array:
    """Returns the key of each row, string [rows]; null for a row without a key.

    The key of one column is its token. That of several columns is the JSON list of their tokens, with null for a
    missing cell, so that no two lists of tokens have the same key; a row with none of the cells has no key.
    """
    tokens = [cell_tokens(table.column(name), text.missing_of(name), text.decimal) for name in columns]
    if len(tokens) == 1:
        return tokens[0]
    rows = zip(*(array.to_pylist() for array in tokens), strict=True)
    keys = [json.dumps(row, ensure_ascii=False) if any(cell is not None for cell in row) else None for row in rows]
    return pa.array(keys, pa.string())


def _by_value(split: ColumnSplit, texts: pa.Array, decimal: str) -> np.ndarray:
    index: dict[str | None, int] = {}
    for position, values in enumerate(split.values.values()):
        for value in (values,) if isinstance(values, str) else values:
            index[as_token(value, decimal)] = position
    return np.array([index.get(text, NO_SPLIT) for text in texts.to_pylist()])


def cell_tokens(column: pa.ChunkedArray | pa.Array, missing: Sequence[str] = (), decimal: str = ".") -> pa.Array:
    """Returns the token of each cell, without blanks around it: string [rows], null for a missing cell.

    A list of one value, as in tf.Examples, counts as that value, and an empty list as missing. A longer list, or a
    struct, is the text of its Python object.
    """
    cells = without_dictionary(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    if not pa.types.is_nested(cells.type):
        return to_text(cells, strip=True, missing=missing, tokens=True, decimal=decimal)[0]
    if not is_list(cells.type):
        return pa.array([None if cell is None else repr(cell) for cell in cells.to_pylist()], pa.string())
    tokens = cell_tokens(sole_values(cells), missing, decimal)
    longer = lengths_of(cells) > 1
    if not longer.any():
        return tokens
    texts = [repr(cell) if is_longer else None for cell, is_longer in zip(cells.to_pylist(), longer, strict=True)]
    return pc.if_else(pa.array(longer), pa.array(texts, pa.string()), tokens)
