"""The distribution of one column, in a form that is small, mergeable and comparable.

Numbers are kept as a step function of at most `ATOMS` values, each with the number of rows above the previous value and
up to this one. Its error is at most three rows in a thousand, and a value more common than that has a step of its own.
Categories are kept as counts of tokens. Both come from the sketches that TFDV and TF Transform use.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tfx_bsl import sketches

ATOMS = 1000
"""Largest number of values that a distribution keeps."""
_SKETCHED = 4096
"""Number of tokens per file that are counted exactly."""
_LONGEST_TOKEN = 256
"""Bytes of a token; of a longer one its beginning and a digest are counted, so that no sketch holds documents."""
_BEGINNING = 64
_SKETCH_ERROR = 5e-4
_MOST_ROWS = 1 << 32

Kind = Literal["number", "category"]


@dataclass(frozen=True)
class Distribution:
    """Counts of a column's values.

    Attributes:
        values: numbers in rising order, or tokens, the most common first.
        counts: rows of each value.
        other: rows of tokens that are not listed.
        missing: rows without a value. A row of several tokens counts once for each.
        complete: whether every token is listed.
    """

    kind: Kind
    values: tuple[Any, ...] = ()
    counts: tuple[float, ...] = ()
    other: float = 0.0
    missing: float = 0.0
    complete: bool = False

    @property
    def present(self) -> float:
        """Rows with a value."""
        return float(sum(self.counts)) + self.other

    @property
    def rows(self) -> float:
        """All rows."""
        return self.present + self.missing

    @property
    def missing_share(self) -> float:
        """Share of rows without a value; 0 where there are none."""
        return self.missing / self.rows if self.rows else 0.0

    def to_json(self) -> list[Any]:
        """Returns the distribution as a JSON list."""
        return [self.kind, list(self.values), list(self.counts), self.other, self.missing, self.complete]

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> Self:
        """Returns a distribution from the list of `to_json`."""
        kind, values, counts, *rest = fields
        return cls(kind, tuple(values), tuple(counts), *rest)


class NumberSketch:
    """A quantile sketch of the numbers of one file, filled batch by batch."""

    def __init__(self) -> None:
        self._sketch = sketches.QuantilesSketch(_SKETCH_ERROR, _MOST_ROWS, 1)
        self._present = self._missing = 0

    def add(self, values: np.ndarray, missing: int) -> None:
        """Adds float [n]; values that are not finite count as missing."""
        finite = values[np.isfinite(values)].astype(np.float64)
        self._present += len(finite)
        self._missing += missing + len(values) - len(finite)
        if len(finite):
            self._sketch.AddValues(pa.array(finite))

    def distribution(self) -> Distribution:
        """Returns the distribution of the numbers added."""
        if not self._present:
            return Distribution("number", missing=float(self._missing))
        found = self._sketch.GetQuantilesAndCumulativeWeights(ATOMS)
        values, below = (np.asarray(part.flatten(), dtype=np.float64) for part in found)
        return _number(values, below, missing=float(self._missing))


def _short(tokens: pa.Array) -> pa.Array:
    """Returns tokens with a shorter one in place of each that is long: equal for equal tokens."""
    sizes = pc.binary_length(tokens)
    if pc.max(sizes).as_py() <= _LONGEST_TOKEN:
        return tokens
    long = pc.greater(sizes, _LONGEST_TOKEN)
    shortened = [_beginning_and_digest(token.as_buffer()) for token in tokens.filter(long)]
    return pc.replace_with_mask(tokens, long, pa.array(shortened, pa.binary()))


def _beginning_and_digest(token: pa.Buffer) -> bytes:
    view = memoryview(token)
    beginning = bytes(view[:_BEGINNING]).decode("utf-8", "ignore").encode()
    return beginning + f" ... {hashlib.sha256(view).hexdigest()[:16]} ({len(view):,} bytes)".encode()


class TokenSketch:
    """A heavy-hitter sketch of the tokens of one file, filled batch by batch."""

    def __init__(self) -> None:
        self._sketch = sketches.MisraGriesSketch(_SKETCHED)
        self._present = self._missing = 0

    def add(self, tokens: pa.Array, missing: int) -> None:
        """Adds tokens, string or binary [n] without nulls."""
        self._present += len(tokens)
        self._missing += missing
        if len(tokens):
            self._sketch.AddValues(_short(tokens.cast(pa.binary())))

    def distribution(self) -> Distribution:
        """Returns the distribution of the tokens added, without those that an inexact count may rank too high."""
        found = self._sketch.Estimate().flatten() if self._present else [pa.array([]), pa.array([])]
        tokens, counts = found[0].to_pylist(), np.asarray(found[1], dtype=np.float64)
        counted = {token.decode("utf-8", "replace"): count for token, count in zip(tokens, counts, strict=True)}
        complete = len(tokens) < _SKETCHED
        least = 0.0 if complete else 4 * self._present / _SKETCHED  # a count is too large by at most a quarter of that
        return _category(counted, self._present, float(self._missing), complete=complete, least=least)


def merge(parts: Iterable[Distribution]) -> Distribution:
    """Merges the distributions of parts into that of all their rows.

    Raises:
        ValueError: There is no part, or parts are of different kinds.
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
        return _category(counted, sum(part.present for part in every), missing, complete=complete)
    values = np.concatenate([np.array(part.values, dtype=np.float64) for part in every])
    if not len(values):
        return Distribution("number", missing=missing)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.concatenate([np.array(part.counts, dtype=np.float64) for part in every])[order])
    return _number(values[order], below, missing)


def _number(values: np.ndarray, below: np.ndarray, missing: float) -> Distribution:
    """Returns a distribution of at most ATOMS values from a cumulative count [n] over rising values [n]."""
    last = np.append(np.flatnonzero(np.diff(values) > 0), len(values) - 1)
    values, below = values[last], below[last]
    if len(values) > ATOMS:
        kept = np.unique(np.searchsorted(below, below[-1] * np.arange(1, ATOMS + 1) / ATOMS * (1 - 1e-12)))
        values, below = values[kept], below[kept]
    counts = np.diff(below, prepend=0.0)
    return Distribution("number", tuple(values.tolist()), tuple(counts.tolist()), 0.0, missing)


def _category(
    counted: dict[str, float], present: float, missing: float, *, complete: bool, least: float = 0.0
) -> Distribution:
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    kept = [(token, count) for token, count in ranked[:ATOMS] if count > least]
    values, counts = tuple(token for token, _ in kept), tuple(float(count) for _, count in kept)
    other = max(float(present) - sum(counts), 0.0)
    return Distribution("category", values, counts, other, missing, complete and len(kept) == len(counted))
