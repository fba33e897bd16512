import datetime
import io
import zipfile

import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers import excel
from fullpass.components.ingest.readers.excel import ExcelReader, Workbook
from fullpass.components.ingest.readers.recognize import look_at
from fullpass.components.ingest.sources.config import ExcelSource
from fullpass.components.ingest.sources.files import SourceFile
from tests.components.ingest.reading_tools import raw, read_file
from tests.spreadsheet_files import Error, Share, write_ods, write_xlsx

NOON = datetime.datetime(2024, 1, 5, 12, 30)
TABLE = [["a", "b"], [1, "x"], [2, "y"]]
ROWS = [("1", "x"), ("2", "y")]


def source(**options):
    return ExcelSource(format="excel", path="x", **options)


def xlsx(tmp_path, rows, name="a.xlsx", **options):
    write_xlsx(tmp_path / name, rows if isinstance(rows, dict) else {"S": rows}, **options)
    return tmp_path / name


def columns_of(path, **options):
    return ExcelReader(SourceFile(str(path), None, path.stat().st_size, ""), source(**options)).columns()


@pytest.mark.parametrize("since_1904", [False, True])
@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (7, "7"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (123456789012345, "123456789012345"),
        ("007", "007"),
        (" é\u2028x ", " é\u2028x "),
        (True, "true"),
        (False, "false"),
        (Share(0.25), "0.25"),
        (Error("#N/A"), ""),
        (Error("#DIV/0!"), ""),
        (None, ""),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (NOON, "2024-01-05 12:30:00"),
        (datetime.time(6, 30), "06:30:00"),
        (datetime.timedelta(hours=30, minutes=5), "30:05:00"),
    ],
    ids=str,
)
def test_a_cell_is_read_as_it_is_stored(tmp_path, cell, text, since_1904):
    path = xlsx(tmp_path, [["a", "b"], [cell, "x"]], since_1904=since_1904)
    assert read_file(path, source(), ["a", "b"]) == ([(text, "x")], [2], [])


def test_rows_have_the_numbers_of_the_sheet_and_empty_ones_are_no_rows(tmp_path):
    rows = [["Title"], [], ["a", None, "b"], [1, None, "x"], [], [None, None, "y"], ["Total", None, "9"]]
    path = xlsx(tmp_path, rows, first=(3, 2))
    read_as = source(skip_rows=4, skip_lines=["Total\t"])
    assert read_file(path, read_as, ["b", "a"]) == ([("x", "1"), ("y", "")], [6, 8], [])
    assert columns_of(path, skip_rows=4) == ["a", "", "b"]


def test_numbers_and_missing_texts(tmp_path):
    path = xlsx(tmp_path, [["a"], [1.5], ["NA"], ["free"], [None], ["2"]])
    assert read_file(path, source(), raw(a="number"))[0] == [("1.5",), ("NA",), ("free",), ("2",)]


def test_cells_that_are_merged_downwards_are_repeated(tmp_path):
    rows = [
        ["Report of May"],
        ["city", "size", None],
        [None, "min", "max"],
        ["Bern", 1, 2],
        [None, 3, 4],
        ["Biel", 5, 6],
    ]
    path = xlsx(tmp_path, rows, merged=["A1:C1", "A2:A3", "B2:C2", "A4:A5"])
    options = {"skip_rows": 1, "header_rows": 2}
    names = ["city", "size min", "size max"]
    assert columns_of(path, **options) == names
    assert read_file(path, source(**options), names)[0] == [("Bern", "1", "2"), ("Bern", "3", "4"), ("Biel", "5", "6")]


def test_names_given_for_fewer_columns_than_a_row_has(tmp_path):
    path = xlsx(tmp_path, [[1, "x"], [2, "y", "more"], [3]])
    rows, numbers, bad = read_file(path, source(columns=["a", "b"]), ["a", "b"])
    assert (rows, numbers) == ([("1", "x"), ("3", "")], [1, 3])
    assert [(row.row, row.reason, row.text) for row in bad] == [(2, "3 cells, expected 2", "2\ty\tmore")]


def test_the_first_visible_sheet_with_cells_or_the_named_one(tmp_path):
    sheets = {"Old": [["a", "b"], [0, "old"]], "Empty": [], "New": TABLE, "More": [["a", "b"], [9, "z"]]}
    path = xlsx(tmp_path, sheets, hidden=["Old"])
    assert read_file(path, source(), ["a", "b"])[0] == ROWS
    assert read_file(path, source(sheet="Old"), ["a", "b"])[0] == [("0", "old")]
    assert Workbook(str(path)).names == ["Empty", "New", "More"]
    with pytest.raises(
        UserError, match=r'a.xlsx: no sheet \'Mor\'. Did you mean "More"\? Sheets: Old, Empty, New, More'
    ):
        read_file(path, source(sheet="Mor"), ["a"])


def test_open_document_spreadsheets(tmp_path):
    day = datetime.date(2024, 2, 29)
    write_ods(tmp_path / "a.ods", {"S": [["a", "b", "c"], [1, "é\u2028", day], [], [True, None, NOON]]})
    rows, numbers, _ = read_file(tmp_path / "a.ods", source(), ["a", "b", "c"])
    assert rows == [("1", "é\u2028", "2024-02-29"), ("true", "", "2024-01-05 12:30:00")] and numbers == [2, 4]


def ole_file():
    """The beginning of an OLE file with the stream of an encrypted workbook, by [MS-CFB]: header, then a directory."""
    entry = "EncryptedPackage".encode("utf-16-le").ljust(64, b"\0")
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0") + entry.ljust(512, b"\0")


def encrypted_ods(path):
    write_ods(path, {"S": TABLE})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["META-INF/manifest.xml"] = parts["META-INF/manifest.xml"].replace(b"/></m", b"><m:encryption-data/></m")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods"])
def test_a_protected_workbook_says_so(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(ole_file() if name == "a.xlsx" else encrypted_ods(path))
    with pytest.raises(UserError, match=f"{name}: protected by a password. Save it without one"):
        read_file(path, source(), ["a"])


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "part"])
def test_a_damaged_workbook_is_named(tmp_path, damage):
    path = xlsx(tmp_path, TABLE)
    data = path.read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook")
    content = {"cut": data[: len(data) // 2], "text": b"a,b\n1,2\n", "empty": b"", "part": packed.getvalue()}
    path.write_bytes(content[damage])
    with pytest.raises(UserError, match="a.xlsx"):
        read_file(path, source(), ["a"])


def test_a_cell_far_from_the_table_is_refused_before_memory_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "_MOST_CELLS", 1000)
    assert read_file(xlsx(tmp_path, [*TABLE, *([] for _ in range(400)), [3, "z"]]), source(), ["a", "b"])[0][2:] == [
        ("3", "z")
    ]
    path = xlsx(tmp_path, [*TABLE, [None] * 700 + [3]])
    with pytest.raises(UserError, match="a.xlsx: the cells of a sheet reach column 701 and row 4, .*Ctrl\\+End"):
        read_file(path, source(), ["a"])


def test_workbooks_are_told_by_their_content(tmp_path):
    write_ods(tmp_path / "o", {"S": TABLE})
    with zipfile.ZipFile(tmp_path / "c", "w") as archive:
        archive.writestr("inner.csv", "a,b\n1,2\n")
    xlsx(tmp_path, TABLE, name="x")
    assert {name: look_at(str(tmp_path / name)).format for name in "oxc"} == {"o": "excel", "x": "excel", "c": None}
