"""Infers the dialect of a CSV file: encoding, separator, quotes, header lines, and lines that are no rows.

Every guess is tried with the parser that reads the file later, so the result matches the later read.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice, takewhile
from typing import Any

import pyarrow as pa
import pyarrow.csv

SEPARATORS = (",", "\t", ";", "|", " ")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MASK = bytes(range(0x80)) + b"x" * 0x80
"""Maps each non-ASCII byte to a letter. Arrow truncates a row in its error message, and fails on a split character."""
_FIRST_LOOK = 256 << 10
_CLEAN_ROWS = 300
_HEADER_ROWS = 2000
_NUMBER = re.compile(r"[+-]?[$€£]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s?%?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?|\d{1,2}:\d{2}(:\d{2})?")
_ALIGNED = 0.1
_LONGEST_NAME, _MOST_WORDS = 64, 8
_SIGNS = (b"#", b"%", b"//", b"!")
_EXCEL = re.compile(rb"sep=(.)[\r\n]", re.IGNORECASE)
_SEPARATORS = SEPARATORS[:4]
_LINES, _MOST_TITLES, _MOST_FOOTERS, _MOST_HEADERS = 200, 50, 5, 4
_REGULAR = 0.8
_TOTAL = re.compile(
    r"(grand |sub)?[- ]*(totals?|sum|overall|average|mean|gesamt(summe)?|summe|totaux|totale|suma|итого|всего|合计)"
    r"( g[eé]n[eé]ral)?:?",
    re.IGNORECASE,
)
_NOTE = re.compile(r'(?=.*[^\W\d])(?=.*[\s:])[^"]*')
"""Some words, unlike the first cell of a row that is cut short."""
_MISSING = ("", "-", "?", ".", "n/a", "na", "nan", "null", "none", "missing", "unknown")


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
        # Many empty cells mean columns aligned by blanks, which no separator splits.
        if width < 2 or (self.separator == " " and cells.count("") > _ALIGNED * len(cells)):
            return 0.0
        clean = sum(map(_cleanness, cells)) / max(len(cells), 1)
        return (self.good / (self.good + self.bad)) ** 2 * clean * (width - 1) / width


def guess_encoding(start: bytes) -> str:
    """Returns the encoding of a text from its first bytes: by its byte order mark or NUL bytes, else UTF-8, cp1252
    or latin-1."""
    for mark, name in _BOMS:
        if start.startswith(mark):
            return name
    if len(start) > 3 and start[:_CLEAN_ROWS].count(0) > len(start[:_CLEAN_ROWS]) // 3:
        return "utf-16-le" if start[1] == 0 else "utf-16-be"
    for name in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(name)().decode(start)
            return name
        except UnicodeDecodeError:
            continue
    return "latin-1"


def guess_dialect(start: bytes, *, whole: bool, known: Collection[str] = (), end: bytes = b"") -> Dialect | None:
    """Returns the dialect of a CSV file, or None if no separator gives two columns or more.

    Args:
        start: The first bytes of the file, decompressed; a few megabytes show unbalanced quotes.
        whole: Whether `start` is the whole file, so its last line is complete.
        known: Known column names. The first line is a header if it holds one of them.
        end: The last bytes of the file, if `start` is not the whole file.
    """
    encoding = guess_encoding(start)
    top = read_top(_utf8(start, encoding))
    text, why = top.text, dict(top.why)
    first = _lines(text[:_FIRST_LOOK], whole=whole and len(text) <= _FIRST_LOOK)
    best = max(_trials(first, top.separator), key=lambda trial: trial.score)
    if best.score == 0:
        return None
    if best.separator != ",":
        why["separator"] = f"gives {best.good:,} of the first {best.good + best.bad:,} rows the same number of cells"
    if encoding != "utf-8":
        why["encoding"] = "by its byte order mark" if encoding == "utf-16" else "its bytes are not UTF-8"
    hidden = _lines_hidden_by_quotes(_lines(text, whole=whole), best.separator)
    if hidden:
        why["quoting"] = f"quotes are unbalanced: {hidden:,} line ends would be read as text between two quotes"
    trial = _trial(first, best.separator, not hidden) or best
    columns = top.columns or _made_up_names(trial, known, why)
    headers = 1 if columns else header_rows(list(_cells(trial.table, _HEADER_ROWS)))
    if headers > 1:
        why["header_rows"] = "the lines below the first have text above numbers: units, or further names"
    last = footers(text, text if whole else _utf8(end, encoding), best.separator, trial.table.num_columns)
    if last:
        why["skip_lines"] = "; ".join([*filter(None, [why.get("skip_lines")]), "the last lines are totals or notes"])
    return Dialect(why, best.separator, columns, headers, top.skip_rows, (*top.skip_lines, *last), not hidden, encoding)


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
    for separator in (named,) if named else SEPARATORS:
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
    if not cell or _NUMBER.fullmatch(cell) or _DATE.fullmatch(cell):
        return 1.0
    return 0.7 if any(separator in cell for separator in _SEPARATORS) else 0.9


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


def _no_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> str | None:
    """Returns the evidence that the first row holds values, or None if it holds names."""
    if len(first) > 3 and first in ([str(i) for i in range(len(first))], [str(i + 1) for i in range(len(first))]):
        return None
    named, valued = 0, []
    for cell, column in zip(first, below, strict=True):
        present = [other for other in column if other]
        numbers = sum(map(_is_value, present)) / len(present) if present else 0.0
        if _is_value(cell) and (numbers > 0.5 or not column):
            valued.append(cell)
        elif numbers > 0.9 and cell:
            named += 1
        elif cell and column.count(cell) > 0:
            valued.append(cell)
    if named > len(valued) or not (valued or _are_no_names(first)):
        return None
    example = valued[0] if valued else max(first, key=len)
    example = example if len(example) <= 30 else example[:27] + "..."
    return f"the first line holds values such as {example}, not names; these names are made up"


def _is_value(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None or _DATE.fullmatch(cell) is not None


def _are_no_names(first: Sequence[str]) -> bool:
    """Returns whether the cells of a text row are too long or too repetitive to be names."""
    written = [cell for cell in first if cell]
    wordy = any(len(cell) > _LONGEST_NAME or len(cell.split()) > _MOST_WORDS for cell in written)
    return wordy or len(set(written)) < len(written) - 1


@dataclass(frozen=True)
class Top:
    """The lines above the rows.

    Attributes:
        text: The rest of the text, without comments.
        columns: Names of the columns, if the line with the names fits no header; else None.
        separator: The separator, if the file names it; else None.
    """

    text: bytes
    skip_rows: int = 0
    skip_lines: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    separator: str | None = None
    why: dict[str, str] = field(default_factory=dict)


def read_top(text: bytes) -> Top:
    """Returns what stands above the rows of a text in UTF-8."""
    if named := _EXCEL.match(text):
        why = {"skip_lines": "Excel's line that names the separator"}
        return Top(text[named.end() :].lstrip(b"\n"), 0, (named[0][:4].decode(),), None, named[1].decode(), why)
    lines = text.splitlines(keepends=True)
    first = next((line for line in lines[:_MOST_TITLES] if line.strip()), b"")
    sign = next((sign for sign in _SIGNS if first.startswith(sign)), None)
    if sign is None:
        return _below_titles(text)
    above = [line for line in takewhile(lambda line: not line.strip() or line.startswith(sign), lines) if line.strip()]
    rest = b"".join(line for line in lines if not line.startswith(sign))
    names, row = _aligned(above[-1].removeprefix(sign), rest)
    if not rest.strip() or (len(above) == 1 and names):
        return Top(text)  # the only line with the sign is the header line
    top = _below_titles(rest)
    why = {**top.why, "skip_lines": f"comments: lines above the rows begin with {sign.decode()}"}
    columns = top.columns
    if any(map(_is_value, row)):
        columns, why["columns"] = tuple(names), "the last comment above the rows holds the names"
    return Top(top.text, top.skip_rows and top.skip_rows + len(above), (sign.decode(),), columns, None, why)


def header_rows(columns: Sequence[Sequence[str]]) -> int:
    """Returns the number of header lines at the top of columns, whose first cell is a name.

    A further header line has no number or date, and text in columns of numbers. No cell of it stands below it.
    """
    count = 1
    while count < _MOST_HEADERS and all(len(column) > count + 2 for column in columns):
        texts = 0
        for column in columns:
            cell, below = column[count], column[count + 1 :]
            known = [c for c in column[_MOST_HEADERS:] or below if c.lower() not in _MISSING]
            numeric = bool(known) and sum(map(_is_value, known)) > 0.9 * len(known)
            if _is_value(cell) or (cell and cell in below) or (cell and cell.lower() in _MISSING):
                return count
            texts += bool(cell) and numeric
        if not texts:
            return count
        count += 1
    return count


def footers(text: bytes, end: bytes, separator: str, width: int) -> tuple[str, ...]:
    """Returns beginnings of the last lines that are no rows: a row of totals, or a line of one cell.

    Args:
        text: The beginning of the file, to see that no row begins likewise.
        end: The last lines of the file.
    """
    found: list[str] = []
    rows, last = text.splitlines(), [line for line in end.splitlines() if line.strip()]
    for line in reversed(last[1:][-_MOST_FOOTERS:]):
        begin = _footer(line.decode("utf-8", "replace"), separator, width)
        if begin is None or {row for row in (*rows, *last) if row.startswith(begin.encode())} != {line}:
            break
        found.append(begin)
    return tuple(reversed(found))


def _footer(line: str, separator: str, width: int) -> str | None:
    cells = line.split(separator)
    first = next((i for i, cell in enumerate(cells) if cell.strip(' "')), None)
    if len(cells) == 1 and width > 1 and _NOTE.fullmatch(line):
        return line
    if first is None or not _TOTAL.fullmatch(cells[first].strip(' "')):
        return None
    return "".join(cell + separator for cell in cells[: first + 1])


def _below_titles(text: bytes) -> Top:
    """Returns the text below the lines above the header that have other numbers of cells than the rows."""
    best: tuple[float, str, int, int] | None = None
    for separator in _SEPARATORS:
        widths = [len(row) for row in _rows_of(text, separator, _LINES) if row]
        counted = Counter(width for width in widths if width > 1).most_common(1)
        if not counted:
            continue
        width, times = counted[0]
        share, start = times / len(widths), widths.index(width)
        if share >= _REGULAR and not start:
            return Top(text)
        regular = times / max(len(widths) - start, 1)
        if regular >= _REGULAR and start <= _MOST_TITLES and times > 2 and (best is None or share > best[0]):
            best = share, separator, width, start
    if best is None:
        return Top(text)
    _, separator, width, start = best
    kept = [(line, row) for line, row in _rows_with_lines(text, separator, _LINES) if row]
    names, data = [cell.strip() for cell in kept[start - 1][1]], [row for _, row in kept[start:] if len(row) == width]
    rest = text.splitlines(keepends=True)
    why = "lines above the rows are no header line"
    if any(map(_is_value, data[0])) and all(names[:-1]) and not any(map(_is_value, names)):
        columns = None
        if len(names) == width - 1 and names[-1]:
            last_is_blank = not any(row[-1].strip() for row in data)
            made_up = f"column_{width}" if last_is_blank else "column_1"
            columns = (*names, made_up) if last_is_blank else (made_up, *names)
        elif len(names) == width + 1 and not names[-1]:
            columns = tuple(names[:-1])
        if columns is not None:
            reason = f"the header line has {len(names)} cells, the rows have {width}"
            below = kept[start][0]
            return Top(b"".join(rest[below:]), below, (), columns, None, {"columns": reason})
    skipped = kept[start][0]
    return Top(b"".join(rest[skipped:]), skipped, why={"skip_rows": why})


def _rows_with_lines(text: bytes, separator: str, rows: int) -> list[tuple[int, list[str]]]:
    """Returns the first rows with the number of lines above each; blank lines are empty rows."""
    found: list[tuple[int, list[str]]] = []
    above = 0
    reader = csv.reader(text[:_FIRST_LOOK].decode("utf-8", "replace").splitlines(keepends=True), delimiter=separator)
    try:
        for row in islice(reader, rows):
            found.append((above, row))
            above = reader.line_num
    except csv.Error:
        pass
    return found


def _rows_of(text: bytes, separator: str, rows: int) -> list[list[str]]:
    return [row for _, row in _rows_with_lines(text, separator, rows)]


def _aligned(line: bytes, rest: bytes) -> tuple[list[str], list[str]]:
    """Returns the cells of a line and of the first row of a text if both have as many, more than one; else none."""
    for separator in (*_SEPARATORS, " "):
        cells, below = _rows_of(line.strip(), separator, 1), _rows_of(rest.lstrip(), separator, 1)
        if cells and below and len(cells[0]) == len(below[0]) > 1:
            return [cell.strip() for cell in cells[0]], [cell.strip() for cell in below[0]]
    return [], []
