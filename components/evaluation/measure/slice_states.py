"""The accumulator of an evaluation: sums and histograms of each slice, which merge over files.

It has the methods of the analyzers' accumulators: `start`, `add` and `merge`. States pass between the workers of one
Beam pipeline, and are not cached.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.batch_contributions import BatchContributions
from fullpass.components.evaluation.measure.class_counts import ConfusionCells, class_metrics, needs_class_counts
from fullpass.components.evaluation.measure.class_results import ClassResults, class_results
from fullpass.components.evaluation.measure.forecast_baselines import ForecastBaselines
from fullpass.components.evaluation.measure.intervals import (
    FEWEST_ROWS,
    Evidence,
    area_rows,
    difference_errors,
    effective_rows,
    errors_of,
)
from fullpass.components.evaluation.measure.long_tails import TailCells
from fullpass.components.evaluation.measure.metric_terms import (
    COUNT,
    MOMENTS,
    TERMS,
    Formula,
    Sums,
    all_and_without_each,
    count_of,
    formula_of,
    merged,
)
from fullpass.components.evaluation.measure.one_vs_rest import MOST_CURVES, class_areas, is_one_vs_rest
from fullpass.components.evaluation.measure.sampling_error import (
    areas_without,
    group_of,
    sums_without_each,
)
from fullpass.components.evaluation.measure.score_buckets import CurveAreas, SparseHistograms
from fullpass.components.evaluation.measure.score_curves import Curves, curves_of
from fullpass.components.evaluation.measure.scored_rows import Codes, ScoredRows, SliceValue
from fullpass.components.evaluation.measure.sparse_sums import SparseSums
from fullpass.components.evaluation.metrics import OF_QUANTILES, level_of
from fullpass.preprocessing.values.row_sample import RowSample


class SliceKey(NamedTuple):
    """The key of a set of rows. entry: index in `evaluation.slices`; -1 for all rows together."""

    entry: int
    newest: bool
    values: tuple[SliceValue, ...] = ()


class Members(NamedTuple):
    """Disjoint slices of a batch. rows: int64 [n]. indices: index in `keys` of each row's slice, int64 [n]."""

    keys: list[SliceKey]
    rows: np.ndarray
    indices: np.ndarray


def members(batch: ScoredRows, slices: Sequence[Sequence[str]], newest: int | None) -> Iterator[Members]:
    """Yields the slices of a batch. A row with a missing value in an entry's columns is in none of its slices.

    Args:
        slices: Columns of each entry.
        newest: Number of the newest span, as in row ids; None if the source has no spans.
    """
    every = np.arange(len(batch.row_ids))
    yield Members([SliceKey(-1, newest=False)], every, np.zeros_like(every))
    recent = every[batch.spans == newest] if newest is not None else every[:0]
    if newest is not None:
        yield Members([SliceKey(-1, newest=True)], recent, np.zeros_like(recent))
    for entry, columns in enumerate(slices):
        codes = [batch.columns[column] for column in columns]
        yield _members_of(codes, every, entry, newest=False)
        if len(recent):
            yield _members_of(codes, recent, entry, newest=True)


def _members_of(columns: Sequence[Codes], rows: np.ndarray, entry: int, *, newest: bool) -> Members:
    rows = rows[np.all([column.codes[rows] >= 0 for column in columns], axis=0)]
    combined = np.zeros(len(rows), np.int64)
    for column in columns:
        # The distinct combinations so far are renumbered to keep the product below rows times values.
        combined = np.unique(combined, return_inverse=True)[1] * len(column.values) + column.codes[rows]
    _, firsts, indices = np.unique(combined, return_index=True, return_inverse=True)
    values = [[column.values[code] for code in column.codes[rows[firsts]]] for column in columns]
    keys = [SliceKey(entry, newest, combination) for combination in zip(*values, strict=True)]
    return Members(keys, rows, indices)


AREAS = {"auc": "roc", "auc_pr": "precision_recall"}
"""Metrics that need histograms -> the property of `CurveAreas` that computes them."""
_OF_AREAS = ("label", "pairs")
"""Terms of the positive rows and of all rows of an area."""
MOST_SLICES = 10_000
"""Largest number of slices of an entry of `evaluation.slices`. An entry with more gets no slices, to limit memory."""
_PENDING_CELLS = 1 << 21
_MOST_CELLS = {"histograms": (1, 1 << 16), "grouped": (GROUPS, 1 << 13)}
"""Kind of histograms -> the number of adjacent sets that share their cells, and how many cells these may have."""
_Sums = TypeVar("_Sums", bound=SparseSums)


@dataclass
class SliceState:
    """The accumulator state of the rows added so far.

    Attributes:
        indices: Index of each slice in `sums` and in the histograms.
        sums: Sums of each model and term, float64 [models, terms, slices, GROUPS].
        moments: Moments of each model, float64 [models, MOMENTS, slices, GROUPS]; [0, ...] if no metric needs them.
        cells: For each model, parts to be summed: `histograms`, where a set is slice * curves + curve; `grouped`,
            histograms per group, where it is (slice * curves + curve) * GROUPS + group; and
            `confusion`, matrices, where it is slice * GROUPS + group.
        classes: Names of the classes of each model; empty before the first row.
        levels: Levels of the quantiles of each model; empty before the first row, or if it predicts none.
        baselines: Sums of the baselines of a forecast; None if there are none.
        overflowed: Entries of `evaluation.slices` with more than MOST_SLICES slices.
    """

    indices: dict[SliceKey, int]
    sums: np.ndarray
    moments: np.ndarray
    cells: dict[str, list[list[Any]]]
    classes: list[tuple[str, ...]]
    levels: list[tuple[float, ...]]
    counts: dict[int, int] = field(default_factory=dict)
    overflowed: set[int] = field(default_factory=set)
    sample: RowSample = field(default_factory=RowSample)
    baselines: np.ndarray | None = None

    def histograms(self, model: int) -> tuple[SparseHistograms, SparseHistograms]:
        """Returns the histograms of a model, and those per group."""
        whole, grouped = (
            _bounded(SparseHistograms.joined(self.cells[kind][model]), kind) for kind in ("histograms", "grouped")
        )
        return whole, grouped

    def confusion(self, model: int) -> ConfusionCells:
        """Returns the confusion matrices of a model."""
        return ConfusionCells.joined(self.cells["confusion"][model])


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
    def terms(self) -> tuple[str, ...]:
        """The terms whose sums the metrics need; the first is the number of rows."""
        known = [term for term in self._needed if term in TERMS or level_of(term) is not None]
        counted = [count_of(term) for term in self._trials]
        return tuple(dict.fromkeys((COUNT, *known, *self._trials, *counted)))

    @property
    def _needed(self) -> list[str]:
        return [term for formula in self._formulas.values() for term in formula.terms]

    @property
    def _trials(self) -> list[str]:
        """The terms of the rows that metrics are shares of."""
        of_formulas = [
            term for formula in self._formulas.values() for term in (formula.trials, formula.rests_on) if term
        ]
        return [*of_formulas, *(_OF_AREAS if any(name in AREAS for name in self.metrics) else ())]

    @property
    def tails(self) -> tuple[str, ...]:
        """The terms whose large values may decide a metric."""
        return tuple(dict.fromkeys(formula.tail for formula in self._formulas.values() if formula.tail))

    @property
    def _formulas(self) -> dict[str, Formula]:
        return {name: formula for name in self.metrics if (formula := formula_of(name))}

    @property
    def _has_moments(self) -> bool:
        return any(term in MOMENTS and term not in TERMS for term in self._needed)

    @property
    def _has_areas(self) -> bool:
        return self._one_vs_rest or not AREAS.keys().isdisjoint(self.metrics)

    @property
    def _one_vs_rest(self) -> bool:
        return any(map(is_one_vs_rest, self.metrics))

    @property
    def curves_of_slice(self) -> int:
        """The number of curves that a slice may have: one, or one per class."""
        return MOST_CURVES if self._one_vs_rest else 1

    @property
    def sets_of_slice(self) -> tuple[int, int]:
        """The number of curves and of tails that a slice may have."""
        return self.curves_of_slice, len(self.tails)

    @property
    def has_classes(self) -> bool:
        """Whether rows are counted by class and predicted class."""
        return self._has_areas or any(map(needs_class_counts, self.metrics))

    def start(self) -> SliceState:
        """Returns the state before the first batch. The slice of all rows exists already, without rows."""
        together = [SliceKey(-1, newest=False)] + ([SliceKey(-1, newest=True)] if self.newest is not None else [])
        sums = np.zeros((self.models, len(self.terms), len(together), GROUPS))
        moments = np.zeros((self.models * self._has_moments, len(MOMENTS), len(together), GROUPS))
        indices = {key: index for index, key in enumerate(together)}
        cells: dict[str, list[list[Any]]] = {
            kind: [[] for _ in range(self.models)] for kind in ("histograms", "grouped", "confusion", "tails")
        }
        baselines = None if self.baselines is None else self.baselines.start()
        return SliceState(indices, sums, moments, cells, [()] * self.models, [()] * self.models, baselines=baselines)

    def add(self, state: SliceState, batch: ScoredRows) -> SliceState:
        """Returns the state after a batch."""
        added = [
            BatchContributions(
                scored, self.terms, self.curves_of_slice if self._has_areas else 0, classes=self.has_classes
            )
            for scored in batch.models
        ]
        state.classes = [known or scored.classes for known, scored in zip(state.classes, batch.models, strict=True)]
        state.levels = [known or scored.levels for known, scored in zip(state.levels, batch.models, strict=True)]
        groups = group_of(batch.row_ids)
        if self.baselines is not None:
            state.baselines = state.baselines + self.baselines.sums(batch)
        for found in members(batch, self.slices, self.newest):
            indices = _indexed(state, found.keys, self.sets_of_slice)
            if indices is None:
                continue
            sets = indices[found.indices]
            sets_of_groups = sets * GROUPS + groups[found.rows]
            for model, rows in enumerate(added):
                state.sums[model] += rows.sums(found.rows, sets_of_groups, state.sums.shape[2])
                if self._has_moments:
                    of_batch = rows.moments(found.rows, sets_of_groups, state.sums.shape[2])
                    state.moments[model] = merged(state.moments[model], of_batch)
                if self._has_areas:
                    state.cells["histograms"][model].append(rows.histogram(found.rows, sets))
                    state.cells["grouped"][model].append(rows.histogram(found.rows, sets, groups[found.rows]))
                if self.tails:
                    state.cells["tails"][model].append(rows.tails(found.rows, sets, self.tails))
                if self.has_classes:
                    state.cells["confusion"][model].append(rows.confusion(found.rows, sets_of_groups))
        for kind, parts in ((kind, parts) for kind, of_models in state.cells.items() for parts in of_models):
            _join_if_large(parts, kind)
        return state

    def merge(self, states: Iterable[SliceState]) -> SliceState:
        """Merges the states of disjoint parts of the rows."""
        whole = self.start()
        for state in states:
            if whole.baselines is not None:
                whole.baselines = whole.baselines + state.baselines
            whole.sample = RowSample.merged([whole.sample, state.sample])
            whole.classes = [known or names for known, names in zip(whole.classes, state.classes, strict=True)]
            whole.levels = [known or levels for known, levels in zip(whole.levels, state.levels, strict=True)]
            for entry in state.overflowed:
                _drop_entry(whole, entry, self.sets_of_slice)
            by_entry: dict[int, list[SliceKey]] = {}
            for key in state.indices:
                by_entry.setdefault(key.entry, []).append(key)
            for keys in by_entry.values():
                indices = _indexed(whole, keys, self.sets_of_slice)
                if indices is not None:
                    self._add_slices(whole, indices, state, np.array([state.indices[key] for key in keys]))
        return whole

    def _add_slices(self, whole: SliceState, indices: np.ndarray, state: SliceState, theirs: np.ndarray) -> None:
        whole.sums[:, :, indices] += state.sums[:, :, theirs]
        for mine, other in zip(whole.moments, state.moments, strict=True):
            mine[:, indices] = merged(mine[:, indices], other[:, theirs])
        new_indices = np.full(state.sums.shape[2], -1)
        new_indices[theirs] = indices
        for kind, moves in _moves(new_indices, *self.sets_of_slice).items():
            for mine, other in zip(whole.cells[kind], state.cells[kind], strict=True):
                _join_moved(mine, other, moves, kind)

    def measure(self, state: SliceState) -> "Measurements":
        """Returns the metrics of each slice with their standard errors."""
        found = [self._of_model(state, model) for model in range(self.models)]
        present = state.sums[0, 0] > 0
        errors = [
            {name: errors_of(evidence[name], values[name], without[name], present) for name in self.metrics}
            for values, without, evidence in found
        ]
        differences = {
            name: difference_errors(
                [evidence[name] for _, _, evidence in found],
                [values[name] for values, _, _ in found],
                [of[name] for of in errors],
                found[0][1][name] - found[1][1][name],
                present,
            )
            for name in (self.metrics if self.models > 1 else ())
        }
        return Measurements([values for values, _, _ in found], errors, differences)

    def _of_model(
        self, state: SliceState, model: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Evidence]]:
        """Returns a model's metrics, float64 [slices], those without each group, [slices, GROUPS], and evidence."""
        sums = state.sums[model]
        slices = sums.shape[1]
        whole: Sums = dict(zip(self.terms, sums.sum(axis=-1), strict=True))
        less: Sums = dict(zip(self.terms, sums_without_each(sums, axis=-1), strict=True))
        if self._has_moments:
            every, without_each = all_and_without_each(state.moments[model])
            whole, less = (
                {**dict(zip(MOMENTS, of, strict=True)), **sums} for of, sums in ((every, whole), (without_each, less))
            )
        values = {name: formula.value(whole) for name, formula in self._formulas.items()}
        without = {name: formula.value(less) for name, formula in self._formulas.items()}
        evidence = self._evidence(state, model)
        histograms, grouped = state.histograms(model)
        for name in (name for name in self.metrics if name in AREAS):
            values[name] = attrgetter(AREAS[name])(CurveAreas(histograms, slices))
            without[name] = areas_without(grouped, slices, attrgetter(AREAS[name]))
        counted = [name for name in self.metrics if needs_class_counts(name)]
        areas = [name for name in self.metrics if is_one_vs_rest(name)]
        classes = state.classes[model]
        for of_all, found in (
            ((values, without, evidence), class_metrics(counted, state.confusion(model), slices, classes, areas)),
            ((values, without), class_areas(areas, histograms, grouped, slices, classes)),
        ):
            for known, more in zip(of_all, found, strict=True):
                known |= more  # type: ignore[operator]
        return values, without, evidence

    def _evidence(self, state: SliceState, model: int) -> dict[str, Evidence]:
        """Returns the evidence of the metrics that are functions of sums or areas of all classes."""
        sums = dict(zip(self.terms, state.sums[model], strict=True))
        rows = {term: effective_rows(sums[term], sums[count_of(term)]) for term in self._trials}
        slices, tails = state.sums.shape[2], len(self.tails)
        counts = np.repeat(state.sums[model, 0].sum(axis=-1), tails)
        long = TailCells.joined(state.cells["tails"][model]).too_long(counts).reshape(slices, tails)
        evidence = {}
        for name, formula in self._formulas.items():
            enough = np.ones(slices, bool)
            if formula.tail:
                enough &= ~long[:, self.tails.index(formula.tail)]
            if formula.rests_on:
                enough &= rows[formula.rests_on] >= FEWEST_ROWS
            evidence[name] = Evidence(rows.get(formula.trials), enough=enough)
        if not AREAS.keys().isdisjoint(self.metrics):
            positive, every = (sums[term] for term in _OF_AREAS)
            negative = effective_rows(every - positive, sums[count_of("pairs")] - sums[count_of("label")])
            of_roc = np.where(rows["label"] >= FEWEST_ROWS, area_rows(rows["label"], negative), 0.0)
            of_area = {"auc": of_roc, "auc_pr": rows["label"]}
            evidence |= {name: Evidence(of_area[name], area=True) for name in AREAS if name in self.metrics}
        return evidence

    def not_compared(self, state: SliceState) -> dict[str, str]:
        """Returns the metrics that measure different things in the two models, each with the reason."""
        levels = {known for known in state.levels if known}
        names = [name for name in self.metrics if name in OF_QUANTILES] if len(levels) > 1 else []
        return dict.fromkeys(names, "the quantiles of the last blessed model have other levels")

    def uncounted(self, state: SliceState) -> dict[str, str]:
        """Returns the metrics that are computed on no rows of the new model, each with the reason."""
        too_many = len(state.classes[0]) > MOST_CURVES
        names = [name for name in self.metrics if is_one_vs_rest(name)] if too_many else []
        return dict.fromkeys(names, f"the areas of more than {MOST_CURVES} classes are not computed")

    def curves(self, state: SliceState) -> list[Curves | None]:
        """Returns the curves of each model over all rows; empty if no metric needs histograms of all classes."""
        if not self._has_areas or self._one_vs_rest:
            return []
        index = state.indices[SliceKey(-1, newest=False)]
        return [curves_of(*state.histograms(model), index) for model in range(self.models)]

    def classes(self, state: SliceState) -> list[ClassResults | None]:
        """Returns the classes of each model over all rows; empty if rows are not counted by class.

        Classes have curves if a metric needs them.
        """
        if not self.has_classes:
            return []
        index = state.indices[SliceKey(-1, newest=False)]
        return [
            class_results(state.confusion(model), names, index, state.histograms(model) if self._one_vs_rest else None)
            for model, names in enumerate(state.classes)
        ]


@dataclass(frozen=True)
class Measurements:
    """Metrics by name, float64 [slices], NaN where undefined.

    Attributes:
        differences: Standard errors of the difference between the new and the other model; empty for a single model.
    """

    values: list[dict[str, np.ndarray]]
    errors: list[dict[str, np.ndarray]]
    differences: dict[str, np.ndarray]


def _bounded(cells: Any, kind: str) -> Any:
    """Returns cells of a kind of `SliceState.cells`, in bounded number."""
    return cells.limited(*_MOST_CELLS[kind]) if kind in _MOST_CELLS else cells


def _join_if_large(parts: list[_Sums], kind: str) -> None:
    if parts and sum(len(part.keys) for part in parts[1:]) > max(_PENDING_CELLS, len(parts[0].keys)):
        parts[:] = [_bounded(parts[0].joined(parts), kind)]


def _join_moved(parts: list[_Sums], more: Sequence[_Sums], moves: np.ndarray, kind: str) -> None:
    """Replaces parts by their sum with others, whose sets get the numbers `moves`."""
    added = [cells.moved(moves) for cells in more]
    if parts or added:
        parts[:] = [_bounded((parts or added)[0].joined([*parts, *added]), kind)]


def _indexed(state: SliceState, keys: Sequence[SliceKey], sets: tuple[int, int]) -> np.ndarray | None:
    """Returns the index of each slice of one entry, int64 [keys]; None if the entry has too many slices.

    New slices are added to the state.
    """
    if not keys:
        return np.zeros(0, np.int64)
    entry = keys[0].entry
    if entry in state.overflowed:
        return None
    new = [key for key in keys if key not in state.indices]
    state.counts[entry] = state.counts.get(entry, 0) + sum(not key.newest for key in new)
    if state.counts[entry] > MOST_SLICES:
        _drop_entry(state, entry, sets)
        return None
    if new:
        state.indices |= {key: len(state.indices) + i for i, key in enumerate(new)}
        state.sums, state.moments = (
            np.pad(one, [(0, 0), (0, 0), (0, len(new)), (0, 0)]) for one in (state.sums, state.moments)
        )
    return np.array([state.indices[key] for key in keys])


def _drop_entry(state: SliceState, entry: int, sets: tuple[int, int]) -> None:
    state.overflowed.add(entry)
    kept = [key for key in state.indices if key.entry != entry]
    old = np.array([state.indices[key] for key in kept])
    new_indices = np.full(state.sums.shape[2], -1)
    new_indices[old] = np.arange(len(kept))
    state.indices = {key: index for index, key in enumerate(kept)}
    state.sums, state.moments = state.sums[:, :, old], state.moments[:, :, old]
    for kind, moves in _moves(new_indices, *sets).items():
        state.cells[kind] = [[cells.moved(moves) for cells in parts] for parts in state.cells[kind]]


def _moves(indices: np.ndarray, curves: int, tails: int) -> dict[str, np.ndarray]:
    """Returns the new number of each set of each kind of `SliceState.cells`, given that of each slice."""
    of_curves = _within(indices, curves)
    return {
        "histograms": of_curves,
        "grouped": _within(of_curves, GROUPS),
        "confusion": _within(indices, GROUPS),
        "tails": _within(indices, tails),
    }


def _within(indices: np.ndarray, count: int) -> np.ndarray:
    """Returns the new number of each set * count + part, if `indices` has the new number of each set; -1 removes it."""
    numbers = indices[:, None] * count + np.arange(count)
    return np.where(indices[:, None] < 0, -1, numbers).ravel()
