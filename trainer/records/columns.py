"""The columns of transformed examples: the Trainer reads these in place of the TFRecord files.

Columns need neither parsing nor a TensorFlow graph, which take most of the time of a first pass over the rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT
from fullpass.trainer.records.blocks import IMAGE_RANK, Block, Chunk, Layout, Packed, PackedColumn
from fullpass.trainer.records.column_files import ColumnFile, read_batches, read_index, sizes_of

_DTYPES = {schema_pb2.FLOAT: "float32", schema_pb2.INT: "int64"}


@dataclass(frozen=True)
class SplitColumns:
    """The columns of a split, in chunks of rows."""

    folder: str
    files: tuple[ColumnFile, ...]
    layout: Layout = field(repr=False)

    def __iter__(self) -> Iterator[Chunk]:
        """Yields the rows.

        Raises:
            DamagedColumns: A file is missing or damaged.
        """
        for described in self.files:
            for batch in read_batches(self.folder, described):
                yield _chunk(self.layout, batch)

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yields all rows, also those of weight 0, in blocks of at most `rows`, by feature.

        Raises:
            DamagedColumns: A file is missing or damaged.
        """
        for described in self.files:
            for batch in read_batches(self.folder, described):
                for first in range(0, batch.num_rows, rows):
                    yield self.unpack(_tensors(_packed(self.layout, batch.slice(first, rows))))

    def unpack(self, packed: Packed) -> Block:
        """Returns rows by feature."""
        return self.layout.unpack(packed)


def find_columns(files: Sequence[str], layout: Layout | None) -> SplitColumns | None:
    """Returns the columns of TFRecord files, or None if there are none with all features of a layout.

    Args:
        layout: The layout of the rows; None if parsing does not give it.
    """
    index = None if layout is None else read_index(files)
    if layout is None or index is None or index.examples != sizes_of(files):
        return None
    if not {*layout.columns} <= {*index.layout.columns}:
        return None
    return SplitColumns(index.folder, index.files, layout)


def layout_of_schema(schema: schema_pb2.Schema) -> Layout | None:
    """Returns the layout of the columns of transformed features, or None if they are stored in TFRecord files only.

    That is so for text, which columns do not make faster, and for pixels, which would take eight times their bytes.
    """
    columns = []
    for feature in schema.feature:
        shape = tuple(dim.size for dim in feature.shape.dim)
        if feature.type not in _DTYPES or len(shape) >= IMAGE_RANK - 1 or 0 in shape:
            return None
        columns.append(PackedColumn(feature.name, _DTYPES[feature.type], shape, ragged=not feature.HasField("shape")))
    return Layout(tuple(columns))


def as_columns(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """Returns the transformed features of a layout as a batch of columns; dense features have no offsets."""
    arrays = []
    for column in layout.columns:
        lists = batch.column(batch.schema.get_field_index(column.name))
        dense = lists if column.ragged else lists.flatten()
        arrays.append(pa.FixedSizeListArray.from_arrays(dense, column.width) if column.shape else dense)
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in layout.columns])


def _chunk(layout: Layout, batch: pa.RecordBatch) -> Chunk:
    rows = batch.num_rows
    used = np.asarray(batch.column(EXAMPLE_WEIGHT)) > 0
    if not used.all():
        batch = batch.filter(pa.array(used))
    packed = _packed(layout, batch)
    numbers = [value for value in packed.values() if value.dtype.kind == "f"]
    return {
        "packed": _tensors(packed),
        "rows": tf.constant(rows, tf.int64),
        "finite": tf.constant(all(np.isfinite(value).all() for value in numbers)),
    }


def _tensors(packed: Mapping[str, np.ndarray]) -> Packed:
    return {key: tf.constant(value) for key, value in packed.items()}


def _packed(layout: Layout, batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    values, lengths = {}, {}
    for column in layout.columns:
        array = batch.column(column.name)
        if column.ragged:
            lengths[column.name] = np.diff(np.asarray(array.offsets))
        flat = np.asarray(array.flatten() if column.ragged or column.shape else array)
        values[column.name] = flat if column.ragged else flat.reshape(-1, *column.shape)
    return layout.pack_arrays(values, lengths)
