"""Tables in files, read and written, against Python's own readers."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from preprocessing.errors import UserError
from preprocessing.raw_text import RawText
from trainer.tables import format_of, read_tables, write_tables


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.csv", "csv"), ("a.CSV.gz", "csv"), ("a.tsv", "tsv"), ("a.b.jsonl.zst", "jsonl"), ("a.pq", "parquet")],
)
def test_the_suffix_tells_the_format(name, expected):
    assert format_of(name) == expected


def test_a_given_format_wins_and_an_unknown_suffix_fails():
    assert format_of("a.txt", "csv") == "csv"
    with pytest.raises(UserError, match="a.txt: cannot tell the format from '.txt'.*.csv"):
        format_of("a.txt")


def rows(path: Path, file_format: str, *options) -> list[dict]:
    return [row for batch in read_tables(str(path), file_format, *options) for row in batch.table.to_pylist()]


def test_csv_cells_are_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b c,d\n1,"x, ""y""\nz",\n2.50,NA,ü\n')
    assert rows(path, "csv") == [{"a": "1", "b c": 'x, "y"\nz', "d": ""}, {"a": "2.50", "b c": "NA", "d": "ü"}]


def test_csv_with_another_separator_compressed_and_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress("\ufeffa;b\n1;2\n".encode()))
    assert rows(path, "csv", RawText(separator=";")) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_csv_in_another_encoding(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text('stra\u00dfe,b\n"Caf\u00e9, D\u00fcsseldorf",1\n', encoding=encoding)
    found = rows(path, "csv", RawText(encoding=encoding))
    assert found == [{"stra\u00dfe": "Caf\u00e9, D\u00fcsseldorf", "b": "1"}]


def test_csv_in_which_a_quote_is_a_letter_like_any_other(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"a",inches\n"x,27"\ny,5\n')
    assert rows(path, "csv", RawText(quoting=False)) == [{'"a"': '"x', "inches": '27"'}, {'"a"': "y", "inches": "5"}]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "the file is empty"),
        ("a,b,a\n1,2,3\n", "'a' stands twice"),
        ("a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_csv_that_cannot_be_read(tmp_path, content, told, encoding):
    path = tmp_path / "a.csv"
    path.write_text(content, encoding=encoding)
    with pytest.raises(UserError, match=f"(?s)a.csv.*{told}"):
        rows(path, "csv", RawText(encoding=encoding))


@pytest.mark.parametrize("content", [b"a\xff,b\n1,2\n", b"a,b\n1,\xff\n"], ids=["header", "row"])
def test_a_csv_in_another_encoding_than_the_source_says(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"(?s)a.csv: .*(UTF-?8|utf-8).*in another format, or encoding"):
        rows(path, "csv")


def test_json_lines_keep_types_and_missing_keys_are_null(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": [1.5, 2]}\n{"a": 3, "c": "x"}\n')
    assert rows(path, "jsonl") == [{"a": 1, "b": [1.5, 2.0], "c": None}, {"a": 3, "b": None, "c": "x"}]


def test_a_column_of_several_types_is_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": "x"}\n{"a": true}\n')
    assert rows(path, "jsonl") == [{"a": "1"}, {"a": "x"}, {"a": "true"}]


@pytest.mark.parametrize(("line", "told"), [("{oops", "no JSON"), ("[1]", "one JSON object. Received: .1.")])
def test_a_line_that_is_no_object_is_named(tmp_path, line, told):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(UserError, match=f"a.jsonl row 2: .*{told}"):
        rows(path, "jsonl")


def test_rows_are_numbered_across_batches(tmp_path):
    count = 40_000
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"a": i}) + "\n" for i in range(count)))
    (tmp_path / "a.csv").write_text("a\n" + "".join(f"{i}\n" for i in range(count)))
    pq.write_table(pa.table({"a": range(count)}), tmp_path / "a.parquet")
    for name, shift in (("a.jsonl", 1), ("a.csv", 2), ("a.parquet", 1)):
        batches = list(read_tables(str(tmp_path / name), format_of(name)))
        assert sum(batch.table.num_rows for batch in batches) == count
        for batch in batches:
            assert int(batch.table["a"][0].as_py()) == batch.first_row - shift


@pytest.mark.parametrize("file_format", ["csv", "jsonl", "parquet"])
def test_a_file_that_is_not_there(tmp_path, file_format):
    with pytest.raises(UserError, match="no such file"):
        rows(tmp_path / "a", file_format)


def test_a_file_in_another_format(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="a.parquet: reading stopped.*another format"):
        rows(path, "parquet")


TABLES = [
    pa.table({"a": [1, None], "b": ['x, "y"', "ü"], "c": [None, None], "d": [[1.5, 2.0], None], "e": [True, False]}),
    pa.table({"a": [3], "b": [None], "c": ["late"], "d": [[]], "e": [None]}),
]


def write(tmp_path, name, tables=None) -> Path:
    path = tmp_path / name
    write_tables(str(path), format_of(name), iter(TABLES if tables is None else tables))
    assert [file.name for file in tmp_path.iterdir()] == [name]
    return path


def test_csv_is_written_as_others_read_it(tmp_path):
    with write(tmp_path, "a.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [
            {"a": "1", "b": 'x, "y"', "c": "", "d": "[1.5, 2.0]", "e": "true"},
            {"a": "", "b": "ü", "c": "", "d": "", "e": "false"},
            {"a": "3", "b": "", "c": "late", "d": "[]", "e": ""},
        ]


def test_json_lines_are_written_as_others_read_them(tmp_path):
    lines = write(tmp_path, "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [row for table in TABLES for row in table.to_pylist()]


def test_nan_and_dates_are_valid_json(tmp_path):
    import datetime

    table = pa.table({"x": [float("nan")], "day": [datetime.date(2024, 2, 29)], "raw": [b"\xff"]})
    line = write(tmp_path, "a.jsonl", [table]).read_text()
    assert json.loads(line, parse_constant=lambda _: pytest.fail("NaN")) == {
        "x": None,
        "day": "2024-02-29",
        "raw": "\ufffd",
    }


def test_parquet_is_written_as_others_read_it(tmp_path):
    table = pq.read_table(write(tmp_path, "a.parquet"))
    assert table.to_pylist() == [row for part in TABLES for row in part.to_pylist()]


def test_a_column_that_changes_its_type_is_refused_in_parquet(tmp_path):
    with pytest.raises(UserError, match="changes its type.*jsonl"):
        write(tmp_path, "a.parquet", [pa.table({"a": [1]}), pa.table({"a": ["x"]})])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_columns_that_come_and_go_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="not every row has the columns b"):
        write(tmp_path, name, [pa.table({"a": [1]}), pa.table({"a": [1], "b": [2]})])


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def broken():
        yield TABLES[0]
        raise UserError("stop")

    with pytest.raises(UserError, match="stop"):
        write_tables(str(path), "csv", broken())
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
