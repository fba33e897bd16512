"""Counts the distinct values of a column; all profiling uses these counts."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.preprocessing.values.arrow_text import as_tokens
from fullpass.preprocessing.values.convert import read_numbers


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """A text column, encoded by its distinct values.

    Attributes:
        texts: The values, commonest first; equally common ones in alphabetical order.
        counts: int64 [values], number of rows with each value.
        codes: int32 [rows], index of the value of each row; -1 where it is missing.
        decimal: The decimal separator of numbers.
    """

    texts: tuple[str, ...]
    counts: np.ndarray
    codes: np.ndarray
    decimal: str = "."

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @cached_property
    def present(self) -> int:
        """Number of rows that are not missing."""
        return int(self.counts.sum())

    @property
    def distinct(self) -> int:
        """Number of distinct values."""
        return len(self.texts)

    @property
    def missing_share(self) -> float:
        """Share of rows without a value; 0 for a column without rows."""
        return 1 - self.present / self.rows if self.rows else 0.0

    @property
    def numbers(self) -> np.ndarray:
        """float64 [values], the number that ingest reads from each value; NaN where it is no number."""
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        return read_numbers(pa.array(self.texts, pa.string()), missing=(), decimal=self.decimal)

    @property
    def number_share(self) -> float:
        """Share of present rows that hold a number."""
        return self.share(~np.isnan(self.numbers))

    @property
    def row_numbers(self) -> np.ndarray:
        """float64 [rows], the column as numbers; NaN where it is missing or no number."""
        return self.per_row(self.numbers)

    @property
    def row_texts(self) -> np.ndarray:
        """object [rows], the column as text; None where it is missing."""
        return np.array([*self.texts, None], dtype=object)[self.codes]

    @property
    def row_is_wrong(self) -> np.ndarray:
        """bool [rows], whether ingest reads a bad cell where it expects a number."""
        return np.append(self._read[1], False)[self.codes]

    def where(self, test: Callable[[str], bool]) -> np.ndarray:
        """Returns which values pass a test, bool [values]."""
        return np.array([test(text) for text in self.texts], dtype=bool)

    def share(self, chosen: np.ndarray) -> float:
        """Returns the share of present rows whose value is among the chosen ones, bool [values]."""
        return float(self.counts[chosen].sum() / self.present) if self.present else 0.0

    def per_row(self, of_values: np.ndarray) -> np.ndarray:
        """Returns float64 [rows] from one float per value; NaN where the row is missing."""
        return np.append(of_values, np.nan)[self.codes]

    def without(self, tokens: Collection[str]) -> "ValueCounts":
        """Returns the column with the given values replaced by missing."""
        gone = self.held(tokens)
        if not gone:
            return self
        kept = self.where(lambda text: text not in gone)
        new_codes = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)
        texts = tuple(text for text, keep in zip(self.texts, kept, strict=True) if keep)
        rest = ValueCounts(texts, self.counts[kept], new_codes[self.codes], self.decimal)
        if "_read" in vars(self):  # reading is most of the time of a wide table, and a kept value reads the same
            vars(rest)["_read"] = tuple(of_values[kept] for of_values in self._read)
        return rest

    def held(self, tokens: Collection[str]) -> frozenset[str]:
        """Returns those of the given texts that are values."""
        return frozenset(tokens).intersection(self.texts)

    def with_decimal(self, decimal: str) -> "ValueCounts":
        """Returns the column with another decimal separator; itself if it is the same one."""
        return self if decimal == self.decimal else replace(self, decimal=decimal)

    def in_tokens(self) -> "ValueCounts":
        """Returns the column with one spelling per value, if a value has several that are one token; else itself."""
        tokens = as_tokens(pa.array(self.texts, pa.string()), self.decimal)
        if len(tokens.unique()) == self.distinct:
            return self
        return count_values(tokens.take(pa.array(self.codes, mask=self.codes < 0)), decimal=self.decimal)

    def examples(self, chosen: np.ndarray, most: int = 3) -> Iterator[str]:
        """Yields the commonest of the values that `chosen`, bool [values], selects."""
        yield from (self.texts[index] for index in np.flatnonzero(chosen)[:most])


def count_values(column: pa.Array, *, decimal: str = ".") -> ValueCounts:
    """Returns the value counts of a text column; null is missing.

    Example:
        >>> values = count_values(pa.array(["cash", "card", "cash", None]))
        >>> values.texts, values.counts.tolist(), values.codes.tolist()
        (('cash', 'card'), [2, 1], [0, 1, 0, -1])
    """
    encoded = column.cast(pa.string()).dictionary_encode()
    texts, codes = encoded.dictionary, encoded.indices.fill_null(-1).to_numpy().astype(np.int32)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.int64)
    # Arrow sorts text by its UTF-8 bytes, which gives the same order as Python.
    table = pa.table({"count": counts, "text": texts})
    order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("text", "ascending")])
    new_codes = np.full(len(texts) + 1, -1, dtype=np.int32)
    new_codes[order.to_numpy()] = np.arange(len(texts), dtype=np.int32)
    return ValueCounts(
        tuple(texts.take(order).to_numpy(zero_copy_only=False).tolist()),
        counts[order.to_numpy()],
        new_codes[codes],
        decimal,
    )


def count_computed(result: np.ndarray) -> ValueCounts:
    """Returns the value counts of a derived column, a result of `evaluate_arrays`."""
    if result.dtype == object:
        return count_values(pa.array(result.tolist(), pa.string()))
    texts = [None if np.isnan(value) else f"{value:.9g}" for value in result.tolist()]
    return count_values(pa.array(texts, pa.string()))


NO_VALUES = count_values(pa.array([], pa.string()))
"""The values of a column that holds no single texts, such as lists or images."""
