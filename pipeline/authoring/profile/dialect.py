"""Infers the dialect of a CSV file: encoding, separator, quotes, header lines, and lines that are no rows.

Every guess is tried with the parser that reads the file later, so the result matches the later read.
"""

import codecs
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.csv

from fullpass.components.ingest.readers.csv_records import empty_lines, has_empty_line, without_blanks
from fullpass.pipeline.authoring.profile.column_profile import shown
from fullpass.pipeline.authoring.profile.lines_around_rows import (
    FIRST_LOOK,
    SEPARATORS,
    Top,
    header_rows,
    is_value,
    read_top,
    totals,
)
from fullpass.pipeline.authoring.rules import rule

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MASK = bytes(range(0x80)) + b"x" * 0x80
"""Maps each non-ASCII byte to a letter. Arrow truncates a row in its error message, and fails on a split character."""
_CLEAN_ROWS = 300
"""Rows whose cells are judged: the score of a separator hardly changes with more."""
_HEADER_ROWS = 2000
"""Rows below the first line in which its cells are looked for."""
_LONGEST_NAME = 64
"""Characters of a name; longer cells of a first line are texts."""
_MOST_WORDS = 8
"""Words of a name; cells of more words are texts, such as questions of a survey."""
_WHOLE_TEXT, _HELD_SEPARATOR = 0.9, 0.7
"""How clean a text is as one value, without and with a separator in it (CleverCSV judges types of cells likewise)."""
_MOSTLY, _NEARLY_ALL = 0.5, 0.9
"""Shares of numbers and dates below a first line: of its values, and below a name."""
_SHOWN = 30
"""Characters of an example in a reason."""


@dataclass(frozen=True)
class Dialect:
    """The dialect of one CSV file, in the words of `CsvSource`.

    Attributes:
        columns: Names for a file without a header line that fits; None if the first line holds the names.
    """

    why: Mapping[str, str]
    separator: str = ","
    columns: tuple[str, ...] | None = None
    header_rows: int = 1
    skip_rows: int = 0
    skip_lines: tuple[str, ...] = ()
    skip_empty: bool = False
    quoting: bool = True
    encoding: str = "utf-8"

    @property
    def settings(self) -> dict[str, Any]:
        """The unusual values, as written in the section `data.source`."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if k != "why"}


@dataclass(frozen=True)
class _DialectTrial:
    """One attempt to read the text: rows with as many cells as the first row, and other rows."""

    separator: str
    quoting: bool
    good: int
    bad: int
    table: pa.Table

    @property
    def score(self) -> float:
        """The regularity of rows times the cleanness of cells, as in CleverCSV: 0 (only one column) to 1."""
        width = self.table.num_columns
        cells = [cell for column in _cells(self.table, _CLEAN_ROWS) for cell in column]
        if width < 2:
            return 0.0
        clean = sum(map(_cleanness, cells)) / max(len(cells), 1)
        return (self.good / (self.good + self.bad)) ** 2 * clean * (width - 1) / width


def guess_encoding(start: bytes) -> str:
    """Returns the encoding of a text from its first bytes: by its byte order mark, else UTF-8, cp1252 or latin-1."""
    for mark, name in _BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return name
    for name in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(name)().decode(start)
            return name
        except UnicodeDecodeError:
            continue
    return "latin-1"


def guess_dialect(
    start: bytes,
    *,
    whole: bool,
    known: Collection[str] = (),
    end: bytes = b"",
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Dialect | None:
    """Returns the dialect of a CSV file, or None if no separator gives two columns or more.

    Args:
        start: The first bytes of the file, decompressed; a few megabytes show unbalanced quotes.
        whole: Whether `start` is the whole file, so its last line is complete.
        known: Known column names. The first line is a header if it holds one of them.
        end: The last bytes of the file, if `start` is not the whole file.
        given: Keys of `CsvSource` that the user gave. The others are guessed to fit them.
    """
    encoding = given.get("encoding") or guess_encoding(start)
    top = _given_top(_utf8(start, encoding), given) or read_top(_utf8(start, encoding))
    text, why = top.text, dict(top.why)
    first = _lines(text[:FIRST_LOOK], whole=whole and len(text) <= FIRST_LOOK)
    best = max(_trials(first, given.get("separator")), key=lambda trial: trial.score)
    if best.score == 0:
        return None
    if best.separator != ",":
        why["separator"] = f"gives {best.good:,} of the first {best.good + best.bad:,} rows the same number of cells"
    if encoding != "utf-8":
        why["encoding"] = "by its byte order mark" if encoding == "utf-16" else "its bytes are not UTF-8"
    hidden = 0 if "quoting" in given else _lines_hidden_by_quotes(_lines(text, whole=whole), best.separator)
    if hidden:
        why["quoting"] = f"quotes are unbalanced: {hidden:,} line ends would be read as text between two quotes"
    quoting = given.get("quoting", not hidden)
    trial = _trial(first, best.separator, quoting) or best
    named = not {"columns", "header_rows"}.isdisjoint(given)
    columns = None if named else _made_up_names(trial, known, why)
    headers = 1 if columns or named else header_rows(list(_cells(trial.table, _HEADER_ROWS)))
    if headers > 1:
        why["header_rows"] = "the lines below the first have text above numbers: units, or further names"
    below = text if whole else _utf8(end, encoding)
    skip_empty = _has_empty_rows((text, below), best.separator)
    if skip_empty:
        why["skip_empty"] = "a spreadsheet saved empty rows"
    last = totals(text, below, best.separator)
    if last:
        why["skip_lines"] = "; ".join([*filter(None, [why.get("skip_lines")]), "the last lines are totals"])
    return Dialect(
        why=why,
        separator=best.separator,
        columns=columns,
        header_rows=headers,
        skip_rows=top.skip_rows,
        skip_lines=(*top.skip_lines, *last),
        skip_empty=skip_empty,
        quoting=quoting,
        encoding=encoding,
    )


@rule("empty rows of a spreadsheet", otherwise=False)
def _has_empty_rows(texts: Sequence[bytes], separator: str) -> bool:
    return any(has_empty_line(text, separator) for text in texts)


def _given_top(text: bytes, given: Mapping[str, Any]) -> Top | None:
    """Returns the text below the lines that the user skips; None if none are given."""
    if given.keys().isdisjoint({"skip_rows", "skip_lines"}):
        return None
    lines = text.splitlines(keepends=True)[given.get("skip_rows") or 0 :]
    skipped = tuple(str(begin).encode() for begin in given.get("skip_lines") or ())
    return Top(b"".join(line for line in lines if not (skipped and line.startswith(skipped))))


def _utf8(start: bytes, encoding: str) -> bytes:
    if encoding == "utf-8":
        return start.removeprefix(codecs.BOM_UTF8)
    return codecs.getincrementaldecoder(encoding)(errors="replace").decode(start).encode("utf-8")


def _lines(text: bytes, *, whole: bool) -> bytes:
    """Returns the complete lines of a text that may be truncated."""
    text = text.lstrip(b"\r\n")
    if whole:
        return text if text.endswith((b"\n", b"\r")) else text + b"\n"
    end = max(text.rfind(b"\n"), text.rfind(b"\r"))
    return text[: end + 1] if end >= 0 else text + b"\n"


def _trials(text: bytes, named: str | None) -> Iterator[_DialectTrial]:
    masked = text.translate(_MASK)
    for separator in (named,) if named else (*SEPARATORS, " "):
        for quoting in (True, False):
            if (trial := _trial(masked, separator, quoting)) is not None:
                yield trial
    yield _DialectTrial(",", True, 1, 0, pa.table({"f0": pa.array([b""])}))


def _trial(text: bytes, separator: str, quoting: bool) -> _DialectTrial | None:
    bad = 0

    def skip(_: object) -> str:
        nonlocal bad
        bad += 1
        return "skip"

    text = empty_lines(separator).sub(b"", without_blanks(text, separator) if quoting else text)
    width = text.split(b"\n", 1)[0].count(separator.encode()) + 1
    as_text = {f"f{i}": pa.binary() for i in range(width)}  # by the names that Arrow generates: no types are inferred
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(text),  # with a Python file, Arrow's reader can block forever when parsing fails
            read_options=pa.csv.ReadOptions(use_threads=False, autogenerate_column_names=True),
            parse_options=pa.csv.ParseOptions(
                delimiter=separator,
                quote_char='"' if quoting else False,
                newlines_in_values=quoting,
                invalid_row_handler=skip,
            ),
            convert_options=pa.csv.ConvertOptions(check_utf8=False, column_types=as_text),
        )
    except pa.ArrowInvalid:
        return None
    return _DialectTrial(separator, quoting, table.num_rows, bad, table) if table.num_rows else None


@rule("unbalanced quotes", otherwise=0)
def _lines_hidden_by_quotes(text: bytes, separator: str) -> int:
    """Returns the number of line ends inside quotes, if all lines are regular without quoting; else 0."""
    if b'"' not in text:
        return 0
    masked = text.translate(_MASK)
    quoted, plain = _trial(masked, separator, True), _trial(masked, separator, False)
    if plain is None or plain.bad:
        return 0
    return plain.good - (quoted.good + quoted.bad if quoted else 0)


def _cells(table: pa.Table, rows: int) -> Iterator[list[str]]:
    """Yields the columns as text, stripped, up to `rows` rows."""
    for column in table.slice(0, rows).columns:
        cells = (c.decode("utf-8", "replace") if isinstance(c, bytes) else str(c) for c in column.to_pylist())
        yield [cell.strip() for cell in cells]


def _cleanness(cell: str) -> float:
    """Returns whether a cell looks like one value: empty, number, date, or text without separators."""
    if not cell or is_value(cell):
        return 1.0
    return _HELD_SEPARATOR if any(separator in cell for separator in SEPARATORS) else _WHOLE_TEXT


def _made_up_names(trial: _DialectTrial, known: Collection[str], why: dict[str, str]) -> tuple[str, ...] | None:
    """Returns generated names for the columns of a file without a header, or None if the first row is a header."""
    columns = list(_cells(trial.table, _HEADER_ROWS))
    if any(column[0] in known for column in columns):
        return None
    reason = _no_header([column[0] for column in columns], [column[1:] for column in columns])
    if reason is None:
        return None
    why["columns"] = reason
    return tuple(f"column_{i}" for i in range(1, len(columns) + 1))


@rule("no header")
def _no_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> str | None:
    """Returns the evidence that the first row holds values, or None if it holds names."""
    named, valued = 0, []
    for cell, column in zip(first, below, strict=True):
        present = [other for other in column if other]
        numbers = sum(map(is_value, present)) / len(present) if present else 0.0
        if is_value(cell) and (numbers > _MOSTLY or not column):
            valued.append(cell)
        elif numbers > _NEARLY_ALL and cell:
            named += 1
        elif cell and column.count(cell) > 0:
            valued.append(cell)
    if named > len(valued) or not (valued or _are_no_names(first)):
        return None
    example = valued[0] if valued else max(first, key=len)
    return f"the first line holds values such as {shown(example, _SHOWN)}, not names; these names are made up"


@rule("names that are texts", otherwise=False)
def _are_no_names(first: Sequence[str]) -> bool:
    """Returns whether the cells of a text row are too long or too repetitive to be names."""
    written = [cell for cell in first if cell]
    wordy = any(len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS for cell in written)
    return wordy or len(set(written)) < len(written) - 1
