"""The section `data.source` of the YAML: one model per format; `formats.py` has the table of the formats."""

import codecs
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from fullpass.base.errors import did_you_mean
from fullpass.preprocessing.spec import Count, Flag, ImportPath, Name, Spec
from fullpass.preprocessing.values.raw_text import RawText

Paths = Name | tuple[Name, ...] | dict[Name, Name | tuple[Name, ...]]
"""A path, a list of paths, or paths per split; each may be a glob. Relative paths are relative to the YAML's folder;
`package:NAME/PATH` is a file inside an installed Python package."""

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
_ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16", "cp1251", "shift_jis", "gb18030")


def _known_encoding(name: str) -> str:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        hint = did_you_mean(name, _ENCODINGS)
        raise ValueError(f'Python has no encoding "{name}".{hint} Usual: {", ".join(_ENCODINGS)}.') from None
    try:
        encoded = "a".encode(name)
        codecs.getincrementaldecoder(name)("surrogateescape").decode(encoded)
    except (LookupError, UnicodeError, AttributeError):
        # Python also lists zip and rot13 as encodings, and a few that cannot decode incrementally.
        raise ValueError(f'"{name}" is no encoding of text in files. Usual: {", ".join(_ENCODINGS)}.') from None
    return name


Encoding = Annotated[Name, AfterValidator(_known_encoding)]


class BaseSource(Spec):
    """Base class of the models of all formats."""

    if TYPE_CHECKING:
        format: str

    missing: tuple[str, ...] = ()
    """Texts that mean missing, besides null."""
    missing_in: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    """Column -> further texts that mean missing in it, such as `{age: ["-999"]}`."""

    described_by: ClassVar[tuple[str, ...]] = ()
    """Fields that determine how data is read, besides `missing` and `missing_in`: no path, address, query or secret."""
    given_by: ClassVar[str]
    """The field that may have a value per split."""

    def missing_of(self, column: str) -> tuple[str, ...]:
        """Returns the texts that mean missing in one column."""
        return self.raw_text.missing_of(column)

    def description(self) -> dict[str, Any]:
        """Returns the reading options as JSON. They are exported with the model, so they omit the data's location."""
        return self.model_dump(mode="json", include={"format", "missing", "missing_in", *self.described_by})

    @property
    def raw_text(self) -> RawText:
        """The rules for reading text as values."""
        return RawText(missing=self.missing, missing_in=self.missing_in)

    @property
    def per_split(self) -> Any:
        """The value of the field that may have a value per split: paths, queries or functions."""
        return getattr(self, self.given_by)

    @property
    def given_splits(self) -> tuple[str, ...]:
        """Names of the splits that have separate data; empty if Ingest splits the rows."""
        return tuple(self.per_split) if isinstance(self.per_split, Mapping) else ()


class _Path(Spec):
    path: Paths
    """File, folder, glob or address, a list of them, or any of these per split (docs/sources.md)."""


class FileSource(BaseSource, _Path):
    """Base class of all sources that consist of files."""

    endings: ClassVar[tuple[str, ...]] = ()
    """Suffixes of the files that are searched for in a folder; empty accepts every name."""
    types_numbers: ClassVar[bool] = False
    """Whether numbers are read as texts with a decimal point, whatever sign people write."""
    given_by = "path"

    @property
    def reads_folders(self) -> bool:
        """Whether the source reads a folder as a whole."""
        return False


class _TableSource(FileSource):
    """Base class of the sources whose files hold a table as people lay it out, with names above its rows."""

    columns: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Column names, for files without a header line."""
    header_rows: Annotated[Count, Field(le=9)] = 1
    """Header lines. A name over several columns is followed by those below it: `rank, ,` above `film 1, film 2` gives
    `rank film 1` and `rank film 2`."""
    skip_rows: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Lines to skip at the beginning of each file."""
    skip_lines: tuple[Name, ...] = ()
    """Skip lines that begin so: `"#"` for comments, `"Total,"` for totals. Tabs separate the cells of a sheet."""
    missing: tuple[str, ...] = MISSING
    """Cells that mean missing."""


class CsvSource(_TableSource):
    """Text with a separator; gz, bz2, xz, zst and zip are recognized by content."""

    endings = (".csv", ".tsv", ".tab", ".txt")
    described_by = (
        "separator",
        "columns",
        "header_rows",
        "skip_rows",
        "skip_lines",
        "skip_empty",
        "quoting",
        "encoding",
        "decimal",
        "strip",
        "max_cell_kb",
    )

    format: Literal["csv"]
    separator: str = Field(default=",", min_length=1, max_length=1)
    """Character between cells; `"\\t"` for a tab."""
    skip_empty: Flag = False
    """Skip lines of separators and blanks only, as spreadsheets save empty rows."""
    quoting: Flag = True
    """`"` quotes cells, which may then contain separators and line breaks."""
    encoding: Encoding = "utf-8"
    """Encoding, by Python's name: utf-8, latin-1, cp1252."""
    decimal: Literal[".", ","] = "."
    """Decimal separator of numbers."""
    strip: Flag = True
    """Drop blanks around cells."""
    max_cell_kb: Count = 1024
    """A row with a longer cell is bad; the usual cause is an unclosed quote."""

    @property
    def raw_text(self) -> RawText:
        """See base class."""
        return RawText(missing=self.missing, missing_in=self.missing_in, strip=self.strip, decimal=self.decimal)

    @model_validator(mode="after")
    def _cells_can_be_told_apart(self) -> "CsvSource":
        if self.separator in '\n\r"' or not self.separator.isascii():
            raise ValueError(f"separator must be an ASCII character, no quote or line break. Got {self.separator!r}.")
        if self.separator == self.decimal:
            raise ValueError(
                f'separator and decimal are both "{self.separator}". Give separator: ";", or decimal: ".".'
            )
        return self


class ExcelSource(_TableSource):
    """One sheet of each Excel workbook or OpenDocument spreadsheet."""

    endings = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
    types_numbers = True
    described_by = ("sheet", "columns", "header_rows", "skip_rows", "skip_lines")

    format: Literal["excel"]
    sheet: Name | None = None
    """Name of the sheet; None reads the first visible one that is not empty."""

    @property
    def raw_text(self) -> RawText:
        """See base class."""
        return RawText(missing=self.missing, missing_in=self.missing_in, strip=True)


class JsonLinesSource(FileSource):
    """One JSON object per line; null and absent keys are missing."""

    endings = (".jsonl", ".ndjson", ".json")

    format: Literal["jsonl"]


class ParquetSource(FileSource):
    """Only null is missing."""

    endings = (".parquet", ".pq")

    format: Literal["parquet"]


class ArrowSource(FileSource):
    """Arrow IPC files (Feather version 2) and streams."""

    endings = (".arrow", ".feather", ".ipc", ".arrows")

    format: Literal["arrow"]


class OrcSource(FileSource):
    """ORC files."""

    endings = (".orc",)

    format: Literal["orc"]


class AvroSource(FileSource):
    """Avro object container files."""

    endings = (".avro",)

    format: Literal["avro"]


class TfRecordSource(FileSource):
    """TFRecord files of tf.Examples or tf.SequenceExamples."""

    endings = (".tfrecord", ".tfrecords", ".gz")
    described_by = ("payload",)

    format: Literal["tfrecord"]
    payload: Literal["example", "sequence_example"] = "example"
    """Type of the records."""


class ProtoSource(FileSource):
    """TFRecord files of a protocol buffer message. Repeated fields, and fields of repeated messages, are lists. An enum
    is read as its name."""

    endings = (".tfrecord", ".tfrecords", ".gz")
    described_by = ("message", "fields")

    format: Literal["proto"]
    descriptor_set: Name
    """Output of `protoc --include_imports --descriptor_set_out=FILE`."""
    message: Name
    """Full name of the message: `shop.v1.Order`."""
    fields: dict[Name, Name] = Field(default_factory=dict)
    """Column -> dotted path of its field, to rename columns."""


class ServingLogSource(FileSource):
    """The request log of a served model: JSON lines or Parquet of `fullpass serve`, or PredictionLogs of TensorFlow
    Serving (docs/watch.md).

    A row is a row of a request as the model saw it, under the names of the raw columns, with `log_id`, `log_time` and
    the other columns of the log. Refused requests are left out, unless something reads `log_status`.
    """

    endings = (".jsonl", ".parquet", ".tfrecord", ".tfrecords", ".gz")

    format: Literal["serving_log"]
    missing: tuple[str, ...] = ("",)
    """Texts that mean missing, besides null."""


class NumpySource(FileSource):
    """.npy and .npz files; the first axis is the row axis. Arrays of an .npz file and fields of a structured array are
    columns; those with more axes are vectors."""

    endings = (".npy", ".npz")
    described_by = ("columns",)

    format: Literal["numpy"]
    columns: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Columns of an .npy array, along its second axis; None reads it as one column named data."""


class TextSource(FileSource):
    """Plain text."""

    endings = (".txt", ".text", ".md")
    described_by = ("rows", "encoding")

    format: Literal["text"]
    rows: Literal["lines", "files"] = "lines"
    """lines: a row per line, with the column text. files: a row per file, with the columns text, label (its folder) and
    file."""
    encoding: Encoding = "utf-8"
    """Encoding, by Python's name."""

    @property
    def reads_folders(self) -> bool:
        """See base class."""
        return self.rows == "files"


class Decoded(Spec):
    """The size to which images are resized."""

    height: Count
    """Height in pixels."""
    width: Count
    """Width in pixels."""
    channels: Literal[1, 3] = 3
    """1: gray. 3: red, green, blue."""


class ImagesSource(FileSource):
    """JPEG, PNG, GIF and BMP files (docs/sources.md)."""

    endings = (".csv", ".parquet", ".pq")
    described_by = ("labels", "path_column", "decode", "max_file_mb", "max_megapixels")

    format: Literal["images"]
    labels: Literal["folders", "manifest"] = "folders"
    """folders: path has a folder per class. manifest: path is a CSV or Parquet file of image paths and any other
    columns."""
    path_column: Name = "file"
    """Column of a manifest with the paths."""
    decode: Decoded | None = None
    """Adds the column pixels, of resized images: height * width * channels numbers from 0 to 255, by rows."""
    folders: tuple[Name, ...] = ()
    """Further folders or addresses whose files a manifest may name."""
    max_file_mb: Count = 64
    """A larger image is a bad row."""
    max_megapixels: Annotated[Count, Field(le=178)] = 64
    """A larger image is a bad row."""
    missing: tuple[str, ...] = MISSING
    """Cells of a manifest that mean missing; not applied to names of folders by default."""

    @property
    def raw_text(self) -> RawText:
        """See base class."""
        is_name = self.reads_folders and self.missing == MISSING
        return RawText(missing=() if is_name else self.missing, missing_in=self.missing_in)

    @property
    def reads_folders(self) -> bool:
        """See base class."""
        return self.labels == "folders"


class SqlSource(BaseSource):
    """A table or query of any database with a SQLAlchemy dialect."""

    given_by = "query"

    format: Literal["sql"]
    url: Name
    """SQLAlchemy URL without a password: postgresql+psycopg://reader@db.example.com/trips, sqlite:///trips.db."""
    password_env: Name | None = Field(default=None, pattern=r"^[A-Za-z_]\w*$")
    """Environment variable with the password."""
    query: Name | dict[Name, Name]
    """Table or SELECT, or one per split."""
    key: Name | None = None
    """Column of unique values, by whose ranges workers read in parallel, in reproducible order."""
    rows_per_range: Count = 1_000_000
    """Rows per range of the key."""


class BigQuerySource(BaseSource):
    """A table or query of BigQuery."""

    given_by = "query"

    format: Literal["bigquery"]
    query: Name | dict[Name, Name]
    """Table `project.dataset.table` or SELECT, or one per split; ORDER BY makes it reproducible."""
    project: Name | None = None
    """Project that pays; None uses that of the credentials."""
    location: Name | None = None
    """Location such as EU; None lets BigQuery determine it."""


class TfdsSource(BaseSource):
    """A prepared dataset of TensorFlow Datasets. Class labels are read as names, images as bytes of their files."""

    given_by = "splits"

    format: Literal["tfds"]
    name: Name
    """Dataset, with its config if any: `mnist`, `glue/cola`."""
    version: Name | None = None
    """Version, such as `3.0.1`; None uses the newest one there."""
    data_dir: Name
    """Folder of prepared datasets."""
    splits: Name | dict[Name, Name]
    """TFDS split, or one per split: `train`, `train[:80%]`, `train[80%:]+validation`."""


class ModuleSource(BaseSource):
    """A Python function that returns a pandas or polars DataFrame, an Arrow table or record batch reader, or an
    iterator of these or of dicts."""

    given_by = "function"

    format: Literal["module"]
    function: ImportPath | dict[Name, ImportPath]
    """The function, or one per split. Every call must return the same rows."""
