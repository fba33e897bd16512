"""Reads Avro object container files."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.objects import rows_from_dicts
from fullpass.components.ingest.readers.readable import load_package, readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import Reading, Rows, numbered_batches
from fullpass.components.ingest.sources.config import AvroSource
from fullpass.components.ingest.sources.storage import open_binary
from fullpass.preprocessing.values.byte_batches import object_bytes


class AvroReader(FileReader[AvroSource]):
    """`a.b` is field b of the record a, or the list of the fields b of the records in the array a."""

    def columns(self) -> list[str]:
        with readable(self._path), open_binary(self._path) as stream:
            reader = _fastavro().reader(stream)
            schema = reader.writer_schema
            with self._codec_named(reader.codec):
                next(reader, None)  # fails without the package of the codec
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UserError(f"{self._path}: the Avro schema must be a record, so that its fields are columns.")
        return list(dict.fromkeys(_names(schema, "", {}, frozenset())))

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        with open_binary(self._path) as stream:
            for batch, numbers in numbered_batches(_fastavro().reader(stream), object_bytes):
                yield rows_from_dicts(batch, numbers, reading)

    @contextmanager
    def _codec_named(self, codec: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            if "need to install" not in str(error):
                raise
            package = str(error).partition(":")[2].strip(" ()[],'")
            raise UserError(
                f"{self._path}: compressed with {codec}, which needs the Python package {package}. Install it here and "
                "in the image, or write the file with the codec deflate, snappy or null."
            ) from None


def _fastavro() -> Any:
    return load_package("fastavro", package="fastavro", needed_by="format: avro")


def _names(schema: Any, prefix: str, named: dict[str, Any], around: frozenset[str]) -> Iterator[str]:
    """Yields the names of the fields of a type, also of records in unions, arrays and records.

    Args:
        schema: The type: a name, a union or a mapping.
        prefix: The field that has the type, with a dot.
        named: The types defined so far by their names, which later fields may refer to; this adds to it.
        around: Names of the records that the type is a part of; a record in itself has names without an end.
    """
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        for kind in schema:
            yield from _names(kind, prefix, named, around)
    elif isinstance(schema, dict) and schema["type"] == "array":
        yield from _names(schema["items"], prefix, named, around)
    elif isinstance(schema, dict) and schema["type"] in ("record", "error") and schema["name"] not in around:
        named[schema["name"]] = schema
        for field in schema["fields"]:
            name = f"{prefix}{field['name']}"
            yield name
            yield from _names(field["type"], f"{name}.", named, around | {schema["name"]})
