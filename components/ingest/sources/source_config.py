"""The section `data.source` of the YAML: one model per format. Nothing here reads anything."""

import codecs
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, Tag, model_validator

from fullpass.preprocessing.errors import did_you_mean
from fullpass.preprocessing.spec import Count, Flag, Name, Spec, discriminator
from fullpass.preprocessing.values.raw_text import RawText

Paths = Name | tuple[Name, ...] | dict[Name, Name | tuple[Name, ...]]
"""A path, a list of paths, or paths per split; each may be a glob. Relative paths start at the YAML's folder;
`package:NAME/PATH` is a file inside an installed Python package."""

ImportPath = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
_ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16", "cp1251", "shift_jis", "gb18030")


def _known_encoding(name: str) -> str:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        hint = did_you_mean(name, _ENCODINGS)
        raise ValueError(f'Python knows no encoding "{name}".{hint} Usual: {", ".join(_ENCODINGS)}.') from None
    try:
        encoded = "a".encode(name)
        codecs.getincrementaldecoder(name)("surrogateescape").decode(encoded)
    except (LookupError, UnicodeError, AttributeError):
        # Python lists zip and rot13 as encodings too, and a few that cannot decode piece by piece.
        raise ValueError(f'"{name}" is no encoding of text in files. Usual: {", ".join(_ENCODINGS)}.') from None
    return name


Encoding = Annotated[Name, AfterValidator(_known_encoding)]


class _Source(Spec):
    missing: tuple[str, ...] = ()
    """Texts that mean missing, besides null."""
    missing_in: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    """Column -> further texts that mean missing in it alone, such as `{age: ["-999"]}`."""

    described_by: ClassVar[tuple[str, ...]] = ()
    """Fields that say how data is read, beside `missing` and `missing_in`; no path, address, query or secret."""
    given_by: ClassVar[str]
    """The field that may be given per split."""

    def missing_of(self, column: str) -> tuple[str, ...]:
        """Texts that mean missing in one column."""
        return self.raw_text.missing_of(column)

    def description(self) -> dict[str, Any]:
        """Returns how data is read, as JSON. It travels with the model, so it does not say where the data is."""
        return self.model_dump(mode="json", include={"format", "missing", "missing_in", *self.described_by})

    @property
    def raw_text(self) -> RawText:
        """How text is read as values."""
        return RawText(missing=self.missing, missing_in=self.missing_in)

    @property
    def per_split(self) -> Any:
        """What may be given per split: paths, queries or functions."""
        return getattr(self, self.given_by)

    @property
    def given_splits(self) -> tuple[str, ...]:
        """Names of the splits that have data of their own; empty if rows are split at ingest."""
        return tuple(self.per_split) if isinstance(self.per_split, Mapping) else ()


class _Path(Spec):
    path: Paths
    """A path, folder or glob, a list of them, or one or the other per split. Also an address that fsspec knows, such as
    s3://bucket/trips/*.csv, if its driver (s3fs, gcsfs) is installed. Folders named key=value are columns."""


class FileSource(_Source, _Path):
    """What all sources made of files have in common."""

    endings: ClassVar[tuple[str, ...]] = ()
    """File names that a folder is searched for; empty takes every name."""
    given_by = "path"


class CsvSource(FileSource):
    """Comma separated text, or any other separator; gz, bz2, zst and zip by file name."""

    endings = (".csv", ".tsv", ".tab", ".txt")
    described_by = ("separator", "columns", "quoting", "encoding", "decimal", "strip", "max_cell_kb")

    format: Literal["csv"]
    separator: str = Field(default=",", min_length=1, max_length=1)
    """What stands between cells: `;`, or `"\\t"` for a tab."""
    columns: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Column names, for files without a header line; None reads them from the first line of each file."""
    quoting: Flag = True
    """Whether `"` quotes cells; a quoted cell may hold separators and line breaks."""
    encoding: Encoding = "utf-8"
    """Of the file, by Python's name: utf-8, latin-1, cp1252."""
    decimal: Literal[".", ","] = "."
    """What stands before the decimals of a number."""
    strip: Flag = True
    """Drop blanks around cells, before missing tokens are compared."""
    missing: tuple[str, ...] = MISSING
    """Cells that mean missing."""
    max_cell_kb: Count = 1024
    """A row with a longer cell is a bad row: most often a quote that was never closed."""

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


class JsonLinesSource(FileSource):
    """One JSON object per line; null and absent keys are missing, `a.b` is key b of the object a."""

    endings = (".jsonl", ".ndjson", ".json")

    format: Literal["jsonl"]


class ParquetSource(FileSource):
    """Parquet files; null is missing, 0 is 0, False is false and "" is text. `a.b` is field b of the struct a."""

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
    """TFRecords of tf.Example, or of tf.SequenceExample: context features and feature lists."""

    endings = (".tfrecord", ".tfrecords", ".gz")
    described_by = ("payload",)

    format: Literal["tfrecord"]
    payload: Literal["example", "sequence_example"] = "example"
    """What the records hold."""


class ProtoSource(FileSource):
    """TFRecords of a protocol buffer message of your own. `a.b` is field b of the message a, or value b of the map a; a
    repeated field, or a field of a repeated message, is a list; an enum is its name."""

    endings = (".tfrecord", ".tfrecords", ".gz")
    described_by = ("message", "fields")

    format: Literal["proto"]
    descriptor_set: Name
    """What `protoc --include_imports --descriptor_set_out=FILE` writes; relative files start at the YAML's folder."""
    message: Name
    """Name of the message, with its package: `shop.v1.Order`."""
    fields: dict[Name, Name] = Field(default_factory=dict)
    """Column -> dotted path of its field, for columns to be called otherwise."""


class NumpySource(FileSource):
    """NumPy .npy and .npz files. The first axis is rows; the arrays of an .npz are columns, and so are the fields of a
    structured array. An array of more axes is a vector."""

    endings = (".npy", ".npz")
    described_by = ("columns",)

    format: Literal["numpy"]
    columns: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Names for the columns of a plain .npy array, in the order of its second axis; None reads it as one column named
    data."""


class TextSource(FileSource):
    """Plain text."""

    endings = (".txt", ".text", ".md")
    described_by = ("rows", "encoding")

    format: Literal["text"]
    rows: Literal["lines", "files"] = "lines"
    """lines: the column text is a line. files: the columns are text (the whole file), label (its folder's name) and
    file."""
    encoding: Encoding = "utf-8"
    """Of the files, by Python's name."""


class Decoded(Spec):
    """The size that every image is brought to."""

    height: Count
    """Rows of pixels."""
    width: Count
    """Pixels of a row."""
    channels: Literal[1, 3] = 3
    """1: grey. 3: red, green, blue."""


class ImagesSource(FileSource):
    """JPEG, PNG, GIF and BMP files as they are, in the column image, with height, width, channels, label and file."""

    endings = (".csv", ".parquet", ".pq")
    described_by = ("labels", "path_column", "decode", "max_file_mb", "max_megapixels")

    format: Literal["images"]
    labels: Literal["folders", "manifest"] = "folders"
    """folders: path is a folder with one folder of images per class. manifest: path is a CSV or Parquet file with the
    paths of images, relative to the manifest, and any other columns."""
    path_column: Name = "file"
    """The column of a manifest that holds the paths."""
    decode: Decoded | None = None
    """Gives the column pixels too, for a vector feature: height * width * channels numbers from 0 to 255, by rows."""
    folders: tuple[Name, ...] = ()
    """Folders, or addresses of folders, in which a manifest may name files besides its own folder, by whole paths or
    from there; relative ones start at the YAML's folder. A row that names a file elsewhere is a bad row."""
    max_file_mb: Count = 64
    """An image of more megabytes is a bad row; it is not read any further."""
    max_megapixels: Annotated[Count, Field(le=178)] = 64
    """An image of more million pixels is a bad row; it is not decoded. A small file can hold a picture that takes
    gigabytes."""
    missing: tuple[str, ...] = MISSING
    """Cells of a manifest that mean missing; these defaults do not hold for names of folders."""

    @property
    def raw_text(self) -> RawText:
        """See base class."""
        is_name = self.labels == "folders" and self.missing == MISSING
        return RawText(missing=() if is_name else self.missing, missing_in=self.missing_in)


class SqlSource(_Source):
    """A table or query of any database that SQLAlchemy has a dialect for."""

    given_by = "query"

    format: Literal["sql"]
    url: Name
    """SQLAlchemy URL without a password, such as postgresql+psycopg://reader@db.example.com/trips, sqlite:///trips.db
    or duckdb:///trips.duckdb. Relative files start at the YAML's folder."""
    password_env: Name | None = Field(default=None, pattern=r"^[A-Za-z_]\w*$")
    """Name of the environment variable that holds the password."""
    query: Name | dict[Name, Name]
    """A table's name or a SELECT, or one per split."""
    key: Name | None = None
    """Column of unique values, in whose order rows are read. With it, reading is spread over workers by ranges of the
    key and repeats in the same order; without it, the order is the database's."""
    rows_per_range: Count = 1_000_000
    """Rows of one range of the key."""


class BigQuerySource(_Source):
    """A table or query of BigQuery, by Google's own client and the credentials of the machine that runs it. Zeros and
    empty texts stay what they are."""

    given_by = "query"

    format: Literal["bigquery"]
    query: Name | dict[Name, Name]
    """A table, `project.dataset.table`, or a SELECT, or one per split. ORDER BY makes the order repeat."""
    project: Name | None = None
    """Project that pays for the query; None takes that of the credentials."""
    location: Name | None = None
    """Where the query runs, such as EU; None lets BigQuery find out."""


class TfdsSource(_Source):
    """A dataset of TensorFlow Datasets that is prepared on disk. Class labels are their names, images the bytes of
    their files; `a.b` is feature b of the features or the sequence a."""

    given_by = "splits"

    format: Literal["tfds"]
    name: Name
    """Name of the dataset, with its config if it has one: `mnist`, `glue/cola`."""
    version: Name | None = None
    """As its folder is called, `3.0.1`; None takes the newest that is there."""
    data_dir: Name
    """Folder of prepared datasets; a relative one starts at the YAML's folder."""
    splits: Name | dict[Name, Name]
    """A split of the dataset, or one for each split here, in TFDS's own words: `train`, `train[:80%]`,
    `train[80%:]+validation`."""


class ModuleSource(_Source):
    """A Python function without arguments that returns a pandas or polars DataFrame, an Arrow table or record batch
    reader, or an iterator of any of these or of dicts."""

    given_by = "function"

    format: Literal["module"]
    function: ImportPath | dict[Name, ImportPath]
    """`package.module:function`, or one per split. It is called on a worker; the same call must give the same rows."""


Source = Annotated[
    Annotated[CsvSource, Tag("csv")]
    | Annotated[JsonLinesSource, Tag("jsonl")]
    | Annotated[ParquetSource, Tag("parquet")]
    | Annotated[ArrowSource, Tag("arrow")]
    | Annotated[OrcSource, Tag("orc")]
    | Annotated[AvroSource, Tag("avro")]
    | Annotated[TfRecordSource, Tag("tfrecord")]
    | Annotated[ProtoSource, Tag("proto")]
    | Annotated[SqlSource, Tag("sql")]
    | Annotated[BigQuerySource, Tag("bigquery")]
    | Annotated[TfdsSource, Tag("tfds")]
    | Annotated[NumpySource, Tag("numpy")]
    | Annotated[ModuleSource, Tag("module")]
    | Annotated[ImagesSource, Tag("images")]
    | Annotated[TextSource, Tag("text")],
    discriminator("format"),
]
