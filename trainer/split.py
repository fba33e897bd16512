"""One split of transformed examples: read once, counted, and kept in memory where it fits."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import tensorflow as tf

from preprocessing.label import Task
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL
from trainer.block_cache import BlockCache, CachePlan, find_cache
from trainer.blocks import Layout, Packed
from trainer.counts import Counts, add_counts, check_rows, count_rows, no_rows, rows_not_finite
from trainer.damage import Damages, Readable, without_damage
from trainer.epochs import Windows, batches_of, windows_from_cache, windows_in_memory
from trainer.input_fn import BLOCK_ROWS, Decode, Streamed, to_batch, windows_from_files
from trainer.input_service import Service
from trainer.keeper import Keeper
from trainer.order import Order
from trainer.pieces import Complete, Piece, Preparation, read_pieces
from trainer.served_pieces import pieces_in_file_order

_WINDOWS = 8
"""As many windows as there may be in memory: read, shuffled, cut into batches, and prepared ahead."""


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
        widths = self.counts.widths if order.fixed else {}
        finish = partial(to_batch, class_weights=tuple(class_weights), widths=widths)
        return batches_of(self._windows(order), self.layout, finish, order, _WINDOWS * self.window_bytes)

    def _windows(self, order: Order) -> Windows:
        if self.in_memory is not None:
            return windows_in_memory(self.in_memory, order)
        rows = self.window_rows(order.shuffle)
        if self.on_disk is not None:
            return windows_from_cache(self.on_disk, rows, order)
        source = Streamed(self.readers, rows, all_used=self.counts.weightless == 0)
        return windows_from_files(self.files, self.decode, self.layout, source, order)

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
    complete: Complete | None,
    readers: int,
    memory_limit: int,
    cache: CachePlan | None = None,
    window_bytes: int = 256 << 20,
    bad_records: int = 0,
    service: Service | None = None,
) -> Split:
    """Reads a split once: counts it, and keeps its rows in memory while they fit, else on disk where there is a plan.

    Args:
        name: of the split.
        files: TFRecord files.
        decode: how to parse their records.
        task: of the label.
        classes: number of classes; 0 for regression.
        complete: gives rows the features that the model makes itself, to be checked; None where it makes none.
        readers: files read at the same time.
        memory_limit: bytes the rows may take in memory.
        cache: where rows beyond that are kept, and may be found; None streams them from the files.
        window_bytes: of the rows that are shuffled together while they stream, at most.
        bad_records: damaged records that may be left out.
        service: decodes the records; None decodes them here.

    Raises:
        UserError: The service does not do its part; more records are damaged; the split has no rows, or none with a
            weight above 0; a feature or label holds NaN or infinity.
    """
    found, why = find_cache(cache) if cache else (None, "")
    if found is not None:
        counts = Counts.from_json(found.about)
        rows = found.read() if found.bytes <= memory_limit else None
        kept = f"{'in memory, read from' if rows else 'on'} disk: {why}{_left_out(counts)}"
        reading = (Readable(files), decode, readers, found.layout, rows, None if rows else found, counts, kept)
        return Split(name, *reading, found.bytes // found.rows, window_bytes)
    source = Readable(files)
    prepare = Preparation(decode, complete, files)
    waiting = cache.root if cache else Path(tempfile.gettempdir())

    def pieces(at: Service | None) -> Iterable[Piece]:
        if service is None:
            return read_pieces(source.files, prepare, readers)
        return pieces_in_file_order(source.files, prepare, at, waiting)

    def read(at: Service | None) -> tuple[Counts, Keeper, Packed | None, BlockCache | None]:
        counts = replace(no_rows(classes), damaged=len(source.damages))
        found = pieces(at)
        with Keeper(prepare.layout, memory_limit, cache, why) as keeper:
            for piece in found:
                counts = add_counts(counts, _count(piece, prepare, task, classes))
                keeper.add(piece["packed"])
            check_rows(name, counts)
            return counts, keeper, *keeper.finish(counts)

    try:
        counts, keeper, in_memory, on_disk = read(service)
    except Damages:
        source = without_damage(files, decode, name, bad_records)
        # The copies without the damage are on this machine alone.
        counts, keeper, in_memory, on_disk = read(None)
    kept = keeper.said + _left_out(counts)
    reading = (source, decode, readers, prepare.layout, in_memory, on_disk, counts, kept)
    return Split(name, *reading, keeper.taken // counts.used, window_bytes)


def _count(piece: Piece, prepare: Preparation, task: Task, classes: int) -> Counts:
    packed, layout = piece["packed"], prepare.layout
    label, weight = (layout.column(packed, name) for name in (LABEL, EXAMPLE_WEIGHT))
    counts = count_rows(int(piece["rows"]), label, weight, task, classes)
    bad = {} if piece["finite"] else rows_not_finite(prepare.completed(packed))
    return replace(counts, not_finite=bad, widths=layout.widths(packed))


def _left_out(counts: Counts) -> str:
    return f"; {counts.damaged:,} damaged records are left out" if counts.damaged else ""
