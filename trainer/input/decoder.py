"""Decodes serialized examples to rows of transformed features."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from fullpass.preprocessing.apply.transform_graph import TransformGraph
from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.input.placement import FeaturePlacement
from fullpass.trainer.input.raw_tensors import to_dense
from fullpass.trainer.records.blocks import IMAGE_RANK, Block, Layout, PackedColumn, without_gaps
from fullpass.trainer.records.record_files import BLOCK_ROWS, read_records

Decode = Callable[[tf.Tensor], Block]
"""Serialized examples, string [rows] -> the transformed features of these rows."""

_BLOCK_PIXELS = 2 << 20
"""Pixels that are decoded together at most."""


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


def stored_layout(decode: Decode) -> Layout | None:
    """Returns the layout of the rows that `decode` returns, or None if it does more than parse."""
    if not isinstance(decode, Decoder) or decode.graph_part is not None or decode.keys:
        return None
    columns = []
    for name, spec in decode.stored.items():
        if isinstance(spec, tf.io.FixedLenFeature):
            columns.append(PackedColumn(name, spec.dtype.name, tuple(spec.shape)))
        elif isinstance(spec, tf.io.RaggedFeature) and name != LABEL:  # decoding makes a label dense
            columns.append(PackedColumn(name, spec.dtype.name, ragged=True))
        else:
            return None
    return Layout(tuple(columns))
