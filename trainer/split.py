"""One split of transformed examples: read once, counted, and kept in memory where it fits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import tensorflow as tf

from preprocessing.errors import UserError
from preprocessing.label import Task
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL
from trainer.block_cache import BlockCache, CacheFailed, CachePlan, CacheWriter, find_cache
from trainer.blocks import Block, Layout, Packed, join_and_free, layout_of, memory_bytes
from trainer.damage import Damages, Readable, without_damage
from trainer.epochs import batches_of, windows_from_cache, windows_in_memory
from trainer.input_fn import (
    BLOCK_ROWS,
    Decode,
    Streamed,
    read_blocks,
    to_batch,
    windows_from_files,
    with_weight,
)
from trainer.order import Order


@dataclass(frozen=True)
class Counts:
    """What one pass over a split found. Rows of weight 0 count in `rows` and `weightless` only.

    Attributes:
        rows: all rows.
        weightless: rows of weight 0; without a weight column these are the rows without a usable label.
        class_rows: int64 [classes], rows per class; empty for regression.
        class_weight: float64 [classes], their weight; empty for regression.
        weight: total weight.
        label_sum: of the weighted labels, for regression.
        label_squares: of the weighted squared labels, for regression.
        not_finite: transformed feature (or label) -> rows with a NaN or an infinity in it.
        damaged: records that could not be read, and were left out (`input.bad_records`); in no other count.
    """

    rows: int
    weightless: int
    class_rows: np.ndarray
    class_weight: np.ndarray
    weight: float
    label_sum: float
    label_squares: float
    not_finite: Mapping[str, int]
    damaged: int = 0

    @property
    def used(self) -> int:
        """Rows that take part in training or metrics."""
        return self.rows - self.weightless

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_json` takes."""
        arrays = {"class_rows": self.class_rows.tolist(), "class_weight": self.class_weight.tolist()}
        return {**vars(self), **arrays, "not_finite": dict(self.not_finite)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Counts":
        """Returns the counts that `to_json` gave."""
        rows, weight = np.array(content["class_rows"], np.int64), np.array(content["class_weight"], np.float64)
        return cls(**{**content, "class_rows": rows, "class_weight": weight})

    @property
    def label_mean(self) -> float:
        """Weighted mean of the labels of a regression."""
        return self.label_sum / self.weight

    @property
    def label_deviation(self) -> float:
        """Weighted standard deviation of the labels of a regression."""
        return float(np.sqrt(max(0.0, self.label_squares / self.weight - self.label_mean**2)))


@dataclass(frozen=True)
class Split:
    """A split that can be iterated any number of times.

    Attributes:
        name: of the split.
        source: TFRecord files.
        decode: how to parse their records.
        readers: files read at the same time.
        layout: of its rows.
        in_memory: its rows of a weight above 0, or None.
        on_disk: the same rows in a cache on disk, or None. Without either they are streamed from the files.
        counts: what is in it.
        kept: where its rows are, and why, in words.
        row_bytes: of one row, on average.
        window_bytes: of the rows that are shuffled together while they stream, at most.
    """

    name: str
    source: Readable
    decode: Decode
    readers: int
    layout: Layout
    in_memory: Packed | None
    on_disk: BlockCache | None
    counts: Counts
    kept: str
    row_bytes: int
    window_bytes: int

    @property
    def files(self) -> tuple[str, ...]:
        """TFRecord files that can be read."""
        return self.source.files

    def batches(self, order: Order, class_weights: Sequence[float] = ()) -> tf.data.Dataset:
        """Returns an endless sequence of batches, (features, label, weight).

        Args:
            order: of the batches.
            class_weights: factor of the weight per class id.
        """
        finish = partial(to_batch, class_weights=tuple(class_weights))
        if self.in_memory is not None:
            return batches_of(windows_in_memory(self.in_memory, order), self.layout, finish, order)
        rows = self.window_rows(order.shuffle)
        if self.on_disk is not None:
            return batches_of(windows_from_cache(self.on_disk, rows, order), self.layout, finish, order)
        source = Streamed(self.readers, rows, all_used=self.counts.weightless == 0)
        windows = windows_from_files(self.files, self.decode, self.layout, source, order)
        return batches_of(windows, self.layout, finish, order)

    def window_rows(self, shuffle: int) -> int:
        """Returns the rows that are shuffled together where not all are in memory; with the seed they decide the order.

        Args:
            shuffle: rows to shuffle among, 0 for none.
        """
        return max(1, min(shuffle or BLOCK_ROWS, self.window_bytes // max(1, self.row_bytes)))

    def steps(self, batch_size: int) -> int:
        """Returns the number of batches of so many rows in one epoch."""
        return -(-self.counts.used // batch_size)


def load_split(
    name: str,
    files: tuple[str, ...],
    decode: Decode,
    *,
    task: Task,
    classes: int,
    complete: Callable[[Block], Block],
    readers: int,
    memory_limit: int,
    cache: CachePlan | None = None,
    window_bytes: int = 256 << 20,
    bad_records: int = 0,
) -> Split:
    """Reads a split once: counts it, and keeps its rows in memory while they fit, else on disk where there is a plan.

    Args:
        name: of the split.
        files: TFRecord files.
        decode: how to parse their records.
        task: of the label.
        classes: number of classes; 0 for regression.
        complete: gives rows with all features that the model computes with, to be checked.
        readers: files read at the same time.
        memory_limit: bytes the rows may take in memory.
        cache: where rows beyond that are kept, and may be found; None streams them from the files.
        window_bytes: of the rows that are shuffled together while they stream, at most.
        bad_records: damaged records that may be left out.

    Raises:
        UserError: More records are damaged; the split has no rows, or none with a weight above 0; a feature or label
            holds NaN or infinity.
    """
    found, why = find_cache(cache) if cache else (None, "")
    if found is not None:
        counts = Counts.from_json(found.about)
        rows = found.read() if found.bytes <= memory_limit else None
        kept = f"{'in memory, read from' if rows else 'on'} disk: {why}{_left_out(counts)}"
        reading = (Readable(files), decode, readers, found.layout, rows, None if rows else found, counts, kept)
        return Split(name, *reading, found.bytes // found.rows, window_bytes)
    source = Readable(files)

    def read() -> tuple[Counts, _Keeper, Packed | None, BlockCache | None]:
        counts = replace(_no_rows(classes), damaged=len(source.damages))
        with _Keeper(memory_limit, cache, why) as keeper:
            for block in read_blocks(source.files, decode, readers):
                used = with_weight(block)
                counts = _add(counts, _count(len(block[EXAMPLE_WEIGHT]), complete(used), task, classes))
                keeper.add(used)
            check_rows(name, counts)
            return counts, keeper, *keeper.finish(counts)

    try:
        counts, keeper, in_memory, on_disk = read()
    except Damages:
        source = without_damage(files, decode, name, bad_records)
        counts, keeper, in_memory, on_disk = read()
    kept = keeper.said + _left_out(counts)
    reading = (source, decode, readers, keeper.layout, in_memory, on_disk, counts, kept)
    return Split(name, *reading, keeper.taken // counts.used, window_bytes)


class _Keeper:
    """Keeps rows in memory up to a limit, and moves them to disk beyond it; where that fails, keeps none."""

    def __init__(self, memory_limit: int, cache: CachePlan | None, miss: str):
        self.layout = Layout(())
        self.taken = 0
        self.said = ""
        self._limit, self._cache, self._miss = memory_limit, cache, miss
        self._in_memory: list[Packed] | None = []
        self._writer: CacheWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.__exit__(*error)

    def add(self, used: Block) -> None:
        if not self.layout.columns:
            self.layout = layout_of(used)
        packed = self.layout.pack(used)
        self.taken += memory_bytes(packed)
        pieces = [packed]
        if self._in_memory is not None:
            self._in_memory.append(packed)
            if self.taken <= self._limit:
                return
            pieces, self._in_memory = self._in_memory, None
            self._begin()
        for piece in pieces:
            self._write(piece)

    def finish(self, counts: Counts) -> tuple[Packed | None, BlockCache | None]:
        if self._in_memory is not None:
            self.said = f"in memory: {self.taken:,} bytes, {self._limit:,} allowed"
            return join_and_free(self._in_memory), None
        if self._writer is not None:
            try:
                written = self._writer.finish(counts.to_json())
            except CacheFailed as error:
                self._fail(error)
            else:
                self.said = f"on disk: written to {written.folder}, since {self._miss}"
                return None, written
        return None, None

    def _begin(self) -> None:
        if self._cache is None:
            self.said = f"streamed from the files: more than {self._limit:,} bytes, and no cache on disk"
            return
        try:
            self._writer = CacheWriter(self._cache, self.layout)
        except CacheFailed as error:
            self._fail(error)

    def _write(self, piece: Packed) -> None:
        if self._writer is not None:
            try:
                self._writer.add(piece)
            except CacheFailed as error:
                self._fail(error)

    def _fail(self, error: CacheFailed) -> None:
        if self._writer is not None:
            self._writer.__exit__()
        self._writer = None
        self.said = f"streamed from the files, without a cache: {error}"


def _left_out(counts: Counts) -> str:
    return f"; {counts.damaged:,} damaged records are left out" if counts.damaged else ""


def check_rows(name: str, counts: Counts) -> None:
    """Raises UserError for a split that nothing can be learned or measured on."""
    if counts.rows == 0:
        raise UserError(f"split {name!r} is empty. Give it rows: see data.split, and whether the source has any.")
    if counts.used == 0:
        raise UserError(
            f"all {counts.rows:,} rows of split {name!r} weigh 0: their label is missing or no known class, or the "
            "weight column is 0. See label.name, label.positive, label.classes and label.weight."
        )
    if counts.not_finite:
        found = ", ".join(f"{feature} in {rows:,} rows" for feature, rows in sorted(counts.not_finite.items()))
        raise UserError(
            f"split {name!r} holds NaN or infinity after the transforms: {found}. A model cannot learn from these; "
            "see what the function or transform that makes them does with missing and extreme values."
        )


def _no_rows(classes: int) -> Counts:
    return Counts(0, 0, np.zeros(classes, np.int64), np.zeros(classes), 0.0, 0.0, 0.0, {})


def _count(rows: int, used: Block, task: Task, classes: int) -> Counts:
    label = used[LABEL].numpy()
    weight = used[EXAMPLE_WEIGHT].numpy().astype(np.float64)
    class_rows, class_weight = _per_class(label, weight, task, classes)
    numbers = label.astype(np.float64) if task == "regression" else np.zeros_like(weight)
    return Counts(
        rows=rows,
        weightless=rows - len(weight),
        class_rows=class_rows,
        class_weight=class_weight,
        weight=float(weight.sum()),
        label_sum=float(weight @ numbers),
        label_squares=float(weight @ numbers**2),
        not_finite=_not_finite(used),
    )


def _per_class(label: np.ndarray, weight: np.ndarray, task: Task, classes: int) -> tuple[np.ndarray, np.ndarray]:
    if task == "regression":
        return np.zeros(0, np.int64), np.zeros(0)
    if task == "multilabel":
        return (label > 0).sum(axis=0), weight @ label
    ids = label.astype(np.int64)
    return np.bincount(ids, minlength=classes), np.bincount(ids, weight, minlength=classes)


def _not_finite(block: Block) -> dict[str, int]:
    found = {}
    for name, value in block.items():
        flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        if flat.dtype.is_floating:
            bad = ~np.isfinite(flat.numpy())
            if bad.any():
                found[name] = int(bad.reshape(len(bad), -1).any(axis=1).sum())
    return found


def _add(one: Counts, other: Counts) -> Counts:
    return Counts(
        rows=one.rows + other.rows,
        weightless=one.weightless + other.weightless,
        class_rows=one.class_rows + other.class_rows,
        class_weight=one.class_weight + other.class_weight,
        weight=one.weight + other.weight,
        label_sum=one.label_sum + other.label_sum,
        label_squares=one.label_squares + other.label_squares,
        not_finite={
            name: one.not_finite.get(name, 0) + other.not_finite.get(name, 0)
            for name in {*one.not_finite, *other.not_finite}
        },
        damaged=one.damaged + other.damaged,
    )
