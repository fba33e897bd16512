"""Examples from TFRecord files to batches for Keras. One function per step:

    list_files -> read_records -> decode (transformed_decoder or raw_decoder) -> hold in memory -> shuffle -> batch

Choices, and what was measured for them (320,000 examples of 16 features, 2 cores, batches of 1,024):

* Records are batched before they are parsed, so that one vectorised parse serves a whole batch.
* `cache: memory` holds the split as columns, once, and gathers the rows of each batch by index: 900,000 examples/s
  with a fresh shuffle of all rows in every epoch. Cached serialized records give 130,000, cached parsed blocks
  that are unbatched to be shuffled 50,000.
* Splits that do not fit are streamed in every epoch: files in a new order, `readers` files at a time, records shuffled
  in a buffer, 120,000 examples/s.
* The order of an epoch follows from the seed and its number: the same model comes out on one CPU, and a training that
  was cut short begins again in the middle of an epoch (trainer/order.py).
* Rows of weight 0 are left out of batches: they must not touch gradients, batch statistics or metrics. No other row
  is; the last, smaller batch is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf
import tensorflow_transform as tft

from preprocessing.errors import UserError
from preprocessing.outputs import EXAMPLE_WEIGHT, LABEL
from trainer.inputs import input_name
from trainer.order import Order, in_order, row_numbers

Block = dict[str, tf.Tensor | tf.RaggedTensor]
"""Rows of transformed features by name: dense [rows, ...] or ragged [rows, (ids)]."""

Decode = Callable[[tf.Tensor], Block]
"""string [rows] of serialized examples -> the transformed features of these rows."""

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]
"""(features by name, label, weight float32 [batch]); ragged ids are padded with 0, their weights with 0.0."""

BLOCK_ROWS = 8192
STREAM_SHUFFLE_ROWS = 100_000
_READ_BUFFER_BYTES = 8 << 20
_READ_RUN = 64


def list_files(patterns: Sequence[str], split: str) -> tuple[str, ...]:
    """Returns the files that match any of `patterns`, sorted.

    Raises:
        UserError: There is none.
    """
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(pattern))
    if not files:
        raise UserError(f"split {split!r} has no files. Looked for: {', '.join(patterns) or 'nothing'}.")
    return tuple(files)


@tf.autograph.experimental.do_not_convert
def read_records(files: tf.data.Dataset, readers: int) -> tf.data.Dataset:
    """Returns the serialized records of TFRecord files, `readers` files at a time, in a deterministic order.

    Args:
        files: string [] elements; a name that ends in .gz is read as gzip.
        readers: files open at the same time.
    """

    def open_file(file: tf.Tensor) -> tf.data.Dataset:
        compression = tf.where(tf.strings.regex_full_match(file, r".*\.gz"), "GZIP", "")
        return tf.data.TFRecordDataset(file, compression_type=compression, buffer_size=_READ_BUFFER_BYTES)

    return files.interleave(
        open_file, cycle_length=readers, block_length=_READ_RUN, num_parallel_calls=readers, deterministic=True
    )


def transformed_decoder(tft_output: tft.TFTransformOutput, names: Sequence[str], classes: int = 0) -> Decode:
    """Returns how to parse materialized, transformed examples.

    Args:
        tft_output: the transform graph's output.
        names: transformed features wanted, besides label and weight.
        classes: of a multilabel label that is given as ids; 0 for any other.
    """
    spec = tft_output.transformed_feature_spec()
    wanted = {name: as_ragged(spec[name]) for name in (*names, LABEL, EXAMPLE_WEIGHT)}
    return lambda serialized: with_dense_label(tf.io.parse_example(serialized, wanted), classes)


def raw_decoder(tft_output: tft.TFTransformOutput, names: Sequence[str], classes: int = 0) -> Decode:
    """Returns how to parse raw examples and apply the transform graph, loaded once, to them; as above."""
    spec = tft_output.raw_feature_spec()
    saved = tf.saved_model.load(tft_output.transform_savedmodel_dir)

    def decode(serialized: tf.Tensor) -> Block:
        transformed = saved.transform_fn(tf.io.parse_example(serialized, spec))
        block = {name: without_gaps(transformed[name]) for name in (*names, LABEL, EXAMPLE_WEIGHT)}
        return with_dense_label(block, classes)

    return decode


def as_ragged(feature: object) -> object:
    """Returns a feature's parse spec such that a varying number of values becomes a ragged row."""
    if isinstance(feature, tf.io.VarLenFeature):
        return tf.io.RaggedFeature(feature.dtype, row_splits_dtype=tf.int64)
    return feature


def without_gaps(value: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Returns a transformed feature with a sparse one as ragged rows, which is how it is written to examples."""
    if not isinstance(value, tf.SparseTensor):
        return value
    return tf.RaggedTensor.from_value_rowids(value.values, value.indices[:, 0], value.dense_shape[0], validate=False)


def with_dense_label(block: Block, classes: int) -> Block:
    """Returns `block` with a label of ragged class ids as float32 [rows, classes], 0 or 1."""
    label = block[LABEL]
    if not isinstance(label, tf.RaggedTensor):
        return block
    hot = tf.reduce_max(tf.one_hot(label.to_tensor(-1), classes), axis=1)
    return {**block, LABEL: tf.maximum(hot, 0.0)}


@tf.autograph.experimental.do_not_convert
def read_blocks(files: Sequence[str], decode: Decode, readers: int) -> tf.data.Dataset:
    """Returns all rows in the order of the files, decoded in large blocks, in parallel."""
    records = read_records(tf.data.Dataset.from_tensor_slices(list(files)), readers)
    blocks = records.batch(BLOCK_ROWS).map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return blocks.prefetch(tf.data.AUTOTUNE)


def with_weight(block: Block, *, all_if: tf.Tensor | bool = False) -> Block:
    """Returns the rows whose weight is not 0, or all rows if `all_if`."""
    kept = tf.where((block[EXAMPLE_WEIGHT] > 0) | all_if)[:, 0]
    return {name: tf.gather(value, kept) for name, value in block.items()}


def row_count(block: Block) -> tf.Tensor:
    """Returns the number of rows, int64 []."""
    return tf.shape(block[EXAMPLE_WEIGHT], out_type=tf.int64)[0]


def memory_bytes(block: Block) -> int:
    """Returns what an eager block takes in memory."""
    parts = [part for value in block.values() for part in tf.nest.flatten(value, expand_composites=True)]
    return sum(int(tf.size(part)) * part.dtype.size for part in parts)


def join(blocks: Sequence[Block]) -> Block:
    """Returns the rows of all blocks as one."""
    return {name: tf.concat([block[name] for block in blocks], axis=0) for name in blocks[0]}


@tf.autograph.experimental.do_not_convert
def batches_in_memory(block: Block, finish: Callable[[Block], Batch], order: Order) -> tf.data.Dataset:
    """Returns an endless sequence of batches gathered from rows in memory.

    Args:
        block: the rows of the whole split.
        finish: makes a batch of the rows gathered for it.
        order: of the batches; the last of an epoch is smaller.
    """

    def gather(chosen: tf.Tensor, factor: tf.Tensor) -> Batch:
        features, label, weight = finish({name: tf.gather(value, chosen) for name, value in block.items()})
        return features, label, weight * factor

    first_row = tf.data.Dataset.from_tensors(tf.zeros([1], tf.int64))
    chosen = in_order(order, row_numbers(int(row_count(block)), order), first_row)
    return _deterministic(chosen.map(gather, num_parallel_calls=tf.data.AUTOTUNE))


@tf.autograph.experimental.do_not_convert
def batches_from_files(
    files: Sequence[str], decode: Decode, finish: Callable[[Block], Batch], order: Order, *, readers: int
) -> tf.data.Dataset:
    """Returns an endless sequence of batches read and parsed anew in every epoch.

    Rows of weight 0 make a batch smaller; a batch of nothing else keeps them, so that the number of batches is known:
    records / batch size, rounded up. Of an epoch that is begun in the middle, what comes before is read but not parsed.

    Args:
        files: TFRecord files.
        decode: how to parse their records.
        finish: makes a batch of parsed rows.
        order: of the batches; `shuffle` is of records, after the files.
        readers: files read at the same time.
    """

    def epoch(number: tf.Tensor, first: tf.Tensor) -> tf.data.Dataset:
        names = tf.constant(list(files))
        if order.shuffle:
            names = tf.random.experimental.stateless_shuffle(names, seed=[number, order.seed])
        records = read_records(tf.data.Dataset.from_tensor_slices(names), readers)
        if order.shuffle:
            seed = tf.random.stateless_uniform([], [number, order.seed], 1, tf.int64.max, tf.int64)
            records = records.shuffle(order.shuffle, seed=seed, reshuffle_each_iteration=False)
        return records.batch(order.batch_size).skip(first)

    def parse(serialized: tf.Tensor, factor: tf.Tensor) -> Batch:
        block = decode(serialized)
        if not order.fixed:
            block = with_weight(block, all_if=tf.reduce_all(block[EXAMPLE_WEIGHT] <= 0))
        features, label, weight = finish(block)
        return features, label, weight * factor

    first_record = read_records(tf.data.Dataset.from_tensor_slices(list(files)), 1).take(1).batch(1)
    chosen = in_order(order, epoch, first_record)
    return _deterministic(chosen.map(parse, num_parallel_calls=tf.data.AUTOTUNE))


def to_batch(block: Block, class_weights: Sequence[float] = ()) -> Batch:
    """Returns what Keras takes: features by input name with ragged rows padded, the label, and each row's weight.

    Args:
        block: rows with label and weight.
        class_weights: factor of the weight per class id; empty for none.
    """
    features = {n: v.to_tensor() if isinstance(v, tf.RaggedTensor) else v for n, v in block.items()}
    label, weight = block[LABEL], block[EXAMPLE_WEIGHT]
    features = {
        input_name(name): _padded(value) for name, value in block.items() if name not in (LABEL, EXAMPLE_WEIGHT)
    }
    if class_weights:
        weight *= tf.gather(tf.constant(class_weights, tf.float32), tf.cast(label, tf.int64))
    return features, label, weight


def _padded(value: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    return value.to_tensor() if isinstance(value, tf.RaggedTensor) else value


def _deterministic(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    # A dataset is made for each worker, with its share of the rows (trainer/order.py).
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


@contextmanager
def naming_damaged_files(files: Sequence[str], decode: Decode) -> Iterator[None]:
    """Turns a failure to read or parse records into an error that names the file and the record.

    Raises:
        UserError: A record of one of `files` is damaged, or no serialized example.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        for file in files:
            _check_file(file, decode)
        raise error


def _check_file(file: str, decode: Decode) -> None:
    read = 0
    try:
        for record in read_records(tf.data.Dataset.from_tensors(file), readers=1).batch(1):
            decode(record)
            read += 1
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise UserError(
            f"{file}: record {read + 1} cannot be read: {error.message.splitlines()[0]}. The file is damaged, cut "
            "short or was written by something else. Delete the run that wrote it and run the pipeline again."
        ) from error
