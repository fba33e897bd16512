"""The logged answers beside those of the exported version: another server, or a half-copied folder, shows here."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fullpass.components.ingest.spans.span_pattern import label_of
from fullpass.components.watch.came_in import HOUR, day_name
from fullpass.components.watch.config import AnswersCheck
from fullpass.components.watch.findings import WatchFinding, lasting
from fullpass.components.watch.log_rows import LogBatch

_AN_HOUR = 50
"""Rows of an hour that are scored again, of each 64 MiB of the log: enough to see a share of 1 % in a day."""


@dataclass(frozen=True)
class Recomputed:
    """The answers of some rows, computed again.

    Attributes:
        differing: Number of rows beyond the tolerance.
        largest: The largest difference of a score.
        first: The time of the first row that differs, microseconds; 0 if none does.
        example: Its id and both scores, as text.
    """

    rows: int = 0
    differing: int = 0
    largest: float = 0.0
    first: int = 0
    example: str = ""

    def join(self, other: "Recomputed") -> "Recomputed":
        """Returns both together."""
        earlier = min((one for one in (self, other) if one.differing), key=lambda one: one.first, default=self)
        return Recomputed(
            self.rows + other.rows,
            self.differing + other.differing,
            max(self.largest, other.largest),
            earlier.first,
            earlier.example,
        )


class HourlySample:
    """Chooses as many rows of each hour; the same rows of a file each time."""

    def __init__(self) -> None:
        self._left: Counter[tuple[int, int]] = Counter()

    def of(self, batch: LogBatch) -> np.ndarray:
        """Returns the chosen rows of a batch, bool [rows]."""
        chosen, hours = np.zeros(len(batch.times), bool), batch.times // HOUR
        for hour in np.unique(hours).tolist():
            taken = self._left[batch.version, hour]
            mine = np.flatnonzero(hours == hour)
            mine = mine[np.argsort(batch.row_ids[mine])][: _AN_HOUR - taken]
            self._left[batch.version, hour] += len(mine)
            chosen[mine] = True
        return chosen


def recomputed(batch: LogBatch, again: np.ndarray, tolerance: float) -> Recomputed:
    """Compares logged scores with new ones. again: float [rows, scores].

    Two scores are equal up to the tolerance and, of a large number, that share of it.
    """
    logged = batch.scores
    assert logged is not None  # noqa: S101
    apart = np.abs(logged.astype(np.float64) - again) if logged.shape == again.shape else np.full(again.shape, np.inf)
    beyond = ~(apart <= tolerance * np.maximum(1.0, np.abs(again))) & ~(np.isnan(again) & np.isnan(logged))
    rows = np.flatnonzero(beyond.any(axis=1))
    if not len(rows):
        return Recomputed(len(again))
    first = rows[np.argmin(batch.times[rows])]
    before, now = (np.array2string(one[first], precision=6) for one in (logged, again))
    example = f"{batch.ids[int(first)].as_py()}: logged {before}, now {now}"
    return Recomputed(len(again), len(rows), float(np.nanmax(apart)), int(batch.times[first]), example)


def judge_recomputed(found: Mapping[int, Recomputed], version: int, check: AnswersCheck) -> list[WatchFinding]:
    """Returns findings of the days on which a larger share of rows differs than the check allows."""
    findings, days = [], [day_name(day) for day in sorted(found)]
    for day, one in sorted(found.items()):
        share = one.differing / one.rows
        if share > check.max_share:
            text = (
                f"{share:.1%} of {one.rows:,} answers of version {version} that were computed again differ by over "
                f"{check.tolerance:g}, by up to {one.largest:.3g}; row {one.example}. Is it another server or model, a "
                "damaged folder, or a column that is not logged?"
            )
            first, over = label_of("hour", one.first // HOUR), share / max(check.max_share, 1e-3)
            findings.append(WatchFinding("answers", "scores", check.policy, version, first, day_name(day), text, over))
    return lasting(findings, days)
