"""`fullpass plan-shards FILE`: rows, bytes and files per split that Ingest will write, from a sample of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from components.ingest.config import RecordsConfig
from components.ingest.encode import encode
from components.ingest.files import SourceFile, find_inputs
from components.ingest.split import NO_SPLIT, assign, split_columns
from pipeline.loading.load import Loaded
from pipeline.profile.sample import Sample, read_sample
from preprocessing.columns import RAW_ROW_ID, RawColumn, raw_columns
from preprocessing.convert import convert
from preprocessing.errors import UserError

ROWS = 50_000
_RECORD_BYTES = 16
_LEAST_MB, _GOOD_MB, _FILES_PER_READER = 10, 100, 10


@dataclass(frozen=True)
class SplitPlan:
    """The records of one split. bytes: before compression. shards: files written."""

    name: str
    rows: int
    bytes: int
    shards: int

    @property
    def shard_bytes(self) -> float:
        """Bytes of an average file."""
        return self.bytes / max(self.shards, 1)


@dataclass(frozen=True)
class Plan:
    """What Ingest will write.

    exact: whether every row was read to know. readers: files that training reads at the same time. why: one line per
    thing that decides, and what to change.
    """

    splits: tuple[SplitPlan, ...]
    exact: bool
    readers: int
    why: tuple[str, ...]


def plan(loaded: Loaded, *, readers: int) -> Plan:
    """Returns the records that a run will write, by encoding a sample of rows as Ingest does.

    A split is written per source file, a new shard beginning where `records.shard_mb` is reached. What is advised is
    TensorFlow's guide for TFRecords: ten files per reader or more, each of 10 MB at least and better of 100 MB.

    Args:
        loaded: a file that passes `checks.require`.
        readers: files read at the same time; used where the YAML says `auto`.

    Raises:
        UserError: The data cannot be read, or nothing tells how many rows it has.
    """
    source = loaded.config.data.source
    files = find_inputs(source, loaded.resolve)
    columns = raw_columns(loaded.config.preprocessing_config)
    needed = [*columns, *(n for n in split_columns(loaded.config.data.split) if n not in columns)]
    sample = read_sample(files, source, needed, rows=ROWS)
    if not sample.rows:
        raise UserError("data.source: no row that can be read, so there is nothing to plan.")
    if sample.total is None:
        raise UserError(
            f"data.source: {len(files)} compressed files or a format that does not say how many rows it has, and too "
            "much of it to read now. Decompress it, or let `fullpass run` count."
        )
    read_at_once = loaded.config.input.readers
    readers = readers if read_at_once == "auto" else read_at_once
    splits = _split_plans(loaded, files, sample, _record_bytes(loaded, sample, columns))
    exact = sample.whole and sample.rows == sample.seen
    return Plan(splits, exact, readers, tuple(_why(splits, files, loaded.config.data.records, readers)))


def _record_bytes(loaded: Loaded, sample: Sample, columns: Mapping[str, RawColumn]) -> np.ndarray:
    """Returns the size of each sampled row as a record, int64 [rows]."""
    source = loaded.config.data.source
    strip, decimal = getattr(source, "strip", False), getattr(source, "decimal", ".")
    arrays = {
        name: convert(sample.columns[name], raw, strip=strip, missing=source.missing_of(name), decimal=decimal).flat
        for name, raw in columns.items()
        if name in sample.columns
    }
    arrays[RAW_ROW_ID] = pa.array(np.arange(sample.rows, dtype=np.int64))
    examples = encode(arrays)
    return np.asarray(pa.compute.binary_length(examples)).astype(np.int64) + _RECORD_BYTES


def _split_plans(
    loaded: Loaded, files: Sequence[SourceFile], sample: Sample, sizes: np.ndarray
) -> tuple[SplitPlan, ...]:
    limit = loaded.config.data.records.shard_mb << 20
    plans = []
    for name, chosen in _rows_of_splits(loaded, sample).items():
        share = sample.all_splits[name].mean() if sample.splits else chosen.mean()
        rows = share * (sample.total or 0)
        total = rows * float(sizes[chosen].mean()) if chosen.any() else 0.0
        of_split = [file for file in files if file.split in (None, name)]
        weight = sum(file.size for file in of_split) or len(of_split)
        shards = sum(int(-(-total * (file.size or 1) // (weight * limit))) for file in of_split) if rows else 0
        plans.append(SplitPlan(name, round(rows), round(total), shards))
    return tuple(plans)


def _rows_of_splits(loaded: Loaded, sample: Sample) -> Mapping[str, np.ndarray]:
    """Returns which sampled rows belong to each split, split -> bool [rows]."""
    if sample.splits:
        return sample.splits
    data = loaded.config.data
    texts = {name: array for name, array in sample.columns.items() if pa.types.is_string(array.type)}
    places = assign(data.split, pa.table(texts), np.arange(sample.rows, dtype=np.int64), file_index=0)
    return {name: (places == place) & (places != NO_SPLIT) for place, name in enumerate(data.split_names)}


def _why(splits: Sequence[SplitPlan], files: Sequence[SourceFile], records: RecordsConfig, readers: int) -> list[str]:
    counted = "1 source file" if len(files) == 1 else f"{len(files):,} source files"
    why = [f"{counted}, each written by itself; a new shard begins at {records.shard_mb} MB (records.shard_mb)."]
    for split in splits:
        wanted = _FILES_PER_READER * readers
        megabytes = split.bytes / 2**20
        if split.shards > 1 and megabytes / split.shards < _LEAST_MB and split.shards > wanted:
            why.append(
                f"{split.name}: files of {megabytes / split.shards:.1f} MB are small; opening them costs more than "
                f"reading. Join the source files, to about {max(1, int(megabytes // _GOOD_MB))}."
            )
        elif split.shards < wanted and megabytes >= wanted * _LEAST_MB:
            size = max(_LEAST_MB, int(megabytes // wanted))
            why.append(
                f"{split.name}: {split.shards} files for {readers} readers; ten per reader keep all of them busy and "
                f"mix rows better. records: {{shard_mb: {size}}} gives {wanted}."
            )
        else:
            why.append(f"{split.name}: {_enough(split, wanted, megabytes)}")
    return why


def _enough(split: SplitPlan, wanted: int, megabytes: float) -> str:
    if split.shards >= wanted:
        return f"{split.shards} files are ten per reader or more."
    return (
        f"{megabytes:.1f} MB are too few for {wanted} files of {_LEAST_MB} MB; they fit in memory, where order is free."
    )


def table(planned: Plan) -> str:
    """Returns the plan for people."""
    about = "" if planned.exact else "about "
    lines = [f"{'split':12}{'rows':>16}{'MB':>12}{'shards':>9}{'MB each':>11}"]
    for split in planned.splits:
        size, each = split.bytes / 2**20, split.shard_bytes / 2**20
        lines.append(f"{split.name:12}{about + f'{split.rows:,}':>16}{size:>12,.1f}{split.shards:>9}{each:>11,.1f}")
    return "\n".join([*lines, "", *planned.why])
