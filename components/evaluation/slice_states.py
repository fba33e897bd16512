"""The accumulator of an evaluation: sums and histograms of each slice, which merge over files.

It has the methods of the analyzers' accumulators: `start`, `add` and `merge`. States pass between the workers of one
Beam pipeline, and are not cached.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fullpass.components.evaluation.class_counts import ConfusionCells, RowCells, class_metrics, needs_class_counts
from fullpass.components.evaluation.class_results import ClassResults, class_results
from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.forecast_baselines import ForecastBaselines
from fullpass.components.evaluation.metric_terms import (
    COUNT,
    MOMENTS,
    TERMS,
    Sums,
    all_and_without_each,
    formula_of,
    merged,
    moments_of,
    term_in_rows,
)
from fullpass.components.evaluation.metrics import OF_QUANTILES, level_of
from fullpass.components.evaluation.one_vs_rest import MOST_CURVES, class_areas, is_one_vs_rest
from fullpass.components.evaluation.sampling_error import (
    COARSE,
    areas_without,
    at_least,
    group_of,
    is_share,
    standard_errors,
    sums_without_each,
)
from fullpass.components.evaluation.score_buckets import BUCKETS, CurveAreas, SparseHistograms, bucket_of
from fullpass.components.evaluation.score_curves import Curves, curves_of
from fullpass.components.evaluation.scored_rows import Codes, Scored, ScoredRows, SliceValue
from fullpass.components.evaluation.sparse_sums import SparseSums
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
MOST_SLICES = 10_000
"""Largest number of slices of an entry of `evaluation.slices`. An entry with more gets no slices, to limit memory."""
_PENDING_CELLS = 1 << 21
_Sums = TypeVar("_Sums", bound=SparseSums)


@dataclass
class SliceState:
    """The accumulator state of the rows added so far.

    Attributes:
        indices: Index of each slice in `sums` and in the histograms.
        sums: Sums of each model and term, float64 [models, terms, slices, GROUPS].
        moments: Moments of each model, float64 [models, MOMENTS, slices, GROUPS]; [0, ...] if no metric needs them.
        cells: For each model, parts to be summed: `histograms`, where a set is slice * curves + curve; `grouped`,
            histograms per group in coarse buckets, where it is (slice * curves + curve) * GROUPS + group; and
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
        whole, grouped = (SparseHistograms.joined(self.cells[kind][model]) for kind in ("histograms", "grouped"))
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
        known = (term for term in self._needed if term in TERMS or level_of(term) is not None)
        return tuple(dict.fromkeys((COUNT, *known)))

    @property
    def _needed(self) -> list[str]:
        return [term for name in self.metrics if (formula := formula_of(name)) for term in formula.terms]

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
            kind: [[] for _ in range(self.models)] for kind in ("histograms", "grouped", "confusion")
        }
        baselines = None if self.baselines is None else self.baselines.start()
        return SliceState(indices, sums, moments, cells, [()] * self.models, [()] * self.models, baselines=baselines)

    def add(self, state: SliceState, batch: ScoredRows) -> SliceState:
        """Returns the state after a batch."""
        added = [
            _BatchContributions(
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
            indices = _indexed(state, found.keys, self.curves_of_slice)
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
                if self.has_classes:
                    state.cells["confusion"][model].append(rows.confusion(found.rows, sets_of_groups))
        for parts in chain.from_iterable(state.cells.values()):
            _join_if_large(parts)
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
                _drop_entry(whole, entry, self.curves_of_slice)
            by_entry: dict[int, list[SliceKey]] = {}
            for key in state.indices:
                by_entry.setdefault(key.entry, []).append(key)
            for keys in by_entry.values():
                indices = _indexed(whole, keys, self.curves_of_slice)
                if indices is not None:
                    self._add_slices(whole, indices, state, np.array([state.indices[key] for key in keys]))
        return whole

    def _add_slices(self, whole: SliceState, indices: np.ndarray, state: SliceState, theirs: np.ndarray) -> None:
        whole.sums[:, :, indices] += state.sums[:, :, theirs]
        for mine, other in zip(whole.moments, state.moments, strict=True):
            mine[:, indices] = merged(mine[:, indices], other[:, theirs])
        new_indices = np.full(state.sums.shape[2], -1)
        new_indices[theirs] = indices
        for kind, moves in _moves(new_indices, self.curves_of_slice).items():
            for mine, other in zip(whole.cells[kind], state.cells[kind], strict=True):
                _join_moved(mine, other, moves)

    def measure(self, state: SliceState) -> "Measurements":
        """Returns the metrics of each slice with their standard errors."""
        values, without = zip(*(self._of_model(state, model) for model in range(self.models)), strict=True)
        rows = state.sums[0, 0]
        present = rows > 0
        errors = [{name: standard_errors(one[name], present) for name in self.metrics} for one in without]
        for one in errors:
            one |= {name: at_least(one[name], rows.sum(axis=-1)) for name in one if is_share(name)}
        differences = {
            name: standard_errors(without[0][name] - without[1][name], present)
            for name in (self.metrics if self.models > 1 else ())
        }
        return Measurements(list(values), errors, differences)

    def _of_model(self, state: SliceState, model: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Returns the metrics of a model, float64 [slices], and without each group, float64 [slices, GROUPS]."""
        sums = state.sums[model]
        slices = sums.shape[1]
        whole: Sums = dict(zip(self.terms, sums.sum(axis=-1), strict=True))
        less: Sums = dict(zip(self.terms, sums_without_each(sums, axis=-1), strict=True))
        if self._has_moments:
            every, without_each = all_and_without_each(state.moments[model])
            whole, less = (
                {**dict(zip(MOMENTS, of, strict=True)), **sums} for of, sums in ((every, whole), (without_each, less))
            )
        formulas = {name: formula for name in self.metrics if (formula := formula_of(name))}
        values = {name: formula.value(whole) for name, formula in formulas.items()}
        without = {name: formula.value(less) for name, formula in formulas.items()}
        histograms, grouped = state.histograms(model)
        for name in (name for name in self.metrics if name in AREAS):
            values[name] = attrgetter(AREAS[name])(CurveAreas(histograms, slices))
            without[name] = areas_without(grouped, slices, attrgetter(AREAS[name]))
        counted = [name for name in self.metrics if needs_class_counts(name)]
        areas = [name for name in self.metrics if is_one_vs_rest(name)]
        classes = state.classes[model]
        for of_all, of_left in (
            class_metrics(counted, state.confusion(model), slices, classes),
            class_areas(areas, histograms, grouped, slices, classes),
        ):
            values |= of_all
            without |= of_left
        return values, without

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


class _BatchContributions:
    """The contributions of the rows of a batch for one model. Rows of weight 0 contribute nothing, for any label."""

    def __init__(self, scored: Scored, terms: Sequence[str], curves: int, *, classes: bool):
        self._weights = scored.weights
        counted = scored.weights > 0
        self._terms = np.zeros((len(terms), len(counted)))
        some = scored.chosen(counted)
        for row, term in zip(self._terms, terms, strict=True):
            row[counted] = 1.0 if term == COUNT else term_in_rows(term, some) * some.weights
        self._scored = scored
        self._curves = curves
        if classes:
            self._cells = RowCells.of(scored)
        if curves:
            self._buckets = bucket_of(scored.scores)
            labels = scored.labels
            if curves > 1:
                labels = (labels[:, None] == np.arange(scored.scores.shape[1])) * 1.0
            self._labels = labels + 0 * scored.scores  # NaN if the score is NaN

    def sums(self, rows: np.ndarray, sets: np.ndarray, slices: int) -> np.ndarray:
        """Returns the sum of each term over each slice and group, float64 [terms, slices, GROUPS]."""
        count = slices * GROUPS
        sums = [np.bincount(sets, weights=term[rows], minlength=count) for term in self._terms]
        return np.stack(sums).reshape(-1, slices, GROUPS)

    def moments(self, rows: np.ndarray, sets: np.ndarray, slices: int) -> np.ndarray:
        """Returns the moments of each slice and group, float64 [MOMENTS, slices, GROUPS]."""
        rows, sets = (x[self._weights[rows] > 0] for x in (rows, sets))
        return moments_of(self._scored.chosen(rows), sets, slices * GROUPS).reshape(-1, slices, GROUPS)

    def confusion(self, rows: np.ndarray, sets: np.ndarray) -> ConfusionCells:
        """Returns the confusion matrices of sets of rows; rows and sets: int64 [n]."""
        return self._cells.summed(rows, sets)

    def histogram(self, rows: np.ndarray, slices: np.ndarray, groups: np.ndarray | None = None) -> SparseHistograms:
        """Returns the histograms of slices; if a row has several labels, each counts separately.

        If a slice has several curves, each score of a row belongs to another. More classes than curves have none.

        Args:
            rows: Indices of the rows, int64 [n].
            slices: Slice of each row, int64 [n].
            groups: Group of each row, int64 [n], for histograms per group in coarse buckets.
        """
        some = self._weights[rows] > 0
        rows, sets = rows[some], slices[some]
        labels, weights = self._labels[rows], self._weights[rows]
        sets = sets.reshape(-1, *[1] * (labels.ndim - 1))
        if self._curves > 1:
            if labels.shape[1] > self._curves:
                return SparseHistograms.joined([])
            sets = sets * self._curves + np.arange(labels.shape[1])
        width = 1
        if groups is not None:
            sets, width = sets * GROUPS + groups[some].reshape(-1, *[1] * (labels.ndim - 1)), COARSE
        keys = sets * BUCKETS + self._buckets[rows] // width * width
        weights = np.broadcast_to(weights.reshape(-1, *[1] * (labels.ndim - 1)), labels.shape)
        return SparseHistograms.sums(keys.ravel(), (weights * labels).ravel(), (weights * (1 - labels)).ravel())


def _join_if_large(parts: list[_Sums]) -> None:
    if parts and sum(len(part.keys) for part in parts[1:]) > max(_PENDING_CELLS, len(parts[0].keys)):
        parts[:] = [parts[0].joined(parts)]


def _join_moved(parts: list[_Sums], more: Sequence[_Sums], moves: np.ndarray) -> None:
    """Replaces parts by their sum with others, whose sets get the numbers `moves`."""
    added = [cells.moved(moves) for cells in more]
    if parts or added:
        parts[:] = [(parts or added)[0].joined([*parts, *added])]


def _indexed(state: SliceState, keys: Sequence[SliceKey], curves: int) -> np.ndarray | None:
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
        _drop_entry(state, entry, curves)
        return None
    if new:
        state.indices |= {key: len(state.indices) + i for i, key in enumerate(new)}
        state.sums, state.moments = (
            np.pad(one, [(0, 0), (0, 0), (0, len(new)), (0, 0)]) for one in (state.sums, state.moments)
        )
    return np.array([state.indices[key] for key in keys])


def _drop_entry(state: SliceState, entry: int, curves: int) -> None:
    state.overflowed.add(entry)
    kept = [key for key in state.indices if key.entry != entry]
    old = np.array([state.indices[key] for key in kept])
    new_indices = np.full(state.sums.shape[2], -1)
    new_indices[old] = np.arange(len(kept))
    state.indices = {key: index for index, key in enumerate(kept)}
    state.sums, state.moments = state.sums[:, :, old], state.moments[:, :, old]
    for kind, moves in _moves(new_indices, curves).items():
        state.cells[kind] = [[cells.moved(moves) for cells in parts] for parts in state.cells[kind]]


def _moves(indices: np.ndarray, curves: int) -> dict[str, np.ndarray]:
    """Returns the new number of each set of each kind of `SliceState.cells`, given that of each slice."""
    of_curves = _within(indices, curves)
    return {"histograms": of_curves, "grouped": _within(of_curves, GROUPS), "confusion": _within(indices, GROUPS)}


def _within(indices: np.ndarray, count: int) -> np.ndarray:
    """Returns the new number of each set * count + part, if `indices` has the new number of each set; -1 removes it."""
    numbers = indices[:, None] * count + np.arange(count)
    return np.where(indices[:, None] < 0, -1, numbers).ravel()
