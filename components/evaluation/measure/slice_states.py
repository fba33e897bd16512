"""The state of an evaluation: what is summed of each slice, and how the states of parts of the rows merge."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from fullpass.components.evaluation.confidence import GROUPS
from fullpass.components.evaluation.measure.batch_contributions import BatchContributions
from fullpass.components.evaluation.measure.class_counts import ConfusionCells
from fullpass.components.evaluation.measure.long_tails import TailCells
from fullpass.components.evaluation.measure.metric_plan import MetricPlan
from fullpass.components.evaluation.measure.moments import MOMENTS, merged
from fullpass.components.evaluation.measure.score_buckets import SparseHistograms
from fullpass.components.evaluation.measure.slices import ALL_ROWS, NEWEST_ROWS, Members, SliceKey
from fullpass.components.evaluation.measure.sparse_sums import SparseSums
from fullpass.preprocessing.values.row_sample import RowSample

MOST_SLICES = 10_000
"""Largest number of slices of an entry of `evaluation.slices`. An entry with more gets no slices, to limit memory."""
_PENDING_CELLS = 1 << 21
"""Number of cells that wait to be summed, 24 bytes each: 50 MB. With fewer, they would be summed after every batch."""
_MOST_CELLS, _MOST_GROUPED_CELLS = 1 << 16, 1 << 13
"""Number of cells of a histogram, and of the histograms of its groups together: 1.8 MB for a curve of a slice."""
_Cells = TypeVar("_Cells", bound=SparseSums)


@dataclass
class CellsOfSlices(Generic[_Cells]):
    """Sums in the cells of some sets of each slice, as parts that are summed when they are read or become many.

    Attributes:
        kind: The class of the parts.
        sets: Number of sets of a slice. Set n of a slice is number slice * sets + n.
        pending: Number of cells of the parts after the first.
    """

    kind: type[_Cells]
    sets: int
    parts: list[_Cells] = field(default_factory=list)
    pending: int = 0

    def add(self, cells: _Cells) -> None:
        """Adds cells of a batch."""
        self.pending += len(cells.keys) if self.parts else 0
        self.parts.append(cells)
        if self.pending > max(_PENDING_CELLS, len(self.parts[0].keys)):
            self.parts, self.pending = [self.whole], 0

    @property
    def whole(self) -> _Cells:
        """The sum of all parts."""
        return self._limited(self.kind.joined(self.parts))

    def move(self, slices: np.ndarray) -> None:
        """Renumbers the slices. slices: int64 [slices], the new number of each; -1 removes it."""
        self.parts = [part.moved(self._sets_of(slices)) for part in self.parts]

    def join(self, other: "CellsOfSlices[_Cells]", slices: np.ndarray) -> None:
        """Adds the cells of another state, whose slices get other numbers."""
        if other.parts:
            moved = [part.moved(self._sets_of(slices)) for part in other.parts]
            self.parts, self.pending = [self._limited(self.kind.joined([*self.parts, *moved]))], 0

    def _sets_of(self, slices: np.ndarray) -> np.ndarray:
        sets = slices[:, None] * self.sets + np.arange(self.sets)
        return np.where(slices[:, None] < 0, -1, sets).ravel()

    def _limited(self, cells: _Cells) -> _Cells:
        return cells


class HistogramsOfSlices(CellsOfSlices[SparseHistograms]):
    """Histograms of the curves of each slice, in a bounded number of cells per curve."""

    def __init__(self, curves: int, groups: int, most: int):
        super().__init__(SparseHistograms, curves * groups)
        self._groups, self._most = groups, most

    def _limited(self, cells: SparseHistograms) -> SparseHistograms:
        return cells.limited(self._groups, self._most)


class ModelState:
    """What is summed of one model's rows.

    Attributes:
        sums: Sums of each term, float64 [terms, slices, GROUPS].
        moments: Float64 [MOMENTS, slices, GROUPS]; [0, slices, GROUPS] if no metric needs them.
        histograms: One set per curve.
        grouped: Histograms per group: set curve * GROUPS + group.
        confusion: Confusion matrices, one set per group.
        tails: Sizes of terms, one set per term.
        classes: Names of the classes; empty before the first row.
        levels: Levels of the quantiles; empty before the first row, or if it predicts none.
    """

    def __init__(self, plan: MetricPlan, slices: int) -> None:
        """Initializes the state before the first batch."""
        self.sums = np.zeros((len(plan.terms), slices, GROUPS))
        self.moments = np.zeros((len(MOMENTS) * plan.moments, slices, GROUPS))
        self.histograms = HistogramsOfSlices(plan.curves, 1, _MOST_CELLS)
        self.grouped = HistogramsOfSlices(plan.curves, GROUPS, _MOST_GROUPED_CELLS)
        self.confusion = CellsOfSlices(ConfusionCells, GROUPS)
        self.tails = CellsOfSlices(TailCells, len(plan.tails))
        self.classes: tuple[str, ...] = ()
        self.levels: tuple[float, ...] = ()

    @property
    def _cells(self) -> tuple[CellsOfSlices, ...]:
        return self.histograms, self.grouped, self.confusion, self.tails

    def add(self, batch: BatchContributions, rows: np.ndarray, slices: np.ndarray, groups: np.ndarray) -> None:
        """Adds rows of a batch. rows: their indices in the batch; slices, groups: those of each; all int64 [n]."""
        sets = slices * GROUPS + groups
        self.sums += batch.sums(rows, sets, self.sums.shape[1])
        if batch.plan.moments:
            self.moments = merged(self.moments, batch.moments(rows, sets, self.sums.shape[1]))
        if batch.plan.curves:
            self.histograms.add(batch.histogram(rows, slices))
            self.grouped.add(batch.histogram(rows, slices, groups))
        if batch.plan.tails:
            self.tails.add(batch.tails(rows, slices))
        if batch.plan.classes:
            self.confusion.add(batch.confusion(rows, sets))

    def grow(self, slices: int) -> None:
        """Adds new slices, without rows."""
        self.sums, self.moments = (np.pad(one, [(0, 0), (0, slices), (0, 0)]) for one in (self.sums, self.moments))

    def keep(self, slices: np.ndarray) -> None:
        """Removes all other slices. slices: indices of those that stay, ascending, int64 [n]."""
        moved = _places(slices, self.sums.shape[1], np.arange(len(slices)))
        self.sums, self.moments = self.sums[:, slices], self.moments[:, slices]
        for cells in self._cells:
            cells.move(moved)

    def join(self, other: "ModelState", theirs: np.ndarray, mine: np.ndarray) -> None:
        """Adds slices of another state to those of this one. theirs, mine: their indices in each, int64 [n]."""
        self.sums[:, mine] += other.sums[:, theirs]
        if len(self.moments):
            self.moments[:, mine] = merged(self.moments[:, mine], other.moments[:, theirs])
        moved = _places(theirs, other.sums.shape[1], mine)
        for cells, added in zip(self._cells, other._cells, strict=True):
            cells.join(added, moved)


def _places(slices: np.ndarray, count: int, numbers: np.ndarray) -> np.ndarray:
    """Returns the new number of each of `count` slices, int64 [count]; -1 for those that are not in `slices`."""
    found = np.full(count, -1)
    found[slices] = numbers
    return found


class SliceState:
    """The accumulator state of the rows added so far.

    Attributes:
        indices: Index of each slice in the states of the models.
        overflowed: Entries of `evaluation.slices` with more than MOST_SLICES slices.
        baselines: Sums of the baselines of a forecast; None if there are none.
    """

    def __init__(self, plan: MetricPlan, models: int, *, newest: bool, baselines: np.ndarray | None) -> None:
        """Initializes the state before the first batch: the slice of all rows, and maybe of the newest span."""
        together = [ALL_ROWS, NEWEST_ROWS] if newest else [ALL_ROWS]
        self.indices = {key: index for index, key in enumerate(together)}
        self.models = [ModelState(plan, len(together)) for _ in range(models)]
        self.overflowed: set[int] = set()
        self.sample = RowSample()
        self.baselines = baselines
        self._counts: dict[int, int] = {}

    def add(self, batch: Sequence[BatchContributions], found: Members, groups: np.ndarray) -> None:
        """Adds the slices of a batch. batch: of each model; groups: the group of each of its rows, int64 [rows]."""
        indices = self._indexed(found.keys)
        if indices is None:
            return
        for model, of_model in zip(self.models, batch, strict=True):
            model.add(of_model, found.rows, indices[found.indices], groups[found.rows])

    def join(self, other: "SliceState") -> None:
        """Adds the state of other rows."""
        if self.baselines is not None:
            self.baselines = self.baselines + other.baselines
        self.sample = RowSample.merged([self.sample, other.sample])
        for mine, theirs in zip(self.models, other.models, strict=True):
            mine.classes, mine.levels = mine.classes or theirs.classes, mine.levels or theirs.levels
        for entry in other.overflowed:
            self._drop(entry)
        by_entry: dict[int, list[SliceKey]] = {}
        for key in other.indices:
            by_entry.setdefault(key.entry, []).append(key)
        for keys in by_entry.values():
            indices = self._indexed(keys)
            if indices is not None:
                for mine, theirs in zip(self.models, other.models, strict=True):
                    mine.join(theirs, np.array([other.indices[key] for key in keys]), indices)

    def _indexed(self, keys: Sequence[SliceKey]) -> np.ndarray | None:
        """Returns the index of each slice of one entry, int64 [keys]; None if the entry has too many slices.

        New slices are added.
        """
        if not keys:
            return np.zeros(0, np.int64)
        entry = keys[0].entry
        if entry in self.overflowed:
            return None
        new = [key for key in keys if key not in self.indices]
        self._counts[entry] = self._counts.get(entry, 0) + sum(not key.newest for key in new)
        if self._counts[entry] > MOST_SLICES:
            self._drop(entry)
            return None
        if new:
            self.indices |= {key: len(self.indices) + i for i, key in enumerate(new)}
            for model in self.models:
                model.grow(len(new))
        return np.array([self.indices[key] for key in keys])

    def _drop(self, entry: int) -> None:
        """Removes the slices of an entry that has too many."""
        self.overflowed.add(entry)
        kept = {key: index for key, index in self.indices.items() if key.entry != entry}
        self.indices = {key: place for place, key in enumerate(kept)}
        for model in self.models:
            model.keep(np.array([*kept.values()]))
