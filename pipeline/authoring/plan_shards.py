"""`fullpass plan-shards FILE`: estimates the rows, bytes and files per split that Ingest will write, from a sample.

The number of files depends only on the bytes, by the rule of Ingest:
`fullpass.components.ingest.writing.shards.shard_count`.
"""

import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError
from fullpass.components.ingest.spans.spans import find_window
from fullpass.components.ingest.splitting.assign import raw_split_columns
from fullpass.components.ingest.writing.encode import encode
from fullpass.components.ingest.writing.shards import FILES_PER_READER, FRAME_BYTES, LEAST_BYTES, Layout, shard_count
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.profile.sample import Sample, read_sample, split_indices
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RawColumn, raw_columns
from fullpass.preprocessing.values.convert import convert_raw

ROWS = 50_000
_READ_SECONDS = 0.5


@dataclass(frozen=True)
class SplitPlan:
    """The records of one split.

    Attributes:
        bytes: Size before compression.
    """

    name: str
    rows: int
    bytes: int
    shards: int

    @property
    def shard_bytes(self) -> float:
        """Bytes of an average file."""
        return self.bytes / max(self.shards, 1)


@dataclass(frozen=True)
class ShardPlan:
    """The records that Ingest will write.

    Attributes:
        exact: Whether every row was read, so the plan is no estimate.
        why: One line per deciding factor, with the setting to change.
        bytes_per_second: Rate at which one reader of this machine reads sampled records from memory, like the input of
            training does before it parses them.
    """

    splits: tuple[SplitPlan, ...]
    exact: bool
    readers: int
    why: tuple[str, ...]
    bytes_per_second: float


def plan(loaded: Loaded, *, readers: int | None = None) -> ShardPlan:
    """Returns the records that a run will write, estimated by encoding a sample of rows like Ingest.

    Args:
        loaded: A file that passes `checks.require`.

    Raises:
        UserError: The data cannot be read, or its number of rows is unknown.
    """
    source = loaded.config.data.source
    files = find_window(loaded.config.data, loaded.resolve).files
    columns = raw_columns(loaded.config.preprocessing_config)
    needed = [*columns, *(n for n in raw_split_columns(loaded.config.data.split) if n not in columns)]
    sample = read_sample(files, source, needed, rows=ROWS)
    if not sample.rows:
        raise UserError("data.source: no row that can be read, so there is nothing to plan.")
    if sample.total is None:
        raise UserError(
            f"data.source: {len(files)} compressed files, or files of a format without row counts, and they are too "
            "large to count now. Decompress them, or let `fullpass run` count."
        )
    layout = loaded.config.data.records.layout(gzip=False)
    layout = replace(layout, readers=readers or layout.readers)
    examples = to_records(loaded, sample, columns)
    splits = _split_plans(loaded, layout, sample, np.asarray(pa.compute.binary_length(examples)) + FRAME_BYTES)
    exact = sample.whole and sample.rows == sample.seen
    return ShardPlan(splits, exact, layout.readers, tuple(_why(splits, layout)), _read_rate(examples))


def to_records(loaded: Loaded, sample: Sample, columns: Mapping[str, RawColumn]) -> pa.BinaryArray:
    """Returns each sampled row as the record that Ingest would write, numbered by its index in the sample."""
    text = loaded.config.data.source.raw_text
    arrays = {
        name: convert_raw(sample.columns[name], raw, text).flat
        for name, raw in columns.items()
        if name in sample.columns
    }
    arrays[RAW_ROW_ID] = pa.array(np.arange(sample.rows, dtype=np.int64))
    return encode(arrays)


def _split_plans(loaded: Loaded, layout: Layout, sample: Sample, sizes: np.ndarray) -> tuple[SplitPlan, ...]:
    plans = []
    indices = split_indices(loaded.config.data, sample)
    for index, name in enumerate(loaded.config.data.split_names):
        chosen = np.asarray(indices == index)
        share = sample.all_splits[name].mean() if sample.splits else chosen.mean()
        rows = share * (sample.total or 0)
        size = round(rows * float(sizes[chosen].mean())) if chosen.any() else 0
        plans.append(SplitPlan(name, round(rows), size, shard_count(size, layout) if size else 0))
    return tuple(plans)


def _read_rate(examples: pa.BinaryArray) -> float:
    """Returns the bytes per second at which TensorFlow reads the records, uncompressed, from one file in memory."""
    import tensorflow as tf  # takes 3 s, so only here

    records = examples.to_pylist()
    size = sum(map(len, records)) + FRAME_BYTES * len(records)
    with tempfile.TemporaryDirectory(prefix="fullpass-plan-") as folder:
        path = f"{folder}/sample"
        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        batches = tf.data.TFRecordDataset(path, buffer_size=8 << 20).batch(1024)
        deque(batches, maxlen=0)  # the first pass is a warm-up
        start, passes = time.perf_counter(), 0
        while time.perf_counter() - start < _READ_SECONDS:
            deque(batches, maxlen=0)
            passes += 1
        return passes * size / (time.perf_counter() - start)


def _why(splits: Sequence[SplitPlan], layout: Layout) -> Iterator[str]:
    hosts = "1 host reads" if layout.readers == 1 else f"{layout.readers} hosts read"
    yield (
        f"{hosts} (records.readers): {FILES_PER_READER} files for each, of {LEAST_BYTES >> 20} MB or more, and none "
        f"over {layout.shard_bytes >> 20} MB (records.shard_mb)."
    )
    wanted = FILES_PER_READER * layout.readers
    for split in splits:
        if split.shards == wanted:
            why = f"{wanted} files, {FILES_PER_READER} per reader."
        elif split.shards > wanted:
            why = f"more than {FILES_PER_READER} files per reader, so that none exceeds {layout.shard_bytes >> 20} MB."
        elif split.shards < layout.readers:
            why = (
                f"{split.bytes / 2**20:,.1f} MB are too few for own files of {layout.readers} readers: hosts "
                "without a file would share files by record, and each would read everything."
            )
        else:
            why = f"{split.bytes / 2**20:,.1f} MB are too few for {wanted} files of {LEAST_BYTES >> 20} MB."
        yield f"{split.name}: {why}"


def table(planned: ShardPlan) -> str:
    """Returns the plan as a table."""
    about = "" if planned.exact else "about "
    lines = [f"{'split':12}{'rows':>16}{'MB':>12}{'shards':>9}{'MB each':>11}{'read in':>11}"]
    for split in planned.splits:
        size, each = split.bytes / 2**20, split.shard_bytes / 2**20
        seconds = f"{split.bytes / planned.bytes_per_second:,.1f} s"
        rows = about + f"{split.rows:,}"
        lines.append(f"{split.name:12}{rows:>16}{size:>12,.1f}{split.shards:>9}{each:>11,.1f}{seconds:>11}")
    rate = (
        f"One reader of this machine reads {planned.bytes_per_second / 2**20:,.0f} MB/s of such records, uncompressed "
        "and from memory; a disk, a network, gzip and parsing are slower, more readers faster."
    )
    return "\n".join([*lines, "", *planned.why, rate])
