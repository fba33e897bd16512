"""The manifest of an ingestion, a file that accounts for every row. Reading it needs neither Beam nor TensorFlow."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath

from fullpass.base.files import read_json
from fullpass.base.json_text import finite, parse_fields, parse_json, to_json_text
from fullpass.base.redact import redact_tree
from fullpass.preprocessing.columns.raw_columns import ROW_BITS

MANIFEST = "ingest.json"
QUARANTINE = "quarantine.parquet"
"""File of the bad rows, which were not written, with file, row and reason."""
COUNTS = "counts"
"""Custom property of Examples: their `RowCounts` as JSON."""


@dataclass(frozen=True)
class Overlap:
    """The rows of split `second` that are also in split `first`, equal in every column that is read.

    Attributes:
        of: Number of rows of `second`.
        example: Row ids of two equal rows, of `first` and `second`; None if there are none, or none is known.
    """

    first: str
    second: str
    rows: int
    of: int
    example: tuple[int, int] | None = None

    @property
    def fraction(self) -> float:
        """The overlapping share of the rows of `second`."""
        return self.rows / max(self.of, 1)

    @property
    def words(self) -> str:
        """The overlap as text for people."""
        return (
            f"{self.rows:,} of {self.of:,} rows of {self.second} ({self.fraction:.2%}) are also in {self.first}, "
            "equal in every column that is read"
        )


@dataclass(frozen=True)
class FileCount:
    """The number of rows of one file: read = sum of written over the splits + quarantined + left out."""

    path: str
    read: int
    written: dict[str, int]
    quarantined: int
    left_out: int = 0


@dataclass(frozen=True)
class JoinCount:
    """What a join found for the rows read.

    Attributes:
        files: Paths of the table.
        table_rows: Number of its rows that can match; the `set_aside` are unreadable, without a key, or repeat one.
        unmatched: Number of rows read for which the table has no row.
    """

    name: str
    files: tuple[str, ...]
    table_rows: int
    set_aside: int
    unmatched: int


def unmatched_words(name: str, unmatched: int, read: int) -> str:
    """Returns the number of rows for which the table of a join has no row, as text for people."""
    return f"{unmatched:,} of {read:,} rows ({unmatched / max(read, 1):.2%}) have no match in {name}"


@dataclass(frozen=True)
class HistoryCount:
    """What a history found for the rows read.

    Attributes:
        files: Paths that were read for events: those of the rows, and of the spans before them.
        events: Number of events in them.
        cut: Number of rows with more events than `max_length`.
        without: Number of rows without an entity or a date, which have no history.
    """

    name: str
    files: tuple[str, ...]
    events: int
    cut: int
    without: int


def history_words(name: str, cut: int, without: int, read: int) -> str:
    """Returns the numbers of rows of a history as text for people."""
    return (
        f"history {name}: {cut:,} of {read:,} rows ({cut / max(read, 1):.2%}) have more events than max_length; "
        f"{without:,} have no entity or date"
    )


def sums(counted: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Returns the sum of the numbers of each name.

    Example:
        >>> sums([("train", 8), ("eval", 2), ("train", 1)])
        {'train': 9, 'eval': 2}
    """
    found: dict[str, int] = {}
    for name, count in counted:
        found[name] = found.get(name, 0) + count
    return found


def left_out_words(left_out: Mapping[str, int]) -> list[str]:
    """Returns the numbers of rows that are in no split, with their reasons, as text for people."""
    return [f"{rows:,} rows left out: {reason}" for reason, rows in left_out.items() if rows]


def left_out_hint(left_out: Mapping[str, int]) -> str:
    """Returns the sentences for a message about a split without rows; "" if no row was left out."""
    words = "; ".join(left_out_words(left_out))
    return f" {words}. Is label.forecast.ahead or the gap longer than the data, or the window?" if words else ""


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """The numbers of rows of a span, as its artifact holds them too, without the files and reasons of the manifest.

    Attributes:
        written: Number of rows per split.
        left_out: Number of rows per reason that are in no split and not bad: without a label, in a gap, or refused.
        rows_digest: 16 hex digits that are equal for the same files, whose rows then have the same ids; None for a
            query. Names and sizes of the files and their numbers of rows decide, not the folder, and not the columns.
        seconds: Time from the first row to the last.
    """

    read: int = 0
    written: Mapping[str, int] = field(default_factory=dict)
    rows_quarantined: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    overlaps: tuple[Overlap, ...] = ()
    joins: tuple[JoinCount, ...] = ()
    histories: tuple[HistoryCount, ...] = ()
    rows_digest: str | None = None
    seconds: float = field(default=0.0, compare=False)

    @property
    def rows_per_second(self) -> float:
        """Rows per second over all workers, from the first row read to the last row written."""
        return self.read / max(self.seconds, 1e-3)

    def to_json(self) -> str:
        """Returns the counts as JSON text without secrets."""
        histories = tuple(replace(one, files=()) for one in self.histories)  # they are as many as those of the rows
        named = {one.name: getattr(self, one.name) for one in fields(RowCounts)} | {"histories": histories}
        return to_json_text(redact_tree(finite(named)))


def read_counts(text: str | None) -> RowCounts:
    """Returns the counts in the property of an artifact; no rows if it has none."""
    return parse_json(RowCounts, text or "{}")


@dataclass(frozen=True, kw_only=True)
class Manifest(RowCounts):
    """The account of every row of an ingestion.

    Attributes:
        files: Paths, in the order of row ids.
        quarantined: Number of rows per reason.
        label_files: Paths that were read for the label of a forecast.
        first_file: Number of the first file in row ids.
    """

    files: tuple[str, ...]
    quarantined: Mapping[str, int]
    bytes_read: int
    by_file: tuple[FileCount, ...]
    label_files: tuple[str, ...] = ()
    first_file: int = 0

    def locate(self, row_id: int) -> str:
        """Returns `file, row n` for a row id given at ingest."""
        index, row = row_id >> ROW_BITS, row_id & (1 << ROW_BITS) - 1
        return f"{self.files[index - self.first_file]}, row {row}"

    def holds(self, row_id: int) -> bool:
        """Returns whether a row id belongs to a row of these files."""
        return 0 <= (row_id >> ROW_BITS) - self.first_file < len(self.files)


def read_manifest(folder: str) -> Manifest:
    """Returns the manifest of an Examples artifact that Ingest wrote."""
    return parse_fields(Manifest, read_json(f"{folder}/{MANIFEST}"))


def digest_of_rows(by_file: Sequence[FileCount], bytes_read: int, first_file: int) -> str | None:
    """Returns `RowCounts.rows_digest`."""
    if not bytes_read:
        return None
    counts = [(PurePath(count.path).name, count.read) for count in by_file]
    return hashlib.sha256(repr((counts, bytes_read, first_file)).encode()).hexdigest()[:16]
