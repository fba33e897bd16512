"""What the Evaluator found, in words: each metric against its threshold, and why a model was not blessed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.evaluation.config import Bounds, EvaluationConfig, SliceBounds
from components.evaluation.measured import Rows, read_measured
from components.evaluation.metrics import METRICS

_SHOWN = 6
"""Slices that are named of a metric that does not hold on more."""


@dataclass(frozen=True)
class Measured:
    """One metric on some rows. baseline: the last blessed model's value, if one was compared."""

    metric: str
    value: float
    baseline: float | None
    required: str
    held: bool


@dataclass(frozen=True)
class Slice:
    """Rows that share values of some columns, as `hour 7, company Flash Cab`.

    examples: rows, by their weights. values: metric -> value. baseline: the same of the last blessed model, if one was
    compared. newest: whether they are those of the newest span alone. judged: the metrics that must reach something on
    it; none if it has too few rows.
    """

    name: str
    examples: int
    values: Mapping[str, float]
    baseline: Mapping[str, float] = field(default_factory=dict)
    newest: bool = False
    judged: tuple[Measured, ...] = ()

    @property
    def missed(self) -> frozenset[str]:
        """The metrics that do not reach what they must."""
        return frozenset(m.metric for m in self.judged if not m.held)


@dataclass(frozen=True)
class Verdict:
    """blessed, and if not: the reasons, one line each. examples: rows measured.

    newest, newest_examples: the same metrics on the newest span alone, and its rows; none where there are no spans.
    slices: of all rows, then of the newest span, those of most examples first. notes: what was not judged, and why.
    """

    blessed: bool
    reasons: tuple[str, ...]
    metrics: tuple[Measured, ...]
    examples: int
    newest: tuple[Measured, ...] = ()
    newest_examples: int = 0
    slices: tuple[Slice, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def slices_hold(self) -> bool:
        """Whether every metric reaches what it must on every slice."""
        return not any(one.missed for one in self.slices)

    def judged_on_slices(self) -> Iterator[tuple[str, bool, list[tuple[Slice, Measured]]]]:
        """Yields metric, whether on the newest span alone, and the slices that it is judged on, the worst first."""
        for newest in (False, True):
            pairs = [(one, m) for one in self.slices if one.newest == newest for m in one.judged]
            for metric in dict.fromkeys(m.metric for _, m in pairs):
                mine = [(one, m) for one, m in pairs if m.metric == metric]
                upwards = METRICS[metric].higher_is_better is not False
                mine.sort(key=lambda pair: (pair[1].held, pair[1].value if upwards else -pair[1].value))
                yield metric, newest, mine


def read_verdict(evaluation_uri: str, config: EvaluationConfig, *, blessed: bool) -> Verdict:
    """Returns the verdict recorded in an evaluation artifact."""
    return judge(read_measured(evaluation_uri), config, blessed=blessed)


def judge(measured: Sequence[Rows], config: EvaluationConfig, *, blessed: bool) -> Verdict:
    """Returns what was measured against the thresholds, in words.

    Args:
        measured: on all rows, on the newest span, on each slice of both.
        config: the section of the YAML.
        blessed: what the Evaluator decided, or a person.
    """
    of_newest = {name: t.newest_span for name, t in config.thresholds.items() if t.newest_span is not None}
    whole, newest = (_together(measured, newest=newest) for newest in (False, True))
    metrics = _measured(whole, config, config.thresholds)
    metrics_newest = _measured(newest, config, of_newest)
    slices = _slices(measured, config)
    reasons = [reason(m, config.thresholds[m.metric]) for m in metrics if not m.held]
    reasons += [
        f"on the newest span {reason(m, of_newest[m.metric], '.newest_span')}" for m in metrics_newest if not m.held
    ]
    verdict = Verdict(
        blessed, (), metrics, whole.examples, metrics_newest, newest.examples, slices, _notes(slices, config)
    )
    reasons += _reasons_of_slices(verdict, config)
    if not blessed and not reasons:
        rows = "the newest span has no row in the eval split" if whole.examples and of_newest else ""
        reasons = [rows or "the eval split has no labelled example"]
    return verdict if blessed else replace(verdict, reasons=tuple(reasons))


def _together(measured: Iterable[Rows], *, newest: bool) -> Rows:
    """Returns what was measured on all rows, or on all of the newest span."""
    return next((rows for rows in measured if not rows.keys and rows.newest == newest), Rows((), {}))


def _measured(rows: Rows, config: EvaluationConfig, thresholds: Mapping[str, Bounds]) -> tuple[Measured, ...]:
    return tuple(measure(name, rows, thresholds.get(name)) for name in _names(config) if name in rows.values)


def _names(config: EvaluationConfig) -> list[str]:
    return list(dict.fromkeys([*config.metrics, *config.thresholds]))


def _slices(measured: Iterable[Rows], config: EvaluationConfig) -> tuple[Slice, ...]:
    found = [_slice(rows, config) for rows in measured if rows.keys]
    return tuple(sorted(found, key=lambda one: (one.newest, -one.examples, one.name)))


def _slice(rows: Rows, config: EvaluationConfig) -> Slice:
    values, baseline = ({n: of[n] for n in _names(config) if n in of} for of in (rows.values, rows.baseline))
    judged = tuple(
        measure(name, rows, bounds)
        for name, bounds in slice_bounds(config, newest=rows.newest).items()
        if name in values and rows.examples >= bounds.min_examples and _can_be_judged(values[name], baseline.get(name))
    )
    name = ", ".join(f"{column} {value}" for column, value in rows.keys)
    return Slice(name, rows.examples, values, baseline, rows.newest, judged)


def slice_bounds(config: EvaluationConfig, *, newest: bool) -> dict[str, SliceBounds]:
    """Returns metric -> what it must reach on every slice, of all rows or of the newest span."""
    of_rows = {name: t.newest_span if newest else t for name, t in config.thresholds.items()}
    return {name: rows.slices for name, rows in of_rows.items() if rows is not None and rows.slices is not None}


def _can_be_judged(value: float, baseline: float | None) -> bool:
    """Whether rows have a value at all: those of one class have no AUC, of either model."""
    return value == value or (baseline is not None and baseline == baseline)


def _notes(slices: Sequence[Slice], config: EvaluationConfig) -> tuple[str, ...]:
    notes = []
    for newest in (False, True):
        mine = [one for one in slices if one.newest == newest]
        for name, bounds in slice_bounds(config, newest=newest).items():
            small = sum(one.examples < bounds.min_examples for one in mine)
            none = sum(name not in {m.metric for m in one.judged} for one in mine) - small
            why = [f"{small} have fewer than {bounds.min_examples:,} examples"] if small else []
            why += [f"{none} have no value of it, as rows of one class"] if none else []
            if why:
                of = f"{len(mine)} slices{' of the newest span' if newest else ''}"
                notes.append(f"{name}: of {of}, {' and '.join(why)}; those are not judged")
    return tuple(notes)


def _reasons_of_slices(verdict: Verdict, config: EvaluationConfig) -> list[str]:
    reasons = []
    for metric, newest, judged in verdict.judged_on_slices():
        bounds = slice_bounds(config, newest=newest)[metric]
        of = " of the newest span" if newest else ""
        missed = [(one, m) for one, m in judged if not m.held]
        for one, m in missed[:_SHOWN]:
            why = reason(m, bounds, f"{'.newest_span' if newest else ''}.slices")
            reasons.append(f"on the slice {one.name}{of} ({one.examples:,} examples) {why}")
        if len(missed) > _SHOWN:
            reasons.append(f"and {metric} on {len(missed) - _SHOWN} more slices{of}; the report shows them")
    return reasons


def measure(name: str, rows: Rows, threshold: Bounds | None) -> Measured:
    """Returns how a metric of the new model stands against its threshold and the last blessed model."""
    value, baseline = rows.values[name], rows.baseline.get(name)
    if threshold is None:
        return Measured(name, value, baseline, "", True)
    return Measured(name, value, baseline, _required(threshold), _holds(name, value, baseline, threshold))


def _required(threshold: Bounds) -> str:
    parts = []
    if threshold.min is not None:
        parts.append(f">= {threshold.min:g}")
    if threshold.max is not None:
        parts.append(f"<= {threshold.max:g}")
    if threshold.not_worse_than is not None:
        parts.append("no worse than blessed" + (f" by over {threshold.tolerance:g}" if threshold.tolerance else ""))
    return ", ".join(parts)


def _holds(name: str, value: float, baseline: float | None, threshold: Bounds) -> bool:
    inside = (threshold.min is None or value >= threshold.min) and (threshold.max is None or value <= threshold.max)
    return inside and not _worse_than_blessed(name, value, baseline, threshold)


def _worse_than_blessed(name: str, value: float, baseline: float | None, threshold: Bounds) -> bool:
    if threshold.not_worse_than is None or baseline is None:
        return False
    loss = baseline - value if METRICS[name].higher_is_better else value - baseline
    return not loss <= threshold.tolerance


def reason(measured: Measured, threshold: Bounds, below: str = "") -> str:
    """Returns why a threshold that did not hold did not, with the YAML path of the limit.

    Args:
        measured: the metric.
        threshold: its bounds.
        below: where they stand below the threshold of the metric.
    """
    name, value, baseline = measured.metric, measured.value, measured.baseline
    path = f"evaluation.thresholds.{name}{below}"
    if value != value:
        return f"{name} is not a number: the eval split holds one class only, or the model diverged"
    if threshold.min is not None and value < threshold.min:
        return f"{name} is {value:.4f}, below the minimum {threshold.min:g} ({path}.min)"
    if threshold.max is not None and value > threshold.max:
        return f"{name} is {value:.4f}, above the maximum {threshold.max:g} ({path}.max)"
    limit = f"by over {threshold.tolerance:g} ({path}.tolerance)" if threshold.tolerance else f"({path}.not_worse_than)"
    return f"{name} is {value:.4f}, the last blessed model has {baseline:.4f} on the same rows: worse {limit}"
