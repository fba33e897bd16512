"""Finds the slices of a batch, the rows that share the values of some columns, by integer codes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fullpass.components.evaluation.scored_rows import Codes, ScoredRows, SliceValue


class SliceKey(NamedTuple):
    """The key of a set of rows.

    Attributes:
        entry: Index in `evaluation.slices`; -1 for all rows together.
        newest: Whether the rows are only those of the newest span.
        values: The shared values of the columns of the entry.
    """

    entry: int
    newest: bool
    values: tuple[SliceValue, ...] = ()


class Members(NamedTuple):
    """Disjoint slices of a batch. rows: int64 [n]. places: index in `keys` of each row's slice, int64 [n]."""

    keys: list[SliceKey]
    rows: np.ndarray
    places: np.ndarray


def members(batch: ScoredRows, slices: Sequence[Sequence[str]], newest: int | None) -> Iterator[Members]:
    """Yields the slices of a batch. A row with a missing value in an entry's columns is in none of its slices.

    Args:
        slices: Columns of each entry.
        newest: Number of the newest span, as in row ids; None if the source has no spans.
    """
    every = np.arange(len(batch.row_ids))
    yield Members([SliceKey(-1, newest=False)], every, np.zeros_like(every))
    recent = every[batch.spans == newest] if newest is not None else every[:0]
    if newest is not None:
        yield Members([SliceKey(-1, newest=True)], recent, np.zeros_like(recent))
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
    _, firsts, places = np.unique(combined, return_index=True, return_inverse=True)
    values = [[column.values[code] for code in column.codes[rows[firsts]]] for column in columns]
    keys = [SliceKey(entry, newest, combination) for combination in zip(*values, strict=True)]
    return Members(keys, rows, places)
