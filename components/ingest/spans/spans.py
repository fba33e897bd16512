"""The spans of a source, the spans that a run uses, and a fingerprint of each that changes when its records change.

These are functions of files only, without TFX and without metadata. The caller knows which spans are already ingested.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UsageError, UserError
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import FileSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, fingerprint
from fullpass.components.ingest.spans.joined_tables import find_tables, require_tables
from fullpass.components.ingest.spans.span_column import index_name, split_by_span
from fullpass.components.ingest.spans.span_files import Span, find_spans, names_spans, unit_of
from fullpass.components.ingest.spans.span_pattern import Unit, described, label_of, parse_span, ranges
from fullpass.preprocessing.columns.raw_columns import MOST_SPANS

LATEST = "latest"


class SpanNotFoundError(UserError):
    """The requested span does not exist."""


@dataclass(frozen=True)
class Window:
    """The spans of one run, the oldest first.

    Attributes:
        unit: Length of a span; None for a source without spans, which is read as a single span.
        missing: Numbers of the spans between the first and the last that the source lacks.
        earlier: The spans of the source before the first, whose events a history may need.
        tables: The joined tables, by the name of the join.
        left_out: Numbers of the spans that the data gate has stopped, and that are gaps of the window.
        gate: What earlier runs have decided about its spans, as `data_gate/span_verdicts.py` writes it.
    """

    unit: Unit | None
    spans: tuple[Span, ...]
    missing: tuple[int, ...] = ()
    all_spans: tuple[int, ...] = field(default=(), repr=False)
    earlier: tuple[Span, ...] = field(default=(), repr=False)
    tables: Mapping[str, Tables] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()
    gate: str = ""

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The files of all spans."""
        return tuple(file for span in self.spans for file in span.files)

    def label(self, number: int) -> str:
        """Returns a span as text for people."""
        return label_of(self.unit or "number", number)

    def content(self, span: Span) -> str:
        """Returns 16 hex digits that change with the files of a span, and with the joined tables that its rows see."""
        tables = [(name, fingerprint(table.seen_by({span.number}).files)) for name, table in self.tables.items()]
        return span_fingerprint(span, repr(tables), "")

    def without(self, numbers: Collection[int]) -> "Window":
        """Returns the window with some of its spans as gaps, which no history sees either."""
        spans, earlier = (
            tuple(span for span in some if span.number not in numbers) for some in (self.spans, self.earlier)
        )
        return replace(self, spans=spans, earlier=earlier, left_out=tuple(sorted(numbers)))

    def lines(self) -> list[str]:
        """Returns a description of the window for people; empty for a source without spans."""
        if self.unit is None:
            return []
        first, last = self.spans[0].number, self.spans[-1].number
        counted = "1 span" if len(self.spans) == 1 else f"{len(self.spans)} spans"
        ends = described(self.unit, last) if first == last else f"{self.label(first)} to {described(self.unit, last)}"
        lines = [
            f"{counted}, {ends}; the source has {len(self.all_spans)}, the newest {self.label(self.all_spans[-1])}"
        ]
        if self.missing:
            lines.append(f"{len(self.missing)} of the window missing: {ranges(self.unit, self.missing)}")
        if self.left_out:
            stopped = f"{ranges(self.unit, self.left_out)}, which the data gate has stopped (gates.stopped_spans)"
            lines.append(f"gap: without {stopped}")
        return lines


def has_spans(data: DataConfig) -> bool:
    """Returns whether the data is divided into spans."""
    return data.span is not None or names_spans(data.source)


def span_unit(data: DataConfig) -> Unit | None:
    """Returns the length of a span, without access to the files; None for a source without spans.

    Raises:
        UserError: The fields of a path contradict each other, or those of another path.
    """
    if data.span is not None:
        return data.span.unit
    return unit_of(data.source) if isinstance(data.source, FileSource) and names_spans(data.source) else None


def find_window(
    data: DataConfig, resolve: Resolve, requested: str | None = None, *, index: Path | None = None
) -> Window:
    """Returns the spans that a run uses, and the files of the joined tables.

    Args:
        requested: `latest`, a span as a date or a number, or A:B, both included; by default the newest.
        index: Folder that caches the spans found in the column of each file; None reads the files again.

    Raises:
        SpanNotFoundError: The requested span does not exist.
        UserError: Files are missing, patterns contradict each other, or `requested` cannot be read.
    """
    window = _window(data, resolve, requested, index)
    tables = find_tables(data.joins, resolve, window.unit)
    for span in window.spans:
        require_tables(tables, window.unit, span.number)
    return replace(window, tables=tables)


def _window(data: DataConfig, resolve: Resolve, requested: str | None, index: Path | None) -> Window:
    source = data.source
    if data.span is not None:
        if names_spans(source):
            raise UserError(
                "data.span: source.path already has span fields, and a row has one span. Remove one of them."
            )
        parts = split_by_span(find_inputs(source, resolve), source, data.span, index)
        spans = {number: Span(number, files, by_content=True) for number, files in parts.items()}
        return select_window(data.span.unit, spans, data.window.spans, requested)
    if not isinstance(source, FileSource) or not names_spans(source):
        if requested not in (None, LATEST):
            raise UsageError(
                f"span {requested}: data.source has no spans. Add span fields to its path, such as "
                "trips/{YYYY}-{MM}-{DD}.csv, or name their column (data.span)."
            )
        return Window(None, (Span(0, find_inputs(source, resolve)),))
    unit, spans = find_spans(source, resolve)
    return select_window(unit, spans, data.window.spans, requested)


def index_names(data: DataConfig, resolve: Resolve) -> set[str]:
    """Returns the names of the files of `index` that `find_window` reads for the current files of the source.

    Raises:
        UserError: Files are missing.
    """
    if data.span is None:
        return set()
    return {index_name(file, data.source, data.span) for file in find_inputs(data.source, resolve)}


def select_window(
    unit: Unit, spans: Mapping[int, Span], size: int | Literal["all"], requested: str | None = None
) -> Window:
    """Returns the window of `size` consecutive spans that ends with the requested span, or the requested window A:B.

    Raises:
        SpanNotFoundError: A span named in `requested` does not exist.
        UserError: `requested` cannot be read, or the window is too wide.
    """
    all_spans = tuple(sorted(spans))
    first, last = _ends(unit, all_spans, requested)
    if first is None:
        first = all_spans[0] if size == "all" else last - size + 1
    if last - first >= MOST_SPANS:
        raise UsageError(f"a window of {last - first + 1} spans is too wide; the most is {MOST_SPANS}.")
    inside = [spans[number] for number in all_spans if first <= number <= last]
    # Spans before the first span of the source are not missing: a window grows until it is full.
    begin = max(first, all_spans[0])
    missing = tuple(number for number in range(begin, last + 1) if number not in spans)
    earlier = tuple(spans[number] for number in all_spans if number < first)
    return Window(unit, tuple(inside), missing, all_spans, earlier)


def span_fingerprint(span: Span, request: str, code: str) -> str:
    """Returns 16 hex digits that change when the records of a span change.

    Args:
        request: The request to Ingest without the files.
    """
    files = [replace(file, size=0) for file in span.files] if span.by_content else span.files
    digest = hashlib.sha256()
    for part in (span.number, fingerprint(files), request, code):
        digest.update(f"{part!r}\n".encode())
    return digest.hexdigest()[:16]


def _ends(unit: Unit, all_spans: Sequence[int], requested: str | None) -> tuple[int | None, int]:
    """Returns the first span of the window, or None if the window's size determines it, and the last span."""
    first, colon, last = (requested or LATEST).rpartition(":")
    end = _existing(unit, all_spans, last, default=all_spans[-1])
    if not colon:
        return None, end
    begin = _existing(unit, all_spans, first, default=all_spans[0])
    if begin > end:
        raise UsageError(f"span {requested}: {first} comes after {last}. Write the older span first.")
    return begin, end


def _existing(unit: Unit, all_spans: Sequence[int], text: str, *, default: int) -> int:
    if text in ("", LATEST):
        return all_spans[-1] if text else default
    number = parse_span(unit, text)
    if number not in all_spans:
        raise SpanNotFoundError(
            f"span {described(unit, number)} is not there, and nothing was trained. Spans of data.source: "
            f"{ranges(unit, all_spans)}. Wait for its files, or request an existing span, such as "
            f"{label_of(unit, all_spans[-1])}."
        )
    return number
