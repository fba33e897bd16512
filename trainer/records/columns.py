"""Column files: Transform writes transformed features as columns beside its TFRecord files; the Trainer reads these.

Columns need neither parsing nor a TensorFlow graph, which take most of the time of a first pass over the rows. For
every split, the folder `columns` of the transformed examples contains an index, `<split>.json`, and the files
`<split>-00000.arrow`, ..., which are streams of Arrow's IPC format in the order of the rows. The index lists the
TFRecord files with their sizes, so that columns of other files are never used.
"""

import glob
import logging
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import google_crc32c
import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, ROW_ID
from fullpass.trainer.records.blocks import IMAGE_RANK, Block, Chunk, Layout, Packed, PackedColumn

FOLDER = "columns"
"""The folder of the columns in the artifact of transformed examples."""
_SPLIT_FOLDER = "Split-"
_FORMAT = 1
"""Version of the index of a file of columns; files of another version are not read."""
_WHAT_TO_DO = "Training reads the examples instead. To fix the file, delete the run and run the pipeline again."
_DTYPES = {schema_pb2.FLOAT: "float32", schema_pb2.INT: "int64"}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnFile:
    """The name, rows, size and checksum of a column file."""

    file: str
    rows: int
    bytes: int
    crc32c: int


class DamagedColumns(UserError):
    """A column file differs from the one that was written; the message names it."""


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
            for batch in pa.ipc.open_stream(self._read(described)):
                yield _chunk(self.layout, batch)

    def unpack(self, packed: Packed) -> Block:
        """Returns rows by feature."""
        return self.layout.unpack(packed)

    def _read(self, described: ColumnFile) -> bytes:
        path = f"{self.folder}/{described.file}"
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                content = file.read()
        except tf.errors.OpError as error:
            raise DamagedColumns(f"{path} cannot be read: {error.message}. {_WHAT_TO_DO}") from error
        if len(content) != described.bytes or google_crc32c.value(content) != described.crc32c:
            raise DamagedColumns(f"{path} differs from the file that Transform wrote. {_WHAT_TO_DO}")
        return content


def find_columns(files: Sequence[str], layout: Layout | None) -> SplitColumns | None:
    """Returns the columns of TFRecord files, or None if there are none with all features of a layout.

    Args:
        layout: The layout of the rows; None if parsing does not give it.
    """
    folders = {posixpath.dirname(file) for file in files}
    root, _, split = min(folders).rpartition(f"/{_SPLIT_FOLDER}")
    if layout is None or len(folders) > 1 or not root:
        return None
    path = f"{root}/{FOLDER}/{split}.json"
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            index = state_file.decode(file.read(), path, _WHAT_TO_DO)
    except tf.errors.NotFoundError:
        return None
    except (tf.errors.OpError, state_file.DamagedState) as error:
        _LOG.warning("input: the column files are not used: %s", error)
        return None
    if index["format"] != _FORMAT or index["examples"] != _sizes(files):
        return None
    if not {*layout.columns} <= {*Layout.from_json(index["columns"]).columns}:
        return None
    return SplitColumns(f"{root}/{FOLDER}", tuple(ColumnFile(**file) for file in index["files"]), layout)


def publish_columns(root: str, pending: str, split: str, layout: Layout, files: Sequence[ColumnFile]) -> None:
    """Moves the columns of a split to their final folder, and then writes their index.

    Args:
        root: The artifact of transformed examples, whose TFRecord files are there already.
        pending: The folder from which the files are moved.
        layout: The transformed features that the columns hold.
        files: The column files, in the order of the rows.
    """
    tf.io.gfile.makedirs(f"{root}/{FOLDER}")
    named = [replace(file, file=f"{split}-{number:05d}.arrow") for number, file in enumerate(files)]
    for before, after in zip(files, named, strict=True):
        tf.io.gfile.rename(f"{pending}/{before.file}", f"{root}/{FOLDER}/{after.file}")
    examples = tf.io.gfile.glob(f"{glob.escape(root)}/{_SPLIT_FOLDER}{glob.escape(split)}/*")
    index = {
        "format": _FORMAT,
        "examples": _sizes(examples),
        "columns": layout.to_json(),
        "files": [asdict(file) for file in named],
    }
    path = f"{root}/{FOLDER}/{split}.json"
    with tf.io.gfile.GFile(f"{path}.part", "wb") as opened:
        opened.write(state_file.encode(index))
    tf.io.gfile.rename(f"{path}.part", path, overwrite=True)


def layout_of_schema(schema: schema_pb2.Schema) -> Layout | None:
    """Returns the layout of the columns of transformed features, or None if they are stored in TFRecord files only.

    That is so for text, which columns do not make faster, and for pixels, which would take eight times their bytes.
    """
    columns = []
    for feature in schema.feature:
        shape = tuple(dim.size for dim in feature.shape.dim)
        if feature.type not in _DTYPES or len(shape) >= IMAGE_RANK - 1 or 0 in shape:
            return None
        if feature.name != ROW_ID:
            columns.append(
                PackedColumn(feature.name, _DTYPES[feature.type], shape, ragged=not feature.HasField("shape"))
            )
    return Layout(tuple(columns))


def as_columns(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """Returns the transformed features of a layout as a batch of columns; dense features have no offsets."""
    arrays = []
    for column in layout.columns:
        lists = batch.column(batch.schema.get_field_index(column.name))
        dense = lists if column.ragged else lists.flatten()
        arrays.append(pa.FixedSizeListArray.from_arrays(dense, column.width) if column.shape else dense)
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in layout.columns])


def _sizes(files: Sequence[str]) -> dict[str, int]:
    return {posixpath.basename(file): int(tf.io.gfile.stat(file).length) for file in sorted(files)}


def _chunk(layout: Layout, batch: pa.RecordBatch) -> Chunk:
    rows = batch.num_rows
    used = np.asarray(batch.column(EXAMPLE_WEIGHT)) > 0
    if not used.all():
        batch = batch.filter(pa.array(used))
    packed = layout.pack_arrays(*_arrays(layout, batch))
    numbers = [value for value in packed.values() if value.dtype.kind == "f"]
    return {
        "packed": {key: tf.constant(value) for key, value in packed.items()},
        "rows": tf.constant(rows, tf.int64),
        "finite": tf.constant(all(np.isfinite(value).all() for value in numbers)),
    }


def _arrays(layout: Layout, batch: pa.RecordBatch) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the values of all columns, and the lengths of ragged ones."""
    values, lengths = {}, {}
    for column in layout.columns:
        array = batch.column(column.name)
        if column.ragged:
            lengths[column.name] = np.diff(np.asarray(array.offsets))
        flat = np.asarray(array.flatten() if column.ragged or column.shape else array)
        values[column.name] = flat if column.ragged else flat.reshape(-1, *column.shape)
    return values, lengths
