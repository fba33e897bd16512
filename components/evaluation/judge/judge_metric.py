"""Compares one metric of some rows with its bounds and with the last blessed model, and says why it fails."""

import math
from dataclasses import dataclass, replace

from fullpass.base.metric_text import metric_text
from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.config import COMPARED_WITH, Bounds, EvaluationConfig, SliceBounds
from fullpass.components.evaluation.judge.verdict import Measured
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.evaluation.measure.metrics import class_of, metric_of


@dataclass(frozen=True)
class PlacedBounds:
    """Bounds, and where they stand below the threshold of the metric in the YAML.

    Attributes:
        path: Such as `.newest_span`.
        compared: The same for the comparison with the last blessed model, which the newest span may inherit.
        root: Where the thresholds stand.
    """

    bounds: Bounds
    path: str = ""
    compared: str = ""
    root: str = "evaluation.thresholds"


def bounds_of(config: EvaluationConfig, rows: MeasuredRows) -> dict[str, PlacedBounds]:
    """Returns metric -> bounds of all rows or of the newest span, which inherits a comparison where chance is known."""
    if not rows.newest:
        return {name: PlacedBounds(threshold) for name, threshold in config.thresholds.items()}
    own, found = ".newest_span", {}
    for name, threshold in config.thresholds.items():
        if threshold.inherits_comparison and knows_chance(name, rows):
            found[name] = PlacedBounds(threshold.compared_on_newest, own)
        elif threshold.newest_span is not None:
            found[name] = PlacedBounds(threshold.newest_span, own, own)
    return found


def knows_chance(name: str, rows: MeasuredRows) -> bool:
    """Returns whether rows show how much the difference of two models varies by chance."""
    return not math.isnan(rows.difference_errors.get(name, math.nan))


def slice_bounds(config: EvaluationConfig, *, newest: bool) -> dict[str, SliceBounds]:
    """Returns metric -> bounds on every slice, for the slices of all rows or of the newest span."""
    of_rows = {name: t.newest_span if newest else t for name, t in config.thresholds.items()}
    return {name: rows.slices for name, rows in of_rows.items() if rows is not None and rows.slices is not None}


def judge_rows(config: EvaluationConfig, rows: MeasuredRows) -> tuple[Measured, ...]:
    """Returns the metrics of all rows or of the newest span, compared with their bounds.

    With or without bounds, a metric of all rows fails that lacks the rows it needs: a model is not blessed by a split
    that cannot show whether it is better than chance.
    """
    bounds = bounds_of(config, rows)
    found = tuple(judge_metric(name, rows, bounds.get(name)) for name in config.measured if name in rows.values)
    return found if rows.newest else tuple(map(_undefined_fails, found))


def _undefined_fails(m: Measured) -> Measured:
    lacking = metric_of(m.metric).needs is not None and math.isnan(m.value) and not m.uncounted
    return replace(m, required=m.required or "a value", missed=_not_a_number(m)) if lacking else m


def judge_slice(config: EvaluationConfig, rows: MeasuredRows) -> tuple[Measured, ...]:
    """Returns the metrics of a slice that have bounds, if it has enough rows, and those that the metric needs.

    For example, AUC is undefined on rows of one class. A metric that is undefined without such a reason fails.
    """
    path = f"{'.newest_span' if rows.newest else ''}.slices"
    return tuple(
        judge_metric(name, rows, PlacedBounds(bounds, path, path))
        for name, bounds in slice_bounds(config, newest=rows.newest).items()
        if rows.examples >= bounds.min_examples and _is_defined(name, rows)
    )


def _is_defined(name: str, rows: MeasuredRows) -> bool:
    both = (rows.values.get(name, math.nan), rows.baseline.get(name, math.nan))
    return metric_of(name).needs is None or not all(map(math.isnan, both))


def judge_metric(name: str, rows: MeasuredRows, placed: PlacedBounds | None) -> Measured:
    """Compares a metric of the new model with its bounds and with the last blessed model."""
    baseline = rows.baseline.get(name, math.nan) if rows.baseline else None
    error = rows.errors.get(name, math.nan)
    found = Measured(
        name,
        rows.values[name],
        baseline,
        error=error,
        difference_error=rows.difference_errors.get(name, math.nan),
        not_compared=rows.not_compared.get(name, ""),
        uncounted=rows.uncounted.get(name, ""),
    )
    if placed is None:
        return found
    missed = _missed_bound(found, placed) or _missed_comparison(found, placed)
    return replace(found, required=_required(placed.bounds), missed=missed)


def _required(bounds: Bounds) -> str:
    parts = []
    sure = "" if bounds.beyond_chance is None else f" beyond chance ({bounds.beyond_chance:g})"
    if bounds.min is not None:
        parts.append(f"{'>' if sure else '>='} {bounds.min:g}{sure}")
    if bounds.max is not None:
        parts.append(f"{'<' if sure else '<='} {bounds.max:g}{sure}")
    if bounds.not_worse_than is not None:
        by = f" by over {bounds.tolerance:g}" if bounds.tolerance else ""
        parts.append(f"no worse than {bounds.not_worse_than}{by}{_beyond_chance(bounds)}")
    return ", ".join(parts)


def _missed_bound(m: Measured, placed: PlacedBounds) -> str:
    """Returns why a metric is not between its bounds; "" if it is."""
    if math.isnan(m.value):
        return _not_a_number(m)
    bounds, path, chance = placed.bounds, f"{placed.root}.{m.metric}{placed.path}", ""
    if bounds.beyond_chance is not None:
        chance = f" beyond chance ({bounds.beyond_chance:g}, {path}.beyond_chance)"
    margin, shown = bounds.chance(m.error), _shown(m, bounds)
    if math.isinf(margin):
        return f"{shown}, and chance cannot be estimated, because too few rows show it: not met{chance}"
    for limit, key, sign, off in ((bounds.min, "minimum", 1, "below"), (bounds.max, "maximum", -1, "above")):
        if limit is None:
            continue
        if sign * m.value < sign * limit:
            return f"{shown}, {off} the {key} {limit:g} ({path}.{key[:3]})"
        if chance and sign * m.value <= sign * limit + margin:
            return f"{shown}, not {'above' if sign > 0 else 'below'} the {key} {limit:g}{chance}"
    return ""


def _missed_comparison(m: Measured, placed: PlacedBounds) -> str:
    """Returns why a metric is worse than that of the last blessed model; "" if it is not, or is not to be compared.

    It is worse if the loss exceeds the tolerance and, if a confidence is set, chance. If the standard error of the
    difference is unknown, only the values are compared.
    """
    bounds, baseline = placed.bounds, m.baseline
    if bounds.not_worse_than is None:
        return ""
    shown, path = _shown(m, bounds), f"{placed.root}.{m.metric}{placed.compared}"
    other = COMPARED_WITH[bounds.not_worse_than]
    if m.not_compared:
        leave = "leave it out of the run that changes this"
        return f"{shown}, not compared, because {m.not_compared} ({path}.not_worse_than; {leave})"
    if baseline is None:  # a first run
        return ""
    if math.isnan(baseline):
        return f"{shown}, {other[0]} has no value {other[1]} to compare with ({path}.not_worse_than)"
    loss = baseline - m.value if metric_of(m.metric).higher_is_better else m.value - baseline
    error = m.difference_error
    chance = 0.0 if bounds.confidence is None or math.isnan(error) else quantile(bounds.confidence) * error
    if loss <= bounds.tolerance + chance:
        return ""
    limit = f"by over {bounds.tolerance:g} ({path}.tolerance)" if bounds.tolerance else f"({path}.not_worse_than)"
    worse = f"worse {limit}{_beyond_chance(bounds)}"
    return f"{shown}, {other[0]} has {metric_text(baseline)} {other[1]}: {worse}"


def _shown(m: Measured, bounds: Bounds) -> str:
    return f"{m.metric} is {metric_text(m.value, None if bounds.beyond_chance is None else m.half_width)}"


def _beyond_chance(bounds: Bounds) -> str:
    return "" if bounds.confidence is None else f" beyond chance ({bounds.confidence:.4g})"


def _not_a_number(m: Measured) -> str:
    needs = metric_of(m.metric).needs
    why = f"there are no {needs}, or the model diverged" if needs else "the model diverged"
    if m.metric == "precision":
        why = "the model predicts no row as positive, or diverged"
    if class_of(m.metric):
        why = f"the model has no such class or never predicts it, {why}"
    return f"{m.metric} is not a number: {m.uncounted or why}"
