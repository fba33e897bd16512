"""Parses records thousands at a time, and packs and counts the rows in the same graph, in parallel.

Python only stores each chunk and adds up its counts.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from fullpass.base.processes import usable_cores
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT
from fullpass.trainer.input.data_options import data_options
from fullpass.trainer.input.decoder import Decode, block_rows
from fullpass.trainer.records.blocks import Block, Chunk, Layout, Packed, layout_of, pack_weighted
from fullpass.trainer.records.record_files import read_records

AddModelFeatures = Callable[[Block], Block]
"""Adds the features that the model computes itself to rows."""

_SAMPLE_ROWS = 16
"""Rows that tell the layout of parsed rows."""
_MAX_CALLS = 16
"""Chunks that are parsed at the same time at most; readers do not supply more."""


class ChunkParser:
    """Parses serialized examples, string [rows], to a Chunk.

    Attributes:
        layout: The layout of the packed rows; set by the first call or trace.
        block_rows: The records to parse together.
    """

    def __init__(self, decode: Decode, add_model_features: AddModelFeatures | None, files: Sequence[str]):
        """Begins with an empty layout.

        Args:
            add_model_features: Adds the features that the model computes itself; None if it computes none.
        """
        self._decode, self._add_model_features, self._files = decode, add_model_features, files
        self.layout = Layout(())
        self.block_rows = block_rows(decode)

    def __call__(self, serialized: tf.Tensor) -> Chunk:
        """Returns the rows, eager or symbolic."""
        block = self._decode(serialized)
        self.layout = self._layout_of(block)
        packed = pack_weighted(self.layout, block)
        numbers = [*packed.values()] if self._add_model_features is None else [*self.unpack(packed).values()]
        flat = [value.flat_values if isinstance(value, tf.RaggedTensor) else value for value in numbers]
        finite = [tf.reduce_all(tf.math.is_finite(value)) for value in flat if value.dtype.is_floating]
        return {
            "packed": packed,
            "rows": tf.size(block[EXAMPLE_WEIGHT], tf.int64),
            "finite": tf.reduce_all(tf.stack(finite)),
        }

    def unpack(self, packed: Packed) -> Block:
        """Returns rows by feature, with the features that the model computes itself."""
        rows = self.layout.unpack(packed)
        return rows if self._add_model_features is None else self._add_model_features(rows)

    def _layout_of(self, block: Block) -> Layout:
        if all(isinstance(value, tf.RaggedTensor) or value.shape[1:].is_fully_defined() for value in block.values()):
            return layout_of(block)
        # A transform graph may leave the width or rank of a feature open; a few decoded rows determine it.
        with tf.init_scope():
            records = read_records(tf.data.Dataset.from_tensor_slices(list(self._files)), 1, _SAMPLE_ROWS)
            return layout_of(self._decode(next(iter(records))))


@tf.autograph.experimental.do_not_convert
def read_chunks(files: Sequence[str], parse: ChunkParser, readers: int, rows: int | None = None) -> tf.data.Dataset:
    """Returns all rows in the order of the files, parsed and packed in parallel.

    Args:
        rows: The number of records that are parsed together; by default the parser's `block_rows`.
    """
    records = read_records(tf.data.Dataset.from_tensor_slices(list(files)), readers, rows or parse.block_rows)
    # Prefetches only one chunk, because wide rows take much memory.
    chunks = records.map(parse, num_parallel_calls=min(usable_cores(), _MAX_CALLS), deterministic=True)
    return chunks.prefetch(1).with_options(data_options(tuned=False))
