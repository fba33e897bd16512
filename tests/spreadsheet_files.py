"""Writes small .xlsx and .ods files by hand, so that no reader's writer is trusted."""

import datetime
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

FORMATS = (0, 14, 22, 21, 46, 10)
"""Number formats of the styles 0 to 5: plain, date, date and time, time, hours beyond a day, percent."""
_DATE, _DATETIME, _TIME, _DURATION, PERCENT = range(1, 6)
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"


class Error(str):
    """An error cell, such as #N/A."""


class Share(float):
    """A number that is shown as a percentage."""


def write_xlsx(
    path: Path | BinaryIO,
    sheets: Mapping[str, Sequence[Sequence[Any]]],
    *,
    merged: Sequence[str] = (),
    hidden: Sequence[str] = (),
    since_1904: bool = False,
    first: tuple[int, int] = (1, 1),
) -> None:
    """Writes a workbook.

    Args:
        sheets: Name -> rows of cells; None is an empty cell, an empty row is not written at all.
        merged: Ranges such as A1:C1, of every sheet.
        hidden: Names of hidden sheets.
        since_1904: Whether days are counted from 1904.
        first: Row and column of the first cell.
    """
    epoch = datetime.datetime(1904, 1, 1) if since_1904 else datetime.datetime(1899, 12, 30)
    states = dict.fromkeys(hidden, "hidden")
    ranges = f"<mergeCells>{''.join(f'<mergeCell ref={chr(34)}{r}{chr(34)}/>' for r in merged)}</mergeCells>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _content_types(len(sheets)))
        archive.writestr("_rels/.rels", _relationships({"rId1": ("officeDocument", "xl/workbook.xml")}))
        of_sheets = {f"rId{n}": ("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)}
        more = {"rIdS": ("styles", "styles.xml")}
        archive.writestr("xl/_rels/workbook.xml.rels", _relationships({**of_sheets, **more}))
        listed = "".join(
            f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}" state="{states.get(name, "visible")}"/>'
            for n, name in enumerate(sheets, start=1)
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><workbookPr date1904="{int(since_1904)}"/>'
            f"<sheets>{listed}</sheets></workbook>",
        )
        styles = "".join(f'<xf numFmtId="{number}"/>' for number in FORMATS)
        archive.writestr("xl/styles.xml", f'<styleSheet xmlns="{_MAIN}"><cellXfs>{styles}</cellXfs></styleSheet>')
        for n, rows in enumerate(sheets.values(), start=1):
            body = "".join(_xlsx_row(number, row, first[1], epoch) for number, row in enumerate(rows, first[0]) if row)
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData>{ranges if merged else ""}</worksheet>',
            )


def _content_types(sheets: int) -> str:
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {"/xl/workbook.xml": "sheet.main", "/xl/styles.xml": "styles"}
    parts |= {f"/xl/worksheets/sheet{n}.xml": "worksheet" for n in range(1, sheets + 1)}
    overrides = "".join(f'<Override PartName="{p}" ContentType="{kinds}.{kind}+xml"/>' for p, kind in parts.items())
    rels = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{rels}{overrides}</Types>'


def _relationships(of: Mapping[str, tuple[str, str]]) -> str:
    each = "".join(f'<Relationship Id="{i}" Type="{_OFFICE}/{kind}" Target="{to}"/>' for i, (kind, to) in of.items())
    return f'<Relationships xmlns="{_PACKAGE}">{each}</Relationships>'


def _xlsx_row(number: int, cells: Sequence[Any], column: int, epoch: datetime.datetime) -> str:
    written = "".join(
        _xlsx_cell(f"{_letters(at)}{number}", cell, epoch) for at, cell in enumerate(cells, column) if cell is not None
    )
    return f'<row r="{number}">{written}</row>'


def _letters(column: int) -> str:
    left, last = divmod(column - 1, 26)
    return (_letters(left) if left else "") + chr(ord("A") + last)


def _xlsx_cell(at: str, cell: Any, epoch: datetime.datetime) -> str:
    if isinstance(cell, Error):
        return f'<c r="{at}" t="e"><v>{cell}</v></c>'
    if isinstance(cell, bool):
        return f'<c r="{at}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, str):
        return f'<c r="{at}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
    style, value = _number(cell, epoch)
    return f'<c r="{at}" s="{style}"><v>{value!r}</v></c>'


def _number(cell: Any, epoch: datetime.datetime) -> tuple[int, float]:
    day = datetime.timedelta(days=1)
    if isinstance(cell, datetime.datetime):
        return _DATETIME, (cell - epoch) / day
    if isinstance(cell, datetime.date):
        return _DATE, (cell - epoch.date()).days
    if isinstance(cell, datetime.time):
        return _TIME, (datetime.datetime.combine(epoch, cell) - epoch) / day
    if isinstance(cell, datetime.timedelta):
        return _DURATION, cell / day
    return (PERCENT, float(cell)) if isinstance(cell, Share) else (0, cell)


def write_ods(path: Path | BinaryIO, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> None:
    """Writes an OpenDocument spreadsheet; arguments as above."""
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    tables = "".join(
        f'<table:table table:name="{escape(name)}">{"".join(map(_ods_row, rows))}</table:table>'
        for name, rows in sheets.items()
    )
    spaces = " ".join(f'xmlns:{name}="{_ODF}:{name}:1.0"' for name in ("office", "table", "text"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", kind, zipfile.ZIP_STORED)
        archive.writestr(
            "META-INF/manifest.xml",
            f'<m:manifest xmlns:m="{_ODF}:manifest:1.0">'
            f'<m:file-entry m:full-path="/" m:media-type="{kind}"/></m:manifest>',
        )
        archive.writestr(
            "content.xml",
            f'<office:document-content {spaces} office:version="1.2"><office:body><office:spreadsheet>'
            f"{tables}</office:spreadsheet></office:body></office:document-content>",
        )


def _ods_row(cells: Sequence[Any]) -> str:
    return f"<table:table-row>{''.join(map(_ods_cell, cells)) or '<table:table-cell/>'}</table:table-row>"


def _ods_cell(cell: Any) -> str:
    if cell is None:
        return "<table:table-cell/>"
    if isinstance(cell, bool):
        kind, value = "boolean", f'office:boolean-value="{str(cell).lower()}"'
    elif isinstance(cell, str):
        kind, value = "string", ""
    elif isinstance(cell, datetime.date):
        kind, value = "date", f'office:date-value="{cell.isoformat()}"'
    else:
        kind, value = "float", f'office:value="{cell!r}"'
    text = escape(str(cell))
    return f'<table:table-cell office:value-type="{kind}" {value}><text:p>{text}</text:p></table:table-cell>'
