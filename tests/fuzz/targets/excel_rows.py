"""Damages and ingests an Excel workbook: its file, or the text of a sheet before it is packed."""

import datetime
import io
import random
import zipfile
from pathlib import Path

from fullpass.components.ingest.sources.config import ExcelSource
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.fuzz.accounted import ingested
from tests.fuzz.damage import cut_file, damaged, flip, insert, remove
from tests.spreadsheet_files import Error, write_ods, write_xlsx

COLUMNS = (RawColumn("company", "string"), RawColumn("fare", "number"), RawColumn("at", "string"))
_WAYS = (
    flip,
    cut_file,
    remove,
    insert(b"<", b">", b"&", b"</c>", b"<v>", b'"'),
    insert(b'<c r="ZZZ1"><v>1</v></c>', b'<row r="99999999">', b'<c r="A0"/>', b'<c t="s"><v>7</v></c>'),
    insert(b"1e999", b"-", b"9" * 400, b"NaN", b"\xff\xfe", b"\x00"),
)


def try_one(seed: int, folder: Path) -> str:
    """Writes, damages and ingests one workbook."""
    rng = random.Random(seed)
    day = datetime.datetime(2024, 1, 1, 6)
    rows = [[f"company {i}", i / 4, day] if i % 9 else ["a & b", Error("#N/A"), None] for i in range(60)]
    packed, is_ods = io.BytesIO(), seed % 3 == 2
    cells = [["company", "fare", "at"], *rows]
    if is_ods:
        write_ods(packed, {"rows": [[None if isinstance(cell, Error) else cell for cell in row] for row in cells]})
    else:
        write_xlsx(packed, {"rows": cells}, merged=["A3:A5"])
    path = folder / ("rows.ods" if is_ods else "rows.xlsx")
    part = "content.xml" if is_ods else rng.choice(("xl/worksheets/sheet1.xml", "xl/workbook.xml", "xl/styles.xml"))
    path.write_bytes(damaged(packed.getvalue(), rng, _WAYS[:3]) if seed % 2 else _with_damaged(packed, part, rng))
    return ingested(ExcelSource(format="excel", path=str(path)), COLUMNS, folder, seed).kind


def _with_damaged(packed: io.BytesIO, part: str, rng: random.Random) -> bytes:
    again = io.BytesIO()
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(again, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, damaged(data, rng, _WAYS) if name == part else data)
    return again.getvalue()
