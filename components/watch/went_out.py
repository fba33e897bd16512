"""What went out: the answers of the log against those of the exported version, and metrics where labels are known."""

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
from fullpass.components.watch.came_in import DAY_HOURS, HOUR
from fullpass.components.watch.log_rows import LogBatch
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID

DAY = HOUR * DAY_HOURS
"""Microseconds."""
_SHOWN = 3
"""Rows that are shown of those whose answer differs."""
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5
"""Answers are equal up to this: a server computes other batches, so the last digits of a float32 differ."""
_LONGEST_DELAY = 366
DayKey = tuple[int, int]
"""Version, and day since 1970 UTC."""


@dataclass
class Answers:
    """The answers of a version that were computed again.

    Attributes:
        rows, differing: Numbers of rows, in all and with another score.
        worst: The largest difference of a score.
        first: The first time of a differing row, in microseconds; 0 if there is none.
        shown: Id, logged and new score of some differing rows.
    """

    rows: int = 0
    differing: int = 0
    worst: float = 0.0
    first: int = 0
    shown: list[tuple[str, float, float]] = field(default_factory=list)

    def join(self, other: "Answers") -> "Answers":
        """Returns both together."""
        firsts = [one for one in (self.first, other.first) if one]
        return Answers(
            self.rows + other.rows,
            self.differing + other.differing,
            max(self.worst, other.worst),
            min(firsts, default=0),
            (self.shown + other.shown)[:_SHOWN],
        )


@dataclass
class Disagreement:
    """How the answers of a challenger differ from those of the log: weighed rows, other classes, summed differences."""

    rows: float = 0.0
    others: float = 0.0
    distance: float = 0.0

    def join(self, other: "Disagreement") -> "Disagreement":
        """Returns both together."""
        return Disagreement(self.rows + other.rows, self.others + other.others, self.distance + other.distance)


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
        delays: Labels by delay, per version and day.
        answers, disagreement: Per version and day.
    """

    labelled: dict[DayKey, SliceState] = field(default_factory=dict)
    delays: dict[DayKey, Delays] = field(default_factory=dict)
    answers: dict[DayKey, Answers] = field(default_factory=dict)
    disagreement: dict[DayKey, Disagreement] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoringPlan:
    """How the rows of a version are scored.

    Attributes:
        export: The folder of the version; challenger: that of another model, or None.
        slices: Type of each raw column that slices use.
        most: Rows of a day that are answered again at most, besides labelled ones.
    """

    export: str
    challenger: str | None
    slices: Mapping[str, str]
    most: int


class WentOutSums:
    """Sums of what went out, filled batch by batch."""

    def __init__(self, plans: Mapping[int, ScoringPlan], accumulator: SliceAccumulator):
        self._plans, self._accumulator = plans, accumulator
        self.found = WentOut()

    def add(self, batch: LogBatch) -> None:
        """Adds answered rows of one version."""
        days = batch.times // DAY
        for day in np.unique(days).tolist():
            self._add_day((batch.version, day), batch.chosen(days == day) if (days != day).any() else batch)

    def _add_day(self, key: DayKey, batch: LogBatch) -> None:
        plan, found = self._plans[batch.version], self.found
        answers = found.answers.setdefault(key, Answers())
        room = max(plan.most - answers.rows, 0)
        wanted = batch.labelled | (np.cumsum(~batch.labelled) <= room) | (plan.challenger is not None)
        if not wanted.any():
            return
        batch = batch.chosen(wanted)
        scored = _score(plan, batch)
        own, *others = scored.models
        again = own.scores.reshape(len(own.scores), -1)
        served = own
        if batch.scores is not None and batch.scores.shape == again.shape:
            found.answers[key] = answers.join(_compared(batch, again))
            served = _as_logged(own, batch)
        for challenger in others:
            before = found.disagreement.setdefault(key, Disagreement())
            found.disagreement[key] = before.join(_disagreement(challenger, served, batch.rates))
        rated = tuple(replace(one, weights=one.weights / batch.rates) for one in (served, *others))
        known = batch.labelled & (own.weights > 0)
        if known.any():
            chosen = tuple(one.chosen(known) for one in rated)
            columns = {n: replace(column, codes=column.codes[known]) for n, column in scored.columns.items()}
            rows = ScoredRows(batch.row_ids[known], np.full(int(known.sum()), key[1]), columns, chosen)
            state = found.labelled.get(key) or self._accumulator.start()
            found.labelled[key] = self._accumulator.add(state, rows)
            late = (batch.known_at - batch.times)[known] // DAY
            found.delays.setdefault(key, Delays()).add(np.where(batch.known_at[known] > 0, late, 0), _told(chosen[0]))


def _score(plan: ScoringPlan, batch: LogBatch) -> ScoredRows:
    # TensorFlow is loaded here: the counts of what came in do without it.
    import tensorflow as tf

    from fullpass.components.evaluation.measure.score_rows import scorer_of

    exports = (plan.export, *filter(None, (plan.challenger,)))
    scorer = scorer_of(exports, tuple(plan.slices.items()))
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


def _compared(batch: LogBatch, again: np.ndarray) -> Answers:
    logged: Any = batch.scores
    same = np.isclose(logged, again, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True).all(axis=1)
    wrong = np.flatnonzero(~same)
    if not len(wrong):
        return Answers(len(same))
    distance = np.abs(logged - again).max(axis=1)
    shown = [(batch.ids[i].as_py(), float(logged[i].max()), float(again[i].max())) for i in wrong[:_SHOWN].tolist()]
    worst = float(np.nanmax(distance)) if np.isfinite(distance).any() else float("nan")
    return Answers(len(same), len(wrong), worst, int(batch.times[wrong].min()), shown)


def _disagreement(challenger: Scored, served: Scored, rates: np.ndarray) -> Disagreement:
    weights = 1 / rates
    if challenger.scores.ndim == 2 and challenger.labels.ndim == 1:
        other = challenger.scores.argmax(axis=1) != served.scores.argmax(axis=1)
    else:
        other = challenger.predicted != served.predicted
        other = other if other.ndim == 1 else other.any(axis=1)
    apart = np.abs(challenger.scores - served.scores)
    apart = apart if apart.ndim == 1 else apart.max(axis=1)
    regression = not served.classes
    others = 0.0 if regression else float(weights[other].sum())
    return Disagreement(float(weights.sum()), others, float((weights * apart).sum()))


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
        for name in ("delays", "answers", "disagreement"):
            mine = getattr(whole, name)
            for key, value in getattr(part, name).items():
                mine[key] = mine[key].join(value) if key in mine else value
    whole.labelled = {key: accumulator.merge(of) if len(of) > 1 else of[0] for key, of in states.items()}
    return whole


def days_of(found: Mapping[DayKey, Any], version: int) -> Iterator[tuple[int, Any]]:
    """Yields the days of a version with their values, the newest first."""
    for (of, day), value in sorted(found.items(), reverse=True, key=lambda item: item[0]):
        if of == version:
            yield day, value


def newest_with(found: WentOut, version: int, labels: int) -> list[int]:
    """Returns the newest days of a version that together have as many labels; none if all have fewer."""
    total, chosen = 0, []
    for day, delays in days_of(found.delays, version):
        chosen.append(day)
        total += delays.rows
        if total >= labels:
            return chosen
    return []
