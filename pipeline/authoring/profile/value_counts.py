"""Counts the distinct values of a column; all profiling uses these counts."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.pipeline.authoring.rules import rule
from fullpass.preprocessing.token_spelling import as_token
from fullpass.preprocessing.values.arrow_text import as_tokens
from fullpass.preprocessing.values.convert import read_numbers

_DIGITS = re.compile(r"[+-]?[0-9]{1,40}")
_FEW_KEPT = 256


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

    @cached_property
    def kept_by_float32(self) -> tuple[int, int]:
        """How many different numbers the column holds, and as how many a run, whose numbers are float32, reads them.

        Whole numbers differ by all of their digits, also those that a float64 rounds, other numbers by 15 digits: the
        last ones of 0.30000000000000004 are rounding.
        """
        known = np.flatnonzero(~np.isnan(self.numbers)).tolist()
        exact = {exact_number(self.texts[index], float(self.numbers[index])) for index in known}
        return len(exact), self._kept

    @cached_property
    def _kept(self) -> int:
        with np.errstate(over="ignore"):
            return len(np.unique(self.numbers[~np.isnan(self.numbers)].astype(np.float32)))

    @property
    def differ_too_little(self) -> bool:
        """Whether float32 makes at least half of the different numbers equal others, and leaves few different ones.

        The few say that digits are lost that matter: of positions, amounts and times with many digits thousands of
        values are left, by which a model tells rows apart as well.
        """
        # The exact numbers are counted only where they can matter: that takes many times as long.
        return 0 < self._kept < min(_FEW_KEPT, self.distinct) and 2 * self._kept <= self.kept_by_float32[0]

    @cached_property
    def same_numbers(self) -> np.ndarray:
        """bool [values], whether other digits among the values write the same number, as 1.10, 1.1 and 01.1 do.

        3 and 3.0 do not count, as they are one token (`token_spelling`), nor do signs and exponents.
        """
        same = np.zeros(self.distinct, dtype=bool)
        known = self.numbers[~np.isnan(self.numbers)]
        if len(np.unique(known)) == len(known):  # Sorting alone is fast.
            return same
        _, index, spellings = np.unique(self.numbers, return_inverse=True, return_counts=True)
        repeated = np.flatnonzero((spellings[index] > 1) & ~np.isnan(self.numbers)).tolist()
        texts = [self.texts[position] for position in repeated]
        numbers = [_digits_of(text, self.decimal) for text in texts]
        tokens = Counter(
            number for number, _ in {(n, as_token(t, self.decimal)) for n, t in zip(numbers, texts, strict=True)}
        )
        same[repeated] = [bool(number) and tokens[number] > 1 for number in numbers]
        return same

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


def exact_number(text: str, number: float) -> float:
    """Returns the number of a text, given as the nearest float64: a whole one with all digits, others with 15.

    Example:
        >>> exact_number("9223372036854775811", 9223372036854775808.0), exact_number("0.30000000000000004", 0.1 + 0.2)
        (9223372036854775811, 0.3)
    """
    if _DIGITS.fullmatch(text):
        return int(text)
    return number if number % 1 == 0 else float(f"{number:.15g}")


def _digits_of(text: str, decimal: str) -> str:
    """Returns digits, with or without decimals, without the zeros at both ends; "" for any other text."""
    whole, sign, decimals = text.partition(decimal)
    if not re.fullmatch("[0-9]+", whole) or (sign and not re.fullmatch("[0-9]+", decimals)):
        return ""
    return f"{whole.lstrip('0')}.{decimals.rstrip('0')}"


@rule("spellings of one number", otherwise=[])
def same_number(values: ValueCounts) -> list[str]:
    """Returns the spellings of one number of `same_numbers`, the commonest first; empty if there is none.

    Example:
        >>> same_number(count_values(pa.array(["1.9", "1.1", "1.10", "2.0", "2"])))
        ['1.1', '1.10']
    """
    alike = list(values.examples(values.same_numbers, most=values.distinct))
    return [text for text in alike if _digits_of(text, values.decimal) == _digits_of(alike[0], values.decimal)]


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
