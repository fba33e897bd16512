"""The slices of a batch: all rows, the newest span, and the rows that share values of some columns."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fullpass.components.evaluation.measure.scored_rows import Codes, ScoredRows, SliceValue


class SliceKey(NamedTuple):
    """The key of a set of rows. entry: index in `evaluation.slices`; -1 for all rows together."""

    entry: int
    newest: bool
    values: tuple[SliceValue, ...] = ()


ALL_ROWS, NEWEST_ROWS = SliceKey(-1, newest=False), SliceKey(-1, newest=True)


class Members(NamedTuple):
    """Disjoint slices of a batch. rows: int64 [n]. indices: index in `keys` of each row's slice, int64 [n]."""

    keys: list[SliceKey]
    rows: np.ndarray
    indices: np.ndarray


def members(batch: ScoredRows, slices: Sequence[Sequence[str]], newest: int | None) -> Iterator[Members]:
    """Yields the slices of a batch. A row with a missing value in an entry's columns is in none of its slices.

    Args:
        slices: Columns of each entry.
        newest: Number of the newest span, as in row ids; None if the source has no spans.
    """
    every = np.arange(len(batch.row_ids))
    yield Members([ALL_ROWS], every, np.zeros_like(every))
    recent = every[batch.spans == newest] if newest is not None else every[:0]
    if newest is not None:
        yield Members([NEWEST_ROWS], recent, np.zeros_like(recent))
    for entry, columns in enumerate(slices):
        codes = [batch.columns[column] for column in columns]
        yield _members_of(codes, every, entry, newest=False)
        if len(recent):
            yield _members_of(codes, recent, entry, newest=True)


def _members_of(columns: Sequence[Codes], rows: np.ndarray, entry: int, *, newest: bool) -> Members:
    rows = rows[np.all([column.codes[rows] >= 0 for column in columns], axis=0)]
    combined = np.zeros(len(rows), np.int64)
    for column in columns:
        # The distinct combinations so far are renumbered to keep the product below rows times values.
        combined = np.unique(combined, return_inverse=True)[1] * len(column.values) + column.codes[rows]
    _, firsts, indices = np.unique(combined, return_index=True, return_inverse=True)
    values = [[column.values[code] for code in column.codes[rows[firsts]]] for column in columns]
    keys = [SliceKey(entry, newest, combination) for combination in zip(*values, strict=True)]
    return Members(keys, rows, indices)
