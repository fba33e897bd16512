import datetime

import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.profile.detect_source import infer_source
from tests.pipeline.authoring.profile.csv_file import sample_of
from tests.spreadsheet_files import Error, write_ods, write_xlsx

ROWS = [[i / 2, "xyz"[i % 3], datetime.date(2024, 1, 1 + i)] for i in range(9)]
TABLE = [["a", "b", "y"], *ROWS]
LAID_OUT = [["Report of May"], [], *TABLE, [], ["Total", None, 36]]
READ = [(f"{i / 2:g}", "xyz"[i % 3], f"2024-01-{i + 1:02d}") for i in range(9)]


def settings_of(path, folder, **given):
    return dict(infer_source(str(path), folder, given=given).settings)


@pytest.mark.parametrize("write", [write_xlsx, write_ods])
@pytest.mark.parametrize("name", ["a.xlsx", "a.ods", "a"])
def test_a_table_is_found_between_the_other_lines_of_a_sheet(tmp_path, write, name):
    write(tmp_path / name, {"S": LAID_OUT})
    expected = {"skip_rows": 2, "skip_lines": ["Total\t"]}
    assert settings_of(tmp_path / name, tmp_path) == {"format": "excel", "path": name, **expected}
    sample = sample_of(tmp_path / name, tmp_path)
    assert list(zip(*(sample.columns[name].to_pylist() for name in "aby"), strict=True)) == READ
    assert sample.whole and sample.malformed == 0


def test_the_first_sheet_with_a_table_is_read_and_the_others_are_named(tmp_path):
    sheets = {"Hidden": TABLE, "Read me": [["made by"], ["hand"]], "Empty": [], "Data": LAID_OUT, "Old": TABLE}
    write_xlsx(tmp_path / "a.xlsx", sheets, hidden=["Hidden"])
    found = infer_source(str(tmp_path / "a.xlsx"), tmp_path)
    assert (found.settings["sheet"], found.settings["skip_rows"]) == ("Data", 2)
    assert found.why["sheet"] == "the first sheet with a table; not read: Read me, Empty, Old"
    assert settings_of(tmp_path / "a.xlsx", tmp_path, sheet="Hidden") == {
        "format": "excel",
        "path": "a.xlsx",
        "sheet": "Hidden",
    }
    with pytest.raises(UserError, match="no sheet has a table of two columns or more. Looked at: Read me"):
        infer_source(str(tmp_path / "a.xlsx"), tmp_path, given={"sheet": "Read me"})


def test_names_are_made_up_for_a_sheet_without_them_and_a_folder_is_read(tmp_path):
    (tmp_path / "d").mkdir()
    for name in ("a.xlsx", "b.xlsx"):
        write_xlsx(tmp_path / "d" / name, {"S": [[1, 2.5], [2, 3.5], [Error("#N/A"), 4.5]]})
    expected = {"format": "excel", "path": "d", "columns": ["column_1", "column_2"]}
    assert settings_of(tmp_path / "d", tmp_path) == expected
    assert sample_of(tmp_path / "d", tmp_path).columns["column_1"].to_pylist() == ["1", "2", "", "1", "2", ""]


def test_the_end_of_a_sheet_that_is_longer_than_what_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("fullpass.pipeline.authoring.profile.detect_source._LOOK", 500)
    write_xlsx(tmp_path / "a.xlsx", {"S": [["a", "b"], *([i, "x"] for i in range(400)), [], ["Total", None]]})
    assert settings_of(tmp_path / "a.xlsx", tmp_path)["skip_lines"] == ["Total\t"]
