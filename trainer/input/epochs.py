"""Builds epochs of batches, from rows that are kept or from a stream of windows.

A window is a set of rows that are shuffled together. Windows are cut into batches, and the remaining rows of a window
begin the next one. Rows are shuffled before epochs are repeated, so that every row comes once before any row comes
twice. The cost is that the pipeline is rebuilt for every epoch, which the prefetched batches hide.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, input_name
from fullpass.trainer.input.cache.row_file import RowFile
from fullpass.trainer.input.data_options import data_options
from fullpass.trainer.input.decoder import Decode
from fullpass.trainer.records.blocks import (
    Block,
    Layout,
    Packed,
    PackedRows,
    join,
    memory_bytes,
    pack_weighted,
    row_count,
    shuffle,
)
from fullpass.trainer.records.record_files import read_records

STREAM_SHUFFLE_ROWS = 100_000
"""Rows of the buffer that a stream without a cache is shuffled in."""


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """How the rows of a split become an endless sequence of batches, epoch after epoch.

    Attributes:
        shuffle: The rows that are shuffled together, 0 for none.
        start: The batches of the first epoch to skip, counted within the shard.
        shard: The index of the shard to read: batch `shard`, `shard + shards`, ...
        shards: The number of shards, to which batches are assigned in turn.
        batches: The batches per epoch and shard; missing batches are filled with one row of weight 0. None adds none.
        fixed: Whether all batches have the same shape, for devices that recompile for every new shape. Batches are
            padded with rows of weight 0, and lists to the longest list of the split.
    """

    batch_size: int
    shuffle: int = 0
    seed: int = 0
    epoch: int = 0
    start: int = 0
    shard: int = 0
    shards: int = 1
    batches: int | None = None
    fixed: bool = False


@dataclass(frozen=True)
class Streamed:
    """How TFRecord files are read in every epoch.

    Attributes:
        readers: The files that are open at the same time.
        window_rows: The records that are parsed and shuffled together.
        all_weighted: Whether every row has a weight above 0, so that positions in an epoch can be counted in records.
    """

    readers: int
    window_rows: int
    all_weighted: bool


Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]
"""(features by name, label, weight float32 [batch]); ragged ids are padded with 0, their weights with 0.0."""

Windows = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]
"""(number of an epoch, number of this shard's batches to skip), both int64 [] -> windows of Packed rows of this shard;
each window but the last consists of whole batches."""

_MOST_SHUFFLES = 2**32
"""Factor that keeps the seeds of the shuffles of an epoch apart."""
_CHUNK_BYTES = 16 << 20
"""Bytes that a call gathers at most."""
CHUNK_ROWS = 65_536
"""Rows that a call gathers, and rows of a window that is not shuffled, at most."""
_CALLS = 2
"""The windows that are gathered in memory in parallel: few, because each takes memory and gathering is cheap."""


@tf.autograph.experimental.do_not_convert
def batches_of(
    windows: Windows,
    layout: Layout,
    finish: Callable[[Block], Batch],
    order: BatchOrder,
    *,
    memory_budget: int | None = None,
    tuned: bool = True,
) -> tf.data.Dataset:
    """Returns the endless sequence of batches cut from windows, prefetched.

    Args:
        memory_budget: The bytes that prefetching may take; None leaves it to tf.data.
        tuned: Whether tf.data autotunes parallelism, which pays off if windows are read or parsed.
    """

    def cut(window: Packed) -> tf.data.Dataset:
        rows = PackedRows(window)
        starts = tf.data.Dataset.range(0, row_count(window), order.batch_size)
        return starts.map(lambda start: rows.take(start, start + order.batch_size))

    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        skip_batches = tf.where(number == order.epoch, tf.constant(order.start, tf.int64), 0)
        found = windows(number, skip_batches).prefetch(1).flat_map(cut)
        if order.batches is None:
            return found
        # A row of zeros is a valid row with weight 0.
        filler = tf.data.Dataset.from_tensors(layout.zeros(1)).repeat()
        return found.concatenate(filler).take(order.batches - skip_batches)

    def to_batch(rows: Packed) -> Batch:
        if not order.fixed:
            return finish(layout.unpack(rows))
        return tf.nest.map_structure(
            lambda value: tf.ensure_shape(value, [order.batch_size, *value.shape[1:]]),
            finish(_filled(layout, rows, order.batch_size)),
        )

    packed = tf.data.Dataset.counter(order.epoch).flat_map(epoch)
    finished = packed.map(to_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return finished.prefetch(tf.data.AUTOTUNE).with_options(data_options(memory_budget=memory_budget, tuned=tuned))


@dataclass(frozen=True)
class Places:
    """The order of rows that are kept, which does not depend on where they are kept.

    The rows are cut into blocks of neighbors, and the blocks into as many parts as a window has blocks. In every epoch
    a window has one block of each part, chosen anew, and shuffles their rows together. So each window has rows of all
    the data, even if the files are sorted. Rows that fit in one window are all shuffled together.

    Attributes:
        rows: The number of rows.
        block_rows: The rows of each block but the last.
        window_rows: The rows of a window.
    """

    rows: int
    block_rows: int
    window_rows: int

    @tf.autograph.experimental.do_not_convert
    def windows(self, order: BatchOrder, epoch: tf.Tensor, skip_batches: tf.Tensor) -> tf.data.Dataset:
        """Returns the rows of this shard as pairs, one per window: blocks, and places among the rows of these blocks.

        Each is int64 [n]; a window but the last consists of whole batches.
        """
        chosen, blocks_of = self._blocks(order, epoch)
        ends = tf.cumsum(self._ends(chosen) - chosen * self.block_rows)
        starts = tf.concat([[0], ends], 0)
        whole = tf.gather(ends, tf.cumsum(blocks_of)[:-1] - 1) // order.batch_size * order.batch_size
        bounds = tf.concat([[0], whole, [self.rows]], 0)
        skipped = skip_batches * order.batch_size * order.shards

        def window(index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            first, last = bounds[index], bounds[index + 1]
            begin = tf.searchsorted(ends, first[tf.newaxis], "right", tf.int64)[0]
            end = tf.searchsorted(ends, last[tf.newaxis], "left", tf.int64)[0] + 1
            places = tf.range(first, last) - starts[begin]
            if order.shuffle:
                seed = seed_of(order, epoch, index + (bounds.shape[0] > 2))
                places = tf.random.experimental.stateless_shuffle(places, seed)
            if order.shards == 1:
                return chosen[begin:end], places[tf.maximum(skipped - first, 0) :]
            numbers = tf.range(first, last)
            own = (numbers // order.batch_size % order.shards == order.shard) & (numbers >= skipped)
            return chosen[begin:end], tf.boolean_mask(places, own)

        start = tf.searchsorted(bounds, skipped[tf.newaxis], "right", tf.int64)[0] - 1
        found = tf.data.Dataset.range(start, bounds.shape[0] - 1).map(window)
        return found.filter(lambda _, places: tf.size(places) > 0)

    def _blocks(self, order: BatchOrder, epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the blocks in the order of an epoch, int64 [blocks], and their number per window, int64 [windows]."""
        blocks = -(-self.rows // self.block_rows)
        parts = -(-max(self.window_rows, order.batch_size) // self.block_rows)
        windows = 1 if self.rows <= self.window_rows else -(-blocks // parts)
        parts = max(parts, blocks) if windows == 1 else parts
        numbers = tf.reshape(tf.range(windows * parts, dtype=tf.int64), [windows, parts])
        if order.shuffle and windows > 1:
            turn = tf.argsort(tf.random.stateless_uniform([parts, windows], seed_of(order, epoch)), axis=1)
            numbers = tf.transpose(tf.gather(tf.reshape(numbers, [parts, windows]), turn, batch_dims=1))
        there = numbers < blocks
        return tf.boolean_mask(numbers, there), tf.reduce_sum(tf.cast(there, tf.int64), axis=1)

    def numbers(self, blocks: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """Returns the numbers of the rows at some places among the rows of some blocks, int64 [n]."""
        return tf.gather(tf.ragged.range(blocks * self.block_rows, self._ends(blocks)).flat_values, places)

    def _ends(self, blocks: tf.Tensor) -> tf.Tensor:
        return tf.minimum((blocks + 1) * self.block_rows, self.rows)


@tf.autograph.experimental.do_not_convert
def windows_in_memory(packed: Packed, places: Places, order: BatchOrder) -> Windows:
    """Returns windows of rows in memory, which are gathered a part at a time."""
    rows = PackedRows(packed)
    size = _chunk_rows(places.rows, memory_bytes(packed), order.batch_size)

    def gathered(numbers: tf.Tensor) -> tf.data.Dataset:
        starts = tf.data.Dataset.range(0, tf.size(numbers, tf.int64), size)
        return starts.map(
            lambda first: rows.gather(numbers[first : first + size]),
            num_parallel_calls=_CALLS,
            deterministic=True,
        )

    def all_together(epoch: tf.Tensor, skip_batches: tf.Tensor) -> tf.data.Dataset:
        numbers = ordered(order, places.rows, epoch)
        if order.shards > 1:
            batch = tf.range(places.rows, dtype=tf.int64) // order.batch_size
            numbers = tf.boolean_mask(numbers, batch % order.shards == order.shard)
        return gathered(numbers[skip_batches * order.batch_size :])

    def windows(epoch: tf.Tensor, skip_batches: tf.Tensor) -> tf.data.Dataset:
        found = places.windows(order, epoch, skip_batches)
        return found.flat_map(lambda blocks, chosen: gathered(places.numbers(blocks, chosen)))

    # One window needs no blocks: tracing them takes a tenth of a second, which matters to small data.
    return all_together if places.rows <= places.window_rows or not order.shuffle else windows


@tf.autograph.experimental.do_not_convert
def windows_on_disk(kept: RowFile, places: Places, order: BatchOrder) -> Windows:
    """Returns windows of rows on disk; an epoch that resumes in the middle does not read earlier ones."""
    parts = kept.layout.parts()

    def read(blocks: tf.Tensor, chosen: tf.Tensor) -> Packed:
        found = tf.numpy_function(
            lambda *wanted: list(kept.read(*wanted).values()),
            (blocks, chosen),
            [dtype for dtype, _ in parts.values()],
            stateful=False,
        )
        return {
            key: tf.ensure_shape(value, [None, *shape])
            for value, (key, (_, shape)) in zip(found, parts.items(), strict=True)
        }

    return lambda epoch, skip_batches: places.windows(order, epoch, skip_batches).map(
        read, num_parallel_calls=_CALLS, deterministic=True
    )


@tf.autograph.experimental.do_not_convert
def windows_in_turn(
    windows: tf.data.Dataset, layout: Layout, order: BatchOrder, number: tf.Tensor, skipped: tf.Tensor, drop: tf.Tensor
) -> tf.data.Dataset:
    """Returns windows of rows, each shuffled separately, re-cut to whole batches of this shard.

    Args:
        windows: The windows, of any number of Packed rows each.
        skipped: The number of earlier windows of the epoch, int64 []; the index of a window seeds its shuffle.
        drop: The rows to skip at the beginning, int64 [].
    """
    if order.shuffle:
        placed = windows.enumerate(skipped + 1)
        windows = placed.map(
            lambda index, window: shuffle(window, seed_of(order, number, index)), num_parallel_calls=tf.data.AUTOTUNE
        )
    whole = _whole_batches(windows, layout, order.batch_size, drop)
    return whole if order.shards == 1 else _own_shard(whole, order)


def _whole_batches(windows: tf.data.Dataset, layout: Layout, batch_size: int, drop: tf.Tensor) -> tf.data.Dataset:
    def step(state: tuple[Packed, tf.Tensor], element: tuple[Packed, tf.Tensor]) -> tuple[tuple, Packed]:
        (rest, dropping), (window, last) = state, element
        count = row_count(window)
        dropped = tf.minimum(dropping, count)
        joined = join([rest, PackedRows(window).take(dropped, count)])
        count, rows = row_count(joined), PackedRows(joined)
        whole = tf.where(last, count, count // batch_size * batch_size)
        return (rows.take(whole, count), dropping - dropped), rows.take(0, whole)

    end = tf.data.Dataset.from_tensors((layout.zeros(0), True))
    marked = windows.map(lambda window: (window, False)).concatenate(end)
    return marked.scan((layout.zeros(0), drop), step)


def _own_shard(windows: tf.data.Dataset, order: BatchOrder) -> tf.data.Dataset:
    """Returns the rows of every `shards`-th batch, counted over all windows of whole batches."""

    def step(before: tf.Tensor, window: Packed) -> tuple[tf.Tensor, Packed]:
        numbers = tf.range(row_count(window), dtype=tf.int64)
        batch = before + numbers // order.batch_size
        own = tf.boolean_mask(numbers, batch % order.shards == order.shard)
        return before + tf.size(numbers, tf.int64) // order.batch_size, PackedRows(window).gather(own)

    return windows.scan(tf.constant(0, tf.int64), step)


def _filled(layout: Layout, rows: Packed, size: int) -> Block:
    """Returns `size` rows: the given rows, then repetitions with weight 0, which do not change batch statistics."""
    count = tf.cast(row_count(rows), tf.int32)
    block = layout.unpack(PackedRows(rows).gather(tf.range(size, dtype=tf.int32) % count))
    weight = tf.where(tf.range(size) < count, block[EXAMPLE_WEIGHT], 0.0)
    return {**block, EXAMPLE_WEIGHT: weight}


def _chunk_rows(rows: int, size_bytes: int, batch_size: int) -> int:
    """Returns the number of rows to gather per call: many batches, for few calls, within a memory limit."""
    fitting = min(CHUNK_ROWS, _CHUNK_BYTES * rows // max(size_bytes, 1))
    return max(1, fitting // batch_size) * batch_size


@tf.autograph.experimental.do_not_convert
def windows_from_files(
    files: Sequence[str], decode: Decode, layout: Layout, source: Streamed, order: BatchOrder
) -> Windows:
    """Returns windows read, parsed and shuffled anew in every epoch, without the rows of weight 0.

    The order of the files changes in every epoch, and `readers` files are read at the same time. A window is parsed in
    one call. An epoch that resumes in the middle reads the earlier records, but parses them only if there are rows of
    weight 0.
    """

    def pack(serialized: tf.Tensor) -> Packed:
        return pack_weighted(layout, decode(serialized))

    def windows(number: tf.Tensor, skip_batches: tf.Tensor) -> tf.data.Dataset:
        names = tf.gather(tf.constant(list(files)), ordered(order, len(files), number))
        records = read_records(tf.data.Dataset.from_tensor_slices(names), source.readers, source.window_rows)
        rows = skip_batches * order.batch_size * order.shards
        # Only parsing shows which rows have weight 0.
        skipped = rows // source.window_rows if source.all_weighted else tf.constant(0, tf.int64)
        packed = records.skip(skipped).map(pack, num_parallel_calls=tf.data.AUTOTUNE)
        drop = rows - skipped * source.window_rows
        return windows_in_turn(packed, layout, order, number, skipped, drop)

    return windows


def to_batch(block: Block, class_weights: Sequence[float] = (), widths: Mapping[str, int] | None = None) -> Batch:
    """Returns a batch for Keras: features by input name with ragged rows padded, the label, and the weight per row.

    Args:
        class_weights: The factor of the weight per class id; empty for none.
        widths: The width to pad a ragged feature to, so that all batches have one shape; others are padded to their
            longest row.
    """
    padded = {name: _padded(value, (widths or {}).get(name)) for name, value in block.items()}
    features, label, weight = in_parts(padded)
    if class_weights:
        weight *= tf.gather(tf.constant(class_weights, tf.float32), tf.cast(label, tf.int64))
    return features, label, weight


def in_parts(block: Block) -> tuple[Block, tf.Tensor, tf.Tensor]:
    """Returns the features of rows by input name, the label, and the weight per row; ragged rows stay ragged."""
    features = {input_name(name): value for name, value in block.items() if name not in (LABEL, EXAMPLE_WEIGHT)}
    return features, block[LABEL], block[EXAMPLE_WEIGHT]


def _padded(value: tf.Tensor | tf.RaggedTensor, width: int | None) -> tf.Tensor:
    return value.to_tensor(shape=[None, width]) if isinstance(value, tf.RaggedTensor) else value


def seed_of(order: BatchOrder, epoch: tf.Tensor, index: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns the seed of one shuffle in an epoch, int64 [2]; index 0 is the first shuffle, that of files or rows."""
    return tf.stack([tf.constant(order.seed, tf.int64), epoch * _MOST_SHUFFLES + tf.cast(index, tf.int64)])


def ordered(order: BatchOrder, count: int, epoch: tf.Tensor) -> tf.Tensor:
    """Returns the numbers 0 .. count-1 of rows, files or blocks in the order of an epoch, int64 [count]."""
    numbers = tf.range(count, dtype=tf.int64)
    if not order.shuffle:
        return numbers
    return tf.random.experimental.stateless_shuffle(numbers, seed=seed_of(order, epoch))
