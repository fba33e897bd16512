"""The distribution of one column, in a form that is small, mergeable and comparable.

Numbers are kept as a step function of at most `ATOMS` values, each with the number of rows above the previous value and
up to this one. Its error is at most three rows in a thousand, and each value more common than that has its own step.
Categories are kept as counts of tokens. `series.py` makes both from rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

NOT_NEXT = 1 - 1e-12
"""Factor of ranks: the rounding of a product must not move a rank to the next value."""
ATOMS = 1000
"""Largest number of values that a distribution keeps."""

Kind = Literal["number", "category"]


@dataclass(frozen=True)
class Distribution:
    """Counts of a column's values.

    Attributes:
        values: Numbers in rising order, or tokens, the most common first.
        counts: Number of rows per value. A row with several tokens counts once per token.
        other: Number of rows whose token is not listed.
        missing: Number of rows without a value.
        complete: Whether every token is listed.
    """

    kind: Kind
    values: tuple[Any, ...] = ()
    counts: tuple[float, ...] = ()
    other: float = 0.0
    missing: float = 0.0
    complete: bool = False

    @property
    def present(self) -> float:
        """The number of rows with a value."""
        return float(sum(self.counts)) + self.other

    @property
    def rows(self) -> float:
        """The number of rows."""
        return self.present + self.missing

    @property
    def missing_share(self) -> float:
        """The share of rows without a value; 0 if there are no rows."""
        return self.missing / self.rows if self.rows else 0.0

    def to_json(self) -> list[Any]:
        """Returns the distribution as a JSON list."""
        return [self.kind, list(self.values), list(self.counts), self.other, self.missing, self.complete]

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> Self:
        """Returns a distribution from the list of `to_json`."""
        kind, values, counts, *rest = fields
        return cls(kind, tuple(values), tuple(counts), *rest)


def merge(parts: Iterable[Distribution]) -> Distribution:
    """Merges the distributions of several parts into the distribution of all their rows.

    Raises:
        ValueError: There is no part, or the parts have different kinds.
    """
    every = list(parts)
    kinds = {part.kind for part in every}
    if len(kinds) != 1:
        raise ValueError(f"only distributions of one kind can be merged. Received: {sorted(kinds) or 'none'}.")
    missing = sum(part.missing for part in every)
    if len(every) == 1:
        return every[0]
    if kinds == {"category"}:
        counted: dict[str, float] = {}
        for part in every:
            for token, count in zip(part.values, part.counts, strict=True):
                counted[token] = counted.get(token, 0.0) + count
        complete = all(part.complete for part in every)
        return category_distribution(counted, sum(part.present for part in every), missing, complete=complete)
    values = np.concatenate([np.array(part.values, dtype=np.float64) for part in every])
    if not len(values):
        return Distribution("number", missing=missing)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.concatenate([np.array(part.counts, dtype=np.float64) for part in every])[order])
    return number_distribution(values[order], below, missing)


def number_distribution(values: np.ndarray, below: np.ndarray, missing: float) -> Distribution:
    """Returns a distribution of at most ATOMS values from a cumulative count [n] over rising values [n]."""
    last = np.append(np.flatnonzero(np.diff(values) > 0), len(values) - 1)
    values, below = values[last], below[last]
    if len(values) > ATOMS:
        kept = np.unique(np.searchsorted(below, below[-1] * np.arange(1, ATOMS + 1) / ATOMS * NOT_NEXT))
        values, below = values[kept], below[kept]
    counts = np.diff(below, prepend=0.0)
    return Distribution("number", tuple(values.tolist()), tuple(counts.tolist()), 0.0, missing)


def category_distribution(
    counted: dict[str, float], present: float, missing: float, *, complete: bool, least: float = 0.0
) -> Distribution:
    """Returns a distribution of at most ATOMS tokens, the most common ones.

    Args:
        least: Tokens with at most this number of rows are omitted.
    """
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    kept = [(token, count) for token, count in ranked[:ATOMS] if count > least]
    values, counts = tuple(token for token, _ in kept), tuple(float(count) for _, count in kept)
    other = max(float(present) - sum(counts), 0.0)
    return Distribution("category", values, counts, other, missing, complete and len(kept) == len(counted))
