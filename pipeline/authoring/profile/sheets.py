"""Infers how a workbook is read: its sheet, and the lines of it that are no rows."""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.excel import Sheet, Workbook, line_of
from fullpass.components.ingest.sources.config import ExcelSource
from fullpass.pipeline.authoring.profile.dialect import Dialect, guess_dialect

_AS_TEXT = {"separator": "\t", "quoting": False, "encoding": "utf-8"}
_LAST_ROWS = 50
"""Rows at the end of a sheet that are looked at for totals."""
_MOST_NAMED = 5
"""Other sheets that a message names."""


def sheet_settings(
    path: str, *, look: int, known: Collection[str], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the settings of `ExcelSource` for the first sheet with a table, or for the given one, and their reasons.

    Args:
        look: Number of characters of a sheet that are looked at.
        known: Known column names.
        given: Keys of `data.source` that the user gave.

    Raises:
        UserError: No visible sheet has a table of two columns, or the given sheet has none.
    """
    workbook = Workbook(path)
    named = [given["sheet"]] if given.get("sheet") else workbook.names
    tables = ((name, _dialect(workbook.sheet(name), look, known, given)) for name in named)
    found = next(((name, dialect) for name, dialect in tables if dialect is not None), None)
    if found is None:
        sheets = ", ".join(named) or "none that is visible"
        raise UserError(f"{path}: no sheet has a table of two columns or more. Looked at: {sheets}.")
    name, dialect = found
    settings = {key: value for key, value in dialect.settings.items() if key in ExcelSource.model_fields}
    why = {key: reason for key, reason in dialect.why.items() if key in settings}
    if len(workbook.names) < 2:
        return settings, why
    others = [other for other in workbook.names if other != name]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    reason = f"the first sheet with a table; not read: {', '.join(others[:_MOST_NAMED])}{more}"
    return {"sheet": name, **settings}, {"sheet": reason, **why}


def _dialect(sheet: Sheet, look: int, known: Collection[str], given: Mapping[str, Any]) -> Dialect | None:
    """Returns how the lines of a sheet are read, as those of a text whose cells are separated by tabs."""
    first: list[str] = []
    last: deque[str] = deque(maxlen=_LAST_ROWS)
    size = written = 0
    for number, cells in sheet.rows():
        lines = [*[""] * (number - written - 1), line_of(cells)]
        written, size = number, size + sum(map(len, lines)) + len(lines)
        if size <= look:
            first += lines
        last += lines
    whole = size <= look
    text, end = ("\n".join([*lines, ""]).encode() for lines in (first, last))
    return guess_dialect(text, whole=whole, known=known, end=b"" if whole else end, given={**given, **_AS_TEXT})
