"""Shards files over workers and aggregates the counts of all workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.load_split import Split
from fullpass.trainer.input.split_counts import SUMMED, SplitCounts, add_counts
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.records.blocks import join


@dataclass(frozen=True)
class Batches:
    """An endless dataset that may begin at any batch.

    Attributes:
        begin: Takes an epoch and the number of its steps to skip; returns this worker's batches from there on, one per
            replica.
        steps: The steps of one pass.
    """

    begin: Callable[[int, int], tf.data.Dataset]
    steps: int


_UNEVEN = 1.1
"""The largest shard may hold this many times the bytes of the mean shard; above that, all workers read all files."""


@dataclass(frozen=True)
class SplitShard:
    """One worker's part of a split.

    Attributes:
        split: The rows of this worker's files.
        counts: The counts of the whole split, over all workers.
        by_file: Whether only this worker reads these files; otherwise all workers read all files and take batches in
            turn.
        weighted_rows: The number of rows with a weight above 0 that each worker has read.
    """

    split: Split
    counts: SplitCounts
    by_file: bool
    weighted_rows: tuple[int, ...]
    workers: TrainingWorkers

    def steps(self, batch_size: int) -> int:
        """Returns the steps of an epoch with `batch_size` rows per replica, enough for the largest shard."""
        batches = -(-max(self.weighted_rows) // batch_size)
        if not self.by_file:
            batches = -(-batches // self.workers.count)
        return -(-batches // self.workers.replicas)

    def batches(self, order: BatchOrder, class_weights: Sequence[float] = ()) -> Batches:
        """Returns the batches of this worker, one per replica and step; all replicas have the same number of batches.

        Args:
            order: The order of the rows; its start and shard are filled in here.
        """
        steps, replicas = self.steps(order.batch_size), self.workers.replicas
        if self.workers.count * replicas > 1:
            order = replace(order, batches=steps * replicas)
        if not self.by_file:
            order = replace(order, shard=self.workers.index, shards=self.workers.count)

        def begin(epoch: int, step: int) -> tf.data.Dataset:
            here = replace(order, epoch=epoch, start=step * replicas)
            return self.split.batches(here, class_weights)

        return Batches(begin, steps)

    def can_join(self, other: "SplitShard") -> bool:
        """Whether both splits are in the memory of one worker with one device."""
        parts, alone = (self.split, other.split), self.workers.count * self.workers.replicas == 1
        return alone and all(p.in_memory is not None for p in parts) and self.split.layout == other.split.layout

    def joined(self, other: "SplitShard") -> "SplitShard":
        """Returns the rows of two splits, which `can_join`, as one."""
        kept = [one.split.in_memory for one in (self, other) if one.split.in_memory is not None]
        counts = add_counts(self.counts, other.counts)
        split = replace(self.split, in_memory=join(kept), counts=counts)
        return replace(self, split=split, counts=counts, weighted_rows=(counts.weighted_rows,))


def load_shard(files: Sequence[str], workers: TrainingWorkers, load: Callable[[tuple[str, ...]], Split]) -> SplitShard:
    """Loads this worker's shard of a split.

    Files are assigned so that all workers have about the same number of bytes. If there are too few files for that,
    every worker reads all files.

    Raises:
        UserError: This worker, or another one, could not read its shard.
    """
    own = _own_files(files, workers)
    error, split = None, None
    try:
        split = load(own or tuple(files))
    except UserError as found:
        error = found
    failed = np.flatnonzero(workers.all_gather([error is not None])[:, 0])
    if error is not None:
        raise error
    if split is None or len(failed):
        raise UserError(
            f"worker {', '.join(map(str, failed))} could not read its shard of the data; its log shows why."
        )
    counts = _aggregated(split.counts, workers) if own and workers.count > 1 else split.counts
    weighted_rows = workers.all_gather([split.counts.weighted_rows])[:, 0]
    return SplitShard(split, counts, own is not None, tuple(int(rows) for rows in weighted_rows), workers)


def divide(sizes: Sequence[int], parts: int) -> list[list[int]]:
    """Returns the indices of the files of each part: the largest first, each to the part with the fewest bytes."""
    totals: list[int] = [0] * parts
    chosen: list[list[int]] = [[] for _ in range(parts)]
    for number in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        least = min(range(parts), key=lambda part: (totals[part], part))
        chosen[least].append(number)
        totals[least] += sizes[number]
    return [sorted(numbers) for numbers in chosen]


def _own_files(files: Sequence[str], workers: TrainingWorkers) -> tuple[str, ...] | None:
    """Returns the files of this worker, or None if files cannot be divided evenly."""
    if workers.count == 1:
        return tuple(files)
    sizes = [tf.io.gfile.stat(file).length for file in files]
    parts = divide(sizes, workers.count)
    totals = [sum(sizes[number] for number in part) for part in parts]
    if not all(parts) or max(totals) > _UNEVEN * np.mean(totals):
        return None
    return tuple(files[number] for number in parts[workers.index])


def _aggregated(own: SplitCounts, workers: TrainingWorkers) -> SplitCounts:
    """Returns the counts of all workers together."""
    mine = {name: np.asarray(getattr(own, name)) for name in SUMMED}
    flat = np.concatenate([value.ravel() for value in mine.values()])
    total = workers.all_gather(flat.tolist()).sum(axis=0)
    ends = np.cumsum([value.size for value in mine.values()])
    found: dict[str, Any] = {}
    for (name, value), part in zip(mine.items(), np.split(total, ends[:-1]), strict=True):
        whole = np.round(part) if value.dtype.kind == "i" else part
        found[name] = whole.astype(value.dtype) if value.ndim else value.dtype.type(whole[0]).item()
    return SplitCounts(**found, not_finite={})
