"""The spans of a source, the spans that a run uses, and a fingerprint of each that changes when its records change.

These are functions of files only, without TFX and without metadata. The caller knows which spans are already ingested.
"""

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UsageError, UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.config import DataConfig
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import FileSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, entries, fingerprint, nearby, place_pattern
from fullpass.components.ingest.sources.storage import find, is_folder, matches
from fullpass.components.ingest.spans.span_column import index_name, split_by_span
from fullpass.components.ingest.spans.span_pattern import (
    FORMS,
    SpanPattern,
    Unit,
    described,
    has_fields,
    label_of,
    parse_pattern,
    parse_span,
)
from fullpass.preprocessing.columns.raw_columns import MOST_SPANS

LATEST = "latest"
_SHOWN = 6


class SpanNotFoundError(UserError):
    """The requested span does not exist."""


@dataclass(frozen=True)
class Span:
    """One span of a source.

    Attributes:
        version: Value of `{VERSION}` in the paths of its files, else 0.
        by_content: Whether the version of a file is the digest of the span's rows in it. The size of the file is then
            irrelevant.
    """

    number: int
    files: tuple[SourceFile, ...]
    version: int = 0
    by_content: bool = False


@dataclass(frozen=True)
class Window:
    """The spans of one run, the oldest first.

    Attributes:
        unit: Length of a span; None for a source without spans, which is read as a single span.
        missing: Numbers of the spans between the first and the last that the source lacks.
        earlier: The spans of the source before the first, whose events a history may need.
    """

    unit: Unit | None
    spans: tuple[Span, ...]
    missing: tuple[int, ...] = ()
    all_spans: tuple[int, ...] = field(default=(), repr=False)
    earlier: tuple[Span, ...] = field(default=(), repr=False)

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """The files of all spans."""
        return tuple(file for span in self.spans for file in span.files)

    def label(self, number: int) -> str:
        """Returns a span as text for people."""
        return label_of(self.unit or "number", number)

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
        return lines


def has_spans(data: DataConfig) -> bool:
    """Returns whether the data is divided into spans."""
    return data.span is not None or _in_path(data)


def span_unit(data: DataConfig) -> Unit | None:
    """Returns the length of a span, without access to the files; None for a source without spans.

    Raises:
        UserError: The fields of a path contradict each other, or those of another path.
    """
    if data.span is not None:
        return data.span.unit
    if not isinstance(data.source, FileSource) or not has_spans(data):
        return None
    return _common_unit([_pattern(path, str) for _, path in entries(data.source.path)])


def path_pattern(path: str, resolve: Resolve) -> SpanPattern | None:
    """Returns a path of the YAML parsed as a pattern; None for a plain path.

    Raises:
        UserError: Its fields contradict each other.
    """
    return parse_pattern(path, *place_pattern(path, resolve)) if has_fields(path) else None


def _in_path(data: DataConfig) -> bool:
    return isinstance(data.source, FileSource) and any(has_fields(path) for _, path in entries(data.source.path))


def find_window(
    data: DataConfig, resolve: Resolve, requested: str | None = None, *, index: Path | None = None
) -> Window:
    """Returns the spans that a run uses.

    Args:
        requested: `latest`, a span as a date or a number, or A:B, both included; by default the newest.
        index: Folder that caches the spans found in the column of each file; None reads the files again.

    Raises:
        SpanNotFoundError: The requested span does not exist.
        UserError: Files are missing, patterns contradict each other, or `requested` cannot be read.
    """
    source = data.source
    if data.span is not None:
        if _in_path(data):
            raise UserError(
                "data.span: source.path already has span fields, and a row has one span. Remove one of them."
            )
        parts = split_by_span(find_inputs(source, resolve), source, data.span, index)
        spans = {number: Span(number, files, by_content=True) for number, files in parts.items()}
        return select(data.span.unit, spans, data.window.spans, requested)
    if not isinstance(source, FileSource) or not has_spans(data):
        if requested not in (None, LATEST):
            raise UsageError(
                f"--span {requested}: data.source has no spans. Add span fields to its path, such as "
                "trips/{YYYY}-{MM}-{DD}.csv, or name their column (data.span)."
            )
        return Window(None, (Span(0, find_inputs(source, resolve)),))
    unit, spans = find_spans(source, resolve)
    return select(unit, spans, data.window.spans, requested)


def index_names(data: DataConfig, resolve: Resolve) -> set[str]:
    """Returns the names of the files of `index` that `find_window` reads for the current files of the source.

    Raises:
        UserError: Files are missing.
    """
    if data.span is None:
        return set()
    return {index_name(file, data.source, data.span) for file in find_inputs(data.source, resolve)}


def select(unit: Unit, spans: Mapping[int, Span], size: int | Literal["all"], requested: str | None = None) -> Window:
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


def ranges(unit: Unit, numbers: Collection[int]) -> str:
    """Returns spans as text, consecutive ones as `A to B`; if there are many ranges, only the first and last few."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    texts = [" to ".join(label_of(unit, end) for end in run) for run in runs]
    if len(texts) > _SHOWN:
        texts = [*texts[: _SHOWN // 2], "...", *texts[-_SHOWN // 2 :]]
    return ", ".join(texts)


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
        raise UsageError(f"--span {requested}: {first} comes after {last}. Write the older span first.")
    return begin, end


def _existing(unit: Unit, all_spans: Sequence[int], text: str, *, default: int) -> int:
    if text in ("", LATEST):
        return all_spans[-1] if text else default
    number = parse_span(unit, text)
    if number not in all_spans:
        raise SpanNotFoundError(
            f"span {described(unit, number)} is not there, and nothing was trained. Spans of data.source: "
            f"{ranges(unit, all_spans)}. Wait for its files, or request an existing span: --span "
            f"{label_of(unit, all_spans[-1])}."
        )
    return number


def find_spans(source: FileSource, resolve: Resolve) -> tuple[Unit, dict[int, Span]]:
    """Returns every span of a source by its number, each in its newest version.

    Raises:
        UserError: A pattern matches nothing, patterns have different units, or a span lacks files for a split.
    """
    patterns = [(split, _pattern(path, resolve)) for split, path in entries(source.path)]
    unit = _common_unit([pattern for _, pattern in patterns])
    placed: list[_Placed] = []
    known: set[str] = set()
    for split, pattern in patterns:
        versions: dict[int, dict[int, list[SourceFile]]] = {}
        for number, version, file in _files(pattern, source, resolve):
            if file.path in known:
                raise UserError(f"data.source.path: {file.path} is named twice. Every file must be read once.")
            known.add(file.path)
            versions.setdefault(number, {}).setdefault(version, []).append(replace(file, split=split))
        placed.append(_Placed(pattern.written, split, versions))
    _check_complete(unit, placed)
    numbers = sorted({number for entry in placed for number in entry.versions})
    return unit, {number: _newest(unit, number, placed) for number in numbers}


@dataclass(frozen=True)
class _Placed:
    """Files of one path of the YAML: span -> version -> files."""

    written: str
    split: str | None
    versions: Mapping[int, Mapping[int, list[SourceFile]]]


def _pattern(path: str, resolve: Resolve) -> SpanPattern:
    pattern = path_pattern(path, resolve)
    if pattern is None:
        raise UserError(
            f"data.source.path: {path!r} has no span fields, but other paths have them. Add the fields, or "
            "read it in a separate pipeline."
        )
    return pattern


def _common_unit(patterns: Sequence[SpanPattern]) -> Unit:
    first = patterns[0]
    other = next((pattern for pattern in patterns if pattern.unit != first.unit), None)
    if other is not None:
        raise UserError(
            f"data.source.path: {first.written!r} has a span per {first.unit} ({FORMS[first.unit]}), but "
            f"{other.written!r} one per {other.unit} ({FORMS[other.unit]}). Give all paths the same fields."
        )
    return first.unit


def _files(pattern: SpanPattern, source: FileSource, resolve: Resolve) -> Iterator[tuple[int, int, SourceFile]]:
    matched, seen = False, set()
    for path in matches(pattern.glob):
        found = pattern.span_and_version(path)
        real = found, path if is_address(path) else os.path.realpath(path)
        if real in seen:  # another path of the same file or folder, through a link
            continue
        seen.add(real)
        # If the pattern matches folders, a folder is read as a whole, as without spans. An empty folder is no span yet.
        of_name = source.endings if pattern.folders or path.endswith(tuple(source.endings) or ("\0",)) else ()
        if found is not None and (find(path, of_name) or (source.reads_folders and is_folder(path))):
            for file in find_inputs(source.model_copy(update={"path": path}), resolve):
                matched = True
                yield *found, file
    if not matched:
        raise UserError(
            f"data.source.path: {pattern.written!r} matches no file.{nearby(pattern.glob)} Looked for: {pattern.glob}."
        )


def _check_complete(unit: Unit, placed: Sequence[_Placed]) -> None:
    """Raises UserError for a span that lacks the files for a split: they may not have arrived yet."""
    of_split: dict[str | None, set[int]] = {}
    for entry in placed:
        of_split.setdefault(entry.split, set()).update(entry.versions)
    every = set().union(*of_split.values())
    for split, numbers in of_split.items():
        if every - numbers:
            other = next(name for name in of_split if name != split)
            raise UserError(
                f"data.source.path: {ranges(unit, every - numbers)} has files for {other!r}, but none for {split!r}. "
                "Add them, or remove the others."
            )


def _newest(unit: Unit, number: int, placed: Sequence[_Placed]) -> Span:
    having = [entry for entry in placed if number in entry.versions]
    newest = [max(entry.versions[number]) for entry in having]
    if len(set(newest)) > 1:
        versions = ", ".join(f"{version} of {entry.written!r}" for entry, version in zip(having, newest, strict=True))
        raise UserError(
            f"data.source.path: the newest versions of span {label_of(unit, number)} differ: {versions}. Give every "
            "path the same version."
        )
    files = tuple(file for entry in having for file in entry.versions[number][newest[0]])
    return Span(number, files, newest[0])
