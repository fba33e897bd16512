"""Profiles a training: takes a sample of its records and builds its model and update as the Trainer does."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.pipeline.diagnose.rates import seconds_of
from fullpass.trainer.config import TrainingSpec, Trees
from fullpass.trainer.fit.build_training import BuiltTraining, build_training
from fullpass.trainer.fit.steps import Loop
from fullpass.trainer.input.decoder import Decoder, decoder
from fullpass.trainer.input.epochs import BatchOrder
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, Split, load_split
from fullpass.trainer.input.placement import InModel, placement_of
from fullpass.trainer.input.workers import TrainingWorkers
from fullpass.trainer.models.class_labels import class_names
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.models.train_statistics import train_statistics
from fullpass.trainer.records.blocks import Block, join
from fullpass.trainer.records.record_files import BLOCK_ROWS, read_records

MAX_SAMPLED = 100_000
"""Rows of the sample at most: they fit in memory, and an epoch of them is longer than a measurement."""
_BLOCK_SECONDS = 0.05
"""Seconds of a block: short against a measurement of half a second, long against the cost of a call."""
_MIN_BLOCK = 16
"""Records of the smallest block: photographs take milliseconds each."""
_PILOT_ROWS = 64
"""Records of the first block that is tried, and of each read."""
_PILOT_CALLS = 3
"""Calls of which the fastest counts, because other load only adds time."""
_MAX_REPEATS = 200
"""Repetitions of the sample's files at most: each is opened anew, and the list of their names is a tensor."""
_UPDATES = 10_000
"""The updates over which the learning rate falls; the cost of an update does not depend on it."""
_FILE_BYTES = 10 << 20
"""Bytes of a file of the sample, so that few rows are in one file, as Ingest would write them."""
_MAX_FILES = 10
"""Files of the sample at most, since a sample is small."""


@dataclass(frozen=True)
class DiagnosedTraining:
    """A training whose input is diagnosed.

    Attributes:
        files: The files of the train split, sorted: transformed examples, or raw ones where nothing is written.
        shard_mb: `data.records.shard_mb`, which such files are written with.
    """

    files: tuple[str, ...]
    rows: int
    spec: TrainingSpec
    shard_mb: int = 128


@dataclass(frozen=True)
class RecordSource:
    """Files, and how their records become rows.

    Attributes:
        files: TFRecord files; a name may repeat, so that a sample is as long as the data that it represents.
        sample: Uncompressed files that hold each of the first records once.
        block_rows: The records that are read and decoded in about a twentieth of a second and measured together.
    """

    files: tuple[str, ...]
    decode: Decoder
    sample: tuple[str, ...]
    block_rows: int
    rows: int

    @property
    def pass_seconds(self) -> float:
        """The seconds in which one core reads and decodes all rows once; an upper bound for blocks of maximum size."""
        return self.rows / self.block_rows * _BLOCK_SECONDS


class ProfiledTraining:
    """A training that is ready to be measured: a sample of its records, its model and its update."""

    def __init__(self, training: DiagnosedTraining, folder: Path, seconds: float):
        """Reads a sample for at most `seconds`, and writes it into `folder`.

        Raises:
            UserError: The examples do not match the YAML, or the model is trees, which do not wait for input.
        """
        if isinstance(training.spec.config.model, Trees):
            raise UserError(
                "model: kind: trees reads its rows once and then waits for no input, so no input setting makes "
                "training faster. training.json contains the time of reading and growing (`seconds`), and the report "
                "charts it."
            )
        self.training, self.spec, self._folder = training, training.spec, folder
        config, tft_output = self.spec.preprocessing, self.spec.tft_output
        self.placement = placement_of(config, transformed_outputs(config, tft_output))
        self.names = class_names(config.label, tft_output)
        self.in_model = InModel(self.placement, tft_output) if self.placement.in_model else None
        self.bytes = sum(tf.io.gfile.stat(file).length for file in training.files)
        self._check()
        decode = decoder(tft_output, self.placement, self.placement.read, len(self.names))
        block_rows = _rows_in(_BLOCK_SECONDS, decode, training.files)
        self.sampled, sample = self._write_sample(block_rows, seconds)
        self.source = RecordSource(training.files, decode, sample, block_rows, training.rows)
        self._splits: dict[str, Split] = {}

    @cached_property
    def repacked(self) -> RecordSource:
        """The sample repeated to the size of all files: uncompressed, in as few files as Ingest and Transform write."""
        times = max(1, min(_MAX_REPEATS, self.training.rows // self.sampled))
        return replace(self.source, files=self.source.sample * times, rows=self.sampled * times)

    def split(self, source: RecordSource, kept: str) -> Split:
        """Returns the sample as a split that is read as training would read it.

        Args:
            kept: Where rows are kept: memory, disk, or files, which streams all of `source.files`.
        """
        key = "memory" if kept == "files" else kept
        if key not in self._splits:
            self._splits[key] = self._repeated(self._load(kept))
        found = self._splits[key]
        if kept != "files":
            return found
        return replace(found, files=tuple(source.files), in_memory=None, on_disk=None)

    @cached_property
    def row_bytes(self) -> int:
        """The bytes of a row in memory, on average."""
        return self.split(self.source, "memory").row_bytes

    @cached_property
    def built(self) -> BuiltTraining:
        """The model and its updates, built as the Trainer builds them, on one device."""
        split = self.split(self.source, "memory")
        strategy = tf.distribute.get_strategy()
        train = train_statistics(self.spec, split, split.counts, self.in_model, TrainingWorkers(strategy))
        return build_training(self.spec, train, self.in_model, updates=_UPDATES, strategy=strategy)

    @cached_property
    def update(self) -> Loop:
        """The training's update of its model."""
        return self.built.steps.training()

    def order(self, batch_size: int, shuffle: int) -> BatchOrder:
        """Returns the order of batches as in the training."""
        seed = self.spec.config.training.seed
        return BatchOrder(batch_size=batch_size, shuffle=shuffle, seed=seed, fixed=self.built.fixed_shapes)

    def _check(self) -> None:
        known = set(self.spec.tft_output.transformed_feature_spec())
        if unknown := sorted({*self.placement.read, *self.placement.in_model} - known):
            raise UserError(
                f"the newest run has no transformed feature {unknown[0]!r}: the YAML has changed since. Write the "
                "examples again: `fullpass run FILE --to Transform`."
            )

    def _load(self, kept: str) -> Split:
        source = self.source
        rows = RowSpec(source.decode, self.add_model_features, self.spec.preprocessing.label.task, len(self.names))
        plan = ReadingPlan()
        if kept == "disk":
            plan = ReadingPlan(memory_limit=0, cache=self._folder)
        return load_split("train", source.sample, rows, plan)

    def _repeated(self, split: Split) -> Split:
        """Repeats the sample in memory to the size of its split, so that epochs begin as often as in training."""
        if split.in_memory is None:
            return split
        times = max(1, min(self.training.rows, MAX_SAMPLED) // split.counts.rows)
        return replace(split, in_memory=join([split.in_memory] * times))

    def _write_sample(self, block_rows: int, seconds: float) -> tuple[int, tuple[str, ...]]:
        """Copies the first records, uncompressed, into as many files as the full data would be written to."""
        count = max(1, min(_MAX_FILES, self.bytes // _FILE_BYTES))
        paths = [str(self._folder / f"sample-{i:02d}.tfrecord") for i in range(count)]
        writers = [tf.io.TFRecordWriter(path) for path in paths]
        files = tf.data.Dataset.from_tensor_slices(list(self.training.files))
        rows, deadline = 0, time.perf_counter() + seconds
        # At most a thousand records at a time, so that the deadline is checked often on a slow disk too.
        for i, block in enumerate(read_records(files, len(paths), min(1000, block_rows))):
            for record in block.numpy():
                writers[i % count].write(record)
            rows += len(block)
            if rows >= MAX_SAMPLED or time.perf_counter() > deadline:
                break
        for writer in writers:
            writer.close()
        if not rows:
            raise UserError("the train split is empty: there is nothing to measure.")
        return rows, tuple(path for path in paths if tf.io.gfile.stat(path).length)

    @property
    def add_model_features(self) -> Callable[[Block], Block] | None:
        """Adds the features that the model computes to rows; None if it computes none."""
        return self.in_model.add_model_features if self.in_model else None


def _rows_in(seconds: float, decode: Decoder, files: Sequence[str]) -> int:
    """Returns the number of records that are read and decoded in `seconds`: a power of two, at most BLOCK_ROWS.

    Increasingly large blocks are tried, because every call has a fixed cost. In a graph with many transforms it may be
    milliseconds, and extrapolating from a few rows would overestimate the cost of many.
    """
    call = tf.function(decode, autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])
    blocks = iter(read_records(tf.data.Dataset.from_tensor_slices(list(files)), 1, _PILOT_ROWS))
    # The first block also opens files and fills buffers, a cost that does not grow with the rows.
    first = next(blocks, None)
    if first is None:
        return BLOCK_ROWS
    call(first)
    records, reading = first, 0.0
    while True:
        # The minimum of several calls: other load on the machine only adds to it.
        decoding = min(seconds_of(partial(call, records)) for _ in range(_PILOT_CALLS))
        rows, spent = len(records), reading + decoding
        if spent > seconds or rows >= BLOCK_ROWS:
            break
        started = time.perf_counter()
        more = list(islice(blocks, rows // _PILOT_ROWS))
        reading += time.perf_counter() - started
        if not more:
            break
        records = tf.concat([records, *more], 0)
    return min(BLOCK_ROWS, 1 << (max(_MIN_BLOCK, int(rows * seconds / spent)).bit_length() - 1))
