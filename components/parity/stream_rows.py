"""Streams the same eval rows through each path that must agree, batch by batch, as NumPy arrays in the same order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fullpass.components.parity.compare import same_width
from fullpass.preprocessing.columns.outputs import ROW_ID
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RawColumn
from fullpass.trainer.export.signatures import column_keys
from fullpass.trainer.input.decoder import without_gaps
from fullpass.trainer.input.raw_examples import dense_columns
from fullpass.trainer.records.blocks import Block
from fullpass.trainer.records.record_files import record_batches as read_file

MOST_ROWS = 16_384
BATCH_BYTES = 64 << 20
"""Approximate size of a batch in one path, serialized plus decoded."""

Features = dict[str, np.ndarray]


def rows_of_batch(records: tf.Tensor, decoded: Features) -> int:
    """Returns the number of rows of a batch, given sample rows.

    Args:
        records: Serialized sample examples, string [rows].
        decoded: The same examples, decoded.
    """
    serialized = int(tf.reduce_sum(tf.strings.length(records)))
    row_bytes = (serialized + sum(value.nbytes for value in decoded.values())) / len(records)
    return int(np.clip(BATCH_BYTES / row_bytes, 1, MOST_ROWS))


def record_batches(files: Iterable[str], rows: int, limit: int | None = None) -> Iterator[tf.Tensor]:
    """Yields the first `limit`, or all, serialized examples of TFRecord files, string [at most rows]."""
    left = limit
    for file in files:
        for batch in read_file(file, rows=rows):
            yield tf.constant(batch[:left])
            if left is not None:
                left -= min(left, len(batch))
                if not left:
                    return


def in_order_of(trained: "TrainedRows", files: Sequence[str]) -> Iterator[str]:
    """Yields raw files in the order of their rows in training.

    Transform keeps the rows of a file together and in order, but may change the order of files. The next file is the
    one whose first row is the next row of training, so neither side has to buffer rows of the other.
    """
    by_first_row = {}
    for file in files:
        for first in next(read_file(file, rows=1), []):
            parsed = tf.io.parse_single_example(first, {RAW_ROW_ID: tf.io.FixedLenFeature([], tf.int64)})
            by_first_row[int(parsed[RAW_ROW_ID])] = file
    while by_first_row:
        row = trained.next_row()
        yield by_first_row.pop(row if row in by_first_row else next(iter(by_first_row)))


def through(function: Callable[..., Mapping[str, tf.Tensor]], records: tf.Tensor) -> Features:
    """Returns the outputs of a signature for serialized examples, string [rows]."""
    # A keyword: with a positional argument, TensorFlow first tries another form and formats all records into an error.
    return _numpy(function(examples=records))


def through_raw(
    function: Callable[..., Mapping[str, tf.Tensor]], records: tf.Tensor, columns: Mapping[str, RawColumn]
) -> Features:
    """Returns the outputs of `serving_raw` for the raw columns of `records`, which is the path of a JSON request."""
    keys, dense = column_keys(tuple(columns)), dense_columns(records, columns)
    return _numpy(function(**{keys[name]: value for name, value in dense.items()}))


@dataclass
class _Held:
    """A block with rows that are not taken yet. left: bool [rows], True for these rows."""

    rows: Features
    left: np.ndarray


class TrainedRows:
    """The model inputs of training, taken by row id in any order.

    A block stays in memory from its reading until its last row is taken. If rows are taken in the order of the blocks,
    these are one or two blocks.

    Args:
        blocks: Decoded rows with their ROW_ID.
    """

    def __init__(self, blocks: Iterator[Block]):
        self._blocks = blocks
        self._held: list[_Held] = []
        self._none: Features = {}

    @property
    def held_blocks(self) -> int:
        """Number of blocks in memory."""
        return len(self._held)

    def next_row(self) -> int | None:
        """Returns the id of the first row that is not taken yet; None if all rows are taken."""
        if not self._held and not self._read():
            return None
        first = self._held[0]
        return int(first.rows[ROW_ID][first.left.argmax()])

    def take(self, row_ids: np.ndarray) -> Features:
        """Returns the rows with the given ids, in this order; ids without a row are skipped."""
        masks = [self._among(held, row_ids) for held in self._held]
        while sum(map(np.count_nonzero, masks)) < len(row_ids) and self._read():
            masks.append(self._among(self._held[-1], row_ids))
        parts = [self._none]
        for held, chosen in zip(self._held, masks, strict=True):
            parts.append({name: value[chosen] for name, value in held.rows.items()})
            held.left &= ~chosen
        self._held = [held for held in self._held if held.left.any()]
        rows = _join(parts)
        by_id = np.argsort(rows[ROW_ID])
        present = row_ids[np.isin(row_ids, rows[ROW_ID])]
        order = by_id[np.searchsorted(rows[ROW_ID], present, sorter=by_id)]
        return {name: value[order] for name, value in rows.items()}

    @staticmethod
    def _among(held: _Held, row_ids: np.ndarray) -> np.ndarray:
        return held.left & np.isin(held.rows[ROW_ID], row_ids)

    def _read(self) -> bool:
        """Reads one more block into memory; returns whether there was one."""
        for block in self._blocks:
            rows = _numpy({name: without_gaps(value) for name, value in block.items()})
            self._none = {name: value[:0] for name, value in rows.items()}
            if len(rows[ROW_ID]):
                self._held.append(_Held(rows, np.ones(len(rows[ROW_ID]), dtype=bool)))
                return True
        return False


def _numpy(features: Mapping[str, tf.Tensor | tf.RaggedTensor]) -> Features:
    return {
        name: (value.to_tensor() if isinstance(value, tf.RaggedTensor) else value).numpy()
        for name, value in features.items()
    }


def _join(parts: Sequence[Features]) -> Features:
    joined = {name: [part[name] for part in parts] for name in parts[0]}
    return {name: np.concatenate(same_width(*of) if of[0].ndim > 1 else of) for name, of in joined.items()}
