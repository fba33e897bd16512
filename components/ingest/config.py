"""The section `data:` of the YAML: the source of the rows, and how they are split, written and accounted for."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fullpass.components.ingest.sources.formats import Source
from fullpass.components.ingest.writing.shards import Layout
from fullpass.preprocessing.config import ColumnType
from fullpass.preprocessing.features.base_feature import WrittenDateFormat
from fullpass.preprocessing.spec import Count, Flag, Fraction, Name, NonNegative, SelectedBy, Spec

Ratios = dict[Name, Annotated[float, Field(strict=True, gt=0)]]
_EIGHT_TO_TWO: dict[str, float] = {"train": 8.0, "eval": 2.0}


class HashSplit(Spec):
    """By hash of a column. A row stays in its split as data grows, and rows with the same key stay together."""

    method: Literal["hash"]
    column: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Key column; or several columns, whose key is the JSON list of their tokens: `["a", "7"]`, with null for a missing
    cell. A row without a key, or without any part of it, is assigned at random. None hashes all columns of the source,
    including those that no feature reads: equal rows fall into the same split, and a change of the features moves no
    row."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class RandomSplit(Spec):
    """By a seeded random number per row. The same rows in the same files give the same splits."""

    method: Literal["random"]
    seed: NonNegative = 1
    """Another seed gives other splits."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class StratifiedSplit(Spec):
    """Like hash without a key, with the shares of every class equal in all splits, to within one row.

    The rows of a class are ordered by a hash of all columns of the source, and this order is cut at the ratios. This
    takes one more pass over the data. As data grows, only rows next to a cut change their split. Equal rows stay
    together, so a cut in a class with repeated rows can be off by the repeats of one row.
    """

    method: Literal["stratified"]
    column: Name | None = None
    """Raw or derived column whose values are the classes; a missing value is a class, too. At most 10,000 classes. None
    uses the label of a binary or multiclass task."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class TimeSplit(Spec):
    """By date, the oldest rows first. A row without a readable date is a bad row."""

    method: Literal["time"]
    column: Name | Annotated[tuple[Name, ...], Field(min_length=1)]
    """Raw column with the date; or several columns, joined by `-`: [year, month, day] with format: "%Y-%m-%d"."""
    format: WrittenDateFormat = "iso"
    """Format of the dates, as in a date feature."""
    until: dict[Name, Name] = Field(min_length=1)
    """Split -> first instant that no longer belongs to it, written in `format`; in chronological order."""
    rest: Name = "eval"
    """Split of all later rows."""


class ColumnSplit(Spec):
    """By the value of a column. A row with any other value is a bad row."""

    method: Literal["column"]
    column: Name
    """Raw column that names the split."""
    values: dict[Name, Name | tuple[Name, ...]] = Field(min_length=2)
    """Split -> value or values of the column."""


Split = Annotated[
    HashSplit | RandomSplit | StratifiedSplit | TimeSplit | ColumnSplit,
    SelectedBy("method"),
]


class RecordsConfig(Spec):
    """The layout of TFRecord files, here and after Transform."""

    readers: Count = 1
    """Number of hosts that read at the same time in training. A split is written in ten files per reader, unless these
    would be smaller than 10 MB."""
    shard_mb: Count = 128
    """Largest size of one file, in MB of records before compression; a larger split is written in more files."""
    compression: Literal["auto", "none", "gzip"] = "auto"
    """auto: none for a local root, gzip for a remote one."""
    shuffle: Flag = False
    """Put raw examples into a random order across all files of a split, which separates neighboring rows of the source.
    It costs a copy of the records, and memory for one file of `shard_mb` per worker."""
    seed: NonNegative = 1
    """Another seed gives another order."""

    def gzip(self, *, remote: bool) -> bool:
        """Returns whether files are compressed; `remote` is whether the root is remote."""
        return remote if self.compression == "auto" else self.compression == "gzip"

    def layout(self, *, gzip: bool) -> Layout:
        """Returns the layout of the files; `gzip` is whether they are compressed."""
        return Layout(self.shard_mb << 20, self.readers, gzip, self.seed if self.shuffle else None)


class BadRows(Spec):
    """Number of rows that may be unreadable before the run fails. They are kept in the quarantine either way."""

    max_fraction: Fraction = 0.001
    """Largest share of all rows."""
    max_rows: NonNegative | None = None
    """Absolute limit, in addition to the fraction."""


class SplitLeakage(Spec):
    """Number of rows of a split that may also be in another split before the run fails. Such rows are equal in every
    column that is read. They are always counted and shown: a metric measured on rows of train is too good."""

    max_fraction: Fraction = 1.0
    """Largest share of a split's rows, for every pair of splits. In a pair with train, the share is that of the other
    split's rows."""
    max_rows: NonNegative | None = None
    """Absolute limit, in addition to the fraction."""


class SpanColumn(Spec):
    """A column that contains the span of each row, for files with rows of many spans."""

    column: Name
    """Raw column with a date, or with the number of the span."""
    unit: Literal["number", "year", "month", "day", "hour"] = "day"
    """Length of a span; number uses the column's whole numbers unchanged."""
    format: WrittenDateFormat = "iso"
    """Format of the dates, as in a date feature. A date is used as it is written; its offset is ignored."""


class WindowConfig(Spec):
    """The spans that a run trains on, if `data.source.path` contains the span of a file."""

    spans: Literal["all"] | Count = 1
    """Number of consecutive spans, up to the requested one, by default the newest. `all` starts with the oldest."""


class DataConfig(Spec):
    """The source of the rows, and how they are split and written."""

    source: Source
    """Files, a database, or a function that returns rows."""
    types: dict[Name, ColumnType] = Field(default_factory=dict)
    """Column -> number or string, if no feature determines its type."""
    derive: dict[Name, Name] = Field(default_factory=dict)
    """New column -> expression over columns, and over derived columns above it."""
    split: Split = HashSplit(method="hash")
    """Assignment of rows to splits; not used if the source has separate data per split."""
    records: RecordsConfig = RecordsConfig()
    bad_rows: BadRows = BadRows()
    split_leakage: SplitLeakage = SplitLeakage()
    span: SpanColumn | None = None
    """The column with the span of each row, if `source.path` does not contain the span."""
    window: WindowConfig = WindowConfig()

    @model_validator(mode="after")
    def _splits_once(self) -> "DataConfig":
        if self.source.given_splits and "split" in self.model_fields_set:
            raise ValueError("source.path gives the files of each split, so split has no effect; remove one of them.")
        return self

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits, in the order of the YAML."""
        if self.source.given_splits:
            return self.source.given_splits
        if isinstance(self.split, HashSplit | RandomSplit | StratifiedSplit):
            return tuple(self.split.ratios)
        if isinstance(self.split, TimeSplit):
            return (*self.split.until, self.split.rest)
        return tuple(self.split.values)


class IngestConfig(Spec):
    """The parameters of the Ingest component."""

    source: Source
    split: Split
    records: RecordsConfig
    bad_rows: BadRows
    split_leakage: SplitLeakage = SplitLeakage()
    derive: dict[Name, Name] = Field(default_factory=dict)
    """The derived columns that the split reads."""
    span: SpanColumn | None = None
