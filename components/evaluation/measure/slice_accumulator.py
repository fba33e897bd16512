"""The accumulator of an evaluation: sums and histograms of each slice, which merge over files.

It has the methods of the analyzers' accumulators: `start`, `add` and `merge`. States pass between the workers of one
Beam pipeline, and are not cached.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fullpass.components.evaluation.measure.batch_contributions import BatchContributions
from fullpass.components.evaluation.measure.class_results import ClassResults, class_results
from fullpass.components.evaluation.measure.forecast_baselines import ForecastBaselines
from fullpass.components.evaluation.measure.intervals import difference_errors, errors_of
from fullpass.components.evaluation.measure.metric_plan import MetricPlan, plan_of
from fullpass.components.evaluation.measure.metrics import OF_QUANTILES
from fullpass.components.evaluation.measure.model_metrics import measure_model
from fullpass.components.evaluation.measure.one_vs_rest import MOST_CURVES
from fullpass.components.evaluation.measure.sampling_error import group_of
from fullpass.components.evaluation.measure.score_curves import Curves, curves_of
from fullpass.components.evaluation.measure.scored_rows import ScoredRows
from fullpass.components.evaluation.measure.slice_states import SliceState
from fullpass.components.evaluation.measure.slices import ALL_ROWS, members


@dataclass(frozen=True)
class Measurements:
    """Metrics by name, float64 [slices], NaN where undefined.

    Attributes:
        differences: Standard errors of the difference between the new and the other model; empty for a single model.
    """

    values: list[dict[str, np.ndarray]]
    errors: list[dict[str, np.ndarray]]
    differences: dict[str, np.ndarray]


@dataclass(frozen=True)
class SliceAccumulator:
    """Accumulates metrics on all rows, on the newest span, and on each slice of both.

    Attributes:
        slices: Columns of each entry of `evaluation.slices`.
        newest: Number of the newest span, as in row ids; None if the source has no spans.
        baselines: Those of a forecast.
    """

    metrics: tuple[str, ...]
    slices: tuple[tuple[str, ...], ...]
    newest: int | None
    models: int
    baselines: ForecastBaselines | None = None

    @property
    def plan(self) -> MetricPlan:
        """What the metrics need."""
        return plan_of(self.metrics)

    def start(self) -> SliceState:
        """Returns the state before the first batch. The slice of all rows exists already, without rows."""
        baselines = None if self.baselines is None else self.baselines.start()
        return SliceState(self.plan, self.models, newest=self.newest is not None, baselines=baselines)

    def add(self, state: SliceState, batch: ScoredRows) -> SliceState:
        """Returns the state after a batch."""
        added = [BatchContributions(scored, self.plan) for scored in batch.models]
        for model, scored in zip(state.models, batch.models, strict=True):
            model.classes, model.levels = model.classes or scored.classes, model.levels or scored.levels
        if self.baselines is not None:
            state.baselines = state.baselines + self.baselines.sums(batch)
        groups = group_of(batch.row_ids)
        for found in members(batch, self.slices, self.newest):
            state.add(added, found, groups)
        return state

    def merge(self, states: Iterable[SliceState]) -> SliceState:
        """Merges the states of disjoint parts of the rows."""
        whole = self.start()
        for state in states:
            whole.join(state)
        return whole

    def measure(self, state: SliceState) -> Measurements:
        """Returns the metrics of each slice with their standard errors."""
        found = [measure_model(self.plan, model) for model in state.models]
        present = state.models[0].sums[0] > 0
        errors = [
            {name: errors_of(of.evidence[name], of.values[name], of.without[name], present) for name in self.metrics}
            for of in found
        ]
        differences = {
            name: difference_errors(
                [of.evidence[name] for of in found],
                [of.values[name] for of in found],
                [of[name] for of in errors],
                found[0].without[name] - found[1].without[name],
                present,
            )
            for name in (self.metrics if self.models > 1 else ())
        }
        return Measurements([of.values for of in found], errors, differences)

    def not_compared(self, state: SliceState) -> dict[str, str]:
        """Returns the metrics that measure different things in the two models, each with the reason."""
        levels = {model.levels for model in state.models if model.levels}
        names = [name for name in self.metrics if name in OF_QUANTILES] if len(levels) > 1 else []
        return dict.fromkeys(names, "the quantiles of the last blessed model have other levels")

    def uncounted(self, state: SliceState) -> dict[str, str]:
        """Returns the metrics that are computed on no rows of the new model, each with the reason."""
        names = self.plan.one_vs_rest if len(state.models[0].classes) > MOST_CURVES else []
        return dict.fromkeys(names, f"the areas of more than {MOST_CURVES} classes are not computed")

    def curves(self, state: SliceState) -> list[Curves | None]:
        """Returns the curves of each model over all rows; empty if no metric needs histograms of all classes."""
        index = state.indices[ALL_ROWS]
        models = state.models if self.plan.curves == 1 else []
        return [curves_of(model.histograms.whole, model.grouped.whole, index) for model in models]

    def classes(self, state: SliceState) -> list[ClassResults | None]:
        """Returns the classes of each model over all rows; empty if rows are not counted by class.

        Classes have curves if a metric needs them.
        """
        index = state.indices[ALL_ROWS]
        return [
            class_results(
                model.confusion.whole,
                model.classes,
                index,
                (model.histograms.whole, model.grouped.whole) if self.plan.one_vs_rest else None,
            )
            for model in (state.models if self.plan.classes else [])
        ]
