"""Reads a sheet of an Excel workbook or of an OpenDocument spreadsheet, by python-calamine.

Cells become the texts that CSV would hold. Numbers are the stored ones, whatever their format shows: 0.25 for 25 %.
Dates and times are in ISO 8601, durations in hours, minutes and seconds. Errors such as #N/A are empty cells.
"""

import datetime
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import IO, Any

import numpy as np
import pyarrow as pa

from fullpass.base.errors import UserError, did_you_mean
from fullpass.components.ingest.readers.csv import joined_names
from fullpass.components.ingest.readers.readable import EmptyFileError, load_package, readable
from fullpass.components.ingest.readers.reader import FileReader
from fullpass.components.ingest.readers.rows import BATCH_ROWS, Reading, Rows, select_rows
from fullpass.components.ingest.sources.config import ExcelSource
from fullpass.components.ingest.sources.storage import open_raw
from fullpass.preprocessing.values.byte_batches import gather

_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_IN_ZIP = ("xl/workbook.xml", "xl/workbook.bin", "META-INF/manifest.xml")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ENCRYPTED_ODS = b"encryption-data"
_EXTENT = re.compile(rb'<dimension ref="[A-Z]+\d+:([A-Z]+)(\d+)"')
_MOST_CELLS = 400_000_000
"""Cells of the used range of a sheet, each of which takes 24 bytes, empty or not."""
_HEAD = 1 << 12
"""Bytes at the start of a sheet that hold its declared extent, if it declares one."""
_CHUNK = 1 << 20
"""Bytes of a sheet that are looked at together for its last cell."""
_CELL = re.compile(rb'<c r="([A-Z]{1,3})(\d{1,9})"')
_LONGEST_CELL = 20
"""Bytes that two chunks share: the beginning of a cell, with three letters and nine digits, has 19."""
_LONGEST_WHOLE = 2**63
"""From here on, whole numbers are written with an exponent."""
_LETTERS = 26
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")


def is_workbook(path: str) -> bool:
    """Returns whether a file is a workbook by its content.

    Raises:
        OSError: The file cannot be read.
    """
    with open_raw(path) as raw:
        start = raw.read(len(_ZIP))
        if start != _ZIP:
            return start == _OLE
        raw.seek(0)
        try:
            return not {*_IN_ZIP}.isdisjoint(zipfile.ZipFile(raw).namelist())
        except zipfile.BadZipFile:
            return False


@dataclass(frozen=True)
class Sheet:
    """One sheet of a workbook. cells: the sheet of calamine."""

    path: str
    cells: Any

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the rows that are not empty: their numbers in the sheet, from 1, and the texts of cells.

        A cell that is merged with those below it is repeated in them.
        """
        repeated = _repeated(self.cells)
        above: dict[int, str] = {}
        for number, values in enumerate(self.cells.iter_rows(), start=1):
            cells = [_text(value) for value in values]
            for column in repeated.get(number, ()):
                cells[column] = above[column]
            above = {column: cells[column] for column in repeated.get(number + 1, ())}
            if any(cells):
                yield number, cells


class Workbook:
    """An open workbook.

    Attributes:
        names: Names of the visible sheets of cells.
    """

    def __init__(self, path: str):
        self._path = path
        calamine = load_package("python_calamine", package="python-calamine", needed_by="format: excel")
        kinds, states = calamine.SheetTypeEnum, calamine.SheetVisibleEnum
        with readable(path), open_raw(path) as file:
            _refuse_unreadable(path, file)
            self._workbook = _without_panic(calamine.CalamineWorkbook.from_filelike, file)
        sheets = [about for about in self._workbook.sheets_metadata if about.typ == kinds.WorkSheet]
        self._all = [about.name for about in sheets]
        self.names = [about.name for about in sheets if about.visible == states.Visible]

    def sheet(self, name: str) -> Sheet:
        """Returns a sheet, which may be a hidden one.

        Raises:
            UserError: There is no such sheet, or it cannot be read.
        """
        if name not in self._all:
            raise UserError(
                f"{self._path}: no sheet {name!r}.{did_you_mean(name, self._all)} Sheets: {', '.join(self._all)}. Set "
                "data.source.sheet; for a file given to a command such as predict, --source sheet=NAME."
            )
        with readable(self._path):
            return Sheet(self._path, _without_panic(self._workbook.get_sheet_by_name, name))


def line_of(cells: Sequence[str]) -> str:
    """Returns a row as one line of cells between tabs; other tabs and the ends of lines become blanks."""
    return "\t".join(" ".join(cell.split()) for cell in cells)


def _without_panic(call: Any, *args: Any) -> Any:
    """Returns the result of a call of calamine, whose failures may be other than exceptions."""
    try:
        return call(*args)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the workbook is damaged: {error}") from error


def _refuse_unreadable(path: str, file: IO[bytes]) -> None:
    """Raises UserError for a workbook that is encrypted, or whose sheets do not fit in memory."""
    is_zip = file.read(len(_ZIP)) == _ZIP
    file.seek(0)
    if is_zip:
        archive = zipfile.ZipFile(file)
        names = set(archive.namelist())
        encrypted = _IN_ZIP[2] in names and _ENCRYPTED_ODS in archive.read(_IN_ZIP[2])
        for part in filter(_SHEET.fullmatch, sorted(names)):
            with archive.open(part) as sheet:
                _refuse_extent(path, *_extent(sheet))
    else:
        encrypted = _ENCRYPTED in file.read()
    file.seek(0)
    if encrypted:
        raise UserError(f"{path}: protected by a password. Save it without one, or save the sheet as CSV.")


def _extent(sheet: IO[bytes]) -> tuple[int, int]:
    """Returns the last column and row of a sheet: as it declares them, else those of its cells."""
    text = sheet.read(_HEAD)
    if declared := _EXTENT.search(text):
        return _column(declared[1]), int(declared[2])
    columns, last = set[bytes](), 0
    while text:
        found = _CELL.findall(text)
        columns.update(column for column, _ in found)
        last = max(last, *(int(row) for _, row in found[-1:]), 0)
        more = sheet.read(_CHUNK)
        text = text[-_LONGEST_CELL:] + more if more else b""
    return max(map(_column, columns), default=0), last


def _column(letters: bytes) -> int:
    """Returns the number of a column, from 1: A, Z and AA are 1, 26 and 27."""
    number = 0
    for letter in letters:
        number = _LETTERS * number + letter - ord("A") + 1
    return number


def _refuse_extent(path: str, columns: int, rows: int) -> None:
    if columns * rows > _MOST_CELLS:
        raise UserError(
            f"{path}: the cells of a sheet reach column {columns:,} and row {rows:,}, and each cell up to there takes "
            f"memory, empty or not; {_MOST_CELLS:,} are read at most. In the spreadsheet, delete the rows and columns "
            "behind the table (Ctrl+End shows the last cell), or save the sheet as CSV."
        )


def _repeated(sheet: Any) -> dict[int, list[int]]:
    """Returns number of a row -> columns whose cells are merged with the cell above."""
    left = sheet.start[1] if sheet.start else 0
    found: dict[int, list[int]] = {}
    for (top, column), (bottom, _) in sheet.merged_cell_ranges or ():
        for row in range(top + 1, bottom + 1):
            if 0 <= column - left < sheet.width:
                found.setdefault(row + 1, []).append(column - left)
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _LONGEST_WHOLE else repr(value)
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
        return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return str(value)  # dates and times; those of whole seconds have no fraction


class ExcelReader(FileReader[ExcelSource]):
    """Rows are numbered as in the sheet; empty ones are no rows."""

    def columns(self) -> list[str]:
        return list(self._names)

    def _rows(self, reading: Reading) -> Iterator[Rows]:
        names = self._names
        rows = (row for row in self._below_names if not _is_malformed(*row, len(names), reading))
        for batch in gather(rows, lambda row: sum(map(len, row[1])), rows=BATCH_ROWS):
            whole = [[*cells, *[""] * (len(names) - len(cells))][: len(names)] for _, cells in batch]
            columns = [pa.array(column, pa.string()) for column in zip(*whole, strict=True)]
            table = pa.Table.from_arrays(columns, names=names)
            yield select_rows(table, np.array([number for number, _ in batch], dtype=np.int64), reading)

    @cached_property
    def _sheet(self) -> Sheet:
        workbook, source = Workbook(self._path), self._source
        if source.sheet is not None:
            return workbook.sheet(source.sheet)
        found = next((sheet for sheet in map(workbook.sheet, workbook.names) if any(True for _ in sheet.rows())), None)
        if found is None:
            raise EmptyFileError(f"{self._path}: no visible sheet has cells.")
        return found

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the rows that are not skipped."""
        skipped = tuple(self._source.skip_lines)
        for number, cells in self._sheet.rows():
            if number > self._source.skip_rows and not (skipped and line_of(cells).startswith(skipped)):
                yield number, cells

    @cached_property
    def _names(self) -> list[str]:
        count = self._source.header_rows
        names = self._source.columns or joined_names([cells for _, cells in islice(self._lines(), count)])
        return [name.strip() for name in names]

    @property
    def _below_names(self) -> Iterator[tuple[int, list[str]]]:
        return islice(self._lines(), 0 if self._source.columns else self._source.header_rows, None)


def _is_malformed(number: int, cells: Sequence[str], width: int, reading: Reading) -> bool:
    """Returns whether a row has more cells than names, and adds it to the bad rows then."""
    used = next((i for i in range(len(cells), width, -1) if cells[i - 1]), width)
    if used > width:
        reading.add_malformed(number, f"{used} cells, expected {width}", line_of(cells))
    return used > width
