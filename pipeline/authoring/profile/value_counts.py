"""The different values of a column and how often each stands there: what all profiling works on."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""What ingest reads as a number, with a decimal point."""
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """A column of text by its different values.

    texts: the values, commonest first, equally common ones in alphabetical order.
    counts: int64 [values], how often each stands in the column.
    codes: int32 [rows], which of the values each row holds; -1 where it is missing.
    decimal: what stands before the decimals of a number.
    """

    texts: tuple[str, ...]
    counts: np.ndarray
    codes: np.ndarray
    decimal: str = "."

    @property
    def rows(self) -> int:
        """Rows of the column."""
        return len(self.codes)

    @property
    def present(self) -> int:
        """Rows that are not missing."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of different values."""
        return len(self.texts)

    @property
    def missing_share(self) -> float:
        """Share of rows without a value; 0 of no rows."""
        return 1 - self.present / self.rows if self.rows else 0.0

    @cached_property
    def numbers(self) -> np.ndarray:
        """float64 [values], each value as ingest reads it as a number; NaN where it is none."""
        return _numbers(pa.array(self.texts, pa.string()), self.decimal)

    @property
    def number_share(self) -> float:
        """Share of present rows that hold a number."""
        return self.share(~np.isnan(self.numbers))

    @property
    def row_numbers(self) -> np.ndarray:
        """float64 [rows], the column as numbers; NaN where it is missing or no number."""
        return self.per_row(self.numbers)

    def share(self, chosen: np.ndarray) -> float:
        """Returns the share of present rows whose value is among the chosen ones, bool [values]."""
        return float(self.counts[chosen].sum() / self.present) if self.present else 0.0

    def per_row(self, of_values: np.ndarray) -> np.ndarray:
        """Returns float64 [rows] from one float per value; NaN where the row is missing."""
        return np.append(of_values, np.nan)[self.codes]

    def without(self, tokens: Collection[str]) -> "ValueCounts":
        """Returns the column with some of its values missing."""
        kept = np.array([text not in tokens for text in self.texts], dtype=bool)
        if kept.all():
            return self
        new_codes = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)
        texts = tuple(text for text, keep in zip(self.texts, kept, strict=True) if keep)
        return ValueCounts(texts, self.counts[kept], new_codes[self.codes], self.decimal)

    def examples(self, chosen: np.ndarray, most: int = 3) -> Iterator[str]:
        """Yields the commonest of the chosen values, bool [values]."""
        yield from (self.texts[index] for index in np.flatnonzero(chosen)[:most])


def count_values(column: pa.Array, *, decimal: str = ".") -> ValueCounts:
    """Returns a text column by its different values; null is missing.

    Example:
        >>> values = count_values(pa.array(["cash", "card", "cash", None]))
        >>> values.texts, values.counts.tolist(), values.codes.tolist()
        (('cash', 'card'), [2, 1], [0, 1, 0, -1])
    """
    encoded = column.cast(pa.string()).dictionary_encode()
    texts, codes = encoded.dictionary, encoded.indices.fill_null(-1).to_numpy().astype(np.int32)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.int64)
    # Arrow sorts text by its bytes in UTF-8, which is the order of Python.
    table = pa.table({"count": counts, "text": texts})
    order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("text", "ascending")])
    new_codes = np.full(len(texts) + 1, -1, dtype=np.int32)
    new_codes[order.to_numpy()] = np.arange(len(texts), dtype=np.int32)
    return ValueCounts(tuple(texts.take(order).to_pylist()), counts[order.to_numpy()], new_codes[codes], decimal)


def _numbers(texts: pa.StringArray, decimal: str) -> np.ndarray:
    """Returns float64 [texts], NaN for a text that is no number or outside the range of float32."""
    if decimal != ".":
        written = pc.replace_substring(texts, decimal, ".")
        texts = pc.if_else(pc.match_substring(texts, "."), "", written)
    is_number = pc.match_substring_regex(texts, f"^({NUMBER.pattern})$")
    kept = pc.if_else(is_number, texts, pa.scalar(None, pa.string()))
    numbers = pc.utf8_ltrim(kept, "+").cast(pa.float64())  # Arrow reads no leading plus
    found = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.abs(found) <= FLOAT32_MAX, found, np.nan)
