"""The table of the data formats: one row for each value of `data.source.format`.

A new format is a model in `config.py`, a reader in `components/ingest/readers`, and a row here. The schema and the
checks of the YAML, the reference page, detection by content, sampling and reading follow from the row.
"""

import codecs
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Union

from fullpass.components.ingest.sources import config
from fullpass.preprocessing.spec import SelectedBy
from fullpass.trainer.records.frames import masked_crc

_SAMPLED_BYTES = 16 << 20
"""Bytes up to which a source is sampled whole by a reader that makes Python objects."""
_SAMPLED_FAST = 64 << 20
"""The same for a reader in native code, which takes about a quarter of the time for the same rows."""
LINES = 50
"""Number of lines that are looked at."""
_LONGEST_SCHEMA = 256 << 20
"""Bytes of the schema of an Arrow stream; a longer one means that the first bytes are no length."""
_PLAIN = re.compile(rb"[\t\n\r -~]{20}")
"""The beginning of a text, such as a header line whose first name begins like a binary format: `ORC_count,...`."""


def _begins_with_record(start: bytes, whole: bool = False) -> bool:
    """Returns whether decompressed bytes begin like a TFRecord file: with a length and its checksum."""
    if len(start) < struct.calcsize("<QI"):
        return False
    return bool(masked_crc(start[:8]) == struct.unpack_from("<QI", start)[1])


def _begins_with_object(start: bytes, whole: bool) -> bool:
    """Returns whether text begins with a JSON object per line; `whole` is whether it is the whole file."""
    start = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if start[:1] != b"{":
        return False
    lines = start.split(b"\n", LINES)
    if len(lines) == 1 and not whole:
        return True
    return any(is_json(line, dict) for line in lines[:LINES])


def _begins_with_arrow(start: bytes, whole: bool) -> bool:
    """Returns whether a file begins as an Arrow IPC file, or as a stream: with a mark and the length of its schema."""
    length = int.from_bytes(start[4:8], "little")
    is_stream = start.startswith(b"\xff\xff\xff\xff") and 0 < length < _LONGEST_SCHEMA and length % 8 == 0
    return is_stream or (start.startswith(b"ARROW1") and not _PLAIN.match(start))


def _begins_with_workbook(start: bytes, whole: bool) -> bool:
    """Returns whether a file, not decompressed, begins like a workbook: with a zip archive or an OLE file."""
    return start.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0"))


def is_json(text: bytes, kind: type) -> bool:
    """Returns whether text is JSON of a type, `dict` or `list`."""
    try:
        return isinstance(json.loads(text), kind)
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True)
class Format:
    """One data format.

    Attributes:
        reader: Module and class of the reader, below `components/ingest/readers`. It is a name, because the models of
            the YAML import no Arrow.
        parts: The parts of a file that are read in parallel, for the reference page.
        starts: First bytes of every file of the format, or a test of them, which also takes whether they are the whole
            file; empty if files of the format begin differently.
        streams: Whether a file may also begin otherwise, as Arrow's streams of old versions do.
        is_told: Whether a file shows by itself, by content or name, that it has this format.
        proposed_as: The format in messages of `fullpass init`; empty if `init` does not propose it.
        native: Whether Arrow decodes the rows. Its decoder crashes on some damaged files, and the parts of a file can
            be read independently.
        cut_at_lines: Whether a file can be read from any end of a line on.
        in_lists: Whether every value is in a list, as in a tf.Example.
        sampled_bytes: Bytes up to which `init` and `check --data` read a source completely.
    """

    source: type[config.BaseSource]
    reader: str
    parts: str = ""
    starts: bytes | Callable[[bytes, bool], bool] = b""
    streams: bool = False
    is_told: bool = True
    proposed_as: str = ""
    native: bool = False
    cut_at_lines: bool = False
    in_lists: bool = False
    sampled_bytes: int = _SAMPLED_BYTES

    @property
    def name(self) -> str:
        """The value of `data.source.format`."""
        return str(self.source.model_fields["format"].annotation.__args__[0])  # type: ignore[union-attr]

    @property
    def endings(self) -> tuple[str, ...]:
        """Suffixes of the files that are searched for in a folder; empty for a format that is not read from files."""
        return self.source.endings if issubclass(self.source, config.FileSource) else ()

    def fits(self, start: bytes, *, whole: bool) -> bool:
        """Returns whether a file that begins with `start` has this format; `whole`: whether that is the whole file."""
        if not isinstance(self.starts, bytes):
            return self.starts(start, whole)
        return bool(self.starts) and start.startswith(self.starts) and not _PLAIN.match(start)

    def load_reader(self) -> Any:
        """Returns the class of the reader."""
        module, _, name = self.reader.partition(".")
        return getattr(import_module(f"fullpass.components.ingest.readers.{module}"), name)


_ROWS = (
    Format(
        config.CsvSource,
        "csv.CsvReader",
        parts="byte ranges, if no cell breaks lines",
        proposed_as="CSV",
        cut_at_lines=True,
        sampled_bytes=_SAMPLED_FAST,
    ),
    Format(
        config.ExcelSource,
        "excel.ExcelReader",
        starts=_begins_with_workbook,
        proposed_as="Excel",
        sampled_bytes=_SAMPLED_FAST,
    ),
    Format(
        config.JsonLinesSource,
        "json_lines.JsonLinesReader",
        parts="byte ranges",
        starts=_begins_with_object,
        proposed_as="JSON lines",
        cut_at_lines=True,
    ),
    Format(
        config.ParquetSource,
        "tables.ParquetReader",
        parts="row groups",
        starts=b"PAR1",
        proposed_as="Parquet",
        native=True,
        sampled_bytes=_SAMPLED_FAST,
    ),
    Format(
        config.ArrowSource,
        "tables.ArrowReader",
        parts="record batches",
        starts=_begins_with_arrow,
        streams=True,
        proposed_as="Arrow",
        native=True,
        sampled_bytes=_SAMPLED_FAST,
    ),
    Format(
        config.OrcSource,
        "tables.OrcReader",
        parts="stripes",
        starts=b"ORC",
        proposed_as="ORC",
        native=True,
        sampled_bytes=_SAMPLED_FAST,
    ),
    Format(config.AvroSource, "avro.AvroReader", starts=b"Obj\x01", proposed_as="Avro"),
    Format(
        config.TfRecordSource,
        "tfrecord.TfRecordReader",
        starts=_begins_with_record,
        proposed_as="TFRecords of tf.Example",
        in_lists=True,
    ),
    Format(config.ProtoSource, "proto.ProtoReader", starts=_begins_with_record, is_told=False),
    Format(config.ServingLogSource, "serving_log.ServingLogReader", parts="those of its format", is_told=False),
    Format(config.SqlSource, "sql.SqlReader", parts="ranges of a key"),
    Format(config.BigQuerySource, "bigquery.BigQueryReader"),
    Format(config.TfdsSource, "tfds.TfdsReader"),
    Format(config.NumpySource, "numpy_files.NumpyReader", starts=b"\x93NUMPY"),
    Format(config.ModuleSource, "frames.ModuleReader"),
    Format(config.ImagesSource, "images.ImagesReader", parts="files", is_told=False),
    Format(config.TextSource, "text.TextReader", parts="byte ranges, or files", is_told=False),
)

FORMATS = {row.name: row for row in _ROWS}
"""Value of `data.source.format` -> its row."""

FILE_FORMATS = {name: row for name, row in FORMATS.items() if issubclass(row.source, config.FileSource)}
"""The formats of files."""

TOLD_FORMATS = {name: row for name, row in FILE_FORMATS.items() if row.is_told}
"""The formats that a file shows by itself."""

if TYPE_CHECKING:
    Source = config.BaseSource
else:
    Source = Annotated[Union[tuple(row.source for row in _ROWS)], SelectedBy("format")]  # noqa: UP007
