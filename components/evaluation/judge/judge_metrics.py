"""Compares each metric with its threshold, and says why a model is refused, and what was not judged."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.config import Bounds, EvaluationConfig, SliceBounds, SlicedBounds, Threshold
from fullpass.components.evaluation.judge.verdict import Measured, Slice, Verdict
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.evaluation.measure.metrics import class_of, metric_of
from fullpass.components.evaluation.measure.slice_states import MOST_SLICES
from fullpass.trainer.insight.words import too_good_words

_TOO_MANY = f"{{}} has more than {MOST_SLICES:,} combinations of values"
_SHOWN = 6
"""Largest number of failed slices that are named per metric."""


def judge_metrics(
    measured: Sequence[MeasuredRows], config: EvaluationConfig, record: Mapping[str, Any] | None = None
) -> Verdict:
    """Compares the measured metrics with the thresholds.

    A model is blessed if there are rows to measure it on, and every bound was judged and holds.

    Args:
        measured: Metrics on all rows, on the newest span, and on each slice of both.
        record: The content of training.json, to tell why a model is too good; None if it is unknown.
    """
    verdict = _verdict(measured, config)
    reasons = tuple(_reasons(verdict, config))
    good = {m.metric: m.value for m in verdict.metrics if metric_of(m.metric).tells_all}
    too_good = too_good_words(good, record or {}, [name for name in good if metric_of(name).guessed])
    notes = (*verdict.notes, *filter(None, (too_good,)))
    return replace(verdict, blessed=not reasons, reasons=reasons, notes=notes)


def _verdict(measured: Sequence[MeasuredRows], config: EvaluationConfig) -> Verdict:
    """Returns all measurements, without reasons."""
    whole, newest = (_together(measured, newest=newest) for newest in (False, True))
    metrics = tuple(map(_undefined_failed, _measured(whole, config, config.thresholds)))
    metrics_newest = _measured(newest, config, _of_newest(newest, config))
    slices = tuple(
        sorted(
            (_slice(rows, config) for rows in measured if rows.keys),
            key=lambda one: (one.newest, -one.examples, one.name),
        )
    )
    verdict = Verdict(
        True,
        (),
        metrics,
        whole.examples,
        metrics_newest,
        newest.examples,
        slices,
        unsliced=whole.unsliced,
        doubt=whole.doubt,
        baselines=whole.baselines,
    )
    return replace(verdict, notes=(*_notes(verdict, config), *_not_compared_on_newest(newest, config)))


def _of_newest(newest: MeasuredRows, config: EvaluationConfig) -> dict[str, SlicedBounds]:
    """Returns metric -> bounds on the newest span: its own, and the comparison of all rows where chance is known."""
    bounds = {
        name: t.compared_on_newest if t.inherits_comparison and _knows_chance(name, newest) else t.newest_span
        for name, t in config.thresholds.items()
    }
    return {name: of_metric for name, of_metric in bounds.items() if of_metric is not None}


def _knows_chance(name: str, rows: MeasuredRows) -> bool:
    return not math.isnan(rows.difference_errors.get(name, math.nan))


def _not_compared_on_newest(newest: MeasuredRows, config: EvaluationConfig) -> Iterator[str]:
    names = [name for name, t in config.thresholds.items() if t.inherits_comparison and not _knows_chance(name, newest)]
    if names and newest.baseline:
        of = f"the newest span, whose {newest.examples:,} examples do not show chance"
        yield f"{', '.join(names)}: not compared on {of}"


def _reasons(verdict: Verdict, config: EvaluationConfig) -> list[str]:
    if not verdict.examples:
        return ["the eval split has no labelled example"]
    if any(t.newest_span is not None for t in config.thresholds.values()) and not verdict.newest_examples:
        return ["the newest span has no row in the eval split"]
    reasons = [
        reason(m, config.thresholds[m.metric]) if m.metric in config.thresholds else _not_a_number(m)
        for m in verdict.metrics
        if not m.passed
    ]
    reasons += [_reason_of_newest(m, config.thresholds[m.metric]) for m in verdict.newest if not m.passed]
    if config.beyond_reference and verdict.doubt:
        reasons.append(f"{verdict.doubt} (evaluation.beyond_reference)")
    return [*reasons, *_reasons_of_slices(verdict, config), *_unjudged(verdict, config)]


def _reason_of_newest(measured: Measured, threshold: Threshold) -> str:
    own = threshold.newest_span
    if not threshold.inherits_comparison or (own is not None and not _is_inside(measured.value, measured.error, own)):
        return f"on the newest span {reason(measured, own or threshold, '.newest_span')}"
    return f"on the newest span {reason(measured, threshold.compared_on_newest)}"


def _together(measured: Iterable[MeasuredRows], *, newest: bool) -> MeasuredRows:
    return next((rows for rows in measured if not rows.keys and rows.newest == newest), MeasuredRows((), {}))


def _measured(rows: MeasuredRows, config: EvaluationConfig, thresholds: Mapping[str, Bounds]) -> tuple[Measured, ...]:
    return tuple(measure(name, rows, thresholds.get(name)) for name in _names(config) if name in rows.values)


def _names(config: EvaluationConfig) -> list[str]:
    return list(dict.fromkeys([*config.metrics, *config.thresholds]))


def _slice(rows: MeasuredRows, config: EvaluationConfig) -> Slice:
    values, baseline = (
        {n: of[n] for n in _names(config) if not math.isnan(of.get(n, math.nan))} for of in (rows.values, rows.baseline)
    )
    judged = tuple(
        measure(name, rows, bounds)
        for name, bounds in slice_bounds(config, newest=rows.newest).items()
        if can_be_judged(name, rows, bounds)
    )
    name = ", ".join(f"{column} {value}" for column, value in rows.keys)
    columns = tuple(column for column, _ in rows.keys)
    return Slice(name, rows.examples, values, baseline, rows.newest, judged, columns)


def slice_bounds(config: EvaluationConfig, *, newest: bool) -> dict[str, SliceBounds]:
    """Returns metric -> bounds on every slice, for the slices of all rows or of the newest span."""
    of_rows = {name: t.newest_span if newest else t for name, t in config.thresholds.items()}
    return {name: rows.slices for name, rows in of_rows.items() if rows is not None and rows.slices is not None}


def can_be_judged(name: str, rows: MeasuredRows, bounds: SliceBounds) -> bool:
    """Returns whether a slice has enough rows to judge a metric, and rows that the metric can be defined on.

    For example, AUC is undefined on rows of one class. A metric that without another reason is judged, and fails.
    """
    both = (rows.values.get(name, math.nan), rows.baseline.get(name, math.nan))
    defined = metric_of(name).needs is None or not all(map(math.isnan, both))
    return rows.examples >= bounds.min_examples and defined


def _notes(verdict: Verdict, config: EvaluationConfig) -> Iterator[str]:
    """Yields what was not judged, and a doubt that does not refuse the model."""
    if verdict.doubt and not config.beyond_reference:
        yield verdict.doubt
    for columns in verdict.unsliced:
        yield f"{_TOO_MANY.format(', '.join(columns))}, so none of its slices is measured"
    for newest in (False, True):
        of = " of the newest span" if newest else ""
        mine = [one for one in verdict.slices if one.newest == newest]
        bounded = slice_bounds(config, newest=newest)
        for name, bounds in bounded.items():
            few = [one.examples for one in mine if one.examples < bounds.min_examples]
            none = sum(name not in {m.metric for m in one.judged} for one in mine) - len(few)
            why = [f"{len(few)} have fewer than {bounds.min_examples:,} examples ({sum(few):,} in all)"] if few else []
            why += [f"{none} have no {metric_of(name).needs}"] if none else []
            if why:
                yield f"{name}: of {len(mine)} slices{of}, {' and '.join(why)}; these are not judged"
        rows = verdict.newest_examples if newest else verdict.examples
        for columns in config.slices if bounded else ():
            inside = sum(one.examples for one in mine if one.columns == tuple(sorted(columns)))
            if 0 < inside < rows:
                yield (
                    f"{rows - inside:,} of {rows:,} examples{of} are in no slice of {', '.join(columns)}, because a "
                    "value is missing; these are not judged"
                )
    not_compared = [m for m in verdict.metrics if m.not_compared]
    if _compares(config) and not not_compared and all(m.baseline is None for m in verdict.metrics):
        yield "not_worse_than: there is no last blessed model yet, so nothing was compared"
    for cause in dict.fromkeys(m.not_compared for m in not_compared):
        names = [m.metric for m in not_compared if m.not_compared == cause]
        yield f"{', '.join(names)}: not compared, because {cause}"


def _compares(config: EvaluationConfig) -> bool:
    of_rows = [bounds for t in config.thresholds.values() for bounds in (t, t.newest_span) if bounds is not None]
    every = [*of_rows, *(bounds.slices for bounds in of_rows if bounds.slices is not None)]
    return any(bounds.not_worse_than is not None for bounds in every)


def _unjudged(verdict: Verdict, config: EvaluationConfig) -> Iterator[str]:
    """Yields the bounds on slices that were judged on no slice of an entry of `evaluation.slices`."""
    for newest in (False, True):
        for name, bounds in slice_bounds(config, newest=newest).items():
            for columns in config.slices:
                entry = tuple(sorted(columns))
                mine = [one for one in verdict.slices if (one.newest, one.columns) == (newest, entry)]
                if any(m.metric == name for one in mine for m in one.judged):
                    continue
                of = f"{', '.join(columns)}{' of the newest span' if newest else ''}"
                path = f"evaluation.thresholds.{name}{'.newest_span' if newest else ''}.slices"
                why = f"none of {len(mine)} slices has {bounds.min_examples:,} examples (min_examples)"
                if metric_of(name).needs is not None:
                    why += f" and {metric_of(name).needs}"
                if columns in verdict.unsliced:
                    why = f"{_TOO_MANY.format('it')}. Slice by columns with fewer values"
                elif not mine:
                    why = "no example has a value there"
                yield f"{name} was judged on no slice of {of}, so {path} does not hold: {why}"


def _reasons_of_slices(verdict: Verdict, config: EvaluationConfig) -> list[str]:
    reasons = []
    for metric, newest, judged in verdict.judged_on_slices():
        bounds = slice_bounds(config, newest=newest)[metric]
        of = " of the newest span" if newest else ""
        failed = [(one, m) for one, m in judged if not m.passed]
        for one, m in failed[:_SHOWN]:
            why = reason(m, bounds, f"{'.newest_span' if newest else ''}.slices")
            reasons.append(f"on the slice {one.name}{of} ({one.examples:,} examples) {why}")
        if len(failed) > _SHOWN:
            reasons.append(f"and {metric} on {len(failed) - _SHOWN} more slices{of}; the report shows them")
    return reasons


def measure(name: str, rows: MeasuredRows, threshold: Bounds | None) -> Measured:
    """Compares a metric of the new model with its threshold and with the last blessed model."""
    value, baseline = rows.values[name], rows.baseline.get(name, math.nan) if rows.baseline else None
    error = rows.errors.get(name, math.nan)
    not_compared, uncounted = (of.get(name, "") for of in (rows.not_compared, rows.uncounted))
    if threshold is None:
        return Measured(name, value, baseline, "", True, error, not_compared, uncounted)
    inside = _is_inside(value, error, threshold)
    worse = _worse_than_blessed(name, value, baseline, threshold, rows.difference_errors.get(name, math.nan))
    passed = inside and not worse and not (not_compared and threshold.not_worse_than is not None)
    return Measured(name, value, baseline, _required(threshold), passed, error, not_compared, uncounted)


def _undefined_failed(measured: Measured) -> Measured:
    """Marks a metric of all rows as failed if they lack the rows that it needs.

    With or without bounds, a model is not blessed by a split that cannot show whether it is better than chance.
    """
    lacking = metric_of(measured.metric).needs is not None and math.isnan(measured.value) and not measured.uncounted
    return replace(measured, required=measured.required or "a value", passed=False) if lacking else measured


def _required(threshold: Bounds) -> str:
    parts = []
    sure = "" if threshold.beyond_chance is None else f" beyond chance ({threshold.beyond_chance:g})"
    if threshold.min is not None:
        parts.append(f"{'>' if sure else '>='} {threshold.min:g}{sure}")
    if threshold.max is not None:
        parts.append(f"{'<' if sure else '<='} {threshold.max:g}{sure}")
    if threshold.not_worse_than is not None:
        by = f" by over {threshold.tolerance:g}" if threshold.tolerance else ""
        parts.append(f"no worse than blessed{by}{_beyond_chance(threshold)}")
    return ", ".join(parts)


def _is_inside(value: float, error: float, threshold: Bounds) -> bool:
    return not (math.isnan(value) or _is_low(value, error, threshold) or _is_high(value, error, threshold))


def _is_low(value: float, error: float, threshold: Bounds) -> bool:
    if threshold.min is None:
        return False
    least = threshold.min + threshold.chance(error)
    return value < least or (threshold.beyond_chance is not None and value == least)


def _is_high(value: float, error: float, threshold: Bounds) -> bool:
    if threshold.max is None:
        return False
    most = threshold.max - threshold.chance(error)
    return value > most or (threshold.beyond_chance is not None and value == most)


def _worse_than_blessed(name: str, value: float, baseline: float | None, threshold: Bounds, error: float) -> bool:
    """Returns whether a metric is worse than the tolerance allows and, if a confidence is set, beyond chance.

    If the standard error of the difference is unknown, only the values are compared.
    """
    if threshold.not_worse_than is None or baseline is None:
        return False
    loss = baseline - value if metric_of(name).higher_is_better else value - baseline
    chance = 0.0 if threshold.confidence is None or math.isnan(error) else quantile(threshold.confidence) * error
    return not loss <= threshold.tolerance + chance


def reason(measured: Measured, threshold: Bounds, below: str = "") -> str:
    """Returns the reason why a metric fails its threshold, with the YAML path of the limit.

    Args:
        below: Path of the bounds, relative to the threshold of the metric.
    """
    name, value, baseline = measured.metric, measured.value, measured.baseline
    path = f"evaluation.thresholds.{name}{below}"
    if math.isnan(value):
        return _not_a_number(measured)
    shown = f"{name} is {metric_text(value)}"
    chance = ""
    if threshold.beyond_chance is not None:
        shown = f"{name} is {metric_text(value, measured.half_width)}"
        chance = f" beyond chance ({threshold.beyond_chance:g}, {path}.beyond_chance)"
    if math.isinf(threshold.chance(measured.error)):
        return f"{shown}, and chance cannot be estimated, because too few rows show it: not met{chance}"
    if threshold.min is not None and _is_low(value, measured.error, threshold):
        if chance and value >= threshold.min:
            return f"{shown}, not above the minimum {threshold.min:g}{chance}"
        return f"{shown}, below the minimum {threshold.min:g} ({path}.min)"
    if threshold.max is not None and _is_high(value, measured.error, threshold):
        if chance and value <= threshold.max:
            return f"{shown}, not below the maximum {threshold.max:g}{chance}"
        return f"{shown}, above the maximum {threshold.max:g} ({path}.max)"
    if measured.not_compared:
        return (
            f"{shown}, not compared, because {measured.not_compared} ({path}.not_worse_than; leave it out of the run "
            "that changes this)"
        )
    if baseline is None or math.isnan(baseline):
        return f"{shown}, the last blessed model has no value on the same rows to compare with ({path}.not_worse_than)"
    limit = f"by over {threshold.tolerance:g} ({path}.tolerance)" if threshold.tolerance else f"({path}.not_worse_than)"
    limit += _beyond_chance(threshold)
    return f"{shown}, the last blessed model has {metric_text(baseline)} on the same rows: worse {limit}"


def _beyond_chance(threshold: Bounds) -> str:
    return "" if threshold.confidence is None else f" beyond chance ({threshold.confidence:.4g})"


def _not_a_number(measured: Measured) -> str:
    needs = metric_of(measured.metric).needs
    why = f"there are no {needs}, or the model diverged" if needs else "the model diverged"
    if measured.metric == "precision":
        why = "the model predicts no row as positive, or diverged"
    if class_of(measured.metric):
        why = f"the model has no such class or never predicts it, {why}"
    return f"{measured.metric} is not a number: {measured.uncounted or why}"
