"""Computes the metrics of one model from what is summed of its rows, and what their errors rest on."""

import numpy as np

from fullpass.components.evaluation.measure.class_counts import class_metrics
from fullpass.components.evaluation.measure.intervals import (
    FEWEST_ROWS,
    Evidence,
    ModelMetrics,
    area_rows,
    effective_rows,
)
from fullpass.components.evaluation.measure.metric_plan import PAIRS, POSITIVE, MetricPlan
from fullpass.components.evaluation.measure.metric_terms import count_of
from fullpass.components.evaluation.measure.moments import MOMENTS, all_and_without_each
from fullpass.components.evaluation.measure.one_vs_rest import class_areas
from fullpass.components.evaluation.measure.sampling_error import areas_without, sums_without_each
from fullpass.components.evaluation.measure.score_buckets import CurveAreas
from fullpass.components.evaluation.measure.slice_states import ModelState


def measure_model(plan: MetricPlan, state: ModelState) -> ModelMetrics:
    """Returns the metrics of each slice."""
    slices, histograms, grouped = state.sums.shape[1], state.histograms.whole, state.grouped.whole
    found = _of_sums(plan, state)
    for name, area in plan.areas.items():
        found.values[name] = area.value(CurveAreas(histograms, slices))
        found.without[name] = areas_without(grouped, slices, area.value)
    of_classes = class_metrics(plan.of_classes, state.confusion.whole, slices, state.classes)
    one_vs_rest = {name: plan.of_classes[name] for name in plan.one_vs_rest}
    areas = class_areas(one_vs_rest, histograms, grouped, slices, state.classes)
    return found.with_more(of_classes).with_more(areas)


def _of_sums(plan: MetricPlan, state: ModelState) -> ModelMetrics:
    """Returns the metrics that are functions of sums, and the evidence of areas, whose rows are sums too."""
    whole = dict(zip(plan.terms, state.sums.sum(axis=-1), strict=True))
    less = dict(zip(plan.terms, sums_without_each(state.sums, axis=-1), strict=True))
    if plan.moments:
        every, without_each = all_and_without_each(state.moments)
        whole = {**dict(zip(MOMENTS, every, strict=True)), **whole}
        less = {**dict(zip(MOMENTS, without_each, strict=True)), **less}
    return ModelMetrics(
        {name: formula.value(whole) for name, formula in plan.formulas.items()},
        {name: formula.value(less) for name, formula in plan.formulas.items()},
        _evidence(plan, state),
    )


def _evidence(plan: MetricPlan, state: ModelState) -> dict[str, Evidence]:
    sums = dict(zip(plan.terms, state.sums, strict=True))
    rows = {term: effective_rows(sums[term], sums[count_of(term)]) for term in plan.trials}
    slices, tails = state.sums.shape[1], len(plan.tails)
    counts = np.repeat(state.sums[0].sum(axis=-1), tails)
    long = state.tails.whole.too_long(counts).reshape(slices, tails)
    evidence = {}
    for name, formula in plan.formulas.items():
        enough, of_few = np.ones(slices, bool), None
        if formula.relative:
            of_few = long[:, plan.tails.index(formula.tail)]
        elif formula.tail:
            enough &= ~long[:, plan.tails.index(formula.tail)]
        if formula.rests_on:
            enough &= rows[formula.rests_on] >= FEWEST_ROWS
        evidence[name] = Evidence(rows.get(formula.trials), enough=enough, of_few=of_few)
    if plan.areas:
        positive = rows[POSITIVE]
        negative_sums = (
            of_pairs - of_positive
            for of_pairs, of_positive in (
                (sums[PAIRS], sums[POSITIVE]),
                (sums[count_of(PAIRS)], sums[count_of(POSITIVE)]),
            )
        )
        pairs = np.where(positive >= FEWEST_ROWS, area_rows(positive, effective_rows(*negative_sums)), 0.0)
        evidence |= {name: Evidence(pairs if a.of_pairs else positive, area=True) for name, a in plan.areas.items()}
    return evidence
