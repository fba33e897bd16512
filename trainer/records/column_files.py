"""Column files: Ingest and Transform write the columns of their examples beside the TFRecord files.

For every split, the folder `columns` of the examples contains an index, `<split>.json`, and the files
`<split>-00000.arrow`, ..., which are streams of Arrow's IPC format in the order of the rows. The index lists the
TFRecord files with their sizes, so that columns of other files are never used.
"""

import glob
import logging
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import google_crc32c
import pyarrow as pa
import tensorflow as tf

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.base.files import write_blocks
from fullpass.trainer.records.blocks import Layout

FOLDER = "columns"
"""The folder of the columns in the artifact of examples."""
FILE_BYTES = 8 << 20
"""Bytes of a column file from which the next one begins."""
FILE_RECORD_BYTES = 10 << 20
"""The same in bytes of TFRecords, where they are known: a reader of one of their files reads few other columns."""
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_SPLIT_FOLDER = "Split-"
_FORMAT = 2
"""Version of the index of a file of columns; files of another version are not read."""
_WHAT_TO_DO = "The examples are read instead. To fix the file, delete the run and run the pipeline again."
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ColumnFile:
    """The name, rows, size and checksum of a column file. record_bytes: size of the TFRecords of its rows, if known."""

    file: str
    rows: int
    bytes: int
    crc32c: int
    record_bytes: int = 0


class DamagedColumns(UserError):
    """A column file differs from the one that was written; the message names it."""


@dataclass(frozen=True)
class ColumnIndex:
    """The index of the columns of a split.

    Attributes:
        examples: Name of each TFRecord file -> its size.
        record_bytes: The same without compression, in the order of the rows; empty for columns that are not read file
            by file.
    """

    folder: str
    layout: Layout
    files: tuple[ColumnFile, ...]
    examples: Mapping[str, int]
    record_bytes: Mapping[str, int]


class ColumnWriter:
    """Writes the columns of one bundle, in files of bounded size. `files` is complete after `close`."""

    def __init__(self, folder: str, prefix: str):
        """Constructs the writer; files are written later."""
        self.files: list[ColumnFile] = []
        self._folder, self._prefix = folder, prefix
        self._sink: pa.BufferOutputStream | None = None

    def write(self, batch: pa.RecordBatch, record_bytes: int = 0) -> None:
        """Appends rows. record_bytes: the bytes of their TFRecords, if a reader needs them."""
        if self._sink is None:
            self._sink, self._rows, self._record_bytes = pa.BufferOutputStream(), 0, 0
            self._writer = pa.ipc.new_stream(self._sink, batch.schema, options=_COMPRESSED)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        self._record_bytes += record_bytes
        if self._sink.tell() >= FILE_BYTES or self._record_bytes >= FILE_RECORD_BYTES:
            self.close()

    def close(self) -> None:
        """Writes the buffered rows."""
        if self._sink is None:
            return
        self._writer.close()
        content = self._sink.getvalue().to_pybytes()
        name = f"{self._prefix}-{len(self.files):05d}.arrow"
        tf.io.gfile.makedirs(self._folder)
        with tf.io.gfile.GFile(f"{self._folder}/{name}", "wb") as file:
            write_blocks(file, content)
        described = ColumnFile(name, self._rows, len(content), google_crc32c.value(content), self._record_bytes)
        self.files.append(described)
        self._sink = None


def publish_columns(
    root: str,
    pending: str,
    split: str,
    layout: Layout,
    files: Sequence[ColumnFile],
    record_bytes: Sequence[int] = (),
) -> None:
    """Moves the columns of a split to their final folder, and then writes their index.

    Args:
        root: The artifact of examples, whose TFRecord files are there already.
        pending: The folder from which the files are moved.
        layout: The columns.
        files: The column files, in the order of the rows.
        record_bytes: Size of each TFRecord file without compression, in the order of the rows, if columns are read file
            by file.
    """
    tf.io.gfile.makedirs(f"{root}/{FOLDER}")
    named = [replace(file, file=f"{split}-{number:05d}.arrow") for number, file in enumerate(files)]
    for before, after in zip(files, named, strict=True):
        tf.io.gfile.rename(f"{pending}/{before.file}", f"{root}/{FOLDER}/{after.file}")
    examples = sizes_of(tf.io.gfile.glob(f"{glob.escape(root)}/{_SPLIT_FOLDER}{glob.escape(split)}/*"))
    index = {
        "format": _FORMAT,
        "examples": examples,
        "record_bytes": dict(zip(examples, record_bytes, strict=bool(record_bytes))),
        "columns": layout.to_json(),
        "files": [asdict(file) for file in named],
    }
    path = f"{root}/{FOLDER}/{split}.json"
    with tf.io.gfile.GFile(f"{path}.part", "wb") as opened:
        opened.write(state_file.encode(index))
    tf.io.gfile.rename(f"{path}.part", path, overwrite=True)


def read_index(files: Sequence[str]) -> ColumnIndex | None:
    """Returns the index of the columns of TFRecord files; None if there is none for them, or if it is damaged."""
    folders = {posixpath.dirname(file) for file in files}
    root, _, split = min(folders).rpartition(f"/{_SPLIT_FOLDER}")
    if len(folders) > 1 or not root:
        return None
    path = f"{root}/{FOLDER}/{split}.json"
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            index = state_file.decode(file.read(), path, _WHAT_TO_DO)
    except tf.errors.NotFoundError:
        return None
    except (tf.errors.OpError, state_file.DamagedState) as error:
        _LOG.warning("the column files are not used: %s", error)
        return None
    if index["format"] != _FORMAT:
        return None
    described = tuple(ColumnFile(**file) for file in index["files"])
    layout = Layout.from_json(index["columns"])
    return ColumnIndex(f"{root}/{FOLDER}", layout, described, index["examples"], index["record_bytes"])


def read_batches(folder: str, described: ColumnFile) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a column file.

    Raises:
        DamagedColumns: The file is missing or damaged.
    """
    path = f"{folder}/{described.file}"
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            content = file.read()
    except tf.errors.OpError as error:
        raise DamagedColumns(f"{path} cannot be read: {error.message}. {_WHAT_TO_DO}") from error
    if len(content) != described.bytes or google_crc32c.value(content) != described.crc32c:
        raise DamagedColumns(f"{path} differs from the file that was written. {_WHAT_TO_DO}")
    yield from pa.ipc.open_stream(content)


def sizes_of(files: Sequence[str]) -> dict[str, int]:
    """Returns the name and the size of each file, sorted by name."""
    return {posixpath.basename(file): int(tf.io.gfile.stat(file).length) for file in sorted(files)}
