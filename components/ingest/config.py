"""The section `data:` of the YAML: where rows come from, how they are split, written and accounted for."""

from typing import Annotated, Literal

from pydantic import Field, Tag, model_validator

from fullpass.components.ingest.sources.source_config import Source
from fullpass.components.ingest.writing.shards import Layout
from fullpass.preprocessing.config import ColumnType
from fullpass.preprocessing.spec import Count, Flag, Fraction, Name, NonNegative, Spec, discriminator

Ratios = dict[Name, Annotated[float, Field(strict=True, gt=0)]]
_EIGHT_TO_TWO: dict[str, float] = {"train": 8.0, "eval": 2.0}


class HashSplit(Spec):
    """By hash of a column, so that a row stays in its split as data grows and rows of one key stay together."""

    method: Literal["hash"]
    column: Name | None = None
    """Key column; a row without a key is dealt by chance. None hashes all columns of the source, those that no feature
    reads too: equal rows fall into one split, and no change of the features moves a row."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class RandomSplit(Spec):
    """By a seeded random number per row: the same rows in the same files give the same splits."""

    method: Literal["random"]
    seed: NonNegative = 1
    """Another seed gives other splits."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class StratifiedSplit(Spec):
    """Like hash without a key, but with the shares of every class equal in all splits, to within one row.

    The rows of a class are ordered by a hash of all columns of the source, and the order is cut at the ratios. It takes
    one more pass over the data. As data grows only rows beside a cut change their split. Equal rows stay together,
    so that of a class with repeated rows a cut can be off by the repeats of one row.
    """

    method: Literal["stratified"]
    column: Name | None = None
    """Raw or derived column whose values are the classes, missing being one; at most 10,000 of them. None takes the
    label of a binary or multiclass task."""
    ratios: Ratios = Field(default=_EIGHT_TO_TWO, min_length=2)
    """Split -> share, in any unit."""


class TimeSplit(Spec):
    """By date: the oldest rows first. A row without a readable date is a bad row."""

    method: Literal["time"]
    column: Name | Annotated[tuple[Name, ...], Field(min_length=1)]
    """Raw column with the date; or several columns, joined by `-`: [year, month, day] with format: "%Y-%m-%d"."""
    format: Name = "iso"
    """As in a date feature."""
    until: dict[Name, Name] = Field(min_length=1)
    """Split -> first instant that no longer belongs to it, written in `format`; in order of time."""
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
    Annotated[HashSplit, Tag("hash")]
    | Annotated[RandomSplit, Tag("random")]
    | Annotated[StratifiedSplit, Tag("stratified")]
    | Annotated[TimeSplit, Tag("time")]
    | Annotated[ColumnSplit, Tag("column")],
    discriminator("method"),
]


class RecordsConfig(Spec):
    """How TFRecord files are laid out, here and after Transform."""

    readers: Count = 1
    """Hosts that read at the same time in training. A split is written in ten files per reader, unless they would be of
    less than 10 MB."""
    shard_mb: Count = 128
    """Largest size of one file, in MB of records before compression; a split of more is written in more files."""
    compression: Literal["auto", "none", "gzip"] = "auto"
    """auto: none for a local root, gzip for a remote one."""
    shuffle: Flag = False
    """Put raw examples into a random order across all files of a split, so that neighbours in the source are none in
    training. Costs a copy of the records, and memory for one file of `shard_mb` per worker."""
    seed: NonNegative = 1
    """Another seed gives another order."""

    def layout(self, *, gzip: bool) -> Layout:
        """Returns how files are written; `gzip` says whether they are compressed."""
        return Layout(self.shard_mb << 20, self.readers, gzip, self.seed if self.shuffle else None)


class BadRows(Spec):
    """How many rows may be unreadable before the run fails; they are kept in the quarantine either way."""

    max_fraction: Fraction = 0.001
    """Largest share of all rows."""
    max_rows: NonNegative | None = None
    """Absolute limit, beside the fraction."""


class SplitLeakage(Spec):
    """How many rows of a split may stand in another split too, equal in every column that is read, before the run
    fails. They are counted and shown in any case: a metric measured on rows of train is too good."""

    max_fraction: Fraction = 1.0
    """Largest share of a split's rows, for every pair of splits; train is the other one where it is of the pair."""
    max_rows: NonNegative | None = None
    """Absolute limit, beside the fraction."""


class SpanColumn(Spec):
    """A column that says which span a row belongs to, where a file holds many."""

    column: Name
    """Raw column with a date, or with the number of the span."""
    unit: Literal["number", "year", "month", "day", "hour"] = "day"
    """What a span is; number takes the column's whole numbers as they are."""
    format: Name = "iso"
    """Of dates, as in a date feature. An iso date counts as it is written, whatever its offset."""


class WindowConfig(Spec):
    """Which spans a run trains on, where `data.source.path` says which span a file belongs to."""

    spans: Literal["all"] | Count = 1
    """Consecutive spans, up to the one asked for; the newest by default. `all` begins with the oldest."""


class DataConfig(Spec):
    """Where rows come from, and how they are split and written."""

    source: Source
    """Files, a database, or a function that gives rows."""
    types: dict[Name, ColumnType] = Field(default_factory=dict)
    """Column -> number or string, where no feature decides it."""
    derive: dict[Name, Name] = Field(default_factory=dict)
    """New column -> expression over columns, and over derived columns above it."""
    split: Split = HashSplit(method="hash")
    """Which row belongs to which split; not used where the source has data per split."""
    records: RecordsConfig = RecordsConfig()
    bad_rows: BadRows = BadRows()
    split_leakage: SplitLeakage = SplitLeakage()
    span: SpanColumn | None = None
    """Which span a row belongs to, where that does not stand in `source.path`."""
    window: WindowConfig = WindowConfig()

    @model_validator(mode="after")
    def _splits_once(self) -> "DataConfig":
        if self.source.given_splits and "split" in self.model_fields_set:
            raise ValueError("source.path gives the files of each split, so split has nothing to do; remove one.")
        return self

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits, in the order written."""
        if self.source.given_splits:
            return self.source.given_splits
        if isinstance(self.split, HashSplit | RandomSplit | StratifiedSplit):
            return tuple(self.split.ratios)
        if isinstance(self.split, TimeSplit):
            return (*self.split.until, self.split.rest)
        return tuple(self.split.values)


class IngestConfig(Spec):
    """What the Ingest component receives."""

    source: Source
    split: Split
    records: RecordsConfig
    bad_rows: BadRows
    split_leakage: SplitLeakage = SplitLeakage()
    derive: dict[Name, Name] = Field(default_factory=dict)
    """The derived columns that the split reads."""
    span: SpanColumn | None = None
