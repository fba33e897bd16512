"""Resolves how rows reach the model under some settings of the YAML, and measures the speed of that training."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any, Literal

import tensorflow as tf

from fullpass.base.processes import usable_cores
from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining, RecordSource
from fullpass.pipeline.diagnose.rates import Rate, drain, train_for
from fullpass.preprocessing.columns.outputs import most_pixels, outputs
from fullpass.trainer.fit.optimizer import batch_size_for
from fullpass.trainer.input.decoder import stored_layout
from fullpass.trainer.input.epochs import STREAM_SHUFFLE_ROWS, BatchOrder
from fullpass.trainer.input.input_plan import MAX_READERS
from fullpass.trainer.input.memory import available_memory
from fullpass.trainer.input.parsed_chunks import ChunkParser, read_chunks
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.records.blocks import Chunk
from fullpass.trainer.records.columns import find_columns

RowStorage = Literal["memory", "disk", "files"]
"""Where rows are kept after the first reading; files keeps none and streams them again in every epoch."""
Changes = Mapping[str, Any]
"""Changed values by path in the YAML."""

_WINDOW_BLOCKS = 2
"""Blocks in the shuffled window of streamed rows: one is read while another one is taken from."""


@dataclass(frozen=True)
class InputSettings:
    """How rows reach the model."""

    source: RecordSource
    kept: RowStorage
    readers: int
    batch_size: int
    shuffle: int


@dataclass(frozen=True)
class Speed:
    """The throughput of a training under a setting.

    Attributes:
        first: The rate of the first reading: rows are read, decompressed, parsed and transformed once.
        epochs: The rate of the updates, their input included.
        readings: The number of such readings before the first epoch.
    """

    first: Rate
    epochs: Rate
    readings: float = 1.0

    def seconds_per_row(self, epochs: int) -> float:
        """Returns the seconds per example and epoch, with the first reading spread over the epochs."""
        return self.epochs.seconds_per_row + self.readings * self.first.seconds_per_row / epochs

    def per_second(self, epochs: int) -> float:
        """Returns the examples per second over a training of `epochs` epochs, including the first reading."""
        return 1 / self.seconds_per_row(epochs)

    def wait(self, epochs: int) -> float:
        """Returns the share of the training's time in which the model waits for input, 0 .. 1."""
        waited = self.epochs.waited / self.epochs.rows + self.readings * self.first.seconds_per_row / epochs
        return min(1.0, waited / self.seconds_per_row(epochs))


def input_settings(profiled: ProfiledTraining, changes: Changes) -> InputSettings:
    """Returns the input settings with some values of the YAML changed.

    Args:
        changes: Values of the sections input and data.records.
    """
    training = profiled.training
    given = {path.removeprefix("input."): value for path, value in changes.items() if path.startswith("input.")}
    config = training.spec.config.input.model_copy(update=given)
    repacked = any(path.startswith("data.records.") for path in changes)
    source = profiled.repacked if repacked else profiled.source
    size = training.spec.config.training.batch_size
    if size == "auto":
        size = batch_size_for(training.rows, most_pixels(outputs(training.spec.preprocessing)))
    kept: RowStorage = "files" if config.cache == "none" else "disk" if config.cache == "disk" else "memory"
    return InputSettings(
        source=source,
        kept="disk" if config.cache == "auto" and not fits(profiled, config.memory_fraction) else kept,
        readers=config.readers if config.readers != "auto" else min(len(source.files), MAX_READERS, usable_cores()),
        batch_size=size,
        shuffle=STREAM_SHUFFLE_ROWS if config.shuffle_buffer == "auto" else config.shuffle_buffer,
    )


def fits(profiled: ProfiledTraining, memory_fraction: float) -> bool:
    """Whether all rows fit into this fraction of the free memory."""
    return profiled.row_bytes * profiled.training.rows <= available_memory() * memory_fraction


def measured_speed(
    profiled: ProfiledTraining, setting: InputSettings, seconds: float, firsts: dict[RecordSource, Rate]
) -> Speed:
    """Returns the speed of a training under a setting.

    Args:
        seconds: The seconds of each of the two measurements.
        firsts: The rates of first readings, which settings with the same source share.
    """
    if setting.source not in firsts:
        firsts[setting.source] = _read_once(profiled, setting, seconds)
    order = profiled.order(setting.batch_size, setting.shuffle)
    epochs = train_for(profiled.update, batches(profiled, setting, order), setting.batch_size, seconds)
    return Speed(firsts[setting.source], epochs, _readings(profiled, setting))


def batches(profiled: ProfiledTraining, setting: InputSettings, order: BatchOrder) -> tf.data.Dataset:
    """Returns the endless batches of a training under a setting.

    Streamed rows are shuffled in small windows, so that filling one does not take minutes.
    """
    split = profiled.split(setting.source, setting.kept)
    if setting.kept == "files":
        window = max(setting.batch_size, _WINDOW_BLOCKS * setting.source.block_rows)
        split = replace(split, readers=setting.readers, window_bytes=window * split.row_bytes)
    return split.batches(order)


def _read_once(profiled: ProfiledTraining, setting: InputSettings, seconds: float) -> Rate:
    """Returns the rate of reading, parsing, packing and counting rows before the first epoch.

    A source that takes less than `seconds` is read as a whole, in the blocks of the training: with few blocks, the time
    before the first and after the last block matters, because nothing runs in parallel then.
    """
    source = setting.source
    if (columns := find_columns(source.files, stored_layout(source.decode))) is not None:
        return drain(chain.from_iterable(repeat(columns)), _rows_of, seconds, passes_of=source.rows)
    parse = ChunkParser(source.decode, profiled.add_model_features, source.files)
    whole = source.pass_seconds <= seconds
    block_rows = parse.block_rows if whole else source.block_rows
    chunks = read_chunks(source.files, parse, setting.readers, rows=block_rows)
    return drain(iter(chunks.repeat()), _rows_of, seconds, passes_of=source.rows if whole else 0)


def _readings(profiled: ProfiledTraining, setting: InputSettings) -> float:
    """Returns the number of readings before the first epoch: one, which counts the rows.

    If rows are not kept, all rows are read again for the moments of pixels, and again for the knots of numbers.
    """
    if setting.kept != "files":
        return 1.0
    features = transformed_outputs(profiled.spec.preprocessing, profiled.spec.tft_output)
    for_moments = any(output.image is not None and output.image.normalize == "train" for output in features)
    return 1.0 + for_moments + any(output.kind == "dense" for output in features)


def _rows_of(chunk: Chunk) -> int:
    return int(chunk["rows"])
