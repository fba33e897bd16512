"""Reads the request log of a served model, whose files are JSON lines, Parquet or TFRecords."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.prediction_log import PredictionLogReader
from fullpass.components.ingest.readers.reader import Reader
from fullpass.components.ingest.readers.recognize import look_at
from fullpass.components.ingest.readers.rows import FilePart, Reading, Rows
from fullpass.components.ingest.sources.config import ServingLogSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile
from fullpass.components.ingest.sources.formats import FORMATS
from fullpass.components.serving_log.cells import bytes_of_json
from fullpass.components.serving_log.columns import FIRST_REFUSED, OPEN, STATUS
from fullpass.preprocessing.columns.raw_columns import RawColumn

_REFUSED = "refused requests"
"""Why rows of a log are in no split."""
_SHOWN = 20
"""First bytes of unknown content in a message."""


class ServingLogReader(Reader[ServingLogSource]):
    """Each file has the format that its content shows. Rows are numbered as that format numbers them."""

    @classmethod
    def inputs(cls, source: Any, resolve: Resolve) -> Sequence[SourceFile]:
        """Returns the complete files: the last line of one that a server writes may be torn."""
        found = [file for file in super().inputs(source, resolve) if not file.path.endswith(OPEN)]
        if not found:
            raise UserError(
                f"data.source.path: {source.path!r} matches only files that a server is writing ({OPEN}). It completes "
                "one when it is large or old enough, or when it ends."
            )
        return found

    @cached_property
    def _reader(self) -> Reader:
        content = look_at(self._path)
        kind = content.format if content.start.strip() else "jsonl"
        if kind in ("jsonl", "parquet"):
            return FORMATS[kind].load_reader()(self._file, self._source)
        if kind == "tfrecord":
            return PredictionLogReader(self._file, self._source)
        found = content.format or content.other or f"begins with {content.start[:_SHOWN]!r}"
        raise UserError(f"{self._path}: no request log, but {found}. Accepted: JSON lines, Parquet, PredictionLogs.")

    def columns(self) -> list[str] | None:
        return self._reader.columns()

    def names_in_rows(self, rows: int) -> list[str] | None:
        return self._reader.names_in_rows(rows)

    def parts(self) -> list[FilePart]:
        return self._reader.parts()

    def rows(self, reading: Reading) -> Iterator[Rows]:
        present = self._reader.columns()
        is_asked = STATUS.name in reading.columns or (present is not None and STATUS.name not in present)
        status = {} if is_asked else {STATUS.name: RawColumn(STATUS.name, "number")}
        inner = replace(reading, columns={**reading.columns, **status})  # with the same lists of bad rows and columns
        refused = 0
        for rows in self._reader.rows(inner):
            answered = rows if is_asked else rows.filter(_is_answered(rows.table.column(STATUS.name)))
            refused += len(rows.numbers) - len(answered.numbers)
            reading.malformed, reading.consumed = inner.malformed + refused, inner.consumed
            table = pa.table({name: _cells(answered.table.column(name), raw) for name, raw in reading.columns.items()})
            yield replace(answered, table=table)
        reading.malformed = inner.malformed + refused
        reading.left_out[_REFUSED] += refused


def _is_answered(status: pa.ChunkedArray) -> np.ndarray:
    """Returns bool [rows]; a row without a status was answered."""
    numbers = pc.fill_null(status.cast(pa.float64()), 0.0)
    return np.asarray(pc.less(numbers, FIRST_REFUSED))


def _cells(column: pa.ChunkedArray, raw: RawColumn) -> pa.ChunkedArray | pa.Array:
    """Returns a column; the images of JSON lines, `{"b64": ...}`, as bytes."""
    return bytes_of_json(column) if raw.image and pa.types.is_struct(column.type) else column
