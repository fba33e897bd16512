"""Finds the files of every span of a source whose path contains the span."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.sources.config import BaseSource, FileSource
from fullpass.components.ingest.sources.files import Resolve, SourceFile, inputs_by_split, nearby, place_pattern
from fullpass.components.ingest.sources.storage import find, is_folder, matches
from fullpass.components.ingest.spans.span_pattern import (
    FORMS,
    SpanPattern,
    Unit,
    has_fields,
    label_of,
    parse_pattern,
    ranges,
)


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


def path_pattern(path: str, resolve: Resolve) -> SpanPattern | None:
    """Returns a path of the YAML parsed as a pattern; None for a plain path.

    Raises:
        UserError: Its fields contradict each other.
    """
    return parse_pattern(path, *place_pattern(path, resolve)) if has_fields(path) else None


def names_spans(source: BaseSource) -> bool:
    """Returns whether the paths of a source contain the span."""
    return isinstance(source, FileSource) and any(has_fields(path) for _, path in inputs_by_split(source.path))


def unit_of(source: FileSource) -> Unit:
    """Returns the length of a span of a source that names spans, without access to the files.

    Raises:
        UserError: The fields of a path contradict each other, or those of another path.
    """
    return _common_unit([_pattern(path, str) for _, path in inputs_by_split(source.path)])


def find_spans(source: FileSource, resolve: Resolve) -> tuple[Unit, dict[int, Span]]:
    """Returns every span of a source by its number, each in its newest version.

    Raises:
        UserError: A pattern matches nothing, patterns have different units, or a span lacks files for a split.
    """
    patterns = [(split, _pattern(path, resolve)) for split, path in inputs_by_split(source.path)]
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
        hint = nearby(pattern.glob, pattern.written)
        raise UserError(f"data.source.path: {pattern.written!r} matches no file.{hint} Looked for: {pattern.glob}.")


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
