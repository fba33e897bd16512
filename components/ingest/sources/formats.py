"""The table of the data formats: one row for each value of `data.source.format`.

A new format is a model in `config.py`, a reader in `components/ingest/readers`, and a row here. The schema and the
checks of the YAML, the reference page, detection by content, sampling and reading follow from the row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Union

from fullpass.components.ingest.sources.config import (
    ArrowSource,
    AvroSource,
    BaseSource,
    BigQuerySource,
    CsvSource,
    FileSource,
    ImagesSource,
    JsonLinesSource,
    ModuleSource,
    NumpySource,
    OrcSource,
    ParquetSource,
    ProtoSource,
    SqlSource,
    TextSource,
    TfdsSource,
    TfRecordSource,
)
from fullpass.components.ingest.sources.first_bytes import PLAIN, begins_with_object, begins_with_record
from fullpass.preprocessing.spec import SelectedBy

_MB = 1 << 20


@dataclass(frozen=True)
class Format:
    """One data format.

    Attributes:
        source: Model of the section `data.source`.
        reader: Module and class of the reader, below `components/ingest/readers`. It is a name, because the models of
            the YAML import no Arrow.
        numbers: The number by which messages name a row, for the reference page.
        parts: The parts of a file that are read in parallel, for the reference page.
        starts: First bytes of every file of the format, or a test of them, which also takes whether they are the whole
            file; empty if files of the format begin differently.
        streams: Whether a file may also begin otherwise, as Arrow's streams do.
        is_told: Whether a file shows by itself, by content or name, that it has this format.
        proposed_as: The format in messages of `fullpass init`; empty if `init` does not propose it.
        native: Whether Arrow decodes the rows. Its decoder crashes on some damaged files, and the parts of a file can
            be read independently.
        cut_at_lines: Whether a file can be read from any end of a line on.
        in_lists: Whether every value is in a list, as in a tf.Example.
        sampled_bytes: Bytes up to which `init` and `check --data` read a source completely.
    """

    source: type[BaseSource]
    reader: str
    numbers: str
    parts: str = ""
    starts: bytes | Callable[[bytes, bool], bool] = b""
    streams: bool = False
    is_told: bool = True
    proposed_as: str = ""
    native: bool = False
    cut_at_lines: bool = False
    in_lists: bool = False
    sampled_bytes: int = 16 * _MB

    @property
    def name(self) -> str:
        """The value of `data.source.format`."""
        return str(self.source.model_fields["format"].annotation.__args__[0])  # type: ignore[union-attr]

    @property
    def endings(self) -> tuple[str, ...]:
        """Suffixes of the files that are searched for in a folder; empty for a format that is not read from files."""
        return self.source.endings if issubclass(self.source, FileSource) else ()

    def fits(self, start: bytes, *, whole: bool) -> bool:
        """Returns whether a file that begins with `start` has this format; `whole`: whether that is the whole file."""
        if not isinstance(self.starts, bytes):
            return self.starts(start, whole)
        return bool(self.starts) and start.startswith(self.starts) and not PLAIN.match(start)

    def load_reader(self) -> Any:
        """Returns the class of the reader."""
        module, _, name = self.reader.partition(".")
        return getattr(import_module(f"fullpass.components.ingest.readers.{module}"), name)


_ROWS = (
    Format(
        CsvSource,
        "csv.CsvReader",
        numbers="line",
        parts="byte ranges, if no cell breaks lines",
        proposed_as="CSV",
        cut_at_lines=True,
        sampled_bytes=64 * _MB,
    ),
    Format(
        JsonLinesSource,
        "json_lines.JsonLinesReader",
        numbers="line",
        parts="byte ranges",
        starts=begins_with_object,
        proposed_as="JSON lines",
        cut_at_lines=True,
    ),
    Format(
        ParquetSource,
        "tables.ParquetReader",
        numbers="position",
        parts="row groups",
        starts=b"PAR1",
        proposed_as="Parquet",
        native=True,
        sampled_bytes=64 * _MB,
    ),
    Format(
        ArrowSource,
        "tables.ArrowReader",
        numbers="position",
        parts="record batches",
        starts=b"ARROW1",
        streams=True,
        proposed_as="Arrow",
        native=True,
        sampled_bytes=64 * _MB,
    ),
    Format(
        OrcSource,
        "tables.OrcReader",
        numbers="position",
        parts="stripes",
        starts=b"ORC",
        proposed_as="ORC",
        native=True,
        sampled_bytes=64 * _MB,
    ),
    Format(AvroSource, "avro.AvroReader", numbers="position", starts=b"Obj\x01", proposed_as="Avro"),
    Format(
        TfRecordSource,
        "tfrecord.TfRecordReader",
        numbers="record",
        starts=begins_with_record,
        proposed_as="TFRecords of tf.Example",
        in_lists=True,
    ),
    Format(ProtoSource, "proto.ProtoReader", numbers="record", starts=begins_with_record, is_told=False),
    Format(SqlSource, "sql.SqlReader", numbers="position in key order", parts="ranges of a key"),
    Format(BigQuerySource, "bigquery.BigQueryReader", numbers="order of the result"),
    Format(TfdsSource, "tfds.TfdsReader", numbers="position"),
    Format(NumpySource, "numpy_files.NumpyReader", numbers="position", starts=b"\x93NUMPY"),
    Format(ModuleSource, "frames.ModuleReader", numbers="position"),
    Format(
        ImagesSource,
        "images.ImagesReader",
        numbers="path, or line of the manifest",
        parts="files",
        is_told=False,
    ),
    Format(
        TextSource,
        "text.TextReader",
        numbers="line, or path",
        parts="byte ranges, or files",
        is_told=False,
    ),
)

FORMATS = {row.name: row for row in _ROWS}
"""Value of `data.source.format` -> its row."""

FILE_FORMATS = {name: row for name, row in FORMATS.items() if issubclass(row.source, FileSource)}
"""The formats of files."""

TOLD_FORMATS = {name: row for name, row in FILE_FORMATS.items() if row.is_told}
"""The formats that a file shows by itself."""

if TYPE_CHECKING:
    Source = BaseSource
else:
    Source = Annotated[Union[tuple(row.source for row in _ROWS)], SelectedBy("format")]  # noqa: UP007
