"""Training-serving skew by id: what the model saw of a row, beside what training later holds of the same row."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.joins.join_index import JoinIndex
from fullpass.components.ingest.spans.span_pattern import label_of
from fullpass.components.watch.came_in import DAY_HOURS, HOUR, day_name
from fullpass.components.watch.config import WATCHED_AT, SkewCheck
from fullpass.components.watch.findings import WatchFinding
from fullpass.components.watch.log_rows import LogBatch
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.values.arrow_text import as_readable
from fullpass.preprocessing.values.raw_text import RawText

_KEPT = 200
"""Rows that differ, from which the kind of difference is told, of each column."""
_MOST = 0.9
"""Share of them with one ratio, or one distance, that makes it the kind."""
_QUARTER = 900 * 1_000_000
"""Microseconds of a quarter of an hour, by which time zones differ."""
_LARGEST_OFFSET = 26 * 3600 * 1_000_000
"""Microseconds from the first time zone to the last."""
_DECIMALS = range(7)
_TEXT = RawText(missing=("",))


@dataclass(frozen=True)
class Pair:
    """A row whose values differ: None is missing; a number as float, a date as microseconds, else bytes or a list.

    Attributes:
        entity: The entity of the row as text, by which its row before is found; None if that is not asked.
    """

    id: str
    time: int
    logged: Any
    trained: Any
    entity: str | None = None


@dataclass
class ColumnSkew:
    """The rows of a column that both the log and the training data have, weighed by sampling.

    Attributes:
        first, last: The times of the first and the last row that differs, microseconds.
        newest: The time of the last row, microseconds.
        is_date: Whether the values are dates.
    """

    rows: float = 0.0
    differing: float = 0.0
    first: int = 0
    last: int = 0
    newest: int = 0
    is_date: bool = False
    pairs: list[Pair] = field(default_factory=list)

    def join(self, other: "ColumnSkew") -> "ColumnSkew":
        """Returns both together."""
        parts = [one for one in (self, other) if one.pairs]
        return ColumnSkew(
            self.rows + other.rows,
            self.differing + other.differing,
            min((one.first for one in parts), default=0),
            max((one.last for one in parts), default=0),
            max(self.newest, other.newest),
            self.is_date,
            [*self.pairs, *other.pairs][:_KEPT],
        )


Skew = dict[tuple[int, str], ColumnSkew]
"""Version and raw column -> what differs."""


@dataclass(frozen=True)
class RowsOfTraining:
    """The training rows, ready to be found by the id of the log.

    Attributes:
        formats: Raw column with dates -> their format.
        entity: Column of the log with the entity of a row; None: stale values are not told.
    """

    index: JoinIndex
    formats: Mapping[str, str]
    tolerance: float
    entity: str | None = None


class SkewSums:
    """What differs in some files, filled batch by batch."""

    def __init__(self, trained: RowsOfTraining | None):
        self._trained = trained
        self.found: Skew = {}

    def add(self, batch: LogBatch) -> None:
        """Adds answered rows of one version."""
        if self._trained is None or not len(batch.times):
            return
        [key] = self._trained.index.join.keys
        positions, _ = self._trained.index.find(pa.table({key: batch.ids}), _TEXT)
        if not (positions >= 0).any():
            return
        batch = batch.chosen(positions >= 0)
        for name, column in self._trained.index.columns_at(positions[positions >= 0]):
            name = name.partition(".")[2]
            if name in batch.arrays:
                format = self._trained.formats.get(name)
                values = [_values(one, format) for one in (batch.arrays[name], column.combine_chunks())]
                added = self._compared(batch, *values, is_date=format is not None)
                before = self.found.get((batch.version, name))
                self.found[batch.version, name] = added if before is None else before.join(added)

    def _compared(self, batch: LogBatch, logged: list[Any], trained: list[Any], *, is_date: bool) -> ColumnSkew:
        assert self._trained is not None  # noqa: S101
        tolerance = self._trained.tolerance
        apart = np.array([not _same(one, two, tolerance) for one, two in zip(logged, trained, strict=True)])
        rows, weights = np.flatnonzero(apart), 1 / batch.rates
        entities = batch.arrays.get(self._trained.entity or "")
        pairs = [
            Pair(
                str(batch.ids[row].as_py()),
                int(batch.times[row]),
                logged[row],
                trained[row],
                None if entities is None else _shown(entities[row].as_py()),
            )
            for row in islice(rows.tolist(), _KEPT)
        ]
        times = batch.times[rows]
        first, last = (int(times.min()), int(times.max())) if len(rows) else (0, 0)
        newest = int(batch.times.max())
        return ColumnSkew(float(weights.sum()), float(weights[rows].sum()), first, last, newest, is_date, pairs)


def _values(array: pa.Array, format: str | None) -> list[Any]:
    if format is None:
        return [None if one != one or one == b"" else one for one in array.to_pylist()]  # NaN is unequal to itself
    read = read_dates(as_readable(array), format)
    return [int(utc) if valid else None for utc, valid in zip(read.utc, read.valid, strict=True)]


def _same(one: Any, two: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two) <= tolerance * max(abs(one), abs(two))
    return bool(one == two)


def kinds_of(skew: ColumnSkew, before: Callable[[Sequence[Pair]], Sequence[Any]] | None = None) -> dict[str, float]:
    """Returns the kinds of difference with their share of the rows that differ, the most common first.

    Args:
        before: Returns, for each pair, the value that training holds of the row before of the same entity.
    """
    found: Counter[str] = Counter()
    pairs = []
    for pair in skew.pairs:
        if pair.logged is None or pair.trained is None:
            found[f"missing in {'the log' if pair.logged is None else 'training'}"] += 1
        else:
            pairs.append(pair)
    if before is not None and pairs:
        stale = [_same(p.logged, value, 1e-6) for p, value in zip(pairs, before(pairs), strict=True)]
        found["stale: the value of the row before of its entity"] += sum(stale)
        pairs = [pair for pair, is_stale in zip(pairs, stale, strict=True) if not is_stale]
    kind = _of_dates(pairs) if skew.is_date else _of_numbers(pairs)
    if pairs:
        found[kind] += len(pairs)
    return {name: count / len(skew.pairs) for name, count in found.most_common() if count > 0}


def _of_dates(pairs: Sequence[Pair]) -> str:
    apart = Counter(pair.logged - pair.trained for pair in pairs)
    for distance, count in apart.most_common(1):
        if count >= _MOST * len(pairs) and distance % _QUARTER == 0 and abs(distance) <= _LARGEST_OFFSET:
            return f"time zone: the log is {distance / 3.6e9:+g} hours"
    return "other"


def _of_numbers(pairs: Sequence[Pair]) -> str:
    numbers = [(p.logged, p.trained) for p in pairs if isinstance(p.logged, float) and isinstance(p.trained, float)]
    if not numbers or len(numbers) < len(pairs):
        return "other"
    logged, trained = np.array(numbers).T
    for decimals in _DECIMALS:
        for one, two, whose in ((logged, trained, "the log"), (trained, logged, "training")):
            if np.mean(np.isclose(np.round(two, decimals), one, rtol=1e-6, atol=0.0)) >= _MOST:
                return f"rounding: {whose} is rounded to {decimals} decimals"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = logged / trained
    usual = float(np.median(ratios))
    if math.isfinite(usual) and np.mean(np.isclose(ratios, usual, rtol=1e-3, atol=0.0)) >= _MOST:
        return f"unit: the log is {usual:.4g} times training"
    return "other"


def judge_skew(
    found: Skew, version: int, check: SkewCheck, before: Callable[[str], Callable | None] = lambda _: None
) -> Iterator[WatchFinding]:
    """Yields a finding for each column of a version of which a larger share of rows differs than the check allows.

    Args:
        before: Column -> see `kinds_of`.
    """
    for (of, column), one in sorted(found.items()):
        share = one.differing / one.rows if one.rows else 0.0
        if of == version and share > check.max_share:
            kinds = ", ".join(f"{kind} ({part:.0%})" for kind, part in kinds_of(one, before(column)).items())
            examples = "; ".join(
                f"{p.id}: the model saw {_told(p.logged, one)}, training has {_told(p.trained, one)}"
                for p in one.pairs[:3]
            )
            text = f"{column}: {share:.1%} of {one.rows:,.0f} rows differ from training by id. {kinds}. {examples}."
            first, last = label_of("hour", one.first // HOUR), day_name(one.last // HOUR // DAY_HOURS)
            over = share / max(check.max_share, 1e-3)
            judged = day_name(one.newest // HOUR // DAY_HOURS)
            yield WatchFinding("skew", column, check.policy, version, first, last, text, over, judged)


def rows_before(index: JoinIndex, column: str, formats: Mapping[str, str]) -> Callable[[Sequence[Pair]], list[Any]]:
    """Returns the function that finds a column in the row before of an entity; index: training rows by entity."""

    def find(pairs: Sequence[Pair]) -> list[Any]:
        [key] = index.join.keys
        times = [np.datetime64(pair.time, "us").item().isoformat() for pair in pairs]
        table = pa.table({key: pa.array([p.entity for p in pairs], pa.string()), WATCHED_AT: times})
        values = dict(index.columns_at(index.find(table, _TEXT)[0]))
        return _values(values[f"{index.name}.{column}"].combine_chunks(), formats.get(column))

    return find


def _told(value: Any, skew: ColumnSkew) -> str:
    if value is not None and skew.is_date:
        return str(np.datetime64(value, "us"))
    return "nothing" if value is None else str(_shown(value))


def _shown(value: Any) -> str | None:
    """Returns a value as text, as keys of joins are written."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
