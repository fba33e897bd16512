"""Judges a version on the rows whose labels are known: metrics per day, bounds, and whether early labels mislead."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.confidence import half_width, quantile
from fullpass.components.evaluation.judge.judge_metric import PlacedBounds, judge_metric
from fullpass.components.evaluation.judge.verdict import Measured
from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.measured_metrics import ALWAYS_MEASURED, MeasuredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.watch.came_in import day_name
from fullpass.components.watch.config import LiveBounds, WatchConfig
from fullpass.components.watch.findings import WatchFinding
from fullpass.components.watch.went_out import Delays, WentOut, days_of, newest_with

_CHANCE = NormalDist().inv_cdf(1 - 1e-4 / 2)
"""Standard errors that early and late labels may differ by: chance exceeds them once in 10,000 comparisons."""


@dataclass(frozen=True)
class LiveMetric:
    """A metric on labelled rows, with half its 95 % interval; None if the standard error is unknown."""

    value: float
    half_width: float | None


@dataclass(frozen=True)
class LiveDay:
    """The labelled rows of a day. answered: all answered rows of the log; labels: those with a label."""

    name: str
    answered: int
    labels: int
    metrics: Mapping[str, LiveMetric]

    @property
    def share(self) -> float:
        """The share of rows that have a label."""
        return self.labels / self.answered if self.answered else 0.0


@dataclass(frozen=True)
class Live:
    """What labels say of a version.

    Attributes:
        days: The oldest first.
        judged: The metrics of the newest days that have as many labels as `after` wants, with their bounds.
        over: The first and the last of these days; empty if there are too few labels.
        at_eval: Metric -> value on the eval split.
        slices: The slices of the judged days, the largest first: name, rows, metrics.
        notes: What is not known, and whether early labels mislead.
    """

    days: Sequence[LiveDay] = ()
    judged: Sequence[Measured] = ()
    over: tuple[str, str] | tuple[()] = ()
    at_eval: Mapping[str, float] | None = None
    slices: Sequence[tuple[str, int, Mapping[str, float]]] = ()
    notes: Sequence[str] = ()
    findings: Sequence[WatchFinding] = ()


@dataclass(frozen=True)
class EvalMetrics:
    """The metrics of a version on its eval split, and their standard errors as far as they are known."""

    values: Mapping[str, float]
    errors: Mapping[str, float]


class LiveJudge:
    """Judges one version.

    Args:
        answered: Day -> answered rows of the log.
        today: The day of the watch, since 1970 UTC, which is not over.
        stopped: The days on which a check with the policy `stop` found a change: what was asked then tells about the
            caller, and not about the model.
    """

    def __init__(
        self,
        version: int,
        watch: WatchConfig,
        out: WentOut,
        accumulator: SliceAccumulator,
        at_eval: EvalMetrics,
        answered: Mapping[int, int],
        today: int,
        stopped: Collection[int] = (),
    ):
        self._version, self._watch, self._out = version, watch, out
        self._accumulator, self._eval, self._answered, self._today = accumulator, at_eval, answered, today
        self._delays: dict[int, Delays] = dict(sorted(days_of(out.delays, version)))
        self._stopped = sorted({*stopped} & {*self._delays})
        over = {day: of for day, of in self._delays.items() if day < today and day not in stopped}
        self._chosen = newest_with(over, watch.labels_judged)

    def judge(self) -> Live:
        """Returns the verdict."""
        measured = {day: self._measured([day]) for day in self._delays}
        days = [self._day(day, count, measured.get(day)) for day, count in sorted(self._answered.items())]
        total = sum(delays.rows for delays in self._delays.values())
        if not total:
            note = "No label is known yet: this shows inputs and scores only, and no metric."
            return Live(days, at_eval=self._eval.values, notes=(note,))
        notes = [f"{day_name(day)} is not judged by its labels: a stop was found." for day in self._stopped]
        chosen = self._chosen
        if not chosen:
            few = f"The days that are over have fewer than watch.after ({self._watch.after}): no bound is judged."
            notes.append(f"{total:,} labels are known. {few}")
            return Live(days, at_eval=self._eval.values, notes=notes)
        whole, *others = self._slices(chosen)
        judged = [self._judged(name, whole) for name in self._metrics if name in whole.values]
        over = day_name(chosen[0]), day_name(chosen[-1])
        findings = [self._finding(m, measured) for m in judged if m.missed]
        slices = [(", ".join(f"{c} {v}" for c, v in one.keys), one.examples, one.values) for one in others]
        slices.sort(key=lambda one: -one[1])
        notes += self._early(chosen[-1])
        return Live(days, judged, over, self._eval.values, slices, notes, findings)

    @property
    def _metrics(self) -> list[str]:
        return [name for name in self._accumulator.metrics if name != ALWAYS_MEASURED]

    def _measured(self, days: Sequence[int]) -> MeasuredRows:
        return self._slices(days)[0]

    def _slices(self, days: Sequence[int]) -> list[MeasuredRows]:
        """Returns the metrics of some days together, and of their slices; all rows come first."""
        states = [self._out.labelled[self._version, day] for day in days]
        state = self._accumulator.merge(states) if len(states) > 1 else states[0]
        return measured_of(self._accumulator, state)

    def _day(self, day: int, answered: int, rows: MeasuredRows | None) -> LiveDay:
        metrics = {}
        if rows is not None:
            for name in self._metrics:
                error = rows.errors.get(name, math.nan)
                half = None if math.isnan(error) else half_width(error)
                metrics[name] = LiveMetric(rows.values[name], half)
        delays = self._delays.get(day)
        return LiveDay(day_name(day), answered, delays.rows if delays is not None else 0, metrics)

    def _judged(self, name: str, rows: MeasuredRows) -> Measured:
        bounds = self._watch.live.get(name)
        before = self._eval.values.get(name, math.nan)
        mine = replace(
            rows,
            baseline={name: before},
            difference_errors={name: math.hypot(rows.errors.get(name, math.nan), self._eval.errors.get(name, 0.0))},
        )
        compared = bounds.compared("eval") if bounds is not None else None
        found = judge_metric(name, mine, PlacedBounds(compared, root="watch.live") if compared is not None else None)
        missed = _missed(name, rows, bounds) if bounds is not None else ""
        return replace(found, missed=missed) if missed else found

    def _finding(self, m: Measured, measured: Mapping[int, MeasuredRows]) -> WatchFinding:
        """Returns the finding of a missed bound. It began on the first of the newest days that miss it."""
        days = self._chosen
        first = next((day for day in days if self._judged(m.metric, measured[day]).missed), days[0])
        for day in sorted((day for day in measured if day < first and day not in self._stopped), reverse=True):
            if not self._judged(m.metric, measured[day]).missed:
                break
            first = day
        labels = sum(self._delays[day].rows for day in days)
        between = " to ".join(dict.fromkeys(day_name(day) for day in (days[0], days[-1])))
        text = f"{m.missed}, on {labels:,} labels of {between}"
        name, last, policy = day_name(first), day_name(days[-1]), self._watch.live_policy
        return WatchFinding("live", m.metric, policy, self._version, name, last, text, 1.0, judged=last)

    def _early(self, newest: int) -> Iterator[str]:
        """Yields a warning if labels that come as early as those of the newest judged day differ from later ones."""
        if self._watch.labels is None or self._watch.labels.at is None:
            return
        every = np.sum([delays.sums for delays in self._delays.values()], axis=0)
        longest = int(np.flatnonzero(every[:, 0])[-1])
        age = self._today - newest
        settled = [delays.sums for day, delays in self._delays.items() if self._today - day > longest]
        if age >= longest or not settled:
            if age < longest:
                yield "Labels of the newest days are still coming, and no older day shows whether early ones differ."
            return
        sums = np.sum(settled, axis=0)
        early, late = sums[: age + 1].sum(axis=0), sums[age + 1 :].sum(axis=0)
        if not early[0] or not late[0]:
            return
        means = early[1] / early[0], late[1] / late[0]
        variance = sum(of[2] / of[0] - (of[1] / of[0]) ** 2 for of in (early, late) if of[0])
        error = math.sqrt(sum(max(of[2] / of[0] - (of[1] / of[0]) ** 2, 0.0) / of[0] for of in (early, late)))
        if variance and abs(means[0] - means[1]) > _CHANCE * error:
            yield (
                f"Early labels differ from late ones: on older days, those that came within {age} days have the mean "
                f"{means[0]:.3g}, later ones {means[1]:.3g}. The metrics of days younger than {longest} days are of "
                "early labels, and will change."
            )


def _missed(name: str, rows: MeasuredRows, bounds: LiveBounds) -> str:
    """Returns how a metric is beyond min or max by more than chance; "" if it is not, or chance is unknown."""
    value, error = rows.values[name], rows.errors.get(name, math.nan)
    if math.isnan(value) or math.isnan(error):
        return ""
    margin = quantile(bounds.confidence) * error
    for limit, sign, word in ((bounds.min, 1, "below min"), (bounds.max, -1, "above max")):
        if limit is not None and sign * value < sign * limit - margin:
            shown = metric_text(value, half_width(error))
            return f"{name} is {shown}, {word} {limit:g} (watch.live.{name}) beyond chance ({bounds.confidence:g})"
    return ""
