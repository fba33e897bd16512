"""Finds the ends of the records of a CSV file, by the rules of RFC 4180 as Arrow's parser applies them.

A quote opens a quoted cell only at the start of a cell; blanks before it are dropped, if the cell is closed before a
separator or a line break, for files written by hand. Two quotes inside a quoted cell stand for one. After the
closing quote the cell continues as plain text. A quoted cell with line breaks must close directly before a separator or
a line break. If it does not, a quote is missing or stray: the line of the opening quote is a bad row, and reading
continues with the next line.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

_QUOTE, _LF, _CR = b'"\n\r'
_BLANKS = b" \t"
LONGEST_LINE = 64 << 20
"""Bytes of the longest line that is read, 64 MB: a longer one is a file without line ends, which would fill memory."""
KEPT_BYTES = 4000
"""Bytes of a row that does not parse: at least the characters that the quarantine keeps, of up to four bytes each."""


@dataclass(frozen=True)
class CsvRecords:
    """Records of a block of bytes, without empty lines.

    Attributes:
        starts, ends: int64 [records], byte offsets; the line break belongs to the record.
        lines: int64 [records], number of the first line of each record.
        unterminated: bool [records], True for a line with a quote that is not closed.
    """

    starts: np.ndarray
    ends: np.ndarray
    lines: np.ndarray
    unterminated: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, which: np.ndarray | slice) -> "CsvRecords":
        """Returns some of the records."""
        return CsvRecords(self.starts[which], self.ends[which], self.lines[which], self.unterminated[which])


@dataclass(frozen=True)
class Block:
    """A block of whole records.

    Attributes:
        one_per_line: Whether each record is on one line.
        too_long: Whether the data is the beginning of a single line of more than 64 MB, whose rest is dropped.
    """

    data: bytes
    first_line: int
    one_per_line: bool
    too_long: bool = False


def blocks(
    chunks: Iterable[bytes], separator: str, *, quoting: bool, first_line: int, max_cell: int
) -> Iterator[Block]:
    """Cuts a stream into blocks of whole records.

    Args:
        chunks: The bytes, from the start of a record.
        max_cell: Number of bytes after which a quoted cell counts as never closed.
    """
    rest, line, dropping = b"", first_line, False
    for chunk, final in _with_end(chunks):
        if dropping:
            end = chunk.find(b"\n") + 1
            dropping, line = not end, line + bool(end)
            chunk = chunk[end:] if end else b""
        rest += chunk
        cut, one_per_line = _last_end(rest, separator, quoting=quoting, max_cell=max_cell, final=final)
        if cut:
            data = rest[:cut]
            yield Block(without_blanks(data, separator) if quoting else data, line, one_per_line)
            line += count_lines(data)
            rest = rest[cut:]
        elif len(rest) > max(LONGEST_LINE, 2 * max_cell):
            yield Block(rest[:KEPT_BYTES], line, False, too_long=True)
            rest, dropping = b"", True


def has_line(data: bytes, beginnings: Sequence[bytes]) -> bool:
    """Returns whether a line of the data begins with one of these texts."""
    return any(data.startswith(text) or b"\n" + text in data or b"\r" + text in data for text in beginnings)


def has_empty_line(data: bytes, separator: str) -> bool:
    """Returns whether a line of the data holds separators and blanks only."""
    # Few lines begin so, and finding that is fast.
    begins = has_line(data, [separator.encode(), b" ", b"\t"])
    return begins and empty_lines(separator).search(data) is not None


@cache
def empty_lines(separator: str) -> re.Pattern[bytes]:
    """Returns the pattern of a line of separators and blanks only, with its line break."""
    return re.compile(rb"(?<![^\r\n])[%s \t]++(?:\r?\n|\r|\Z)" % re.escape(separator.encode()))


def records_of_block(
    block: Block, separator: str, *, quoting: bool, skipped: Sequence[bytes] = (), skip_empty: bool = False
) -> CsvRecords:
    """Returns the records of a block.

    Args:
        skipped: Beginnings of records that are left out.
        skip_empty: Whether lines of separators and blanks only are left out, too.
    """
    array = np.frombuffer(block.data, np.uint8)
    breaks = _line_breaks(array)
    cells = _multi_line_cells(block.data, array, breaks, separator if quoting else None, max_cell=0, final=True)
    ends = breaks[~_inside(cells.starts, cells.ends, breaks)] + 1
    if len(array) and (not len(ends) or ends[-1] < len(array)):
        ends = np.append(ends, len(array))
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
    unterminated = np.zeros(len(starts), dtype=bool)
    unterminated[np.searchsorted(starts, cells.unterminated, side="right") - 1] = True
    blank = ((array[starts] == _LF) | (array[starts] == _CR)) & (ends - starts <= 2)
    block_records = CsvRecords(starts, ends, block.first_line + np.searchsorted(breaks, starts), unterminated)
    if has_line(block.data, skipped):
        blank |= [block.data.startswith(tuple(skipped), start) for start in starts.tolist()]
    if skip_empty and has_empty_line(block.data, separator):
        blank |= np.isin(starts, [found.start() for found in empty_lines(separator).finditer(block.data)])
    return block_records.take(~blank)


def one_record_per_line(data: bytes, separator: str) -> bool:
    """Returns whether each record of whole lines is on one line: each line closes every quote that it opens."""
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return False
    if b'"' not in data:
        return True
    array = np.frombuffer(without_blanks(data, separator), np.uint8)
    quotes = np.flatnonzero(array == _QUOTE)
    line_of_quote = np.searchsorted(np.flatnonzero(array == _LF), quotes)
    first_of_line = np.searchsorted(line_of_quote, line_of_quote)
    opening = (np.arange(len(quotes)) - first_of_line) % 2 == 0
    per_line = np.unique(line_of_quote, return_counts=True)[1]
    before = np.where(quotes > 0, array[quotes - 1], _LF)[opening]
    opens_cell = (before == ord(separator)) | (before == _LF) | (before == _QUOTE)
    return bool((per_line % 2 == 0).all() and opens_cell.all())


def without_blanks(data: bytes, separator: str) -> bytes:
    """Returns data without the blanks between a separator, or a line break, and the quote that opens a cell."""
    if b' "' not in data and b'\t"' not in data:
        return data
    return _quoted_cell(separator).sub(rb"\1\2", data)


@cache
def _quoted_cell(separator: str) -> re.Pattern[bytes]:
    """Returns the pattern of a quoted cell, with the blanks before it outside of its two groups.

    Without blanks it is the cell that Arrow reads, so that nothing within it is taken for the start of a cell. With
    blanks and line breaks, its last quote does not begin a cell likewise: two stray quotes are no cell.
    """
    blanks, edge = _blanks(separator), re.escape(separator.encode()) + rb"\r\n"
    on_a_line = rb'"[^"\r\n]*+(?:""[^"\r\n]*+)*+"'
    closed = rb"%s(?=[%s]*+(?:[%s]|\Z))" % (on_a_line, blanks, edge)
    over_lines = rb'"[^"]*+(?:""[^"]*+)*+"(?=[%s]|\Z)' % edge
    surely = rb'"(?:[^"%s]++|""|[%s][%s]*+(?!"(?!")))*+"(?=[%s]|\Z)' % (edge, edge, blanks, edge)
    return re.compile(rb"(?<![^%s])(?:(%s|%s)|[%s]++(%s|%s))" % (edge, on_a_line, over_lines, blanks, closed, surely))


def _blanks(separator: str) -> bytes:
    return bytes(byte for byte in _BLANKS if byte != ord(separator))


def count_lines(data: bytes) -> int:
    """Returns the number of line breaks; a lone carriage return is a line break."""
    count = data.count(b"\n")
    return count + data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else count


def _with_end(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in chunks:
        yield chunk, False
    yield b"", True


def _last_end(data: bytes, separator: str, *, quoting: bool, max_cell: int, final: bool) -> tuple[int, bool]:
    """Returns the end of the last whole record of `data` (0 if there is none), and whether each record is one line."""
    cut = len(data) if final else data.rfind(b"\n") + 1
    if not quoting or one_record_per_line(data[:cut], separator):
        return cut, quoting or b"\r" not in data
    if final:
        return cut, False
    array = np.frombuffer(data, np.uint8)
    breaks = _line_breaks(array[:-1] if data.endswith(b"\r") else array)
    cells = _multi_line_cells(data, array, breaks, separator, max_cell=max_cell, final=False)
    ends = breaks[~_inside(cells.starts, cells.ends, breaks)] + 1
    return (int(ends[-1]) if len(ends) else 0), False


@dataclass(frozen=True)
class _Cells:
    """Quoted cells with line breaks: starts, ends [cells]. unterminated: offsets of quotes that are not closed."""

    starts: np.ndarray
    ends: np.ndarray
    unterminated: np.ndarray


def _multi_line_cells(
    data: bytes, array: np.ndarray, breaks: np.ndarray, separator: str | None, *, max_cell: int, final: bool
) -> _Cells:
    """Finds the quoted cells that contain line breaks.

    Args:
        data: Whole records, possibly followed by the beginning of another.
        separator: Separator of cells; None if quotes are not special.
        max_cell: Number of bytes after which a cell counts as never closed.
        final: Whether no more data follows, and an open quote can no longer be closed.
    """
    starts: list[int] = []
    ends: list[int] = []
    unterminated: list[int] = []
    quotes = np.flatnonzero(array == _QUOTE).tolist() if separator else []
    line_ends = breaks.tolist()
    edges, blanks = (separator or "").encode() + b"\r\n", _blanks(separator or ",")
    i = 0
    while i < len(quotes):
        start = quotes[i]
        before = _before_blanks(data, start, blanks)
        if before >= 0 and data[before] not in edges:
            i += 1
            continue
        after = _closing(quotes, i)
        end = quotes[after - 1] + 1 if after else len(data)
        waits = not final and (after is None or end == len(data)) and len(data) - start <= max_cell
        line_end = line_ends[k] if (k := bisect_left(line_ends, start)) < len(line_ends) else len(data)
        if waits:
            return _Cells(
                np.array([*starts, start]), np.array([*ends, len(data)]), np.array(unterminated, dtype=np.int64)
            )
        is_indented, is_on_a_line, at = before < start - 1, line_end > end, end
        while is_on_a_line and at < len(data) and data[at] in blanks:
            at += 1
        is_closed = at == len(data) or data[at] in edges
        if is_indented and not is_on_a_line and data[_before_blanks(data, end - 1, blanks)] in edges:
            is_closed = False  # two stray quotes
        if after is not None and is_on_a_line and (is_closed or not is_indented):
            i = after
        elif after is not None and is_closed:
            starts.append(start)
            ends.append(end)
            i = after
        elif is_indented:
            i += 1  # it is text
        else:
            unterminated.append(start)
            i = bisect_left(quotes, line_end)
    return _Cells(*(np.array(positions, dtype=np.int64) for positions in (starts, ends, unterminated)))


def _before_blanks(data: bytes, at: int, blanks: bytes) -> int:
    """Returns the offset of the last byte before `at` that is no blank, or -1."""
    at -= 1
    while at >= 0 and data[at] in blanks:
        at -= 1
    return at


def _closing(quotes: list[int], opening: int) -> int | None:
    """Returns the position in `quotes` after the quote that closes `quotes[opening]`, or None if it is not closed."""
    i = opening + 1
    while i + 1 < len(quotes) and quotes[i + 1] == quotes[i] + 1:
        i += 2
    return i + 1 if i < len(quotes) else None


def _line_breaks(array: np.ndarray) -> np.ndarray:
    """Returns the offset of the last byte of every line break."""
    feeds = array == _LF
    returns = array == _CR
    if returns.any():
        returns[:-1] &= ~feeds[1:]
        feeds = feeds | returns
    return np.flatnonzero(feeds)


def _inside(starts: np.ndarray, ends: np.ndarray, positions: np.ndarray) -> np.ndarray:
    if not len(starts):
        return np.zeros(len(positions), dtype=bool)
    region = np.searchsorted(starts, positions, side="right") - 1
    return (region >= 0) & (positions < ends[region.clip(min=0)])
