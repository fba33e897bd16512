"""Finds the lines of a CSV file that are no rows: comments, titles, further header lines, totals and footers."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile

_SIGNS = (b"#", b"%", b"//", b"!")
_EXCEL = re.compile(rb"sep=(.)[\r\n]", re.IGNORECASE)
_SEPARATORS = (",", "\t", ";", "|")
_LINES, _MOST_TITLES, _MOST_FOOTERS, _MOST_HEADERS = 200, 50, 5, 4
_FIRST_LOOK = 256 << 10
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
class Top:
    """The lines above the rows.

    Attributes:
        text: The rest of the text, without comments.
        columns: Names of the columns, if the line with the names fits no header; else None.
        separator: The separator, if the file names it; else None.
        why: Key of `CsvSource` -> reason.
    """

    text: bytes
    skip_rows: int = 0
    skip_lines: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    separator: str | None = None
    why: dict[str, str] = field(default_factory=dict)


def read_top(text: bytes, is_value: Callable[[str], bool]) -> Top:
    """Returns what stands above the rows of a text in UTF-8.

    Args:
        is_value: Whether a cell is a number or a date.
    """
    named = _EXCEL.match(text)
    if named:
        why = {"skip_lines": "Excel's line that names the separator"}
        return Top(text[named.end() :].lstrip(b"\n"), 0, (named[0][:4].decode(),), None, named[1].decode(), why)
    lines = text.splitlines(keepends=True)
    first = next((line for line in lines[:_MOST_TITLES] if line.strip()), b"")
    sign = next((sign for sign in _SIGNS if first.startswith(sign)), None)
    if sign is None:
        return _below_titles(text, is_value)
    above = [line for line in takewhile(lambda line: not line.strip() or line.startswith(sign), lines) if line.strip()]
    rest = b"".join(line for line in lines if not line.startswith(sign))
    names, row = _aligned(above[-1].removeprefix(sign), rest)
    if not rest.strip() or (len(above) == 1 and names):
        return Top(text)  # the only line with the sign is the header line
    top = _below_titles(rest, is_value)
    why = {**top.why, "skip_lines": f"comments: lines above the rows begin with {sign.decode()}"}
    columns = top.columns
    if any(map(is_value, row)):
        columns, why["columns"] = tuple(names), "the last comment above the rows holds the names"
    return Top(top.text, top.skip_rows and top.skip_rows + len(above), (sign.decode(),), columns, None, why)


def header_rows(columns: Sequence[Sequence[str]], is_value: Callable[[str], bool]) -> int:
    """Returns the number of header lines at the top of columns, whose first cell is a name.

    A further header line has no number or date, and text in columns of numbers. No cell of it stands below it.
    """
    count = 1
    while count < _MOST_HEADERS and all(len(column) > count + 2 for column in columns):
        texts = 0
        for column in columns:
            cell, below = column[count], column[count + 1 :]
            known = [c for c in column[_MOST_HEADERS:] or below if c.lower() not in _MISSING]
            numeric = bool(known) and sum(map(is_value, known)) > 0.9 * len(known)
            if is_value(cell) or (cell and cell in below) or (cell and cell.lower() in _MISSING):
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


def _below_titles(text: bytes, is_value: Callable[[str], bool]) -> Top:
    """Returns the text below the lines above the header that have other numbers of cells than the rows."""
    best: tuple[float, str, int, int] | None = None
    for separator in _SEPARATORS:
        widths = [len(row) for row in _cells(text, separator, _LINES) if row]
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
    kept = [(line, row) for line, row in _cells_with_lines(text, separator, _LINES) if row]
    names, data = [cell.strip() for cell in kept[start - 1][1]], [row for _, row in kept[start:] if len(row) == width]
    rest = text.splitlines(keepends=True)
    why = "lines above the rows are no header line"
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
            below = kept[start][0]
            return Top(b"".join(rest[below:]), below, (), columns, None, {"columns": reason})
    skipped = kept[start][0]
    return Top(b"".join(rest[skipped:]), skipped, why={"skip_rows": why})


def _cells_with_lines(text: bytes, separator: str, rows: int) -> list[tuple[int, list[str]]]:
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


def _cells(text: bytes, separator: str, rows: int) -> list[list[str]]:
    return [row for _, row in _cells_with_lines(text, separator, rows)]


def _aligned(line: bytes, rest: bytes) -> tuple[list[str], list[str]]:
    """Returns the cells of a line and of the first row of a text if both have as many, more than one; else none."""
    for separator in (*_SEPARATORS, " "):
        cells, below = _cells(line.strip(), separator, 1), _cells(rest.lstrip(), separator, 1)
        if cells and below and len(cells[0]) == len(below[0]) > 1:
            return [cell.strip() for cell in cells[0]], [cell.strip() for cell in below[0]]
    return [], []
