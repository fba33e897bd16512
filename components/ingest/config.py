"""The section `data:` of the YAML: the source of the rows, and how they are split, written and accounted for."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fullpass.components.ingest.joins.config import Joins
from fullpass.components.ingest.sources.formats import Source
from fullpass.components.ingest.writing.shards import ShardLayout
from fullpass.preprocessing.config import ColumnType
from fullpass.preprocessing.features.base_feature import WrittenDateFormat
from fullpass.preprocessing.features.forecast import ShiftedLabel
from fullpass.preprocessing.features.history import Histories
from fullpass.preprocessing.spec import Count, Duration, Flag, Fraction, Name, NonNegative, SelectedBy, Spec

Unit = Literal["number", "year", "month", "day", "hour"]
"""Length of a span; a number is one without a date."""
Ratios = dict[Name, Annotated[float, Field(strict=True, gt=0)]]
_EIGHT_TO_TWO: dict[str, float] = {"train": 8.0, "eval": 2.0}
"""Default shares: an eval split of a fifth, the usual one, and enough rows of a small table to compare metrics."""


class HashSplit(Spec):
    """Rows with the same key stay together, and in their split as data grows."""

    method: Literal["hash"]
    column: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None = None
    """Key column, or several; a row without any of its cells is assigned at random. None: all columns of the source."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class RandomSplit(Spec):
    """By row: the same rows in the same files give the same splits."""

    method: Literal["random"]
    seed: NonNegative = 1
    """Another seed gives other splits."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class StratifiedSplit(Spec):
    """Like hash without a key, with equal shares of every class in all splits, in one more pass."""

    method: Literal["stratified"]
    column: Name | None = None
    """Raw or derived column of at most 10,000 classes; None: the label of a binary or multiclass task."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class TimeSplit(Spec):
    """By date, the oldest rows first; a row without one is a bad row."""

    method: Literal["time"]
    column: Name | Annotated[tuple[Name, ...], Field(min_length=1)]
    """Raw date column; or several, joined by `-`: [year, month, day] with format: "%Y-%m-%d"."""
    format: WrittenDateFormat = "iso"
    """Format, as in a date feature."""
    until: dict[Name, Name] = Field(min_length=1)
    """Split -> first instant after it, written in `format`; in chronological order."""
    rest: Name = "eval"
    """Split of all later rows."""
    gap: Duration | None = None
    """Rows that are at most this much older than a later split are in no split, and counted: 7d. null: none, or `ahead`
    for a forecast."""


class ColumnSplit(Spec):
    """By a column's value; a row with any other is a bad row."""

    method: Literal["column"]
    column: Name
    """Raw column that names the split."""
    values: dict[Name, Name | tuple[Name, ...]] = Field(min_length=2)
    """Split -> its values."""


Split = Annotated[HashSplit | RandomSplit | StratifiedSplit | TimeSplit | ColumnSplit, SelectedBy("method")]


class RecordsConfig(Spec):
    """Layout of TFRecord files, here and after Transform."""

    readers: Count = 1
    """Hosts that read in training (docs/records.md)."""
    shard_mb: Count = 128
    """Largest file, in MB before compression."""
    compression: Literal["auto", "none", "gzip"] = "auto"
    """auto: gzip for a remote root, else none."""
    shuffle: Flag = False
    """Shuffle raw examples across all files of a split."""
    seed: NonNegative = 1
    """Another seed gives another order."""

    def gzip(self, *, remote: bool) -> bool:
        """Returns whether files are compressed; `remote` is whether the root is remote."""
        return remote if self.compression == "auto" else self.compression == "gzip"

    def layout(self, *, gzip: bool) -> ShardLayout:
        """Returns the layout of the files; `gzip` is whether they are compressed."""
        return ShardLayout(self.shard_mb << 20, self.readers, gzip, self.seed if self.shuffle else None)


class BadRows(Spec):
    """Unreadable rows allowed before the run fails; all are quarantined."""

    max_fraction: Fraction = 0.001
    """Largest share of all rows."""
    max_rows: NonNegative | None = None
    """Largest number, in addition."""


class SplitLeakage(Spec):
    """Rows of a split that may equal rows of another before the run fails (docs/sources.md)."""

    max_fraction: Fraction = 1.0
    """Largest share of a split's rows, per pair; in a pair with train, of the other split's."""
    max_rows: NonNegative | None = None
    """Largest number, in addition."""


class SpanColumn(Spec):
    """The span of each row, for files with rows of many spans."""

    column: Name
    """Raw column with a date or the span's number."""
    unit: Unit = "day"
    """Length of a span; number uses the column's whole numbers."""
    format: WrittenDateFormat = "iso"
    """Format, as in a date feature."""


class WindowConfig(Spec):
    """Spans that a run trains on (docs/spans.md)."""

    spans: Literal["all"] | Count = 1
    """Consecutive spans up to the requested one, or the newest; `all` starts with the oldest."""


class DataConfig(Spec):
    """The source of the rows, their splits and records."""

    source: Source
    """Files, a database, or a function that returns rows (docs/sources.md)."""
    types: dict[Name, ColumnType] = Field(default_factory=dict)
    """Column -> its type, if no feature determines it."""
    joins: Joins = Field(default_factory=dict)
    """Name -> table whose columns are added to the rows, as NAME.COLUMN (docs/joins.md)."""
    history: Histories = Field(default_factory=dict)
    """Name -> the earlier rows of each row's entity, as lists NAME.COLUMN (docs/history.md)."""
    derive: dict[Name, Name] = Field(default_factory=dict)
    """New column -> expression over columns and derived columns above it."""
    split: Split = HashSplit(method="hash")
    """Assignment of rows to splits, unless the source has a path per split."""
    records: RecordsConfig = RecordsConfig()
    bad_rows: BadRows = BadRows()
    split_leakage: SplitLeakage = SplitLeakage()
    span: SpanColumn | None = None
    """The column with the span of each row, if `source.path` does not contain it (docs/spans.md)."""
    window: WindowConfig = WindowConfig()
    personal: tuple[Name, ...] = ()
    """Columns with data of persons, which `fullpass serve` does not log (docs/serving.md)."""

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
    """The derived columns that the split, the histories and a forecast read."""
    joins: Joins = Field(default_factory=dict)
    history: Histories = Field(default_factory=dict)
    shifted: ShiftedLabel | None = None
    """The label of a forecast."""
    span: SpanColumn | None = None
