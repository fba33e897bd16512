"""Writes the columns of one bundle, in files of bounded size; see trainer/records/columns.py."""

import google_crc32c
import pyarrow as pa
from tfx.dsl.io import fileio

from fullpass.trainer.records.columns import ColumnFile

_FILE_BYTES = 8 << 20
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class ColumnWriter:
    """Writes batches of columns; `files` is complete after `close`."""

    def __init__(self, folder: str, prefix: str):
        """Constructs the writer; files are written later."""
        self.files: list[ColumnFile] = []
        self._folder, self._prefix = folder, prefix
        self._sink: pa.BufferOutputStream | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        if self._sink is None:
            self._sink, self._rows = pa.BufferOutputStream(), 0
            self._writer = pa.ipc.new_stream(self._sink, batch.schema, options=_COMPRESSED)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        if self._sink.tell() >= _FILE_BYTES:
            self.close()

    def close(self) -> None:
        """Writes the buffered rows."""
        if self._sink is None:
            return
        self._writer.close()
        content = self._sink.getvalue().to_pybytes()
        name = f"{self._prefix}-{len(self.files):05d}.arrow"
        fileio.makedirs(self._folder)
        with fileio.open(f"{self._folder}/{name}", "wb") as file:
            file.write(content)
        self.files.append(ColumnFile(name, self._rows, len(content), google_crc32c.value(content)))
        self._sink = None
