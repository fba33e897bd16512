"""Rows of a source on their way to records: what is read of a file, what becomes of each cell, and of which split."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from components.ingest.config import IngestConfig, StratifiedSplit
from components.ingest.content import contents, hashes
from components.ingest.files import SourceFile
from components.ingest.reading import Part, Reading, Rows
from components.ingest.split import assign, reads_whole_rows, split_columns
from components.ingest.strata import Cuts, classes_of, places
from preprocessing.columns import RawColumn
from preprocessing.convert import convert
from preprocessing.errors import blame


class Plan(Protocol):
    """What of an ingestion decides about rows; see `ingest.Ingest`."""

    @property
    def config(self) -> IngestConfig: ...
    @property
    def splits(self) -> Sequence[str]: ...
    @property
    def columns(self) -> Sequence[RawColumn]: ...
    @property
    def cuts(self) -> Cuts: ...


def reading_of(plan: Plan, file: SourceFile, part: Part) -> Reading:
    """Returns what is read of a file: the columns of the examples, and what deciding the split needs."""
    columns = {name: RawColumn(name, "string") for name in split_columns(plan.config.split)}
    columns |= {column.name: column for column in _columns_read(plan)}
    return Reading(file, columns, part, whole=file.split is None and reads_whole_rows(plan.config.split))


def convert_columns(plan: Plan, reading: Reading, rows: Rows) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Returns the columns by name as they are encoded, and which rows can be used; notes why the others cannot."""
    source = plan.config.source
    strip, decimal = getattr(source, "strip", False), getattr(source, "decimal", ".")
    good = np.ones(len(rows.numbers), dtype=bool)
    arrays = {}
    for raw in _columns_read(plan):
        column = rows.table.column(raw.name).combine_chunks()
        with blame(reading.path):
            converted = convert(column, raw, strip=strip, missing=source.missing_of(raw.name), decimal=decimal)
        arrays[raw.name] = converted.flat
        bad = converted.bad
        for row in np.flatnonzero(bad).tolist():
            cell = column[row].as_py()
            text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
            reading.add_bad(int(rows.numbers[row]), raw.name, converted.reason_of(row), text)
        good &= ~bad
    return arrays, good


def classes_and_hashes(plan: Plan, rows: Rows, arrays: Mapping[str, pa.Array]) -> tuple[pa.Array, np.ndarray]:
    """Returns what a stratified split goes by: the class of each row, string, and its content hash, uint64."""
    column = str(getattr(plan.config.split, "column", None))
    return classes_of(column, arrays, plan.columns, plan.config.derive), hashes(contents(rows.whole))


def place_rows(plan: Plan, index: int, file: SourceFile, rows: Rows, arrays: Mapping[str, pa.Array]) -> np.ndarray:
    """Returns the index of each row's split, int64 [rows]; NO_SPLIT where it fits none."""
    split = plan.config.split
    if file.split is not None:
        return np.full(len(rows.numbers), list(plan.splits).index(file.split))
    if isinstance(split, StratifiedSplit):
        return places(*classes_and_hashes(plan, rows, arrays), plan.cuts)
    table = rows.whole if reads_whole_rows(split) else rows.table
    return assign(split, table, rows.numbers, file_index=index)


def _columns_read(plan: Plan) -> tuple[RawColumn, ...]:
    """Returns the columns of the examples, and the one that a stratified split is made by if no feature reads it."""
    split, known = plan.config.split, {column.name for column in plan.columns}
    if isinstance(split, StratifiedSplit) and split.column not in {*known, *plan.config.derive}:
        return (*plan.columns, RawColumn(str(split.column), "string"))
    return tuple(plan.columns)
