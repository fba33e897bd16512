"""Avro object container files."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from components.ingest.files import SourceFile
from components.ingest.readers.extras import load_package
from components.ingest.readers.objects import rows_of
from components.ingest.reading import BATCH_ROWS, WHOLE, Part, Reading, Rows, check_columns, readable
from components.ingest.storage import open_binary
from preprocessing.errors import UserError


class AvroReader:
    """See `Reader`. `a.b` is field b of the record a."""

    def __init__(self, file: SourceFile, source: object):
        self._path = file.path

    def columns(self) -> list[str]:
        """See base class."""
        with readable(self._path), open_binary(self._path) as stream:
            schema = _fastavro().reader(stream).writer_schema
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UserError(f"{self._path}: the Avro schema must be a record, so that its fields are columns.")
        return list(_names(schema, ""))

    def parts(self) -> list[Part]:
        """See base class."""
        return [WHOLE]

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        check_columns(self._path, list(reading.columns), self.columns())
        first = 1
        with readable(self._path), open_binary(self._path) as stream:
            records = _fastavro().reader(stream)
            while batch := list(islice(records, BATCH_ROWS)):
                numbers = np.arange(first, first + len(batch), dtype=np.int64)
                yield rows_of(batch, numbers, reading)
                first += len(batch)


def _fastavro() -> Any:
    return load_package("fastavro", package="fastavro", needed_by="format: avro")


def _names(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    for field in schema["fields"]:
        name = f"{prefix}{field['name']}"
        yield name
        for kind in field["type"] if isinstance(field["type"], list) else [field["type"]]:
            if isinstance(kind, dict) and kind.get("type") == "record":
                yield from _names(kind, f"{name}.")
