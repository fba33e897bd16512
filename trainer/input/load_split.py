"""Loads a split of examples: reads it once, counts it, and keeps it in memory if it fits."""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL
from fullpass.preprocessing.features.label import Task
from fullpass.trainer.input.cache.row_file import RowFile
from fullpass.trainer.input.cache.row_store import RowStore
from fullpass.trainer.input.damage import DAMAGE_ERRORS, refuse_damage
from fullpass.trainer.input.data_options import data_options
from fullpass.trainer.input.decoder import Decode, stored_layout
from fullpass.trainer.input.epochs import (
    CHUNK_ROWS,
    STREAM_SHUFFLE_ROWS,
    Batch,
    BatchOrder,
    Places,
    Streamed,
    Windows,
    batches_of,
    in_parts,
    ordered,
    to_batch,
    windows_from_files,
    windows_in_memory,
    windows_on_disk,
)
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.parsed_chunks import AddModelFeatures, ChunkParser, read_chunks
from fullpass.trainer.input.service.client import DataService, chunks_in_file_order
from fullpass.trainer.input.split_counts import (
    SplitCounts,
    add_counts,
    check_rows,
    count_rows,
    no_rows,
    rows_not_finite,
)
from fullpass.trainer.records.blocks import Block, Chunk, Layout, Packed, PackedRows, join_and_free, row_count
from fullpass.trainer.records.column_files import DamagedColumns
from fullpass.trainer.records.columns import SplitColumns, find_columns
from fullpass.trainer.records.record_files import BLOCK_ROWS

_LOG = logging.getLogger(__name__)
_WINDOWS = 8
"""The maximum number of windows in memory: being read, shuffled, cut into batches, and prefetched."""


@dataclass(frozen=True)
class Split:
    """A split that can be iterated any number of times.

    Attributes:
        in_memory: Its rows of a weight above 0, or None.
        on_disk: The same rows on disk, or None. Without either they are streamed from the files.
        storage_note: A message that states where its rows are stored, and why.
        row_bytes: The bytes of a row, on average.
        block_rows: The rows that stay neighbors in every epoch, if they are kept.
        window_bytes: The bytes of the rows that are shuffled together while they stream, at most.
    """

    name: str
    files: tuple[str, ...]
    decode: Decode
    readers: int
    layout: Layout
    in_memory: Packed | None
    on_disk: RowFile | None
    counts: SplitCounts
    storage_note: str
    row_bytes: int
    block_rows: int
    window_bytes: int

    @cached_property
    def padded_row_bytes(self) -> int:
        """The bytes of a row in a batch in which all lists are as long as the longest one."""
        widths = self.counts.widths
        sizes = ((c, widths.get(c.name, 1) if c.ragged else c.width) for c in self.layout.columns)
        return max(self.row_bytes, sum(tf.as_dtype(column.dtype).size * width for column, width in sizes))

    def batches(self, order: BatchOrder, class_weights: Sequence[float] = ()) -> tf.data.Dataset:
        """Returns an endless sequence of batches, (features, label, weight)."""
        widths = self.counts.widths if order.fixed else {}
        finish = partial(to_batch, class_weights=tuple(class_weights), widths=widths)
        budget, tuned = _WINDOWS * self.window_bytes, self.in_memory is None and self.on_disk is None
        return batches_of(self._windows(order), self.layout, finish, order, memory_budget=budget, tuned=tuned)

    def sample(self, rows: int, seed: int = 0) -> tuple[Block, tf.Tensor, tf.Tensor]:
        """Returns a sample of all rows in random order, as `in_parts`."""
        return in_parts(next(self._sampled(rows, rows, seed)))

    def sampled_batches(self, rows: int, size: int, seed: int = 0) -> Iterator[Batch]:
        """Yields a sample of all rows in batches of `size`; lists are as wide as those of their batch."""
        return map(to_batch, self._sampled(rows, size, seed))

    def _sampled(self, rows: int, size: int, seed: int) -> Iterator[Block]:
        """Yields a sample of all rows in blocks of `size`, in random order.

        Rows in memory are gathered without a tf.data pipeline, which takes longer to build than to run. Others are read
        once, in order, because neighbouring rows may be alike.
        """
        numbers = self.sampled_numbers(rows, seed)
        with tf.device("CPU:0"):
            held = self.in_memory
            if held is None:
                ascending = np.argsort(numbers)
                held, numbers = self._gathered(numbers[ascending]), np.argsort(ascending)
            kept = PackedRows(held)
        for first in range(0, len(numbers), size):
            with tf.device("CPU:0"):
                block = self.layout.unpack(kept.gather(tf.constant(numbers[first : first + size])))
            yield block

    def sampled_numbers(self, rows: int, seed: int = 0) -> np.ndarray:
        """Returns the numbers of the rows of `sample`, in the order of batches without a shuffle, int64 [rows]."""
        order = BatchOrder(batch_size=rows, shuffle=STREAM_SHUFFLE_ROWS, seed=seed)
        with tf.device("CPU:0"):
            return ordered(order, self.counts.weighted_rows, tf.constant(order.epoch, tf.int64))[:rows].numpy()

    def _gathered(self, numbers: np.ndarray) -> Packed:
        """Returns the rows of some ascending numbers, int64 [rows], of a split that is not in memory."""
        parts, first = [], 0
        for window in self._in_order:
            last = first + int(row_count(window))
            here = numbers[np.searchsorted(numbers, first) : np.searchsorted(numbers, last)] - first
            if len(here):
                parts.append(PackedRows(window).gather(tf.constant(here)))
            first = last
        return join_and_free(parts)

    @cached_property
    @tf.autograph.experimental.do_not_convert
    def _in_order(self) -> tf.data.Dataset:
        """The windows of all rows in order, traced once."""
        windows = self._windows(BatchOrder(batch_size=1))(tf.constant(0, tf.int64), tf.constant(0, tf.int64))
        return windows.with_options(data_options(tuned=False))

    def _windows(self, order: BatchOrder) -> Windows:
        if self.in_memory is not None:
            return windows_in_memory(self.in_memory, self._places(int(row_count(self.in_memory)), order), order)
        if self.on_disk is not None:
            return windows_on_disk(self.on_disk, self._places(self.counts.weighted_rows, order), order)
        source = Streamed(self.readers, self.window_rows(order.shuffle), all_weighted=self.counts.weightless == 0)
        return windows_from_files(self.files, self.decode, self.layout, source, order)

    def _places(self, rows: int, order: BatchOrder) -> Places:
        return Places(rows, self.block_rows, self.window_rows(order.shuffle or CHUNK_ROWS))

    def window_rows(self, shuffle: int) -> int:
        """Returns the number of rows that are shuffled together; it determines the order.

        Args:
            shuffle: The size of the shuffle buffer in rows; 0 does not shuffle.
        """
        return max(1, min(shuffle or BLOCK_ROWS, self.window_bytes // max(1, self.row_bytes)))


@dataclass(frozen=True)
class RowSpec:
    """How records become rows.

    Attributes:
        add_model_features: Adds the features that the model computes itself, which are then checked too; None if it
            computes none.
        classes: The number of classes; 0 for regression.
    """

    decode: Decode
    add_model_features: AddModelFeatures | None
    task: Task
    classes: int


def load_split(name: str, files: tuple[str, ...], rows: RowSpec, plan: ReadingPlan) -> Split:
    """Reads a split once: counts it, and keeps its rows in memory if they fit, else on disk if the plan has a cache.

    Raises:
        UserError: The service fails; a record is damaged; the split has no rows, or none with a weight above 0; a
            feature or label contains NaN or infinity.
    """
    parse = ChunkParser(rows.decode, rows.add_model_features, files)

    def read(source: ChunkParser | SplitColumns, chunks: Iterable[Chunk]) -> Split:
        counts = no_rows(rows.classes)
        store = RowStore(source.layout, plan.memory_limit, plan.cache)
        for chunk in chunks:
            counts = add_counts(counts, _count(chunk, source, rows))
            store.add(chunk["packed"])
        check_rows(name, counts)
        kept = store.finish()
        reading = (files, rows.decode, plan.readers, source.layout, *kept, counts, store.status)
        return Split(name, *reading, store.taken // counts.weighted_rows, store.block_rows, plan.window_bytes)

    columns = find_columns(files, stored_layout(rows.decode)) if plan.service is None else None
    if columns is not None:
        try:
            return read(columns, columns)
        except DamagedColumns as error:
            _LOG.warning("input: split %s: %s", name, error)
    try:
        return read(parse, _chunks(files, parse, plan, plan.service))
    except DAMAGE_ERRORS:
        refuse_damage(files, rows.decode)
        # The files are intact: the damage came from the service, or from a read that failed once.
        return read(parse, _chunks(files, parse, plan, None))


def _chunks(
    files: tuple[str, ...], parse: ChunkParser, plan: ReadingPlan, service: DataService | None
) -> Iterable[Chunk]:
    """Returns the parsed rows in chunks; if the plan has a service, always in the order of the files."""
    if plan.service is None:
        return read_chunks(files, parse, plan.readers)
    waiting = plan.cache or Path(tempfile.gettempdir())
    return chunks_in_file_order(files, parse, service, waiting)


def _count(chunk: Chunk, source: ChunkParser | SplitColumns, rows: RowSpec) -> SplitCounts:
    packed, layout = chunk["packed"], source.layout
    label, weight = (layout.column(packed, name) for name in (LABEL, EXAMPLE_WEIGHT))
    counts = count_rows(int(chunk["rows"]), label, weight, rows.task, rows.classes)
    bad = {} if chunk["finite"] else rows_not_finite(source.unpack(packed))
    return replace(counts, not_finite=bad, widths=layout.widths(packed))
