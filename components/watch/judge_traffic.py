"""Judges the requests of a version by hour and day against its training rows, with the comparison of the data gate.

If nothing has changed, chance raises a finding on at most one of 10,000 days of a version: what it explains is
corrected for all comparisons of a day together (Bonferroni). An hour may have few rows, for which the gate's normal
approximation is too narrow. So shares must also be beyond the bound of Chernoff (1952), which holds for any number of
rows: where the share is p, a share of q or more in n rows has a probability of at most exp(-n KL(q, p)).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fullpass.components.data_gate.config import DroppedColumns, GatesConfig
from fullpass.components.data_gate.divergence import CHANCE
from fullpass.components.data_gate.gate_verdict import ComparedSeries, GateFinding
from fullpass.components.data_gate.judge import judge_span
from fullpass.components.data_gate.series import Series
from fullpass.components.data_gate.span_summary import SpanSummary, merge_spans
from fullpass.components.watch.came_in import DAY_HOURS, HourCount, HourKey, Period, periods
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.findings import WatchFinding, lasting

_SEASON = 7
"""Days before, whose same hours an hour is compared with: as many as a week has."""
_CHECKS = {"missing": "missing", "dropped_columns": "columns", "new_columns": "columns"}
"""Check of the gate -> that of the watch, of those that a share of missing values fails."""


@dataclass(frozen=True)
class JudgedDay:
    """A day with its comparisons, the largest divergence first, and the new tokens: column -> token -> share."""

    period: Period
    compared: Sequence[ComparedSeries]
    new_tokens: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class JudgedTraffic:
    """The requests of a version: hours, judged days, and findings."""

    hours: Sequence[Period]
    days: Sequence[JudgedDay]
    findings: Sequence[WatchFinding]


def gates_of(watch: WatchConfig) -> GatesConfig:
    """Returns the limits of a watch as those of the data gate."""
    none = {"policy": "ignore"}
    return GatesConfig(
        drift=watch.drift,
        missing=watch.missing,
        new_columns=watch.columns,
        dropped_columns=DroppedColumns(policy=watch.columns.policy),
        **{name: none for name in ("anomalies", "label", "rows")},
    )


class TrafficJudge:
    """Judges the requests to one version.

    Args:
        counts: The hours of all versions.
        reference: The training rows, with the answers for eval rows; None if they are not known.
        whole: The first hour that is not over: the day that contains it is not compared yet.
    """

    def __init__(
        self,
        version: int,
        watch: WatchConfig,
        series: Sequence[Series],
        reference: SpanSummary | None,
        counts: Mapping[HourKey, HourCount],
        whole: int,
    ):
        self._version, self._watch, self._gates = version, watch, gates_of(watch)
        self._reference, self._counts, self._whole = reference, counts, whole
        known = set(reference.distributions) if reference is not None else set()
        self._series = [one for one in series if one.name in known]
        self._looks = DAY_HOURS * (2 * len(self._series) + 1)
        self._quiet: dict[int, list[SpanSummary]] = {}

    def judge(self) -> JudgedTraffic:
        """Returns the verdict."""
        hours = periods(self._counts, self._version)
        lost = {hour.start: list(self._lost(hour)) for hour in hours}
        days, findings, names = list[JudgedDay](), list[WatchFinding](), list[str]()
        for day in periods(self._counts, self._version, "day"):
            mine = [hour for hour in hours if day.start <= hour.start < day.start + DAY_HOURS]
            changed = {hour.start: lost[hour.start] for hour in mine if lost[hour.start]}
            found = [one for of in changed.values() for one in of] + list(self._refused(mine))
            if self._reference is not None and day.summary.rows and day.start + DAY_HOURS <= self._whole:
                judged, more = self._day(day, mine, changed)
                days.append(judged)
                found += more
            if not found:
                for hour in mine:
                    self._quiet.setdefault(hour.start % DAY_HOURS, []).append(hour.summary)
            findings += found
            names.append(day.name)
        return JudgedTraffic(hours, days, lasting(findings, names))

    def _day(
        self, day: Period, hours: Sequence[Period], changed: Mapping[int, Sequence[WatchFinding]]
    ) -> tuple[JudgedDay, list[WatchFinding]]:
        """Judges a day. changed: its hours with findings, whose columns are compared without these hours."""
        summary, series = self._without(day, changed)
        verdict = judge_span(summary, [], [self._reference], series, self._gates, looks=self._looks)  # type: ignore[list-item]
        tokens = {one.name: self._new_tokens(one, summary) for one in series if one.what == "token"}
        findings = [
            self._finding(found, day.name, self._begin(found, hours))
            for found in verdict.findings
            if found.check not in _CHECKS or self._beyond_chance(found.subject, summary)
        ]
        findings += self._of_tokens(tokens, day, hours)
        return JudgedDay(day, verdict.compared, {name: of for name, of in tokens.items() if of}), findings

    def _without(
        self, day: Period, changed: Mapping[int, Sequence[WatchFinding]]
    ) -> tuple[SpanSummary, Sequence[Series]]:
        """Returns a day with its lost columns as they are in its other hours, and the series that it has."""
        lost = {finding.subject for of in changed.values() for finding in of}
        series = [one for one in self._series if one.column in lost]
        if not series:
            return day.summary, self._series
        rest = periods(self._counts, self._version, "day", without=changed)
        others = next((one.summary for one in rest if one.start == day.start), None)
        if others is None or not others.rows:
            return day.summary, [one for one in self._series if one not in series]
        distributions = {**day.summary.distributions, **{one.name: others.distributions[one.name] for one in series}}
        return replace(day.summary, distributions=distributions), self._series

    def _finding(self, found: GateFinding, day: str, first: str) -> WatchFinding:
        check = _CHECKS.get(found.check, found.check)
        return WatchFinding(check, found.subject, found.policy, self._version, first, day, found.text, found.over)

    def _lost(self, hour: Period) -> Iterator[WatchFinding]:
        """Yields the columns whose share of missing values has changed in an hour."""
        if self._reference is None or not hour.summary.rows:
            return
        moved = [one for one in self._series if self._beyond_chance(one.column, hour.summary)]
        verdict = judge_span(hour.summary, [], [self._reference], moved, self._gates, looks=self._looks)
        for found in verdict.findings:
            if found.check in _CHECKS:
                yield self._finding(found, hour.name[:10], hour.name)

    def _beyond_chance(self, column: str, summary: SpanSummary) -> bool:
        """Returns whether chance does not explain the share of missing values of a column, in however few rows."""
        before, now = (
            next(of.distributions[one.name] for one in self._series if one.column == column)
            for of in (self._reference, summary)
            if of is not None
        )
        pooled = (before.missing + now.missing) / max(before.rows + now.rows, 1)
        return self._is_rare(now.missing_share, pooled, now.rows)

    def _is_rare(self, share: float, usual: float, rows: float) -> bool:
        """Returns whether chance gives so different a share of rows only once in 10,000 days."""
        return rows * _relative_entropy(share, usual) > math.log(2 * self._looks / CHANCE)

    def _begin(self, found: GateFinding, hours: Sequence[Period]) -> str:
        """Returns the first hour that shows a change of its day, against the same hours of quiet days before."""
        series = [one for one in self._series if found.subject in (one.name, one.column)]
        filled = [hour for hour in hours if hour.summary.rows]
        for hour in filled:
            usual = self._quiet.get(hour.start % DAY_HOURS, [])[-_SEASON:]
            reference = merge_spans(usual) if usual else self._reference
            verdict = judge_span(hour.summary, [], [reference] if reference else [], series, self._gates)
            if any(one.check == found.check for one in verdict.findings):
                return hour.name
        return filled[0].name

    def _refused(self, hours: Sequence[Period]) -> Iterator[WatchFinding]:
        check = self._watch.refused
        for hour in hours:
            share = hour.refused_share
            if share > check.max_share and self._is_rare(share, check.max_share, hour.rows):
                text = f"{share:.1%} of requests refused, over {check.max_share:.1%} and what chance explains."
                over = share / max(check.max_share, 1e-3)
                yield WatchFinding(
                    "refused", "requests", check.policy, self._version, hour.name, hour.name[:10], text, over
                )

    def _new_tokens(self, one: Series, summary: SpanSummary) -> dict[str, float]:
        """Returns the tokens of a day that no training row has, the most common first, with their shares."""
        before, now = self._reference.distributions[one.name], summary.distributions[one.name]  # type: ignore[union-attr]
        known = set(before.values)
        if not before.complete or not now.rows:
            return {}
        return {
            token: count / now.rows for token, count in zip(now.values, now.counts, strict=True) if token not in known
        }

    def _of_tokens(
        self, tokens: Mapping[str, Mapping[str, float]], day: Period, hours: Sequence[Period]
    ) -> Iterator[WatchFinding]:
        check, rows = self._watch.new_tokens, day.summary.rows
        for name, of in tokens.items():
            for token, share in of.items():
                if share > check.max_share and self._is_rare(share, check.max_share, rows):
                    having = (hour.name for hour in hours if token in hour.summary.distributions[name].values)
                    text = f"{name}: the token {token!r} is new, in {share:.1%} of rows; no training row has it."
                    over = share / max(check.max_share, 1e-3)
                    yield WatchFinding(
                        "new_tokens", name, check.policy, self._version, next(having), day.name, text, over
                    )


def _relative_entropy(q: float, p: float) -> float:
    """Returns the Kullback-Leibler divergence of a share q from a share p, in nats."""
    parts = ((q, p), (1 - q, 1 - p))
    return sum(a * math.log(a / b) if b else math.inf for a, b in parts if a)
