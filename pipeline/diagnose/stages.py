"""Measures the cost of each input stage alone, with the output of the previous stage ready in memory."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, cycle, repeat
from typing import Any

import tensorflow as tf

from fullpass.pipeline.diagnose.profiled_training import ProfiledTraining
from fullpass.pipeline.diagnose.rates import Meter, Rate, drain, train_for
from fullpass.pipeline.diagnose.settings import InputSettings, RowStorage, batches
from fullpass.trainer.input.decoder import stored_layout
from fullpass.trainer.records import record_files
from fullpass.trainer.records.columns import find_columns

_CHUNK_BYTES = 8 << 20
"""Bytes of a read, all of a file that is in memory."""
_BLOCKS = 16
"""Blocks that are parsed over and over: more than the cores that parse them."""

OPEN, READ, DECOMPRESS, PARSE = "open", "read", "decompress", "parse"
TRANSFORM, BATCH, COPY, MODEL = "transform", "batch", "copy", "model"
STAGES = {
    OPEN: "opening files",
    READ: "reading bytes",
    DECOMPRESS: "decompressing gzip",
    PARSE: "parsing examples",
    TRANSFORM: "computing features in the input function",
    BATCH: "shuffling and batching rows",
    COPY: "copying batches to the device",
    MODEL: "the model's update",
}
"""Name of a stage -> its work in words."""
ONCE = (OPEN, READ, DECOMPRESS, PARSE, TRANSFORM)
"""The stages of reading from files; they run once, or in every epoch if rows are not kept."""
NOTHING = 1e-9
"""The seconds of a stage that takes no measurable time beyond the stages before it."""


@dataclass(frozen=True)
class Stage:
    """The cost of one stage alone.

    Attributes:
        name: The name: open, read, decompress, parse, transform, batch, copy or model.
        step_seconds: The seconds per update; the time of a first reading is spread over all updates.
    """

    name: str
    rate: Rate
    step_seconds: float


def stages(profiled: ProfiledTraining, setting: InputSettings, seconds: float) -> list[Stage]:
    """Measures every stage of the input and the model, in order, for about `seconds` in all."""
    epochs = profiled.spec.config.training.max_epochs
    passes = (epochs + 1) / epochs if setting.kept == "files" else 1 / epochs
    return [
        Stage(name, rate, (passes if name in ONCE else 1.0) * rate.seconds_per_row * setting.batch_size)
        for name, rate in _measured(profiled, setting, seconds / len(STAGES))
    ]


def _measured(profiled: ProfiledTraining, setting: InputSettings, seconds: float) -> Iterator[tuple[str, Rate]]:
    columns = (
        None if setting.kept == "files" else find_columns(setting.source.files, stored_layout(setting.source.decode))
    )
    if columns is None:
        yield from _from_records(profiled, setting, seconds)
    else:
        yield READ, drain(chain.from_iterable(repeat(columns)), lambda chunk: int(chunk["rows"]), seconds)
    yield BATCH, drain(iter(_input(profiled, setting)), _batch_rows, seconds)
    batch = next(iter(_input(profiled, setting)))
    if (device := next(iter(tf.config.list_logical_devices("GPU")), None)) is not None:
        yield COPY, _copy(batch, device.name, seconds)
    yield MODEL, train_for(profiled.update, tf.data.Dataset.from_tensors(batch).repeat(), _batch_rows(batch), seconds)


def _from_records(profiled: ProfiledTraining, setting: InputSettings, seconds: float) -> Iterator[tuple[str, Rate]]:
    yield from _files(profiled, setting, seconds)
    decode, files = setting.source.decode, tf.data.Dataset.from_tensor_slices(list(setting.source.sample))
    serialized = _ready(record_files.read_records(files, 1, setting.source.block_rows).take(_BLOCKS))
    parse, to_rows = decode.parse, decode.to_rows
    yield PARSE, drain(iter(_mapped(serialized, parse).repeat()), _rows_of, seconds)
    if decode.graph_part is not None or decode.in_model:
        transformed = _mapped(_ready(_mapped(serialized, parse)), to_rows)
        yield TRANSFORM, drain(iter(transformed.repeat()), _rows_of, seconds)


def _files(profiled: ProfiledTraining, setting: InputSettings, seconds: float) -> Iterator[tuple[str, Rate]]:
    """Measures opening, reading and decompressing files; TensorFlow does the last two together."""
    files = list(setting.source.files)
    names = tf.data.Dataset.from_tensor_slices(files)
    firsts = names.interleave(
        lambda file: record_files.open_records(file).take(1),
        cycle_length=setting.readers,
        num_parallel_calls=setting.readers,
    )
    opened = drain(iter(firsts.repeat()), lambda _: 1, seconds)
    opened = replace(opened, rows=opened.rows * profiled.training.rows / len(files))
    yield OPEN, opened
    block = max(1, min(1000, setting.source.block_rows))
    records = record_files.read_records(names, setting.readers, block)
    read = drain(iter(records.repeat()), lambda batch: int(batch.shape[0]), seconds)
    read = _less(read, opened)
    if not any(file.endswith(".gz") for file in files):
        yield READ, read
        return
    raw = _raw(files, seconds, profiled.training.rows / profiled.bytes)
    yield READ, raw
    yield DECOMPRESS, _less(read, raw)


def _raw(files: list[str], seconds: float, rows_per_byte: float) -> Rate:
    """Measures reading the bytes of files without decompressing them."""
    done, deadline = 0, time.perf_counter() + seconds
    with Meter() as meter:
        for file in cycle(files):
            with tf.io.gfile.GFile(file, "rb") as opened:
                while (time.perf_counter() < deadline or not done) and (chunk := opened.read(_CHUNK_BYTES)):
                    done += len(chunk)
            if time.perf_counter() >= deadline and done:
                break
    return meter.rate(done * rows_per_byte)


def _less(rate: Rate, part: Rate) -> Rate:
    """Returns a rate without the time of `part`, a part of its work that was measured separately."""
    seconds = max(NOTHING, rate.seconds - part.seconds_per_row * rate.rows)
    cpu = max(0.0, rate.cpu_seconds - part.cpu_seconds / part.rows * rate.rows)
    return Rate(rate.rows, seconds, min(cpu, seconds * rate.cores * 2))


def _mapped(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    return dataset.map(tf.autograph.experimental.do_not_convert(function), num_parallel_calls=tf.data.AUTOTUNE)


def _ready(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same elements from memory."""
    kept = dataset.cache()
    deque(kept, maxlen=0)
    return kept


def _input(profiled: ProfiledTraining, setting: InputSettings) -> tf.data.Dataset:
    """Returns batches of rows that are already in memory or on disk."""
    kept: RowStorage = "disk" if setting.kept == "disk" else "memory"
    return batches(profiled, replace(setting, kept=kept), profiled.order(setting.batch_size, setting.shuffle))


def _copy(batch: Any, device: str, seconds: float) -> Rate:
    """Copies a batch to a device, over and over; text stays on the host."""
    tensors = [tensor for tensor in tf.nest.flatten(batch) if tensor.dtype != tf.string]
    done, deadline = 0, time.perf_counter() + seconds
    with Meter() as meter, tf.device(device):
        while time.perf_counter() < deadline:
            copies = [tf.identity(tensor) for tensor in tensors]
            tf.reduce_sum(tf.cast(tf.reshape(copies[-1], [-1])[:1], tf.float32)).numpy()
            done += 1
    return meter.rate(done * _batch_rows(batch))


def _batch_rows(batch: Any) -> int:
    return int(batch[2].shape[0])


def _rows_of(block: Mapping[str, Any]) -> int:
    return int(next(iter(block.values())).shape[0] or 0)
