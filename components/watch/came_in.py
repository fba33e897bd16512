"""What came in and what was answered, hour by hour: counts, and the distribution of each series.

A row of a log that is sampled with the probability p counts 1 / p. Rows of one hour and one probability are sketched
together, and weighed when hours become days; what chance explains follows from the number of rows, not of requests.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from fullpass.components.data_gate.distribution import Distribution, merge
from fullpass.components.data_gate.series import Series, SeriesSource
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SpanSummary
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.ingest.spans.span_pattern import label_of
from fullpass.components.watch.log_rows import LogBatch, Refused
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.config import PreprocessingConfig

HOUR = 3_600_000_000
"""Microseconds."""
DAY_HOURS = 24
SCORE, ANSWER = "the score", "the answer"
"""Series of what was answered: the score (of several classes, that of the likeliest), and the class."""
_SCORE_COLUMN, _ANSWER_COLUMN = "log_scores", "log_label"
HourKey = tuple[int, int, float]
"""Version, hour since 1970 UTC, and the probability with which rows are logged."""


def watched_series(config: PreprocessingConfig, logged: Collection[str], unit: str | None) -> SeriesSource:
    """Returns the series of the columns of requests, and of the answers.

    Dates contribute what a day covers completely, so neither a weekday nor a month is a series.

    Args:
        logged: The raw columns of the log.
        unit: Length of the spans of training, which names the series that its summaries have.
    """
    source = SeriesSource.of(config, unit)
    mine = [one for one in source.series if one.column in logged and one.part in (None, "hour")]
    kind = "token" if config.label.task in ("binary", "multiclass") else None
    mine.append(Series(SCORE, _SCORE_COLUMN, "number"))
    answers = [RawColumn(_SCORE_COLUMN, "number")]
    if kind is not None:
        mine.append(Series(ANSWER, _ANSWER_COLUMN, "token"))
        answers.append(RawColumn(_ANSWER_COLUMN, "string", token=True))
    columns = tuple(column for column in source.columns if column.name in logged)
    return SeriesSource(tuple(mine), (*columns, *answers), {})


def answered_columns(scores: np.ndarray | None, answers: pa.Array | None) -> dict[str, pa.Array]:
    """Returns the columns of the series of answers. scores: float [rows, scores]."""
    found: dict[str, pa.Array] = {}
    if scores is not None:
        found[_SCORE_COLUMN] = pa.array(scores[:, 0] if scores.shape[1] == 1 else scores.max(axis=1), pa.float32())
    if answers is not None:
        found[_ANSWER_COLUMN] = answers.cast(pa.binary())
    return found


def answered_by(scored: Scored) -> dict[str, pa.Array]:
    """Returns the columns of the series of answers of rows that a model has scored."""
    scores = scored.scores.reshape(len(scored.scores), -1).astype(np.float32)
    answers = None
    if scored.classes and scored.labels.ndim == 1:
        chosen = scored.predicted.astype(int) if scored.scores.ndim == 1 else scored.scores.argmax(axis=1)
        answers = pa.array(np.array(scored.classes, object)[chosen], pa.string())
    return answered_columns(scores, answers)


@dataclass
class HourCount:
    """The rows of an hour that were logged with one probability.

    Attributes:
        requests: All of them; refused: those that were refused.
        rows: The answered ones, of which the distributions are.
        first: The first time of a row, in microseconds.
    """

    requests: int = 0
    refused: int = 0
    rows: int = 0
    distributions: dict[str, Distribution] = field(default_factory=dict)

    def join(self, other: "HourCount") -> "HourCount":
        """Returns both together."""
        parts = [part for part in (self.distributions, other.distributions) if part]
        return HourCount(
            self.requests + other.requests,
            self.refused + other.refused,
            self.rows + other.rows,
            {name: merge(part[name] for part in parts) for name in (parts[0] if parts else {})},
        )


class HourSketches:
    """The hours of some files, filled batch by batch."""

    def __init__(self, series: Mapping[int, SeriesSource]):
        """Starts without rows. series: those of each version."""
        self._series = series
        self._counts: dict[HourKey, HourCount] = {}
        self._sketches: dict[HourKey, Sketches] = {}

    def add_refused(self, refused: Refused) -> None:
        """Counts refused rows, and answered ones of versions that are not here (whose version is negative)."""
        for (version, hour, rate), mask in _groups(refused.version, refused.times, refused.rates):
            count = self._counts.setdefault((abs(version), hour, rate), HourCount())
            count.requests += int(mask.sum())
            count.refused += int(mask.sum()) if version >= 0 else 0

    def add(self, batch: LogBatch) -> None:
        """Adds answered rows."""
        columns = {**batch.arrays, **answered_columns(batch.scores, batch.answers)}
        versions = np.full(len(batch.times), batch.version)
        for key, mask in _groups(versions, batch.times, batch.rates):
            count = self._counts.setdefault(key, HourCount())
            count.requests += int(mask.sum())
            count.rows += int(mask.sum())
            kept = pa.array(mask)
            sketches = self._sketches.setdefault(key, Sketches(self._series[batch.version]))
            sketches.add({name: array.filter(kept) for name, array in columns.items()}, int(mask.sum()))

    def counts(self) -> dict[HourKey, HourCount]:
        """Returns the hours."""
        for key, sketches in self._sketches.items():
            self._counts[key].distributions = sketches.distributions()
        return self._counts


def _groups(versions: np.ndarray, times: np.ndarray, rates: np.ndarray) -> Iterable[tuple[HourKey, np.ndarray]]:
    hours = times // HOUR
    keys = np.stack([versions.astype(np.float64), hours.astype(np.float64), rates], axis=1)
    distinct, of = np.unique(keys, axis=0, return_inverse=True)
    for number, (version, hour, rate) in enumerate(distinct.tolist()):
        yield (int(version), int(hour), rate), of.reshape(-1) == number


@dataclass(frozen=True)
class Period:
    """The requests of an hour or a day to one version.

    Attributes:
        start: Its first hour since 1970 UTC.
        requests, refused: Numbers of requests, weighed by sampling.
        rows: Number of logged rows that tell as much.
        summary: Their distributions.
    """

    start: int
    requests: float
    refused: float
    rows: float
    summary: SpanSummary

    @property
    def name(self) -> str:
        """The hour or the day as text: `2026-01-08T07` or `2026-01-08`."""
        return self.summary.label

    @property
    def refused_share(self) -> float:
        """The share of refused requests."""
        return self.refused / self.requests if self.requests else 0.0


def day_name(day: int) -> str:
    """Returns a day since 1970 UTC as text.

    Example:
        >>> day_name(20_454)
        '2026-01-01'
    """
    return label_of("day", day)


def days_between(first: str, last: str) -> range:
    """Returns the days from one to another, both named, since 1970 UTC.

    Example:
        >>> days_between("2026-01-01", "2026-01-02")
        range(20454, 20456)
    """
    begin, end = (int(np.datetime64(name, "D").astype(int)) for name in (first, last))
    return range(begin, end + 1)


def period(start: int, label: str, parts: Sequence[tuple[float, HourCount]]) -> Period:
    """Returns hours together. parts: the probability and the count of each."""
    rates = np.array([rate for rate, _ in parts])
    requests = np.array([count.requests for _, count in parts], float)
    refused = np.array([count.refused for _, count in parts], float)
    rows = np.array([count.rows for _, count in parts], float)
    logged = requests.sum()
    effective = (requests / rates).sum() ** 2 / (requests / rates**2).sum() if logged else 0.0
    scale = np.ones(len(rates)) if (rates == rates[0]).all() else _scales(rates, rows)
    filled = [(count, by) for (_, count), by in zip(parts, scale, strict=True) if count.rows]
    names = filled[0][0].distributions if filled else {}
    distributions = {name: merge(_scaled(count.distributions[name], by) for count, by in filled) for name in names}
    summary = SpanSummary(start, label, "", round(float((rows * scale).sum())), distributions)
    weighed = float((requests / rates).sum()), float((refused / rates).sum())
    return Period(start, *weighed, effective, summary)


def _scales(rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the weights of rows, float64 [parts], whose sum is the number of equal rows that tell as much (Kish)."""
    weights = 1 / rates
    total, squares = (rows * weights).sum(), (rows * weights**2).sum()
    return weights * (total / squares if squares else 1.0)


def _scaled(one: Distribution, by: float) -> Distribution:
    if by == 1.0:
        return one
    counts = tuple(count * by for count in one.counts)
    return replace(one, counts=counts, other=one.other * by, missing=one.missing * by)


def periods(
    hours: Mapping[HourKey, HourCount],
    version: int,
    unit: Literal["hour", "day"] = "hour",
    *,
    without: Collection[int] = (),
) -> list[Period]:
    """Returns the hours, or the days, of a version, the oldest first. without: hours that are left out."""
    length = DAY_HOURS if unit == "day" else 1
    found: dict[int, list[tuple[float, HourCount]]] = {}
    for (of, hour, rate), count in sorted(hours.items(), key=lambda item: item[0]):
        if of == version and hour not in without:
            found.setdefault(hour // length, []).append((rate, count))
    return [period(number * length, label_of(unit, number), parts) for number, parts in found.items()]
