"""What an ingestion says of every row, in a file beside its records; reading it needs neither Beam nor TensorFlow."""

from dataclasses import dataclass, field

from fullpass.components.artifact_files import read_json
from fullpass.preprocessing.features.raw_columns import ROW_BITS

MANIFEST = "ingest.json"
QUARANTINE = "quarantine.parquet"
"""Rows left out, with file, row and reason."""


@dataclass(frozen=True)
class Overlap:
    """Rows of split `second` that stand in split `first` too, equal in every column that is read.

    of: rows of `second`. example: row ids of two equal rows, that of `first` before; None where there are none, or
    none is known.
    """

    first: str
    second: str
    rows: int
    of: int
    example: tuple[int, int] | None = None

    @property
    def fraction(self) -> float:
        """Share of the rows of `second`."""
        return self.rows / max(self.of, 1)

    @property
    def words(self) -> str:
        """How many rows of which split stand in which other one, as said to people."""
        return (
            f"{self.rows:,} of {self.of:,} rows of {self.second} ({self.fraction:.2%}) stand in {self.first} too, "
            "equal in every column that is read"
        )


@dataclass(frozen=True)
class FileCount:
    """What became of the rows of one file: read = those written, per split, + quarantined."""

    path: str
    read: int
    written: dict[str, int]
    quarantined: int


@dataclass(frozen=True)
class Manifest:
    """What became of every row.

    files: paths, in the order of row ids. written: rows per split. quarantined: rows per reason. by_file: the counts of
    each file. overlaps: rows that stand in two splits, per pair of splits. seconds: from the first row to the last.
    first_file: number of the first file in row ids.
    """

    files: tuple[str, ...]
    read: int
    written: dict[str, int]
    quarantined: dict[str, int]
    bytes_read: int
    by_file: tuple[FileCount, ...]
    overlaps: tuple[Overlap, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    first_file: int = 0

    @property
    def rows_per_second(self) -> float:
        """Over all workers, from the first row read to the last row written."""
        return self.read / max(self.seconds, 1e-3)

    @property
    def rows_written(self) -> int:
        """Rows in all splits."""
        return sum(self.written.values())

    @property
    def rows_quarantined(self) -> int:
        """Rows kept aside."""
        return sum(self.quarantined.values())

    def locate(self, row_id: int) -> str:
        """Returns `file, row n` for a row id given at ingest."""
        index, row = row_id >> ROW_BITS, row_id & (1 << ROW_BITS) - 1
        return f"{self.files[index - self.first_file]}, row {row}"

    def holds(self, row_id: int) -> bool:
        """Whether a row id was given to a row of these files."""
        return 0 <= (row_id >> ROW_BITS) - self.first_file < len(self.files)


def read_manifest(folder: str) -> Manifest:
    """Returns the manifest of an Examples artifact that Ingest wrote."""
    fields = read_json(f"{folder}/{MANIFEST}")
    by_file = tuple(FileCount(**count) for count in fields["by_file"])
    overlaps = tuple(Overlap(**{**o, "example": o["example"] and tuple(o["example"])}) for o in fields["overlaps"])
    return Manifest(**{**fields, "files": tuple(fields["files"]), "by_file": by_file, "overlaps": overlaps})
