"""The request to Ingest: spans, each with a fingerprint that shows whether it is already ingested."""

import ast
import gc
import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import fullpass
from fullpass.base.json_text import parse_json
from fullpass.components.ingest.config import IngestConfig
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.sources.files import SourceFile, fingerprint
from fullpass.components.ingest.spans.span_files import Span
from fullpass.components.ingest.spans.span_pattern import spans_at, spans_before
from fullpass.components.ingest.spans.spans import Window, span_fingerprint
from fullpass.components.library_versions import READING, version
from fullpass.preprocessing.columns.raw_columns import RawColumn

_PACKAGE = Path(fullpass.__file__).parent
_NUMBER = attrgetter("number")
_Numbered = TypeVar("_Numbered", "SpanRequest", Span)
_CODE = ("components/ingest", "preprocessing/dates", "preprocessing/values")


@dataclass(frozen=True)
class KnownSpan:
    """A span that was ingested before."""

    number: int
    fingerprint: str
    version: int


@dataclass(frozen=True)
class SpanRequest:
    """One span to ingest. label: its name for people. content: see `Window.content`."""

    number: int
    label: str
    version: int
    fingerprint: str
    files: tuple[SourceFile, ...]
    content: str = ""


@dataclass(frozen=True)
class Request:
    """The inputs from which the examples of a run are made.

    Attributes:
        config: The part of `data:` that determines the records.
        spans: All spans of the window.
        past: Further spans that these spans see: at most `spans_before` earlier, or in `reaches`.
        spans_before: History -> number of the spans before its own whose events a row sees.
        reaches: The first and the last span, relative to its own, whose rows a span reads for a forecast.
        joined: The joined tables, by the name of the join.
    """

    config: IngestConfig
    splits: tuple[str, ...]
    columns: tuple[RawColumn, ...]
    gzip: bool
    spans: tuple[SpanRequest, ...] = ()
    spanned: bool = False
    past: tuple[SpanRequest, ...] = ()
    spans_before: Mapping[str, int] = field(default_factory=dict)
    reaches: tuple[tuple[int, int], ...] = ()
    joined: dict[str, Tables] = field(default_factory=dict)

    def to_json(self, *, known: Collection[KnownSpan] = ()) -> str:
        """Returns the request for the spans that are not known, in the form that the executor reads."""
        have = {(span.number, span.fingerprint) for span in known}
        new = self.limited_to([span for span in self.spans if (span.number, span.fingerprint) not in have])
        joined = {name: asdict(tables) for name, tables in self.joined.items()}
        own = {
            "spanned": self.spanned,
            "spans": [asdict(span) for span in new.spans],
            "past": [asdict(span) for span in new.past],
            "spans_before": dict(self.spans_before),
            "reaches": self.reaches,
            "joined": joined,
        }
        return json.dumps(self._common() | own)

    def limited_to(self, spans: Sequence[SpanRequest]) -> "Request":
        """Returns the request for some of its spans, with the further spans that these see."""
        numbers = {span.number for span in spans}
        others = sorted((s for s in (*self.past, *self.spans) if s.number not in numbers), key=_NUMBER)
        seen = {other.number for number in numbers for other in self._seen_by(number, others)}
        past = tuple(other for other in others if other.number in seen)
        return replace(self, spans=tuple(spans), past=past)

    def sees(self, span: int, other: int) -> bool:
        """Returns whether the records of a span depend on the rows of another."""
        return 0 < span - other <= max(self.spans_before.values(), default=0) or (
            other != span and any(first <= other - span <= last for first, last in self.reaches)
        )

    def _seen_by(self, span: int, others: Sequence[_Numbered]) -> list[_Numbered]:
        """Returns those of some spans, the oldest first, on whose rows the records of a span depend."""
        back = max([0, *self.spans_before.values(), *(-first for first, _ in self.reaches)])
        ahead = max([0, *(last for _, last in self.reaches)])
        begin, end = bisect_left(others, span - back, key=_NUMBER), bisect_right(others, span + ahead, key=_NUMBER)
        return [other for other in others[begin:end] if self.sees(span, other.number)]

    def _reaching(self, window: Window) -> "Request":
        """Returns the request with the numbers of spans over which the rows of a window see others."""
        shifted = self.config.shifted
        before = {name: spans_before(window.unit, of.longest) for name, of in self.config.history.items()}
        shifts = shifted.columns.values() if shifted else ()
        return replace(self, spans_before=before, reaches=tuple(spans_at(window.unit, shift) for shift in shifts))

    def _common(self) -> dict[str, Any]:
        return {
            "config": self.config.model_dump(mode="json"),
            "splits": list(self.splits),
            "columns": [asdict(column) for column in self.columns],
            "gzip": self.gzip,
        }

    def with_window(self, window: Window, known: Collection[KnownSpan]) -> "Request":
        """Returns the request for the spans of a window; a span that differs from its known version gets a new one.

        If a joined table changes, the spans differ whose rows, or the events before them, see it.
        """
        common = self._common()
        # The fingerprint of a span contains the paths of its files; their notation in the YAML changes no record.
        common["config"]["source"].pop("path", None)
        for join in common["config"]["joins"].values():
            join["source"].pop("path", None)
        reaching = self._reaching(window)
        every, spans = [*window.earlier, *window.spans], []
        for span in window.spans:
            seen = reaching._seen_by(span.number, every)
            for name, tables in window.tables.items():
                files = tables.seen_by({other.number for other in (span, *seen)}).files
                common["config"]["joins"][name]["files"] = fingerprint(files)
            text = json.dumps(common, sort_keys=True)
            events = [span_fingerprint(other, "", "") for other in seen]
            digest = span_fingerprint(span, f"{text} {events}" if events else text, reader_code_digest())
            version = span.version or _next_version(span.number, digest, known)
            label, content = window.label(span.number), window.content(span)
            spans.append(SpanRequest(span.number, label, version, digest, span.files, content))
        past = tuple(SpanRequest(span.number, window.label(span.number), 0, "", span.files) for span in window.earlier)
        return replace(
            reaching, spans=tuple(spans), spanned=window.unit is not None, past=past, joined=dict(window.tables)
        )


def spans_read(config: IngestConfig, window: Window) -> tuple[Span, ...]:
    """Returns the spans on which the records of a window depend: its own, and earlier ones whose rows they see."""
    reaching = Request(config, (), (), gzip=False)._reaching(window)
    seen = {other.number for span in window.spans for other in reaching._seen_by(span.number, window.earlier)}
    return (*(span for span in window.earlier if span.number in seen), *window.spans)


def _next_version(number: int, fingerprint: str, known: Collection[KnownSpan]) -> int:
    version_of = {span.fingerprint: span.version for span in known if span.number == number}
    return version_of.get(fingerprint, max(version_of.values(), default=-1) + 1)


@cache
def reader_code_digest() -> str:
    """Returns a digest of the code that converts rows to records, and of the libraries that it uses."""
    paths = [_PACKAGE / part for part in _CODE]
    files = (file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path]))
    libraries = " ".join(f"{package}={version(package)}" for package in READING)
    return f"{digest_of_code(files)} {libraries}"


def digest_of_code(files: Iterable[Path]) -> str:
    """Returns a digest of the syntax of Python files. Comments, docstrings and formatting do not change it."""
    digest = hashlib.sha256()
    collects = gc.isenabled()
    gc.disable()  # trees have no cycles; scanning all imported objects would take as long as parsing
    try:
        for file in files:
            texts: list[str] = []
            _add_syntax(ast.parse(file.read_bytes()), texts)
            digest.update("\n".join(texts).encode())
    finally:
        if collects:
            gc.enable()
    return digest.hexdigest()


def _add_syntax(node: ast.AST, texts: list[str]) -> None:
    """Adds the types, fields and values of a syntax tree, without docstrings. It is twice as fast as `ast.dump`."""
    texts.append(type(node).__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or isinstance(value, ast.expr_context):
            continue
        texts.append(name)
        if isinstance(value, ast.AST):
            _add_syntax(value, texts)
        elif not isinstance(value, list):
            texts.append(repr(value))
        else:
            for item in value:
                if not isinstance(item, ast.AST):
                    texts.append(repr(item))
                elif not _is_docstring(item):
                    _add_syntax(item, texts)
            texts.append("end")


def _is_docstring(node: ast.AST) -> bool:
    """Returns whether a node is a statement that is only a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def read_request(text: str) -> Request:
    """Returns a request that `to_json` wrote."""
    return parse_json(Request, text)
