"""Judges the requests of a version by hour and day against its training rows, with the comparison of the data gate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fullpass.components.data_gate.config import DroppedColumns, GatesConfig
from fullpass.components.data_gate.divergence import share_by_chance
from fullpass.components.data_gate.gate_verdict import ComparedSeries, GateFinding
from fullpass.components.data_gate.judge import judge_span
from fullpass.components.data_gate.series import Series
from fullpass.components.data_gate.span_summary import SpanSummary, merge_spans
from fullpass.components.watch.came_in import DAY_HOURS, Period, day_name
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.findings import WatchFinding, lasting

_SEASON = 7
"""Days before, whose same hours an hour is compared with: as many as a week has."""
_OF_MISSING = ("missing", "dropped_columns", "new_columns")


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
        reference: The training rows, with the answers for eval rows; None if they are not known.
        whole: The first hour that is not over: the day that contains it is not compared yet.
    """

    def __init__(
        self,
        version: int,
        watch: WatchConfig,
        series: Sequence[Series],
        reference: SpanSummary | None,
        hours: Sequence[Period],
        whole: int,
    ):
        self._version, self._watch, self._gates = version, watch, gates_of(watch)
        self._reference, self._hours, self._whole = reference, hours, whole
        known = set(reference.distributions) if reference is not None else set()
        self._series = [one for one in series if one.name in known]
        self._quiet: dict[int, list[SpanSummary]] = {}

    def judge(self) -> JudgedTraffic:
        """Returns the verdict."""
        by_day: dict[int, list[Period]] = {}
        for hour in self._hours:
            by_day.setdefault(hour.start // DAY_HOURS, []).append(hour)
        days, findings = [], []
        for day, hours in sorted(by_day.items()):
            judged, found = self._day(day, hours)
            findings += found
            if judged is not None:
                days.append(judged)
        names = [day_name(day) for day in sorted(by_day)]
        return JudgedTraffic(self._hours, days, lasting(findings, names))

    def _day(self, day: int, hours: Sequence[Period]) -> tuple[JudgedDay | None, list[WatchFinding]]:
        findings, whole = [], []
        for hour in hours:
            lost = list(self._lost(hour))
            findings += lost
            whole += [] if lost else [hour]
        findings += self._refused(day, hours)
        filled = [hour for hour in whole if hour.summary.rows]
        if self._reference is None or not filled or (day + 1) * DAY_HOURS > self._whole:
            return None, findings
        summary = replace(merge_spans([hour.summary for hour in filled]), label=day_name(day))
        verdict = judge_span(summary, [], [self._reference], self._series, self._gates)
        tokens = {one.name: self._new_tokens(one, summary) for one in self._series if one.what == "token"}
        findings += [self._finding(found, day, self._begin(found, filled)) for found in verdict.findings]
        findings += self._of_tokens(tokens, day, filled)
        if not findings:
            for hour in filled:
                self._quiet.setdefault(hour.start % DAY_HOURS, []).append(hour.summary)
        together = Period(
            day * DAY_HOURS,
            sum(hour.requests for hour in hours),
            sum(hour.refused for hour in hours),
            sum(hour.rows for hour in hours),
            summary,
        )
        return JudgedDay(together, verdict.compared, {name: of for name, of in tokens.items() if of}), findings

    def _finding(self, found: GateFinding, day: int, first: str) -> WatchFinding:
        check = "columns" if found.check in _OF_MISSING[1:] else found.check
        last = day_name(day)
        return WatchFinding(check, found.subject, found.policy, self._version, first, last, found.text, found.over)

    def _lost(self, hour: Period) -> Iterator[WatchFinding]:
        """Yields the columns whose share of missing values has changed in an hour."""
        if self._reference is None or not hour.summary.rows:
            return
        limit, before = self._gates.missing.max_change, self._reference.distributions
        moved = [
            one
            for one in self._series
            if abs(hour.summary.distributions[one.name].missing_share - before[one.name].missing_share) > limit
        ]
        if moved:
            verdict = judge_span(hour.summary, [], [self._reference], moved, self._gates)
            for found in verdict.findings:
                if found.check in _OF_MISSING:
                    yield self._finding(found, hour.start // DAY_HOURS, hour.name)

    def _begin(self, found: GateFinding, hours: Sequence[Period]) -> str:
        """Returns the first hour that shows a change of its day, against the same hours of quiet days before."""
        series = [one for one in self._series if found.subject in (one.name, one.column)]
        for hour in hours:
            usual = self._quiet.get(hour.start % DAY_HOURS, [])[-_SEASON:]
            reference = merge_spans(usual) if usual else self._reference
            verdict = judge_span(hour.summary, [], [reference] if reference else [], series, self._gates)
            if any(one.check == found.check for one in verdict.findings):
                return hour.name
        return hours[0].name

    def _refused(self, day: int, hours: Sequence[Period]) -> Iterator[WatchFinding]:
        check = self._watch.refused
        for hour in hours:
            share = hour.refused_share
            beyond = share - share_by_chance(share, 1 / hour.rows) if hour.rows and share < 1 else share
            if beyond > check.max_share:
                text = f"{share:.1%} of requests refused, over {check.max_share:.1%} and what chance explains."
                name = day_name(day)
                over = beyond / max(check.max_share, 1e-3)
                yield WatchFinding("refused", "requests", check.policy, self._version, hour.name, name, text, over)

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
        self, tokens: Mapping[str, Mapping[str, float]], day: int, hours: Sequence[Period]
    ) -> Iterator[WatchFinding]:
        check, rows = self._watch.new_tokens, sum(hour.summary.rows for hour in hours)
        before = self._reference.rows if self._reference is not None else 0
        for name, of in tokens.items():
            for token, share in of.items():
                pooled = share * rows / (rows + before)
                beyond = share - share_by_chance(pooled, 1 / rows + 1 / max(before, 1))
                if beyond > check.max_share:
                    first = next(hour.name for hour in hours if token in hour.summary.distributions[name].values)
                    text = f"{name}: the token {token!r} is new, in {share:.1%} of rows; no training row has it."
                    last = day_name(day)
                    over = beyond / max(check.max_share, 1e-3)
                    yield WatchFinding("new_tokens", name, check.policy, self._version, first, last, text, over)
