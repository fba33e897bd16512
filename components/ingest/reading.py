"""What every reader of a source shares: parts of a file, rows with their numbers, and rows that cannot be used."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from components.ingest.files import SourceFile
from preprocessing.columns import RawColumn
from preprocessing.errors import UserError, did_you_mean

BATCH_ROWS = 16_384
PART_BYTES = 64 << 20
"""Size of a part, where a file can be cut. It decides shards and row order, so it depends on nothing else."""
_KEPT_TEXT = 1000


@dataclass(frozen=True)
class Part:
    """A piece of a source file that is read by itself.

    begin, end: in the reader's own unit (bytes, row groups, rows, keys); None is from the start, or to the end.
    first_row: number of its first row.
    """

    begin: Any = None
    end: Any = None
    first_row: int = 1


WHOLE = Part()


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used. row: as `Rows.numbers` counts it."""

    file: str
    row: int
    column: str | None
    reason: str
    text: str


@dataclass(frozen=True)
class Rows:
    """Some rows of one file.

    table: the columns needed. numbers: int64 [rows], increasing; for text the line that a row begins at, from 1 and
    with the header counted, else its position in the file, from 1. whole: the same rows with every column of the
    source as it stands there, where `Reading.whole` asks for it.
    """

    table: pa.Table
    numbers: np.ndarray
    whole: pa.Table | None = None


@dataclass
class Reading:
    """One part being read: what is needed of it, and what turned out to be of no use.

    columns: what is needed, by name. bad: rows of no use, until someone takes them out. malformed: how many rows were
    not even yielded. consumed: bytes of the part that are read, by readers that know. seen: columns met, by readers
    that know no more of a file than what its rows hold. whole: whether rows are wanted with all columns of the source
    too.
    """

    file: SourceFile
    columns: Mapping[str, RawColumn]
    part: Part = WHOLE
    bad: list[BadRow] = field(default_factory=list)
    malformed: int = 0
    consumed: int = 0
    seen: set[str] = field(default_factory=set)
    whole: bool = False

    @property
    def path(self) -> str:
        """What messages call the file."""
        return self.file.path

    def add_malformed(self, row: int, reason: str, text: str, *, column: str | None = None) -> None:
        """Notes a row that does not parse and so is never yielded."""
        self.malformed += 1
        self.add_bad(row, column, reason, text)

    def add_bad(self, row: int, column: str | None, reason: str, text: str) -> None:
        """Notes a row that cannot be used; at most 1,000 characters of its text are kept."""
        self.bad.append(BadRow(self.path, row, column, reason, text[:_KEPT_TEXT]))

    def take_bad(self) -> list[BadRow]:
        """Returns the bad rows noted since the last call, in order, the first reason of each."""
        first = {row.row: row for row in reversed(self.bad)}
        self.bad = []
        return [first[row] for row in sorted(first)]


def cell_text(cell: Any) -> str:
    """Returns a cell as a person would read it: bytes as text, a list of one value, as tf.Examples hold it, as that."""
    if isinstance(cell, list) and len(cell) == 1:
        return cell_text(cell[0])
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


class Reader(Protocol):
    """Reads one source file of one format."""

    def __init__(self, file: SourceFile, source: Any) -> None: ...

    def columns(self) -> list[str] | None:
        """Returns the columns of the file, or None where only its rows tell."""

    def parts(self) -> list[Part]:
        """Returns pieces that can be read side by side; together they are the file, in order."""

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """Yields the rows of one part in order, with the columns that `reading` needs, in its order."""


def check_columns(path: str, needed: Sequence[str], present: Sequence[str]) -> None:
    """Checks that the columns needed are there, once.

    Raises:
        UserError: A column is absent from the file, or stands in it twice.
    """
    for column in needed:
        if column not in present:
            raise UserError(
                f"{path}: no column {column!r}.{did_you_mean(column, present)} "
                f"Columns of the file: {', '.join(present)}. If it was renamed, rename it back or read the files of "
                "each name by a pipeline of their own."
            )
        if list(present).count(column) > 1:
            raise UserError(f"{path}: column {column!r} stands there twice; rename one.")


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turns a failure to read or decompress into an error that names the file."""
    try:
        yield
    except UserError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path}: reading stopped: {error}. Is the file cut short, or not what its name says?"
        ) from error


def batches_of(table: pa.Table, first_row: int, whole: pa.Table | None = None) -> Iterator[Rows]:
    """Yields a table, and all columns of the same rows, in batches, rows numbered from `first_row`."""
    for start in range(0, table.num_rows, BATCH_ROWS):
        piece = table.slice(start, BATCH_ROWS)
        numbers = np.arange(first_row + start, first_row + start + piece.num_rows, dtype=np.int64)
        yield Rows(piece, numbers, None if whole is None else whole.slice(start, BATCH_ROWS))
