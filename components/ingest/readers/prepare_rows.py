"""Reads the columns that records need, converts their cells, and assigns each row to a split."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from fullpass.components.ingest.config import IngestConfig, StratifiedSplit
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.open_source import read
from fullpass.components.ingest.readers.reader import EmptyFileError, FilePart, Reading, Rows
from fullpass.components.ingest.sources.source_files import SourceFile
from fullpass.components.ingest.spans.span_column import rows_of_span, rows_without_span
from fullpass.components.ingest.splitting.assign_split import assign, raw_split_columns, reads_whole_rows
from fullpass.components.ingest.splitting.row_hash import contents, hashes
from fullpass.components.ingest.splitting.stratified import Cuts, classes_of, places
from fullpass.preprocessing.columns.raw_columns import RawColumn


class Plan(Protocol):
    """The attributes of an ingestion that determine its rows; see `ingest.Ingest`."""

    @property
    def config(self) -> IngestConfig: ...
    @property
    def splits(self) -> Sequence[str]: ...
    @property
    def columns(self) -> Sequence[RawColumn]: ...
    @property
    def cuts(self) -> Cuts: ...
    @property
    def span(self) -> int | None: ...


def reading_of(plan: Plan, file: SourceFile, part: FilePart) -> Reading:
    """Returns the reading of a part: the columns of the examples, and those that determine the split and the span."""
    names = (*raw_split_columns(plan.config.split), *([plan.config.span.column] if plan.config.span else []))
    columns = {name: RawColumn(name, "string") for name in names}
    columns |= {column.name: column for column in _columns_read(plan)}
    needs_all_columns = file.split is None and reads_whole_rows(plan.config.split)
    return Reading(file, columns, part, all_columns="to_hash" if needs_all_columns else None)


def read_rows(plan: Plan, reading: Reading) -> Iterator[tuple[int, Rows]]:
    """Yields the number of rows read, and the rows of the span. Rows without a span are added to the bad rows.

    If a file holds many spans, only the rows of this span count as read. If `SourceFile.rest` is set, rows without a
    span count, too.
    """
    span = plan.config.span
    if span is None or plan.span is None:
        try:
            for rows in read(reading, plan.config.source):
                yield len(rows.numbers), rows
        except EmptyFileError:
            if plan.span is None:
                raise
            # An empty file of a span is a day without rows, as a file with a header line only is.
        return
    batches = read(reading, plan.config.source)
    while True:
        noted = len(reading.bad)
        rows_of_file = next(batches, None)
        if not reading.file.rest:
            del reading.bad[noted:]  # rows that do not parse have no span
        if rows_of_file is None:
            break
        own, lost = rows_of_span(rows_of_file, span, plan.span), 0
        for number, text in rows_without_span(rows_of_file, span) if reading.file.rest else ():
            reading.add_bad(number, span.column, "contains no span", text)
            lost += 1
        yield len(own.numbers) + lost, own
    if not reading.file.rest:
        reading.malformed = 0


def convert_columns(plan: Plan, reading: Reading, rows: Rows) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns the columns by name as they are encoded, and bool [rows], True if a row is usable.

    The other rows are added to `reading`, with the reason.
    """
    return convert_rows(_columns_read(plan), plan.config.source.raw_text, reading, rows)


def classes_and_hashes(plan: Plan, rows: Rows, arrays: Mapping[str, pa.Array]) -> tuple[pa.Array, np.ndarray]:
    """Returns the inputs of a stratified split: the class of each row, string, and its content hash, uint64."""
    column = str(getattr(plan.config.split, "column", None))
    return classes_of(column, arrays, plan.columns, plan.config.derive), hashes(contents(rows.all_columns))


def place_rows(plan: Plan, index: int, file: SourceFile, rows: Rows, arrays: Mapping[str, pa.Array]) -> np.ndarray:
    """Returns the index of each row's split, int64 [rows]; NO_SPLIT if it fits no split."""
    split = plan.config.split
    if file.split is not None:
        return np.full(len(rows.numbers), list(plan.splits).index(file.split))
    if isinstance(split, StratifiedSplit):
        return places(*classes_and_hashes(plan, rows, arrays), plan.cuts)
    table = rows.all_columns if reads_whole_rows(split) else rows.table
    return assign(split, table, rows.numbers, file_index=index)


def _columns_read(plan: Plan) -> tuple[RawColumn, ...]:
    """Returns the columns of the examples, and the column of a stratified split if no feature reads it."""
    split, known = plan.config.split, {column.name for column in plan.columns}
    if isinstance(split, StratifiedSplit) and split.column not in {*known, *plan.config.derive}:
        return (*plan.columns, RawColumn(str(split.column), "string", token=True))
    return tuple(plan.columns)
