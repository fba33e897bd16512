"""Finds the lines of a CSV file that are no rows: titles and comments above the header, further header lines, and
totals and notes below the rows."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice, takewhile
from typing import NamedTuple

from fullpass.components.ingest.readers.csv_records import without_blanks
from fullpass.pipeline.authoring.rules import rule

SEPARATORS = (",", "\t", ";", "|")
FIRST_LOOK = 256 << 10
"""Bytes of a text in which its separator, its lines above the rows, and the names of its columns are looked for."""
_OFTEN_ALONE = 0.05
_SURELY_A_HEADER = 3
_NUMBER = re.compile(r"[+-]?[$€£]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s?%?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?|\d{1,2}:\d{2}(:\d{2})?")
_SIGNS = (b"#", b"%", b"//", b"!")
_EXCEL = re.compile(rb"sep=(.)[\r\n]", re.IGNORECASE)
_LINES, _MOST_TITLES, _MOST_FOOTERS, _MOST_HEADERS = 200, 50, 20, 4
_REGULAR = 0.8
_TOTAL = re.compile(
    r"(grand |sub)?[- ]*(totals?|sum|overall|average|mean|gesamt(summe)?|summe|totaux|totale|suma|итого|всего|合计)"
    r"( g[eé]n[eé]ral)?:?",
    re.IGNORECASE,
)
_NOTE = re.compile(r'(?=.*[^\W\d])(?=.*[\s:])[^"]*')
"""Some words, unlike the first cell of a row that is cut short."""
_NAMED_NOTE = re.compile(
    r"(sources?|notes?|footnotes?|remarks?|quellen?|anmerkung(en)?|hinweise?|fuentes?|notas?)\b|[*†‡]", re.I
)
_MISSING = ("", "-", "?", ".", "n/a", "na", "nan", "null", "none", "missing", "unknown")


def is_value(cell: str) -> bool:
    """Returns whether a cell looks like a number, a date or a time."""
    return _NUMBER.fullmatch(cell) is not None or _DATE.fullmatch(cell) is not None


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
    if any(map(is_value, row)):
        columns, why["columns"] = tuple(names), "the last comment above the rows holds the names"
    return Top(top.text, top.skip_rows and top.skip_rows + len(above), (sign.decode(),), columns, None, why)


@rule("further header lines", otherwise=1)
def header_rows(columns: Sequence[Sequence[str]]) -> int:
    """Returns the number of header lines at the top of columns, whose first cell is a name.

    A further header line has no number or date, and text in columns of numbers. No cell of it stands below it. Beside
    such text in three columns, one cell may be otherwise.
    """
    count = 1
    while count < _MOST_HEADERS and all(len(column) > count + 2 for column in columns):
        texts = others = 0
        for column in columns:
            cell, below = column[count], column[count + 1 :]
            known = [c for c in column[_MOST_HEADERS:] or below if c.lower() not in _MISSING]
            numeric = bool(known) and sum(map(is_value, known)) > 0.9 * len(known)
            is_other = is_value(cell) or (cell and cell in below) or (cell and cell.lower() in _MISSING)
            others += bool(is_other)
            texts += bool(cell) and numeric and not is_other
        if not texts or others > (texts >= _SURELY_A_HEADER):
            return count
        count += 1
    return count


@rule("lines below the rows", otherwise=())
def footers(text: bytes, end: bytes, separator: str, width: int) -> tuple[str, ...]:
    """Returns beginnings of the last lines that are no rows: a row of totals, or a line of one cell.

    Spreadsheets fill such a line with empty cells. Then it may also be a row whose other cells are missing; it is a
    note if its text says so, if an empty line stands above it, or if the column has no text of this kind.

    Args:
        text: The beginning of the file, to see that no row begins likewise.
        end: The last lines of the file.
    """
    found: list[str] = []
    top, rows, blocks = _top_rows(text, separator), text.splitlines(), _blocks_of_lines(end, separator)
    margin, last = _margin(top), [line for block in blocks for line in block]
    notes = [block for block in blocks[1:] if all(_is_alone(_cells_of(line, separator), margin) for line in block)]
    apart, first_cells = {line for block in notes for line in block}, _first_cells(top, margin)
    for line in reversed(last[1:][-_MOST_FOOTERS:]):
        cells = _cells_of(line, separator)
        begin = line.decode("utf-8", "replace")
        if _is_alone(cells, margin) and _is_note(cells, cells[margin].strip(), first_cells, is_apart=line in apart):
            begin = begin.rstrip(f"{separator} \t")
        elif (named := _label_at(cells)) is not None:
            begin = "".join(cell + separator for cell in begin.split(separator)[: named + 1])
        else:
            break
        if width < 2 or {row for row in (*rows, *last) if row.startswith(begin.encode())} != {line}:
            break
        found.append(begin)
    return tuple(reversed(found))


def _label_at(cells: Sequence[str]) -> int | None:
    """Returns the index of a cell that says that the others are totals or a remark, such as `Source:`; else None."""
    first = next((i for i, cell in enumerate(cells) if cell.strip()), 0)
    label = cells[first].strip() if len(cells) > 1 else ""
    return first if _TOTAL.fullmatch(label) or (label.endswith(":") and not cells[-1].strip()) else None


def _is_note(cells: Sequence[str], text: str, first_cells: Sequence[str], *, is_apart: bool) -> bool:
    """Returns whether the text of a line of one cell is a note.

    Args:
        first_cells: The first cells of the rows; none if some of these have no other cell.
        is_apart: Whether an empty line stands above it.
    """
    if not _NOTE.fullmatch(text):
        return False
    if len(cells) == 1 or is_apart or _NAMED_NOTE.match(text):
        return True
    values = sum(map(is_value, first_cells))
    return bool(first_cells) and (len(text) > max(map(len, first_cells)) or values > len(first_cells) / 2)


def _blocks_of_lines(text: bytes, separator: str) -> list[list[bytes]]:
    """Returns the lines of a text in blocks between empty lines."""
    blank = separator.encode() + b" \t"
    groups = groupby(text.splitlines(), key=lambda line: bool(line.strip(blank)))
    return [list(lines) for is_filled, lines in groups if is_filled]


def _first_cells(top: Sequence["_TopRow"], margin: int) -> list[str]:
    alone = [_is_alone(row.cells, margin) for row in top]
    rows = next((i for i in range(len(top), 0, -1) if not alone[i - 1]), 0)
    return [] if any(alone[1:rows]) else [row.cells[margin].strip() for row in top[1:rows] if len(row.cells) > margin]


def _cells_of(line: bytes, separator: str) -> list[str]:
    """Returns the cells of a line; none if a quote is not closed in it."""
    return next(iter(_rows_of(line, separator, 1)), []) if line.count(b'"') % 2 == 0 else []


def _below_titles(text: bytes) -> Top:
    """Returns the text below the lines above the header: with other numbers of cells than the rows, or only padded."""
    best: tuple[float, str, int, int] | None = None
    for separator in SEPARATORS:
        rows = _top_rows(text, separator)
        counted = Counter(len(row.cells) for row in rows if len(row.cells) > 1).most_common(1)
        if not counted:
            continue
        width, times = counted[0]
        share, start = times / len(rows), _header_at(rows, width)
        if share >= _REGULAR and not start:
            return Top(text)
        regular = sum(len(row.cells) == width for row in rows[start:]) / max(len(rows) - start, 1)
        if regular >= _REGULAR and start <= _MOST_TITLES and times > 2 and (best is None or share > best[0]):
            best = share, separator, width, start
    if best is None:
        return Top(text)
    _, separator, width, start = best
    rows = _top_rows(text, separator)
    names, data = [cell.strip() for cell in rows[start - 1].cells], [row.cells for row in rows[start:]]
    data = [cells for cells in data if len(cells) == width]
    rest = text.splitlines(keepends=True)
    skipped = rows[start].above
    if any(map(is_value, data[0])) and all(names[:-1]) and not any(map(is_value, names)):
        columns = None
        if len(names) == width - 1 and names[-1]:
            last_is_blank = not any(row[-1].strip() for row in data)
            made_up = f"column_{width}" if last_is_blank else "column_1"
            columns = (*names, made_up) if last_is_blank else (made_up, *names)
        elif len(names) == width + 1 and not names[-1]:
            columns = tuple(names[:-1])
        if columns is not None:
            reason = f"the header line has {len(names)} cells, the rows have {width}"
            return Top(b"".join(rest[skipped:]), skipped, (), columns, None, {"columns": reason})
    why = {"skip_rows": "lines above the rows are no header line"}
    return Top(b"".join(rest[skipped:]), skipped, why=why)


class _TopRow(NamedTuple):
    """A row that is not empty, the number of lines above it, and whether the line above it is empty."""

    cells: list[str]
    above: int
    is_apart: bool


def _header_at(rows: Sequence[_TopRow], width: int) -> int:
    """Returns the index of the first row that is no title; 0 if the rows themselves may have a single cell.

    A title is a row of a single cell, or of few cells, such as `Year:, 2020`, above an empty line or the header.
    """
    margin = _margin(rows)
    alone = [_is_alone(row.cells, margin) for row in rows]
    start = next((i for i, row in enumerate(rows) if len(row.cells) == width and not alone[i]), 0)
    end = next((i for i in range(len(rows), start + 1, -1) if not alone[i - 1]), start + 1)
    often = sum(alone[start + 1 : end]) > _OFTEN_ALONE * (end - start)
    if len(rows[0].cells) == width and often and not _is_header(rows[start].cells[margin:]):
        return 0
    for i in range(start + 1, min(len(rows), _MOST_TITLES)):
        above, most = rows[start:i], sum(map(bool, rows[i].cells))
        few = all(
            not "".join(row.cells[width - 1 :]).strip() and sum(bool(c.strip()) for c in row.cells) < most
            for row in above
        )
        told = any(row.is_apart for row in rows[start + 1 : i + 1]) or all(
            row.cells[margin].strip().endswith(":") for row in above
        )
        if few and told and _is_header(rows[i].cells[margin:]):
            start = i
    return start


def _is_header(cells: Sequence[str]) -> bool:
    """Returns whether every cell may be a name."""
    return all(cell.strip() and not is_value(cell.strip()) for cell in cells)


def _margin(rows: Sequence[_TopRow]) -> int:
    """Returns the number of empty columns on the left."""
    return min((next(i for i, cell in enumerate(row.cells) if cell.strip()) for row in rows), default=0)


def _is_alone(cells: Sequence[str], margin: int) -> bool:
    """Returns whether the first cell is the only one: the others are empty, or the line ends with it."""
    return [i for i, cell in enumerate(cells) if cell.strip()] == [margin]


def _top_rows(text: bytes, separator: str) -> list[_TopRow]:
    """Returns the first rows that are not empty."""
    found: list[_TopRow] = []
    above, is_apart = 0, False
    # Text is also cut at other ends of lines, such as U+2028; bytes are not.
    lines = without_blanks(text[:FIRST_LOOK], separator).splitlines(keepends=True)
    reader = csv.reader([line.decode("utf-8", "replace") for line in lines], delimiter=separator)
    try:
        for cells in islice(reader, _LINES):
            is_filled = any(cell.strip() for cell in cells)
            if is_filled:
                found.append(_TopRow(cells, above, is_apart))
            above, is_apart = reader.line_num, not is_filled
    except csv.Error:
        pass
    return found


def _rows_of(text: bytes, separator: str, rows: int) -> list[list[str]]:
    return [row.cells for row in _top_rows(text, separator)[:rows]]


def _aligned(line: bytes, rest: bytes) -> tuple[list[str], list[str]]:
    """Returns the cells of a line and of the first row of a text if both have as many, more than one; else none."""
    for separator in (*SEPARATORS, " "):
        cells, below = _rows_of(line.strip(), separator, 1), _rows_of(rest.lstrip(), separator, 1)
        if cells and below and len(cells[0]) == len(below[0]) > 1:
            return [cell.strip() for cell in cells[0]], [cell.strip() for cell in below[0]]
    return [], []
