"""Reads examples from TFRecord files into batches for Keras, with one function per step:

    list_files -> read_records -> decoder -> blocks of rows -> epochs of batches

Design choices, measured with 320,000 examples of 16 features, 2 cores and batches of 1,024:

* Records are batched before they are parsed, so that one vectorised parse serves thousands of them.
* Parsed rows are stored packed (trainer/input/cache/blocks.py): all dense features of a dtype are in one matrix, so
  that a batch takes one gather per dtype. Rows are kept in memory if they fit, and streamed otherwise.
* The order of an epoch depends only on the seed and the number of the epoch (trainer/input/epochs.py). So the same
  model results on one CPU, and training can resume from any batch of any epoch.
* Rows of weight 0 are excluded from batches, because they must not affect gradients, batch statistics or metrics. No
  other row is excluded; the last, smaller batch is kept.
"""

import glob
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.base.errors import UserError
from fullpass.preprocessing.apply.transform_graph import TransformGraph
from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.input.batch_order import BatchOrder, ordered
from fullpass.trainer.input.cache.blocks import Block, Layout, Packed, Rows
from fullpass.trainer.input.epochs import Batch, Windows, windows_in_turn
from fullpass.trainer.input.placement import FeaturePlacement
from fullpass.trainer.input.raw_tensors import to_dense
from fullpass.trainer.models.model_inputs import input_name

Decode = Callable[[tf.Tensor], Block]
"""Serialized examples, string [rows] -> the transformed features of these rows."""

BLOCK_ROWS = 8192
IMAGE_RANK = 4
"""Rank of a batch of pixels; no other transformed feature has it."""
STREAM_SHUFFLE_ROWS = 100_000
_BLOCK_PIXELS = 2 << 20
_READ_BUFFER_BYTES = 1 << 20
_REMOTE_BUFFER_BYTES = 8 << 20  # a request to object storage costs as much as some MiB
_READ_RUN = 1024
_EMPTY_GZIP = 20  # bytes: header, no data, and the trailer
_SHARD = re.compile(r"(?P<before>.*)-(?P<number>\d{5,})-of-(?P<of>\d{5,})(?P<after>[^/]*)", re.DOTALL)


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


def list_files(patterns: Sequence[str], split: str) -> tuple[str, ...]:
    """Returns the files that match any of `patterns`, sorted.

    Raises:
        UserError: No file matches; a shard that the file names count is missing, or is empty while others are not.
    """
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(_below_folder(pattern)))
    if not files:
        raise UserError(f"split {split!r} has no files. Looked for: {', '.join(patterns) or 'nothing'}.")
    _check_shards(files, split)
    return tuple(files)


def _below_folder(pattern: str) -> str:
    """Returns a pattern with its folder escaped, so that brackets in it are no glob syntax; TFX gives `FOLDER/*`."""
    folder, slash, name = pattern.rpartition("/")
    return f"{glob.escape(folder)}/{name}" if slash and tf.io.gfile.isdir(folder) else pattern


def _check_shards(files: Sequence[str], split: str) -> None:
    counted: dict[tuple[str, str], dict[int, str]] = {}
    for file in files:
        if name := _SHARD.fullmatch(file):
            counted.setdefault((name["before"], name["of"]), {})[int(name["number"])] = name["after"]
    gone = [
        f"{before}-{number:0{len(of)}d}-of-{of}{there[min(there)]}"
        for (before, of), there in counted.items()
        for number in sorted(set(range(int(of))) - set(there))
    ]
    # The writers of this pipeline give every shard rows. A split without any rows is reported when it is read.
    empty = [file for file in files if tf.io.gfile.stat(file).length <= (_EMPTY_GZIP if file.endswith(".gz") else 0)]
    empty = [] if len(empty) == len(files) else empty
    for what, bad in (("missing", gone), ("empty", empty)):
        if bad:
            named = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
            raise UserError(
                f"split {split!r}: {len(bad)} of its files are {what}: {named}. They were removed, or copied "
                "incompletely. Restore them, or delete the run that wrote them and run the pipeline again."
            )


def open_records(file: tf.Tensor) -> tf.data.Dataset:
    """Returns the serialized records of one TFRecord file; a name that ends in .gz is read as gzip."""
    compression = tf.where(tf.strings.regex_full_match(file, r".*\.gz"), "GZIP", "")
    remote = tf.strings.regex_full_match(file, r"\w+://.*")
    buffer = tf.where(remote, tf.constant(_REMOTE_BUFFER_BYTES, tf.int64), _READ_BUFFER_BYTES)
    return tf.data.TFRecordDataset(file, compression_type=compression, buffer_size=buffer)


@tf.autograph.experimental.do_not_convert
def read_records(files: tf.data.Dataset, readers: int, rows: int) -> tf.data.Dataset:
    """Returns the serialized records of TFRecord files, string [rows], in a deterministic order.

    Records are batched within each file, so that runs of records are interleaved. Interleaving single records costs
    more than reading them.

    Args:
        files: The files, string [] elements as in `open_records`.
        readers: The files that are open at the same time; their records alternate in runs.
        rows: The rows of each batch but the last.
    """
    runs = files.interleave(
        lambda file: open_records(file).batch(min(rows, _READ_RUN)), cycle_length=readers, num_parallel_calls=readers
    )
    return runs.rebatch(rows)


@dataclass(frozen=True, eq=False)
class Decoder:
    """Decodes serialized examples to rows: parses stored features and computes the others with the transform graph.

    Attributes:
        stored: The parse specs of the transformed features that the records hold.
        keys: The names in the records of the raw columns that are parsed.
        raw: The parse specs of the raw columns.
        graph_part: The part of the transform graph that computes features that are not stored; None where all are.
        in_model: The raw columns that the model computes features from.
        classes: The number of classes of a multilabel label that is stored as ids; 0 for any other.
        block_rows: The number of records to decode together; fewer if they become large images.
    """

    stored: Mapping[str, object]
    keys: Mapping[str, str]
    raw: Mapping[str, object]
    graph_part: Callable[[Mapping[str, object]], Mapping[str, object]] | None
    in_model: Mapping[str, RawColumn]
    classes: int
    block_rows: int = BLOCK_ROWS

    def __call__(self, serialized: tf.Tensor) -> Block:
        """Returns the rows of serialized examples, string [rows]."""
        return self.to_rows(self.parse(serialized))

    def parse(self, serialized: tf.Tensor) -> Mapping[str, object]:
        """Returns the parsed features and raw columns, by their names in the records."""
        spec = {**self.stored, **{key: self.raw[name] for name, key in self.keys.items()}}
        return tf.io.parse_example(serialized, spec)

    def to_rows(self, parsed: Mapping[str, object]) -> Block:
        """Returns the rows of parsed records."""
        return with_dense_label(self.transform(parsed), self.classes)

    def transform(self, parsed: Mapping[str, object]) -> Block:
        """Returns the rows of parsed records, with the label in the form of transformed examples."""
        columns = {name: parsed[key] for name, key in self.keys.items()}
        block = {name: as_pixels(parsed[name]) for name in self.stored}
        if self.graph_part is not None:
            block |= {name: without_gaps(value) for name, value in self.graph_part(columns).items()}
        for name, column in self.in_model.items():
            block[raw_name(name)] = to_dense(columns[name], column)
        return block


def decoder(
    tft_output: tft.TFTransformOutput, placement: FeaturePlacement, names: Sequence[str], classes: int = 0
) -> Decoder:
    """Returns the decoder of records, which loads the transform graph once.

    Args:
        tft_output: The transform graph's output.
        placement: Where features are computed, which defines the content of the records.
        names: The transformed features to return, in addition to label, weight and the raw columns that the model
            reads.
        classes: The number of classes of a multilabel label that is stored as ids; 0 for any other.
    """
    wanted = (*names, LABEL, EXAMPLE_WEIGHT)
    held = {*placement.stored, LABEL, EXAMPLE_WEIGHT, ROW_ID} if placement.materialized else set()
    computed = [name for name in wanted if name not in held]
    transformed = tft_output.transformed_feature_spec()
    raw = tft_output.raw_feature_spec()
    stored = {name: transformed[name] for name in wanted if name in held}
    for name, feature in stored.items():
        if isinstance(feature, tf.io.VarLenFeature):
            stored[name] = tf.io.RaggedFeature(feature.dtype, row_splits_dtype=tf.int64)
    return Decoder(
        stored=stored,
        keys={name: raw_name(name) if placement.materialized else name for name in _columns(placement, raw, computed)},
        raw=raw,
        graph_part=TransformGraph(tft_output.transform_savedmodel_dir).part(computed) if computed else None,
        in_model=placement.columns_in_model,
        classes=classes,
        block_rows=_block_rows(transformed),
    )


def block_rows(decode: Decode) -> int:
    """Returns how many records are decoded together."""
    return decode.block_rows if isinstance(decode, Decoder) else BLOCK_ROWS


def _block_rows(transformed: Mapping[str, Any]) -> int:
    shapes = [feature.shape for feature in transformed.values() if isinstance(feature, tf.io.FixedLenFeature)]
    pixels = sum(math.prod(shape) for shape in shapes if len(shape) == IMAGE_RANK - 1)
    return max(1, min(BLOCK_ROWS, _BLOCK_PIXELS // max(1, pixels)))


def _columns(placement: FeaturePlacement, raw: Mapping[str, object], computed: Sequence[str]) -> list[str]:
    """Returns the raw columns to parse; for raw examples these are all, at least for the label."""
    if not placement.materialized:
        return list(raw)
    return sorted({*(placement.columns_at_input if computed else ()), *placement.columns_in_model})


def without_gaps(value: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Returns a transformed feature; a sparse one becomes ragged rows, which is its form in examples."""
    if not isinstance(value, tf.SparseTensor):
        return value
    return tf.RaggedTensor.from_value_rowids(value.values, value.indices[:, 0], value.dense_shape[0], validate=False)


def as_pixels(value: Any) -> Any:
    """Returns a transformed feature in the dtype that models read: pixels, int64 in TF Transform, become uint8."""
    is_image = isinstance(value, tf.Tensor) and value.dtype == tf.int64 and value.shape.rank == IMAGE_RANK
    return tf.cast(value, tf.uint8) if is_image else value


def with_dense_label(block: Block, classes: int) -> Block:
    """Returns `block` with a label of ragged class ids converted to float32 [rows, classes], 0 or 1."""
    label = block[LABEL]
    if not isinstance(label, tf.RaggedTensor):
        return block
    hot = tf.reduce_max(tf.one_hot(label.to_tensor(-1), classes), axis=1)
    return {**block, LABEL: tf.maximum(hot, 0.0)}


@tf.autograph.experimental.do_not_convert
def read_blocks(files: Sequence[str], decode: Decode, readers: int, rows: int | None = None) -> tf.data.Dataset:
    """Returns all rows in the order of the files, decoded in parallel in large blocks (of `rows` if given)."""
    records = read_records(tf.data.Dataset.from_tensor_slices(list(files)), readers, rows or block_rows(decode))
    blocks = records.map(decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return blocks.prefetch(tf.data.AUTOTUNE)


def pack_weighted(layout: Layout, block: Block) -> Packed:
    """Returns the rows of a block whose weight is not 0, packed."""
    packed, used = layout.pack(block), block[EXAMPLE_WEIGHT] > 0
    return tf.cond(
        tf.reduce_all(used),
        lambda: {key: tf.identity(value) for key, value in packed.items()},
        lambda: Rows(packed).gather(tf.where(used)[:, 0]),
    )


@tf.autograph.experimental.do_not_convert
def windows_from_files(
    files: Sequence[str], decode: Decode, layout: Layout, source: Streamed, order: BatchOrder
) -> Windows:
    """Returns windows read, parsed and shuffled anew in every epoch, without the rows of weight 0.

    The order of the files changes in every epoch, and `readers` files are read at the same time. A window is parsed in
    one call. An epoch that resumes in the middle reads the earlier records, but parses them only if there are rows of
    weight 0.

    Args:
        files: TFRecord files.
        decode: Decodes their records.
        layout: The layout of the rows.
        source: How they are read.
        order: The order of the batches.
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
        block: The rows with label and weight.
        class_weights: The factor of the weight per class id; empty for none.
        widths: The width to pad a ragged feature to, so that all batches have one shape; others are padded to their
            longest row.
    """
    label, weight = block[LABEL], block[EXAMPLE_WEIGHT]
    features = {
        input_name(name): _padded(value, (widths or {}).get(name))
        for name, value in block.items()
        if name not in (LABEL, EXAMPLE_WEIGHT)
    }
    if class_weights:
        weight *= tf.gather(tf.constant(class_weights, tf.float32), tf.cast(label, tf.int64))
    return features, label, weight


def _padded(value: tf.Tensor | tf.RaggedTensor, width: int | None) -> tf.Tensor:
    return value.to_tensor(shape=[None, width]) if isinstance(value, tf.RaggedTensor) else value
