"""Judges the spans of a window that are new to the data gate, and combines the verdicts into that on the window."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import GateFinding, GateVerdict, JudgedSpan, SpanRelease
from fullpass.components.data_gate.judge import by_severity, judge_span
from fullpass.components.data_gate.series import SeriesSource
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore
from fullpass.components.data_gate.span_verdicts import KnownVerdicts, VerdictStore, unreleased
from fullpass.trainer.export.run_provenance import read_run_facts

Judge = Callable[[SpanSummary, Sequence[SpanSummary], Sequence[SpanSummary]], GateVerdict]
"""Judges a span against other spans of the window and against earlier ones, as `judge_span`."""


@dataclass(frozen=True)
class WindowVerdict:
    """The verdict on a window. decisions: those about its spans, for later runs."""

    verdict: GateVerdict
    decisions: tuple[JudgedSpan, ...]


@dataclass(frozen=True)
class WindowJudge:
    """Judges the spans of a window.

    Attributes:
        known: What earlier runs have decided.
        contents: Number of each span of the window -> its content.
        judged: Number and content of the spans that were judged.
        barred: Numbers of the spans that were stopped and not released; no span is compared with them.
        accepted: Numbers of the stopped spans that a person has released.
        judge: Judges one span.
        before: Returns the spans before a span that earlier runs have summarized.
        run, at: The run and the time in UTC, for the decisions.
    """

    known: KnownVerdicts
    contents: Mapping[int, str]
    judged: Collection[tuple[int, str]]
    barred: Collection[int]
    accepted: Collection[int]
    judge: Judge
    before: Callable[[SpanSummary], Sequence[SpanSummary]]
    run: str
    at: str

    @classmethod
    def of(
        cls,
        summaries: SummaryStore,
        decisions: VerdictStore,
        source: SeriesSource,
        gates: GatesConfig,
        unit: str | None,
        known: KnownVerdicts,
        contents: Mapping[int, str],
        *,
        anomalies: Sequence[str] = (),
    ) -> "WindowJudge":
        """Returns the judge of a window by the limits of the YAML.

        Args:
            unit: Length of a span; None for a source without spans, whose data is compared with the data before.
            anomalies: TFDV's anomalies of the whole window, which count for its newest span.
        """
        every = decisions.stops()
        stopped = unreleased(every)

        def judge(one: SpanSummary, window: Sequence[SpanSummary], earlier: Sequence[SpanSummary]) -> GateVerdict:
            found = anomalies if one.number == max(contents) else ()
            return judge_span(one, window, earlier, source.series, gates, unit=unit, anomalies=found)

        def before(one: SpanSummary) -> Sequence[SpanSummary]:
            if unit is None:
                return summaries.other_version(one.number, {one.fingerprint, *(other.fingerprint for other in stopped)})
            return summaries.before(one.number, most=gates.history)

        return cls(
            known,
            contents,
            decisions.judged() if unit is not None else (),
            {one.number for one in stopped} if unit is not None else (),
            {one.number for one in every if one.release is not None and one.release.by} if unit is not None else (),
            judge,
            before,
            str(read_run_facts().get("run") or ""),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def verdict(self, summaries: Sequence[SpanSummary]) -> WindowVerdict:
        """Returns the verdict on a window. summaries: of its spans, the oldest first."""
        found = self._verdicts(summaries)
        newest = summaries[-1].number
        decisions = tuple(self._decisions(found, summaries))
        findings = list(found[newest].findings)
        if newest in self._released:
            findings = _as_warnings(findings)
        for number, verdict in found.items():
            if number != newest:
                findings += (replace(f, span=verdict.span, text=f"{verdict.span}: {f.text}") for f in verdict.findings)
        for one in self.known.held:
            if one.number != newest or not found[newest].stopped:
                findings += _of_held(one, "not released" if self.known.release is None else "released now")
        if self.known.release is not None:
            findings = _as_warnings(findings)
        released = (*self.known.released, *(one for one in decisions if one.release is not None))
        gaps = (f"gap: {one.words}: {one.findings[0].text}" for one in self.known.gaps)
        notes = (*found[newest].notes, *gaps, *(one.words for one in released))
        verdict = replace(
            found[newest], findings=by_severity(findings), notes=notes, released=released, gaps=self.known.gaps
        )
        return WindowVerdict(verdict, decisions)

    def _verdicts(self, summaries: Sequence[SpanSummary]) -> dict[int, GateVerdict]:
        """Returns the verdict on each span to judge, the newest too; a stopped span is no reference for a later one."""
        released, to_judge = self._released, self._to_judge(summaries)
        stopped = (one.number for one in (*self.known.held, *self.known.gaps))
        barred, found = {*self.barred, *stopped} - released, {}
        for one in summaries:
            if one.number in to_judge:
                window, earlier = (
                    [other for other in others if other.number not in barred]
                    for others in ([s for s in summaries if s.number < one.number], self.before(one))
                )
                found[one.number] = self._against(one, window, earlier)
                stops = found[one.number].stopped and self.known.release is None and one.number not in released
                (barred.add if stops else barred.discard)(one.number)
        return found

    def _against(self, one: SpanSummary, window: Sequence[SpanSummary], earlier: Sequence[SpanSummary]) -> GateVerdict:
        """Judges a span against ordinary ones; what it has in common with those that a person released stops nothing.

        So after a release neither a lasting change nor the end of a single one stops every day that follows.
        """
        accepted = {*self.accepted, *(one.number for one in self.known.held if self.known.release is not None)}
        known = {other.number: other for other in (*earlier, *window) if other.number in accepted}
        ordinary_window, ordinary_earlier = (
            [other for other in others if other.number not in known] for others in (window, earlier)
        )
        if not known or not (ordinary_window or ordinary_earlier):
            return self.judge(one, window, earlier)
        verdict = self.judge(one, ordinary_window, ordinary_earlier)
        if not verdict.stopped:
            return verdict
        of_released = self.judge(one, [], [known[number] for number in sorted(known)])
        differs = {(finding.check, finding.subject) for finding in of_released.findings}
        usual = [finding for finding in verdict.stops if (finding.check, finding.subject) not in differs]
        return replace(
            verdict,
            findings=tuple(finding for finding in verdict.findings if finding not in usual),
            notes=(*verdict.notes, *(f"As released for {of_released.previous}: {finding.text}" for finding in usual)),
        )

    @property
    def _released(self) -> set[int]:
        """The numbers of the spans that were released, or are by this run, and were stopped by an earlier one."""
        held = self.known.held if self.known.release is not None else ()
        return {one.number for one in (*self.known.released, *held)}

    def _to_judge(self, summaries: Sequence[SpanSummary]) -> set[int]:
        """Returns the newest span, those to judge again, and those that came after the first judged one, unseen.

        The spans before the first that was ever judged are what the gate began with.
        """
        first = min((number for number, _ in self.judged), default=None)
        decided = {one.number for one in (*self.known.held, *self.known.released)}
        unseen = {
            one.number
            for one in summaries
            if first is not None and one.number > first and (one.number, self.contents[one.number]) not in self.judged
        }
        again = {one.number for one in self.known.again} & {one.number for one in summaries}
        return (again | unseen) - decided | {summaries[-1].number}

    def _decisions(self, found: Mapping[int, GateVerdict], summaries: Sequence[SpanSummary]) -> Iterator[JudgedSpan]:
        held = {one.number: one for one in self.known.held}
        again = {one.number: one for one in self.known.again}
        by_user = self._now(self.known.release)
        for one in summaries:
            if one.number not in found or one.number in held or one.number in self._released:
                continue
            new = JudgedSpan(
                one.number,
                one.label,
                self.contents[one.number],
                self.known.limits,
                one.fingerprint,
                found[one.number].stops,
                self.run,
                self.at,
            )
            if new.findings:
                yield replace(new, release=by_user)
            elif one.number in again:
                old = again[one.number]
                how = "its content has changed" if old.content != new.content else "the settings have changed"
                yield replace(
                    new, findings=old.findings, run=old.run, at=old.at, release=self._now(SpanRelease("", how))
                )
            else:
                yield new
        if by_user is not None:
            yield from (replace(one, release=by_user) for one in held.values())

    def _now(self, release: SpanRelease | None) -> SpanRelease | None:
        return release and replace(release, run=self.run, at=self.at)


def _as_warnings(findings: Sequence[GateFinding]) -> list[GateFinding]:
    return [replace(f, policy="warn") if f.policy == "stop" else f for f in findings]


def _of_held(one: JudgedSpan, since: str) -> Iterator[GateFinding]:
    stopped = f"{one.name}, stopped by run {one.run or 'unknown'} and {since}"
    yield from (replace(f, span=one.label, text=f"{stopped}: {f.text}") for f in one.findings)
