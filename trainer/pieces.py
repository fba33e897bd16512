"""A split as it is read: records parsed thousands at a time, packed and counted in one graph, in parallel.

What Python does per piece is to keep it and to add up its counts.
"""

from collections.abc import Callable, Sequence
from typing import TypedDict

import tensorflow as tf

from preprocessing.cores import usable_cores
from preprocessing.outputs import EXAMPLE_WEIGHT
from trainer.blocks import Block, Layout, Packed, layout_of
from trainer.data_options import data_options
from trainer.input_fn import BLOCK_ROWS, Decode, pack_used, read_records

Complete = Callable[[Block], Block]
"""Gives rows all features that the model computes with, those included that it makes itself."""

_SAMPLE_ROWS = 16
_MOST_CALLS = 16  # readers bring no more


class Piece(TypedDict):
    """Rows of one parse.

    Keys:
        packed: those of a weight above 0.
        rows: number of all, int64 [].
        finite: whether no number that the model computes with is NaN or infinite, bool [].
    """

    packed: Packed
    rows: tf.Tensor
    finite: tf.Tensor


class Preparation:
    """Serialized examples, string [rows], to a Piece.

    Attributes:
        layout: of the packed rows; known once this was called, or traced.
    """

    def __init__(self, decode: Decode, complete: Complete | None, files: Sequence[str]):
        """Args: decode: parses. complete: see `load_split`. files: of the records."""
        self._decode, self._complete, self._files = decode, complete, files
        self.layout = Layout(())

    def __call__(self, serialized: tf.Tensor) -> Piece:
        """Returns the rows, eager or symbolic."""
        block = self._decode(serialized)
        self.layout = self._layout_of(block)
        packed = pack_used(self.layout, block)
        numbers = [*packed.values()] if self._complete is None else [*self.completed(packed).values()]
        flat = [value.flat_values if isinstance(value, tf.RaggedTensor) else value for value in numbers]
        finite = [tf.reduce_all(tf.math.is_finite(value)) for value in flat if value.dtype.is_floating]
        return {
            "packed": packed,
            "rows": tf.size(block[EXAMPLE_WEIGHT], tf.int64),
            "finite": tf.reduce_all(tf.stack(finite)),
        }

    def completed(self, packed: Packed) -> Block:
        """Returns rows by feature, with all that the model computes with."""
        rows = self.layout.unpack(packed)
        return rows if self._complete is None else self._complete(rows)

    def _layout_of(self, block: Block) -> Layout:
        if all(isinstance(value, tf.RaggedTensor) or value.shape[1:].is_fully_defined() for value in block.values()):
            return layout_of(block)
        # A transform graph may leave open how wide a feature is, or of what rank; rows tell.
        with tf.init_scope():
            records = read_records(tf.data.Dataset.from_tensor_slices(list(self._files)), 1, _SAMPLE_ROWS)
            return layout_of(self._decode(next(iter(records))))


@tf.autograph.experimental.do_not_convert
def read_pieces(
    files: Sequence[str],
    prepare: Preparation,
    readers: int,
    rows: int = BLOCK_ROWS,
) -> tf.data.Dataset:
    """Returns all rows in the order of the files, parsed and packed in parallel.

    Args:
        files: TFRecord files.
        prepare: makes pieces of their records.
        readers: files read at the same time.
        rows: parsed together.
    """
    records = read_records(tf.data.Dataset.from_tensor_slices(list(files)), readers, rows)
    # Few ahead: what is wide in memory is wide so many times.
    pieces = records.map(prepare, num_parallel_calls=min(usable_cores(), _MOST_CALLS), deterministic=True)
    return pieces.prefetch(1).with_options(data_options(tuned=False))
