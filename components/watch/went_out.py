"""What went out: the metrics of the answers whose labels are known."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.components.evaluation.measure.scored_rows import Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.evaluation.measure.slice_states import SliceState
from fullpass.components.ingest.writing.encode import encode_rows, examples_as_bytes
from fullpass.components.serving_log.columns import LABEL, SCORES
from fullpass.components.watch.came_in import DAY_HOURS, HOUR, answered_by
from fullpass.components.watch.log_rows import LogBatch
from fullpass.components.watch.recomputed import HourlySample, Recomputed, recomputed
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID

DAY = HOUR * DAY_HOURS
"""Microseconds."""
_LONGEST_DELAY = 366
DayKey = tuple[int, int]
"""Version, and day since 1970 UTC."""


@dataclass
class Delays:
    """Labels by the days that they came after the request: [number, sum, sum of squares] of the compared value.

    The value is the label of a binary task or a regression, else whether the answer was right.
    """

    sums: np.ndarray = field(default_factory=lambda: np.zeros((_LONGEST_DELAY + 1, 3)))

    def add(self, days: np.ndarray, values: np.ndarray) -> None:
        """Adds labels. days: int64 [rows]."""
        for power in range(3):
            np.add.at(self.sums[:, power], np.clip(days, 0, _LONGEST_DELAY), values**power)

    @property
    def rows(self) -> int:
        """The number of labels."""
        return int(self.sums[:, 0].sum())

    def join(self, other: "Delays") -> "Delays":
        """Returns both together."""
        return Delays(self.sums + other.sums)


@dataclass
class WentOut:
    """What went out of some files.

    Attributes:
        labelled: Metrics per version and day.
        again: Logged answers beside those of the exported version, per version and day.
        shadow: The answers of a challenger beside them, of the same rows: the weighed sums of rows, of other classes,
            and of the distances of the scores, float64 [3].
        delays: Labels by delay, per version and day.
    """

    labelled: dict[DayKey, SliceState] = field(default_factory=dict)
    delays: dict[DayKey, Delays] = field(default_factory=dict)
    again: dict[DayKey, Recomputed] = field(default_factory=dict)
    shadow: dict[DayKey, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoringPlan:
    """How the rows of a version are scored.

    Attributes:
        export: The folder of the version.
        slices: Type of each raw column that slices use.
        tolerance: Difference of a score that counts as none; 0: the log lacks columns, or nothing asks, so that no
            answer is computed again.
        challenger: The folder of a model that scores the same rows; "" if there is none.
    """

    export: str
    slices: Mapping[str, str]
    tolerance: float = 0.0
    challenger: str = ""

    @property
    def exports(self) -> tuple[str, ...]:
        """The models that score a row."""
        return (self.export, self.challenger) if self.challenger else (self.export,)


class WentOutSums:
    """Sums of what went out, filled batch by batch."""

    def __init__(self, plans: Mapping[int, ScoringPlan], accumulator: SliceAccumulator):
        self._plans, self._accumulator, self._sample = plans, accumulator, HourlySample()
        self.found = WentOut()

    def add(self, batch: LogBatch) -> None:
        """Adds answered rows of one version."""
        days = batch.times // DAY
        for day in np.unique(days).tolist():
            self._add_day((batch.version, day), batch.chosen(days == day) if (days != day).any() else batch)

    def _add_day(self, key: DayKey, batch: LogBatch) -> None:
        plan = self._plans[batch.version]
        compares = plan.tolerance > 0 and batch.scores is not None
        samples = compares or plan.challenger
        wanted = batch.labelled | self._sample.of(batch) if samples else batch.labelled
        if not wanted.any():
            return
        found, batch = self.found, batch.chosen(wanted)
        scored = _score(plan, batch)
        own, *others = scored.models
        again = own.scores.reshape(len(own.scores), -1)
        logged = batch.scores is not None and batch.scores.shape == again.shape
        served = _as_logged(own, batch) if logged else own
        if compares:
            found.again[key] = found.again.get(key, Recomputed()).join(recomputed(batch, again, plan.tolerance))
        for other in others:
            found.shadow[key] = found.shadow.get(key, 0.0) + _apart(served, other, 1 / batch.rates)
        known = np.all([batch.labelled, *(one.weights > 0 for one in scored.models)], axis=0)
        if known.any():
            weights = served.weights / batch.rates
            models = [replace(one, weights=weights).chosen(known) for one in (served, *others)]
            chosen = models[0]
            columns = {n: replace(column, codes=column.codes[known]) for n, column in scored.columns.items()}
            rows = ScoredRows(batch.row_ids[known], np.full(int(known.sum()), key[1]), columns, tuple(models))
            state = found.labelled.get(key) or self._accumulator.start()
            found.labelled[key] = self._accumulator.add(state, rows)
            late = (batch.known_at - batch.times)[known] // DAY
            found.delays.setdefault(key, Delays()).add(np.where(batch.known_at[known] > 0, late, 0), _told(chosen))


def _score(plan: ScoringPlan, batch: LogBatch) -> ScoredRows:
    # TensorFlow is loaded here: the counts of what came in do without it.
    import tensorflow as tf

    from fullpass.components.evaluation.measure.score_rows import scorer_of

    scorer = scorer_of(plan.exports, tuple(plan.slices.items()))
    numbers = pa.array(np.arange(len(batch.times)))
    records = examples_as_bytes(encode_rows({**batch.arrays, RAW_ROW_ID: numbers}))
    return scorer(tf.constant(records))


def _as_logged(own: Scored, batch: LogBatch) -> Scored:
    """Returns the rows with the scores and classes that were answered."""
    scores = batch.scores.astype(np.float64)  # type: ignore[union-attr]
    positive = own.positive
    if positive is not None and batch.answers is not None:
        positive = np.asarray(pc.equal(batch.answers, own.classes[1]).fill_null(False))
    return replace(own, scores=scores[:, 0] if own.scores.ndim == 1 else scores, positive=positive)


def _apart(served: Scored, other: Scored, weights: np.ndarray) -> np.ndarray:
    """Returns the weighed sums of rows, of other classes, and of the distances of the (highest) scores."""
    one, two = answered_by(served), answered_by(other)
    distance = np.abs(np.asarray(one[SCORES.name]) - np.asarray(two[SCORES.name])).astype(np.float64)
    classes = np.zeros(len(weights))
    if LABEL.name in one and LABEL.name in two:
        classes = np.asarray(pc.not_equal(one[LABEL.name], two[LABEL.name])).astype(np.float64)
    return np.array([weights.sum(), weights @ classes, weights @ distance])


def _told(rows: Scored) -> np.ndarray:
    """Returns the value of which early labels are compared with late ones, float64 [rows]."""
    if rows.scores.ndim == 1:
        return rows.labels
    if rows.labels.ndim == 2:
        return (rows.labels == rows.predicted).mean(axis=1)
    return (rows.scores.argmax(axis=1) == rows.labels).astype(np.float64)


def out_together(parts: Iterable[WentOut], accumulator: SliceAccumulator) -> WentOut:
    """Returns what went out of several files together."""
    whole, states = WentOut(), dict[DayKey, list[SliceState]]()
    for part in parts:
        for key, state in part.labelled.items():
            states.setdefault(key, []).append(state)
        for key, delays in part.delays.items():
            whole.delays[key] = whole.delays[key].join(delays) if key in whole.delays else delays
        for key, shadow in part.shadow.items():
            whole.shadow[key] = whole.shadow.get(key, 0.0) + shadow
        for key, again in part.again.items():
            whole.again[key] = whole.again.get(key, Recomputed()).join(again)
    whole.labelled = {key: accumulator.merge(of) if len(of) > 1 else of[0] for key, of in states.items()}
    return whole


def days_of(found: Mapping[DayKey, Any], version: int) -> Iterator[tuple[int, Any]]:
    """Yields the days of a version with their values, the newest first."""
    for (of, day), value in sorted(found.items(), reverse=True, key=lambda item: item[0]):
        if of == version:
            yield day, value


def newest_with(delays: Mapping[int, Delays], labels: int) -> list[int]:
    """Returns the newest days, the oldest first, that together have as many labels; none if all have fewer."""
    total = 0
    for day in sorted(delays, reverse=True):
        total += delays[day].rows
        if total >= labels:
            return sorted(one for one in delays if one >= day)
    return []
