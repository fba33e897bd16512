"""What is diagnosed: the records of a training, a sample of them, and the model's update."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import keras
import tensorflow as tf
import tensorflow_transform as tft

from preprocessing.config import PreprocessingConfig
from preprocessing.errors import UserError
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from trainer.block_cache import CachePlan
from trainer.blocks import Block, join
from trainer.config import TrainerConfig
from trainer.damage import Readable
from trainer.diagnosis.rates import Meter
from trainer.input_fn import BLOCK_ROWS, Decoder, decoder, read_records
from trainer.inputs import model_inputs, transformed_outputs
from trainer.labels import class_factors, class_names
from trainer.models.build import build_model
from trainer.optimizer import make_optimizer
from trainer.placement import InModel, Placement, placement_of, with_preprocessing
from trainer.split import Split, load_split
from trainer.steps import Loop, Steps
from trainer.strategy import precision
from trainer.tasks import logit_columns, loss_of, with_head

MOST_SAMPLED = 100_000
_BLOCK_SECONDS = 0.05
_LEAST_BLOCK = 16
_PILOT_ROWS = 64
_PILOT_CALLS = 3
_MOST_REPEATS = 200
_UPDATES = 10_000
"""Over which the learning rate falls; what an update costs does not depend on it."""
_FILE_BYTES = 10 << 20
_MOST_FILES = 10


@dataclass(frozen=True)
class Records:
    """How `data.records` has TFRecord files written: shard_mb and readers as there."""

    shard_mb: int = 128
    readers: int = 1


@dataclass(frozen=True)
class Training:
    """A training whose input is looked at.

    Attributes:
        files: of the train split, sorted: transformed examples, or raw ones where nothing is written.
        rows: in them.
        preprocessing: decides the features and the label.
        config: the sections of the trainer.
        records: how such files are written.
        tft_output: the transform graph's output.
    """

    files: tuple[str, ...]
    rows: int
    preprocessing: PreprocessingConfig
    config: TrainerConfig
    records: Records
    tft_output: tft.TFTransformOutput


@dataclass(frozen=True)
class Source:
    """Files, and how their records become rows.

    Attributes:
        files: TFRecord files; a name may come several times, to make a sample as long as what it stands for.
        decode: their records.
        sample: uncompressed files of the first records, each once.
        block_rows: records that are read and decoded in about a twentieth of a second, and so measured at once.
        decode_rows: the same once they are in memory.
        rows: in the files.
    """

    files: tuple[str, ...]
    decode: Decoder
    sample: tuple[str, ...]
    block_rows: int
    decode_rows: int
    rows: int

    @property
    def pass_seconds(self) -> float:
        """Seconds that one core takes to read and decode all rows once; or fewer, where blocks are the largest."""
        return self.rows / self.block_rows * _BLOCK_SECONDS


class Subject:
    """A training made ready to be measured: a sample of its records in `folder`, and its update."""

    def __init__(self, training: Training, folder: Path, seconds: float):
        """Reads and writes the sample.

        Args:
            training: what is diagnosed.
            folder: empty; for samples and caches.
            seconds: that reading the sample may take.

        Raises:
            UserError: The examples are not those of the YAML.
        """
        self.training, self._folder = training, folder
        config, label = training.preprocessing, training.preprocessing.label
        self._features = transformed_outputs(config, training.tft_output)
        self.placement = placement_of(config, self._features)
        self.names = class_names(label, training.tft_output)
        self.in_model = InModel(self.placement, training.tft_output) if self.placement.in_model else None
        self.bytes = sum(tf.io.gfile.stat(file).length for file in training.files)
        self._check()
        decode = self._decoder(self.placement)
        call = _traced(decode)
        block_rows = _rows_in(_BLOCK_SECONDS, call, training.files)
        self.sampled, sample = self._write_sample(block_rows, seconds)
        decode_rows = max(block_rows, _rows_in(_BLOCK_SECONDS, call, sample))
        self.source = Source(training.files, decode, sample, block_rows, decode_rows, training.rows)
        self._splits: dict[tuple[Decoder, str], Split] = {}

    @cached_property
    def repacked(self) -> Source:
        """The sample in the place of all files: uncompressed, and in as few files as Ingest and Transform write."""
        times = self._times
        return replace(self.source, files=self.source.sample * times, rows=self.sampled * times)

    @cached_property
    def transformed(self) -> Source:
        """The sample as Transform would write it if all features were its own, in the place of all files."""
        config = _all_written(self.training.preprocessing)
        placement = placement_of(config, self._features)
        decode = self._decoder(placement)
        written = self._write_transformed(placement)
        block_rows, times = _rows_in(_BLOCK_SECONDS, _traced(decode), written), self._times
        return Source(written * times, decode, written, block_rows, block_rows, self.sampled * times)

    def split(self, source: Source, kept: str) -> Split:
        """Returns the sample as a split that is read as training would read it.

        Args:
            source: of the rows.
            kept: memory, disk, or files, from which it is then streamed: from all of `source.files`.
        """
        key = (source.decode, "memory" if kept == "files" else kept)
        if key not in self._splits:
            self._splits[key] = self._repeated(self._load(source, kept))
        found = self._splits[key]
        if kept != "files":
            return found
        return replace(found, source=Readable(tuple(source.files)), in_memory=None, on_disk=None)

    @cached_property
    def row_bytes(self) -> int:
        """What a row takes in memory, on average."""
        return self.split(self.source, "memory").row_bytes

    @cached_property
    def update(self) -> Loop:
        """The training's update of its model, on one device."""
        training, config = self.training, self.training.config
        label, counts = training.preprocessing.label, self.split(self.source, "memory").counts
        deviation = counts.label_deviation if label.task == "regression" else 1.0
        factors = class_factors(label, self.names, counts)
        keras.utils.set_random_seed(config.training.seed)
        with precision(config.training) as policy:
            inputs = model_inputs(self._features, training.tft_output)
            columns = logit_columns(label.task, len(self.names))
            network = build_model(inputs, task=label.task, classes=columns, config=config.model)
            network = with_head(network, label.task, counts, factors)
            model = with_preprocessing(network, self.in_model)
            optimizer = make_optimizer(config.training, _UPDATES, policy)
            optimizer.build(model.trainable_variables)
        loss = loss_of(label.task, label_smoothing=config.training.label_smoothing, label_deviation=deviation)
        steps = Steps(model, optimizer, loss, label.task, tf.distribute.get_strategy(), config.training.accumulate)
        return steps.training()

    def _check(self) -> None:
        known = set(self.training.tft_output.transformed_feature_spec())
        unknown = sorted({*self.placement.read, *self.placement.in_model} - known)
        if unknown:
            raise UserError(
                f"the newest run knows no transformed feature {unknown[0]!r}: the YAML has changed since. Write the "
                "examples again: `fullpass run FILE --to Transform`."
            )

    def _decoder(self, placement: Placement) -> Decoder:
        return decoder(self.training.tft_output, placement, placement.read, len(self.names))

    def _load(self, source: Source, kept: str) -> Split:
        plan = CachePlan(self._folder / "cache", "train", {"files": list(source.sample)}) if kept == "disk" else None
        return load_split(
            "train",
            source.sample,
            source.decode,
            task=self.training.preprocessing.label.task,
            classes=len(self.names),
            complete=self.in_model.complete if self.in_model else None,
            readers=1,
            memory_limit=0 if kept == "disk" else sys.maxsize,
            cache=plan,
        )

    def _repeated(self, split: Split) -> Split:
        """Returns a sample in memory as long as the split it stands for, so that epochs begin as often as there."""
        if split.in_memory is None:
            return split
        times = max(1, min(self.training.rows, MOST_SAMPLED) // split.counts.rows)
        return replace(split, in_memory=join([split.in_memory] * times))

    def _write_sample(self, block_rows: int, seconds: float) -> tuple[int, tuple[str, ...]]:
        """Copies the first records, uncompressed, into as many files as all of them would be written in."""
        count = max(1, min(_MOST_FILES, self.bytes // _FILE_BYTES))
        paths = [str(self._folder / f"sample-{i:02d}.tfrecord") for i in range(count)]
        writers = [tf.io.TFRecordWriter(path) for path in paths]
        files = tf.data.Dataset.from_tensor_slices(list(self.training.files))
        rows, deadline = 0, time.perf_counter() + seconds
        # A thousand at a time at most: of a slow disk the deadline is looked at often enough.
        for i, block in enumerate(read_records(files, len(paths), min(1000, block_rows))):
            for record in block.numpy():
                writers[i % count].write(record)
            rows += len(block)
            if rows >= MOST_SAMPLED or time.perf_counter() > deadline:
                break
        for writer in writers:
            writer.close()
        if not rows:
            raise UserError("the train split is empty: there is nothing to measure.")
        return rows, tuple(path for path in paths if tf.io.gfile.stat(path).length)

    @property
    def _times(self) -> int:
        """How often the sample is read to be as long as what it stands for."""
        return max(1, min(_MOST_REPEATS, self.training.rows // self.sampled))

    def _write_transformed(self, placement: Placement) -> tuple[str, ...]:
        """Writes the sample with all features in it, as Transform does."""
        training = self.training
        names = [*placement.stored, ROW_ID]
        every = decoder(training.tft_output, self.placement, names)
        wanted = {*names, LABEL, EXAMPLE_WEIGHT}
        schema = training.tft_output.transformed_metadata.schema
        coder = tft.coders.ExampleProtoCoder(schema)
        path = str(self._folder / "transformed.tfrecord")
        records = read_records(tf.data.Dataset.from_tensor_slices(list(self.source.sample)), 1, self.source.block_rows)
        with tf.io.TFRecordWriter(path) as writer:
            for serialized in records:
                block = every.transform(every.parse(serialized))
                columns = {name: _cells(value) for name, value in block.items() if name in wanted}
                for row in range(len(serialized)):
                    writer.write(coder.encode({name: cells[row] for name, cells in columns.items()}))
        return (path,)


def _all_written(config: PreprocessingConfig) -> PreprocessingConfig:
    """Returns the config with every feature at place: transform."""
    features = {name: feature.model_copy(update={"place": None}) for name, feature in config.features.items()}
    return config.model_copy(update={"features": features, "place": "transform"})


def _cells(value: tf.Tensor | tf.RaggedTensor) -> Sequence[object]:
    if isinstance(value, tf.RaggedTensor):
        values, splits = value.values.numpy(), value.row_splits.numpy()
        return [values[splits[i] : splits[i + 1]] for i in range(len(splits) - 1)]
    return value.numpy()


def _traced(decode: Decoder) -> Callable[[tf.Tensor], Block]:
    return tf.function(decode, autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])


def _rows_in(seconds: float, call: Callable[[tf.Tensor], Block], files: Sequence[str]) -> int:
    """Returns how many records are read and decoded in so many seconds: a power of two, BLOCK_ROWS at most.

    Blocks of more and more records are tried, for a call has its price however few there are: of a graph with many
    transforms it may be milliseconds, by which a few rows, multiplied, would look dear.
    """
    blocks = iter(read_records(tf.data.Dataset.from_tensor_slices(list(files)), 1, _PILOT_ROWS))
    # Before the first block files are opened and buffers filled, which is no matter of how many rows there are.
    first = next(blocks, None)
    if first is None:
        return BLOCK_ROWS
    call(first)
    records, reading = first, 0.0
    while True:
        # The least of some: what else the machine does only adds to it.
        decoding = min(_timed(call, records) for _ in range(_PILOT_CALLS))
        rows, spent = len(records), reading + decoding
        if spent > seconds or rows >= BLOCK_ROWS:
            break
        with Meter() as meter:
            more = [block for block, _ in zip(blocks, range(rows // _PILOT_ROWS), strict=False)]
        reading += meter.seconds
        if not more:
            break
        records = tf.concat([records, *more], 0)
    return min(BLOCK_ROWS, 1 << (max(_LEAST_BLOCK, int(rows * seconds / spent)).bit_length() - 1))


def _timed(call: Callable[[tf.Tensor], object], argument: tf.Tensor) -> float:
    with Meter() as meter:
        call(argument)
    return meter.seconds
