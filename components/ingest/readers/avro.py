"""Reads Avro object container files."""

from collections.abc import Iterator
from typing import Any

from fullpass.components.ingest.readers.extras import load_package
from fullpass.components.ingest.readers.objects import rows_of
from fullpass.components.ingest.readers.reader import (
    Reading,
    Rows,
    WholeFileReader,
    check_columns,
    numbered_batches,
    readable,
)
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.components.ingest.sources.storage import open_binary
from fullpass.preprocessing.errors import UserError
from fullpass.preprocessing.values.byte_batches import object_bytes


class AvroReader(WholeFileReader):
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

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """See base class."""
        check_columns(self._path, list(reading.columns), self.columns())
        with readable(self._path), open_binary(self._path) as stream:
            for batch, numbers in numbered_batches(_fastavro().reader(stream), object_bytes):
                yield rows_of(batch, numbers, reading)


def _fastavro() -> Any:
    return load_package("fastavro", package="fastavro", needed_by="format: avro")


def _names(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    for field in schema["fields"]:
        name = f"{prefix}{field['name']}"
        yield name
        for kind in field["type"] if isinstance(field["type"], list) else [field["type"]]:
            if isinstance(kind, dict) and kind.get("type") == "record":
                yield from _names(kind, f"{name}.")
