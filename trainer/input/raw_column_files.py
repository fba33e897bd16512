"""The columns of raw examples: StatisticsGen and Transform read these in place of the TFRecord files.

A column holds a value, or a list of values, per row; null is missing. A further column has the size of each record. So
a TFRecord file remains the unit of the work, whose rows come in the same batches: every sum is that of the records.
"""

import logging
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RawColumn
from fullpass.preprocessing.values.byte_batches import byte_ranges
from fullpass.preprocessing.values.convert import arrow_type
from fullpass.trainer.input.raw_tensors import DTYPES
from fullpass.trainer.records.blocks import Layout, PackedColumn
from fullpass.trainer.records.column_files import ColumnFile, ColumnWriter, read_batches, read_index, sizes_of
from fullpass.trainer.records.frames import FRAME_BYTES

_RECORD_BYTES = "fullpass_record_bytes"
"""Last column: the bytes of each record with its frame."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RawColumns:
    """The columns of the rows of a TFRecord file.

    Attributes:
        begin, end: The place of the file's records among those of the split, in bytes without compression.
    """

    folder: str
    files: tuple[ColumnFile, ...]
    begin: int
    end: int

    def batches(self, *, rows: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the batches of `record_batches`.

        Raises:
            DamagedColumns: A file is missing or damaged.
        """
        held: list[pa.RecordBatch] = []
        for batch in self._stored():
            table = pa.Table.from_batches([*held, batch])
            *full, last = byte_ranges(np.asarray(table[_RECORD_BYTES]) - FRAME_BYTES, rows=rows, most_bytes=most_bytes)
            for part in full:
                yield from table.slice(part.start, part.stop - part.start).combine_chunks().to_batches()
            held = table.slice(last.start).combine_chunks().to_batches()  # the next rows may belong to it
        yield from held

    def _stored(self) -> Iterator[pa.RecordBatch]:
        at = 0
        for described in self.files:
            if at < self.end and at + described.record_bytes > self.begin:
                start = at
                for batch in read_batches(self.folder, described):
                    ends = start + np.cumsum(_sizes(batch))
                    first, last = np.searchsorted(ends, [self.begin, self.end], side="right").tolist()
                    if first < last:
                        yield batch.slice(first, last - first)
                    start = int(ends[-1])
            at += described.record_bytes


def find_raw_columns(file: str, dtypes: Mapping[str, tf.DType]) -> RawColumns | None:
    """Returns the columns of a TFRecord file, or None if there are none, or one has another dtype than wanted."""
    name, index = posixpath.basename(file), read_index([file])
    if index is None or name not in index.record_bytes:
        return None
    if index.examples[name] != sizes_of([file])[name]:
        _LOG.warning("%s is not the file that was written; its columns are not used.", file)
        return None
    if any(column.dtype != dtypes.get(column.name, column.dtype) for column in index.layout.columns):
        return None
    ends = dict(zip(index.record_bytes, np.cumsum([*index.record_bytes.values()]).tolist(), strict=True))
    return RawColumns(index.folder, index.files, ends[name] - index.record_bytes[name], ends[name])


def raw_layout(columns: Iterable[RawColumn]) -> Layout:
    """Returns the layout of raw columns and of the row id: each may have any number of values in a row."""
    dtypes = {column.name: DTYPES[column.type] for column in columns} | {RAW_ROW_ID: tf.int64}
    return Layout(tuple(PackedColumn(name, dtype.name, ragged=True) for name, dtype in dtypes.items()))


def stored_rows(
    columns: Sequence[RawColumn], arrays: Mapping[str, pa.Array], row_ids: np.ndarray, records: pa.BinaryArray
) -> pa.RecordBatch:
    """Returns rows as they are stored.

    Args:
        arrays: Columns by name, null where missing.
        row_ids: int64 [rows].
        records: The serialized example of each row.
    """
    values = [arrays[column.name].cast(arrow_type(column)) for column in columns]
    sizes = pc.add(pc.binary_length(records), pa.scalar(FRAME_BYTES, pa.int32()))
    names = [*(column.name for column in columns), RAW_ROW_ID, _RECORD_BYTES]
    return pa.RecordBatch.from_arrays([*values, pa.array(row_ids), sizes], names)


def write_rows(writer: ColumnWriter, rows: pa.RecordBatch) -> None:
    """Appends rows of `stored_rows`."""
    writer.write(rows, int(_sizes(rows).sum()))


def _sizes(rows: pa.RecordBatch) -> np.ndarray:
    sizes: np.ndarray = rows.column(rows.num_columns - 1).to_numpy().astype(np.int64)
    return sizes
