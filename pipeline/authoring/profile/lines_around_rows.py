"""Finds the lines of a CSV file that are no rows: titles and comments above the header, further header lines, and
totals below the rows."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import NamedTuple

from fullpass.components.ingest.readers.csv_records import without_blanks
from fullpass.pipeline.authoring.rules import UNCHANGED, rule

SEPARATORS = (",", "\t", ";", "|")
FIRST_LOOK = 256 << 10
"""Bytes of a text in which its separator, its lines above the rows, and the names of its columns are looked for."""
_LINES = 200
"""Rows that are looked at: enough to tell the usual number of cells from that of the lines above."""
_MOST_TITLES = 50
"""Lines above the header: more are rows of another table."""
_MOST_TOTALS = 20
"""Totals below the rows, one for each of some groups."""
_MOST_HEADERS = 4
"""Lines of names: groups, names, units, and one more."""
_REGULAR = 0.8
"""Share of the rows that have equally many cells in a table; some rows are damaged."""
_FEWEST_REGULAR = 3
"""Rows of equally many cells that make a table below titles."""
_OFTEN_ALONE = 0.05
"""Share of rows of a single cell from which on such rows, as those of baskets, are no titles."""
_MOSTLY = 0.9
"""Share of numbers and dates in a column of such; the others are missing words."""
_NUMBER = re.compile(r"[+-]?[$€£]?(\d[\d.,' ]*|[.,]\d+)([eE][+-]?\d+)?\s?%?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d.*)?|\d{1,2}:\d{2}(:\d{2})?")
_SIGNS = (b"#", b"%", b"//", b"!")
"""What comments begin with, in the files of most programs."""
_TOTAL = re.compile(r"(grand |sub)?[- ]*(totals?|sum|overall|average|mean):?", re.IGNORECASE)
_MISSING = ("", "-", "?", ".", "n/a", "na", "nan", "null", "none", "missing", "unknown")


def is_value(cell: str) -> bool:
    """Returns whether a cell looks like a number, a date or a time."""
    return _NUMBER.fullmatch(cell) is not None or _DATE.fullmatch(cell) is not None


@dataclass(frozen=True)
class Top:
    """The lines above the rows, and the rest of the text without comments.

    Attributes:
        comments: Number of lines of comments above the rows, which `skip_rows` counts if there are titles, too.
    """

    text: bytes
    skip_rows: int = 0
    skip_lines: tuple[str, ...] = ()
    comments: int = 0
    why: dict[str, str] = field(default_factory=dict)


class _TopRow(NamedTuple):
    """A row that is not empty, and the number of lines above it."""

    cells: list[str]
    above: int


def read_top(text: bytes) -> Top:
    """Returns what stands above the rows of a text in UTF-8."""
    return without_titles(without_comments(Top(text)))


@rule("comments above the rows", otherwise=UNCHANGED)
def without_comments(top: Top) -> Top:
    """Returns the text without lines that begin with a sign, if the first line does; the only one may be the header."""
    lines = top.text.splitlines(keepends=True)
    first = next((line for line in lines[:_MOST_TITLES] if line.strip()), b"")
    sign = next((sign for sign in _SIGNS if first.startswith(sign)), None)
    if sign is None:
        return top
    above = [line for line in takewhile(lambda line: not line.strip() or line.startswith(sign), lines) if line.strip()]
    rest = b"".join(line for line in lines if not line.startswith(sign))
    if not rest.strip() or (len(above) == 1 and _have_equal_widths(above[0], rest)):
        return top
    why = {"skip_lines": f"comments: lines above the rows begin with {sign.decode()}"}
    return Top(rest, skip_lines=(sign.decode(),), comments=len(above), why=why)


def _have_equal_widths(line: bytes, rest: bytes) -> bool:
    """Returns whether a line and the first row of a text have equally many cells, more than one."""
    for separator in (*SEPARATORS, " "):
        one, other = _top_rows(line.strip(), separator)[:1], _top_rows(rest.lstrip(), separator)[:1]
        if one and other and len(one[0].cells) == len(other[0].cells) > 1:
            return True
    return False


@rule("titles above the header", otherwise=UNCHANGED)
def without_titles(top: Top) -> Top:
    """Returns the text below the lines that have other numbers of cells than the rows, or only one that is filled."""
    best: tuple[float, int, int] | None = None
    for separator in SEPARATORS:
        rows = _top_rows(top.text, separator)
        counted = Counter(len(row.cells) for row in rows if len(row.cells) > 1).most_common(1)
        if not counted:
            continue
        width, times = counted[0]
        share = times / len(rows)
        start = next((i for i, row in enumerate(rows) if len(row.cells) == width and not _is_alone(row.cells)), 0)
        often = sum(_is_alone(row.cells) for row in rows[start:]) > _OFTEN_ALONE * len(rows)
        if often and len(rows[0].cells) == width:
            start = 0
        if share >= _REGULAR and not start:
            return top
        regular = sum(len(row.cells) == width for row in rows[start:]) / max(len(rows) - start, 1)
        is_table = regular >= _REGULAR and start <= _MOST_TITLES and times >= _FEWEST_REGULAR
        if is_table and (best is None or share > best[0]):
            best = share, start, rows[start].above
    if best is None or not best[1]:
        return top
    skipped = best[2]
    text = b"".join(top.text.splitlines(keepends=True)[skipped:])
    why = {**top.why, "skip_rows": "lines above the rows are no header line"}
    return replace(top, text=text, skip_rows=skipped + top.comments, why=why)


@rule("further header lines", otherwise=1)
def header_rows(columns: Sequence[Sequence[str]]) -> int:
    """Returns the number of header lines at the top of columns, whose first cell is a name.

    A further header line has no number or date, and text in columns of numbers. No cell of it stands below it.
    """
    count = 1
    while count < _MOST_HEADERS and all(len(column) > count + 2 for column in columns):
        texts = 0
        for column in columns:
            cell, below = column[count], column[count + 1 :]
            if is_value(cell) or (cell and cell in below) or (cell and cell.lower() in _MISSING):
                return count
            known = [c for c in column[_MOST_HEADERS:] or below if c.lower() not in _MISSING]
            texts += bool(cell) and bool(known) and sum(map(is_value, known)) > _MOSTLY * len(known)
        if not texts:
            return count
        count += 1
    return count


@rule("totals below the rows", otherwise=())
def totals(text: bytes, end: bytes, separator: str) -> tuple[str, ...]:
    """Returns beginnings of the last lines that hold totals and begin as no row does.

    Args:
        text: The beginning of the file, to see that no row begins likewise.
        end: The last lines of the file.
    """
    found: list[str] = []
    last = [line for line in end.splitlines() if line.strip(separator.encode() + b" \t")]
    for line in reversed(last[1:][-_MOST_TOTALS:]):
        cells = line.decode("utf-8", "replace").split(separator)
        label = next((i for i, cell in enumerate(cells) if cell.strip()), 0)
        begin = separator.join([*cells[: label + 1], ""])
        alike = {row for row in (*text.splitlines(), *last) if row.startswith(begin.encode())}
        if len(cells) < 2 or not _TOTAL.fullmatch(cells[label].strip(' "')) or alike != {line}:
            break
        found.append(begin)
    return tuple(reversed(found))


def _is_alone(cells: Sequence[str]) -> bool:
    """Returns whether the first cell is the only one: the others are empty, or the line ends with it."""
    return [i for i, cell in enumerate(cells) if cell.strip()] == [0]


def _top_rows(text: bytes, separator: str) -> list[_TopRow]:
    """Returns the first rows that are not empty."""
    found: list[_TopRow] = []
    above = 0
    # Text is also cut at other ends of lines, such as U+2028; bytes are not.
    lines = without_blanks(text[:FIRST_LOOK], separator).splitlines(keepends=True)
    reader = csv.reader([line.decode("utf-8", "replace") for line in lines], delimiter=separator)
    try:
        for cells in islice(reader, _LINES):
            if any(cell.strip() for cell in cells):
                found.append(_TopRow(cells, above))
            above = reader.line_num
    except csv.Error:
        pass
    return found
