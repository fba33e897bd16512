import pyarrow as pa
import pyarrow.feather as feather
import pytest

from fullpass.base.errors import UserError
from fullpass.pipeline.authoring.profile import detect_source
from fullpass.pipeline.authoring.profile.source_profile import profile_source
from tests.pipeline.authoring.profile.csv_file import write


def test_a_counter_that_starts_anew_in_each_file_is_an_id(tmp_path):
    for part in range(8):
        rows = "".join(f"{n},{n * 7 % 13}\n" for n in range(1, 3000))
        write(tmp_path / f"{part}.csv", "No,x\n" + rows)
    found = profile_source(str(tmp_path), tmp_path, rows=20_000)
    assert (found.column("No").kind, found.column("x").kind) == ("id", "number")


def test_only_what_hardly_repeats_is_an_id(tmp_path):
    panel = [(store, day, day * 300 + store) for day in range(20) for store in range(1, 301)]
    rows = "".join(f"{store},{day},{line if line != 77 else '77b'},{line * 37}\n" for store, day, line in panel)
    found = profile_source(str(write(tmp_path / "a.csv", "store,day,order,population\n" + rows)), tmp_path, rows=6000)
    kinds = {column.name: column.kind for column in found.columns}
    assert kinds == {"store": "category", "day": "category", "order": "id", "population": "number"}


def test_lists_of_a_fixed_size_are_profiled_as_lists_of_any_size(tmp_path):
    rows = [[i / 7, i % 5] if i % 6 else None for i in range(300)]
    found = []
    for name, kind in (("fixed", pa.list_(pa.float32(), 2)), ("any", pa.list_(pa.float32()))):
        table = pa.table({"v": pa.array(rows, kind), "x": [i % 9 for i in range(300)]})
        feather.write_feather(table, tmp_path / f"{name}.arrow", compression="uncompressed")
        column = profile_source(str(tmp_path / f"{name}.arrow"), tmp_path, rows=300).column("v")
        found.append((column.kind, column.width, column.why))
    assert found[0] == found[1]
    assert found[0][:2] == ("vector", 2)


def test_decimal_commas_of_single_columns(tmp_path):
    rows = "".join(f'"{i % 90},{i % 7}",{i % 9}.5,"{i:,}"\n' for i in range(1000, 1400))
    found = profile_source(str(write(tmp_path / "a.csv", "w,p,n\n" + rows)), tmp_path, rows=500)
    likes = {column.name: (column.kind, column.like) for column in found.columns}
    assert likes == {"w": ("written_number", "1234,5"), "p": ("number", None), "n": ("written_number", "1,234.5")}


def test_a_word_is_missing_only_in_its_column(tmp_path):
    cells = [(i % 50 if i % 9 else "No", i % 9 if i % 8 else "No", "Yes" if i % 3 else "No") for i in range(900)]
    rows = "".join(f"{a},{b},{churn}\n" for a, b, churn in cells)
    found = profile_source(str(write(tmp_path / "a.csv", "a,b,churn\n" + rows)), tmp_path, rows=900)
    assert found.found.settings["missing_in"] == {"a": ["No"], "b": ["No"]}
    assert "missing" not in found.found.settings
    assert found.found.why["missing_in"].startswith("a: No in 11.11% of cells, all others 0 to 49; b: No in")
    assert found.column("churn").kind == "boolean"


def test_na_is_a_value_among_codes_of_two_letters(tmp_path):
    rows = "".join(f"{i % 7 or 'NA'},{('AF', 'EU', 'NA', 'SA', '')[i % 5]}\n" for i in range(350))
    found = profile_source(str(write(tmp_path / "a.csv", "n,continent\n" + rows)), tmp_path, rows=350)
    assert (found.found.source.missing_of("n"), found.column("continent").values.distinct) == (
        ("", "N/A", "NaN", "nan", "null", "NULL", "NA"),
        4,
    )
    assert found.column("n").kind == "number"


def test_columns_that_cannot_be_read_by_name(tmp_path):
    write(tmp_path / "1.csv", "a,b,b,,c\n1,2,3,4,5\n")
    write(tmp_path / "2.csv", "a,b,b,,d\n1,2,3,4,5\n")
    with pytest.raises(UserError, match="a label and a feature are two columns"):
        profile_source(str(tmp_path), tmp_path, rows=10)
    write(tmp_path / "1.csv", "a,b,b,,c,e\n1,2,3,4,5,6\n")
    write(tmp_path / "2.csv", "a,b,b,,d,e\n1,2,3,4,5,6\n")
    seen = profile_source(str(tmp_path), tmp_path, rows=10)
    assert [column.name for column in seen.columns] == ["a", "e"]
    assert dict(seen.unusable) == {
        "b": "is given twice in the header",
        "": "has no name in the header",
        "c": "is in 1 of 2 files only",
        "d": "is in 1 of 2 files only",
    }


def test_missing_tokens_everywhere_and_in_one_column(tmp_path):
    rows = [f"{i % 7},{'?' if i % 9 == 0 else 'x'},{-999 if i % 5 == 0 else i},-999" for i in range(100)]
    data = write(tmp_path / "a.csv", "k,c,n,m\n" + "\n".join(rows) + "\n")
    settings = profile_source(str(data), tmp_path, rows=1000).found.settings
    assert "?" in settings["missing"] and "NA" in settings["missing"]
    assert settings["missing_in"] == {"n": ["-999"]}


def test_another_spelling_of_a_missing_number_is_missing(tmp_path):
    rows = [f"{'-999' if i % 5 == 0 else '-999.00' if i == 7 else i},{i % 3}" for i in range(100)]
    column = profile_source(str(write(tmp_path / "a.csv", "n,m\n" + "\n".join(rows) + "\n")), tmp_path, rows=1000)
    assert column.found.settings["missing_in"] == {"n": ["-999", "-999.00"]}
    assert column.column("n").numbers.low == 1


def test_cells_that_are_no_number_beyond_the_sample(tmp_path):
    data = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{'oops' if i == 4321 else i % 90},1\n" for i in range(9000)))
    column = profile_source(str(data), tmp_path, rows=50).column("n")
    assert column.bad == pytest.approx(1 / 9000)
    assert column.kind == "number"
    assert column.numbers.high == 89


def test_encoding_that_shows_late(tmp_path, monkeypatch):
    monkeypatch.setattr(detect_source, "_LOOK", 10_000)
    lines = ["n,city"] + [f"{i},plain" for i in range(9000)] + [f"{i},Köln" for i in range(200)]
    data = write(tmp_path / "a.csv", "\n".join(lines).encode("cp1252"))
    seen = profile_source(str(data), tmp_path, rows=1000)
    assert seen.found.settings["encoding"] == "cp1252"
    assert "Köln" in seen.column("city").values.texts
