"""Reads labelled rows of files with Ingest's readers as serialized tf.Examples, and accounts for every row."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean, listed
from fullpass.components.ingest.config import SpanColumn
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import Joins
from fullpass.components.ingest.joins.join_index import JoinIndex
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.readers.read_source import columns_of, read
from fullpass.components.ingest.readers.reader import BadRow, Reading, convert_rows
from fullpass.components.ingest.sources.config import BaseSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.spans.span_column import rows_of_span
from fullpass.components.ingest.writing.encode import entries, examples, records
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, ROW_BITS, RawColumn, raw_columns, with_source_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.values.raw_text import RawText

_SHOWN = 5


@dataclass
class LabelledRows:
    """The rows of some files, as a model's Ingest would write them. Iterate once, then read the counts.

    Attributes:
        preprocessing: The features and the label of the model.
        text: Rules for reading text as values, as in training.
        joins: Joins of the rows, and `tables` their files.
        spans: Span of each file, if there are spans, and `span` the column that tells which of its rows are of it.
        rows: Number of rows read, with bad ones.
        seen: Raw columns in the rows read.
    """

    files: Sequence[SourceFile]
    source: BaseSource
    text: RawText
    preprocessing: PreprocessingConfig
    joins: Joins = field(default_factory=dict)
    tables: Mapping[str, Tables] = field(default_factory=dict)
    spans: Sequence[int] = ()
    span: SpanColumn | None = None
    rows: int = 0
    bad: int = 0
    seen: set[str] = field(default_factory=set)
    _reasons: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    _first: dict[tuple[str | None, str], BadRow] = field(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, RawColumn]:
        """The raw columns that the model's training reads."""
        baselines = self.preprocessing.label.added[1:]
        return {name: column for name, column in raw_columns(self.preprocessing).items() if name not in baselines}

    @property
    def needed(self) -> set[str]:
        """The raw columns without which no row can be measured: those of the label, and of the weight."""
        label = self.preprocessing.label
        return with_source_columns({label.column, *filter(None, (label.weight,))}, self.preprocessing.derive) & {
            *self.columns
        }

    @property
    def absent(self) -> tuple[str, ...]:
        """Raw columns that are in no row; the model takes them as missing."""
        return tuple(name for name in self.columns if name not in self.seen)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The most frequent reasons why rows are bad, with the first row of each."""
        lines = []
        for (column, reason), count in self._reasons.most_common(_SHOWN):
            row, where = self._first[column, reason], f" in column {column!r}" if column else ""
            lines.append(f"{count:,} x {reason}{where}; first: {row.file}, row {row.row}: {row.text[:80]!r}")
        return tuple(lines)

    def located(self, row_ids: np.ndarray) -> str:
        """Returns `file, rows 3, 5 and 2 more` for the first file of some row ids."""
        file = int(row_ids.min()) >> ROW_BITS
        numbers = [str(int(one) & (1 << ROW_BITS) - 1) for one in np.sort(row_ids) if int(one) >> ROW_BITS == file]
        return f"{self.files[file].path}, row{'s' * (len(numbers) > 1)} {listed(numbers, most=_SHOWN)}"

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yields the usable rows as serialized tf.Examples.

        Raises:
            UserError: A file cannot be read, or lacks the label or the weight; there are no rows.
        """
        with TemporaryDirectory() as folder:
            tables = [
                build_index(name, join, self.tables[name], self.columns.values(), 1.0, folder)
                for name, join in self.joins.items()
            ]
            for number, file in enumerate(self.files):
                yield from self._read(number, file, tables)
        if not self.rows:
            raise UserError(f"{self.files[0].path}: no rows.")
        self._check(self.files[0].path, self.seen)
        if self.bad == self.rows:
            raise UserError(
                "\n  ".join([f"{self.files[0].path}: none of {self.rows:,} rows can be used.", *self.reasons])
            )

    def _read(self, number: int, file: SourceFile, tables: Sequence[JoinIndex]) -> Iterator[list[bytes]]:
        present = columns_of(file, self.source)
        added = {column.name for table in tables for column in table.columns}
        if present is not None:
            self._check(file.path, [*present, *added])
        columns = {n: c for n, c in self.columns.items() if n not in added and (present is None or n in present)}
        keys = {name: RawColumn(name, "string") for table in tables for name in table.join.left_columns}
        keys |= {self.span.column: RawColumn(self.span.column, "string")} if self.span else {}
        reading = Reading(file, {**columns, **{name: key for name, key in keys.items() if name not in added}})
        own = self.spans[number] if self.spans else 0
        for rows in read(reading, self.source):
            rows = rows_of_span(rows, self.span, own) if self.span else rows
            for table in tables:
                rows = table.add_columns(rows, reading, self.text, own)
            arrays, good = convert_rows(columns.values(), self.text, reading, rows)
            arrays |= {name: rows.table.column(name).combine_chunks() for name in sorted(added)}
            self.rows += len(rows.numbers)
            self._count(reading.take_bad())
            ids = pa.array((number << ROW_BITS) + rows.numbers)
            if good.any():
                yield records(examples(entries({**arrays, RAW_ROW_ID: ids})).filter(pa.array(good)))
        self.rows += reading.malformed
        self._count(reading.take_bad())
        self.seen |= added
        self.seen |= columns.keys() if present is not None else reading.seen

    def _count(self, bad: Sequence[BadRow]) -> None:
        self.bad += len(bad)
        for row in bad:
            self._reasons[row.column, row.reason] += 1
            self._first.setdefault((row.column, row.reason), row)

    def _check(self, path: str, present: Sequence[str] | set[str]) -> None:
        for name in sorted(self.needed - {*present}):
            label = self.preprocessing.label
            what = f"the weight {label.weight!r}" if name == label.weight else f"the label {label.name!r}"
            raise UserError(
                f"{path}: no column {name!r}, which {what} needs, so no metric can be measured."
                f"{did_you_mean(name, present)} Columns: {listed(list(present))}."
            )
