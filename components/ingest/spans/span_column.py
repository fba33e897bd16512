"""Spans given by a column, for files that hold many spans: the span of each row, and a digest of each span's content.

A file is read once to find its spans, and again only when it has changed. The version of a span's part of a file is a
digest of its content, so appending to a file adds spans and leaves the others unchanged.
"""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.ingest.config import SpanColumn
from fullpass.components.ingest.readers.read_source import parts_of, read_rows, run_in_fork_if_native
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.readers.rows import Reading, Rows
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import Source
from fullpass.components.ingest.spans.span_pattern import number_of, spans_of
from fullpass.components.ingest.splitting.assign import cell_tokens
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.dates.read_dates import read_dates
from fullpass.preprocessing.values.shown_cells import text_at

NO_SPAN = np.iinfo(np.int64).min
"""Span number of a row whose cell contains no span."""
_MOST_FILES = 4096
"""Files whose spans a process remembers: eleven years of days."""
_WHOLE = re.compile(r"-?\d+")


@dataclass(frozen=True)
class PartOfFile:
    """The rows of one span in a file. digest: digest of the content of the rows, in order."""

    span: int
    rows: int
    digest: str


def span_numbers(table: pa.Table, span: SpanColumn, decimal: str = ".") -> np.ndarray:
    """Returns the number of each row's span, int64 [rows]; NO_SPAN if the cell is missing or cannot be read."""
    texts = cell_tokens(table.column(span.column), decimal=decimal)
    if span.unit == "number":
        distinct = texts.dictionary_encode()
        numbers = np.array([*map(_whole_number, distinct.dictionary.to_pylist()), NO_SPAN], dtype=np.int64)
        return numbers[distinct.indices.fill_null(len(numbers) - 1).to_numpy(zero_copy_only=False)]
    read = read_dates(texts, span.format)
    return np.where(read.valid, spans_of(span.unit, read.local), NO_SPAN)


def rows_of_span(rows: Rows, span: SpanColumn, number: int, decimal: str) -> Rows:
    """Returns the rows of one span."""
    mine = span_numbers(rows.table, span, decimal) == number
    return rows if mine.all() else rows.filter(mine)


def rows_without_span(rows: Rows, span: SpanColumn, decimal: str) -> list[tuple[int, str]]:
    """Returns the row number and the cell of each row that belongs to no span."""
    positions = np.flatnonzero(span_numbers(rows.table, span, decimal) == NO_SPAN).tolist()
    cells = rows.table.column(span.column)
    return [(int(rows.numbers[position]), text_at(cells, position)) for position in positions]


def split_by_span(
    files: Sequence[SourceFile], source: Source, span: SpanColumn, index: Path | None
) -> dict[int, tuple[SourceFile, ...]]:
    """Returns the spans of files. The part of a file in a span is a separate `SourceFile`, versioned by its content.

    Args:
        index: Folder that caches the spans found in each file; None caches them only in this process.

    Raises:
        UserError: A file cannot be read, or none of its rows contains a span.
    """
    spans: dict[int, list[SourceFile]] = {}
    for file in files:
        parts = _parts_of(file, source, span, index)
        if not parts:
            raise UserError(
                f"{file.path}: no row contains a span: column {span.column!r} has no {_kind(span)}. Correct "
                "data.span.column or data.span.format."
            )
        for part in parts:
            # A row without a span is a bad row of the last span in its file.
            mine = replace(file, version=part.digest, rest=part == parts[-1])
            spans.setdefault(part.span, []).append(mine)
    return {number: tuple(spans[number]) for number in sorted(spans)}


def index_name(file: SourceFile, source: Source, span: SpanColumn) -> str:
    """Returns the name of the file in the folder `index` that caches the spans of one version of a file."""
    seen = file, source.model_dump_json(), span.model_dump_json()
    return f"{hashlib.sha256(repr(seen).encode()).hexdigest()[:16]}.json"


def _parts_of(file: SourceFile, source: Source, span: SpanColumn, index: Path | None) -> tuple[PartOfFile, ...]:
    texts = source.model_dump_json(), span.model_dump_json()
    if index is None:
        return _find_spans_cached(file, *texts)
    path = index / index_name(file, source, span)
    try:
        fields = state_file.read(path, f"{file.path} is read again for its spans.")
        return tuple(PartOfFile(**part) for part in fields["parts"])
    except FileNotFoundError:
        pass
    except state_file.DamagedState as error:
        logging.warning("%s", error)
    parts = _find_spans_cached(file, *texts)
    index.mkdir(parents=True, exist_ok=True)
    state_file.write(path, {"file": file.path, "parts": [asdict(part) for part in parts]})
    return parts


@lru_cache(maxsize=_MOST_FILES)
def _find_spans_cached(file: SourceFile, source_json: str, span_json: str) -> tuple[PartOfFile, ...]:
    """Finds the spans of a file. They do not change while the version of the file is the same.

    A crash of a decoder in native code does not end the calling runner or scheduler.
    """
    source: Source = TypeAdapter(Source).validate_json(source_json)
    span = SpanColumn.model_validate_json(span_json)
    return run_in_fork_if_native(source, lambda: _find_spans(file, source, span))


def _find_spans(file: SourceFile, source: Source, span: SpanColumn) -> tuple[PartOfFile, ...]:
    digests: dict[int, Any] = {}
    rows_of: Counter[int] = Counter()
    for numbers, content in _rows(file, source, span):
        for number in np.unique(numbers).tolist():
            mine = content[numbers == number]
            digests.setdefault(number, hashlib.sha256()).update(mine.tobytes())
            rows_of[number] += len(mine)
    rest = digests.pop(NO_SPAN, None)
    if digests and rest is not None:
        digests[max(digests)].update(rest.digest())
    return tuple(PartOfFile(number, rows_of[number], digests[number].hexdigest()[:16]) for number in sorted(digests))


def _rows(file: SourceFile, source: Source, span: SpanColumn) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields span and content hash of each row, int64 and uint64 [rows]; a row that does not parse has NO_SPAN."""
    needed = {span.column: RawColumn(span.column, "string")}
    for part in parts_of(file, source):
        reading = Reading(file, needed, part, all_columns="to_hash")
        for rows in read_rows(reading, source):
            yield span_numbers(rows.table, span, source.raw_text.decimal), hashes(contents(rows.all_columns))
        bad = [f"{row.row} {row.text}".encode() for row in reading.take_bad()]
        if bad:
            yield np.full(len(bad), NO_SPAN), hashes(pa.array(bad, pa.binary()))


def _whole_number(text: str) -> int:
    try:
        return number_of("number", [int(text)]) if _WHOLE.fullmatch(text) else NO_SPAN
    except ValueError:
        return NO_SPAN


def _kind(span: SpanColumn) -> str:
    return "whole number" if span.unit == "number" else f"date in the format {span.format}"
