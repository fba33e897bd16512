"""Tables written to files and read back with Python's own readers."""

import csv
import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.rows import BadRow
from fullpass.components.predict.tally import Quarantine
from fullpass.components.predict.write_tables import format_to_write, write_tables
from tests.base.full_disk import full_after


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.csv", "csv"),
        ("a.CSV", "csv"),
        ("a.tsv", "tsv"),
        ("a.b.jsonl", "jsonl"),
        ("a.pq", "parquet"),
        ("a.tfrecord", "tfrecord"),
    ],
)
def test_the_suffix_tells_the_format(name, expected):
    assert format_to_write(name) == expected


def test_an_unknown_suffix_fails():
    with pytest.raises(UserError, match="a.txt: cannot tell the format from '.txt'.*.csv"):
        format_to_write("a.txt")
    with pytest.raises(UserError, match="a.csv.gz: cannot tell the format from '.gz'"):
        format_to_write("a.csv.gz")


TABLES = [
    pa.table({"a": [1, None], "b": ['x, "y"', "ü"], "c": [None, None], "d": [[1.5, 2.0], None], "e": [True, False]}),
    pa.table({"a": [3], "b": [None], "c": ["late"], "d": [[]], "e": [None]}),
]


def test_a_folder_that_does_not_exist_is_named_before_a_row_is_computed(tmp_path):
    with pytest.raises(UserError, match="nowhere/a.csv: there is no folder .*nowhere. Create it first"):
        write_tables(str(tmp_path / "nowhere" / "a.csv"), "csv", iter(()))


def write(tmp_path, name, tables=None) -> Path:
    path = tmp_path / name
    write_tables(str(path), format_to_write(name), iter(TABLES if tables is None else tables))
    assert [file.name for file in tmp_path.iterdir()] == [name]
    return path


# A text, and what a spreadsheet is given: by OWASP's page on CSV injection, and numbers as they are.
SPREADSHEET = {
    "=1+1|cmd": "'=1+1|cmd",
    "+1+cmd|' /C calc'!A0": "'+1+cmd|' /C calc'!A0",
    "-2+3": "'-2+3",
    "@SUM(A1:A9)": "'@SUM(A1:A9)",
    "\t=1": "'\t=1",
    "\r=1": "'\r=1",
    "  =1": "'  =1",
    "＝1+1": "'＝1+1",
    "-1.5": "-1.5",
    "+41 44 687 70 90": "+41 44 687 70 90",
    "-1,234.50": "-1,234.50",
    "1e-3": "1e-3",
    "a=b": "a=b",
    "Acme": "Acme",
}


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_a_spreadsheet_computes_no_text_of_the_rows(tmp_path, suffix, separator):
    table = pa.table({"=name": list(SPREADSHEET), "number": [-1.5] * len(SPREADSHEET)})
    for safe in (True, False):
        path = tmp_path / f"{safe}.{suffix}"
        write_tables(str(path), format_to_write(path.name, safe=safe), iter([table]))
        with open(path, newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file, delimiter=separator)
        assert header == ["'=name" if safe else "=name", "number"]
        assert rows == [[shown if safe else text, "-1.5"] for text, shown in SPREADSHEET.items()]


def test_formats_that_no_spreadsheet_computes_have_no_safe_form():
    with pytest.raises(UserError, match=r"a.parquet: --safe-csv is for .csv and .tsv"):
        format_to_write("a.parquet", safe=True)


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
    table = pa.table(
        {"x": [float("nan")], "day": [datetime.date(2024, 2, 29)], "raw": [b"\xff"], "all": [[b"a", b"b"]]}
    )
    line = write(tmp_path, "a.jsonl", [table]).read_text()
    assert json.loads(line, parse_constant=lambda _: pytest.fail("NaN")) == {
        "x": None,
        "day": "2024-02-29",
        "raw": "\ufffd",
        "all": ["a", "b"],
    }


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_bytes_are_written_as_their_text(tmp_path, suffix):
    structs = pa.array([{"b": b"in"}, None])
    table = pa.table({"b": [b"caf\xc3\xa9", b"\xff"], "l": [[b"x"], [b"y", None]], "s": structs})
    path = str(tmp_path / f"out.{suffix}")
    write_tables(path, suffix, iter([table]))
    text = Path(path).read_text()
    if suffix == "csv":
        told = [(row["b"], row["l"], row["s"]) for row in csv.DictReader(text.splitlines())]
        assert told == [("café", '["x"]', '{"b": "in"}'), ("\ufffd", '["y", null]', "")]
    else:
        told = [json.loads(line) for line in text.splitlines()]
        assert told == [{"b": "café", "l": ["x"], "s": {"b": "in"}}, {"b": "\ufffd", "l": ["y", None], "s": None}]


def test_parquet_is_written_as_others_read_it(tmp_path):
    table = pq.read_table(write(tmp_path, "a.parquet"))
    assert table.to_pylist() == [row for part in TABLES for row in part.to_pylist()]


def test_examples_are_written_as_tensorflow_reads_them(tmp_path):
    import tensorflow as tf

    table = pa.table(
        {
            "id": pa.array([2**60 + 1, None]),
            "x": [0.5, None],
            "name": ["ü", None],
            "good": [True, False],
            "all": [[1, 2], None],
            "texts": pa.array([["a", "b"], []]),
            "holes": [[1.5, None], None],
            "deep": [[[1]], None],
            "day": [datetime.date(2024, 2, 29), None],
        }
    )
    records = tf.data.TFRecordDataset(str(write(tmp_path, "a.tfrecord", [table, table.slice(1)])))
    found = [tf.train.Example.FromString(record).features.feature for record in records.as_numpy_iterator()]
    values = [
        {name: list(getattr(feature, feature.WhichOneof("kind")).value) for name, feature in row.items()}
        for row in found
    ]
    assert values[0] == {
        "id": [2**60 + 1], "x": [0.5], "name": ["ü".encode()], "good": [1], "all": [1, 2], "texts": [b"a", b"b"],
        "holes": [b"[1.5, null]"], "deep": [b"[[1]]"], "day": [b"2024-02-29"],
    }  # fmt: skip
    assert values[1] == values[2] == {"good": [0], "texts": []}


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


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.jsonl", "out.parquet", "out.tfrecord"])
@pytest.mark.parametrize("earlier", [True, False])
def test_a_full_disk_names_the_file_and_leaves_the_earlier_one(tmp_path, name, earlier):
    path = tmp_path / name
    if earlier:
        path.write_text("as it was")
    table = pa.table({"a": [f"{number * 7919 % 10007:08d}" for number in range(20_000)]})
    with full_after(3000), pytest.raises(OSError, match=name):
        write_tables(str(path), format_to_write(name), iter([table]))
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == ([(name, "as it was")] if earlier else [])


def test_bad_rows_that_do_not_fit_leave_nothing(tmp_path):
    bad = [BadRow("rows.csv", number, None, "no number", "x" * 40) for number in range(500)]
    with full_after(3000), pytest.raises(OSError, match="out.quarantine.jsonl"):
        with Quarantine(str(tmp_path / "out.quarantine.jsonl")) as quarantine:
            write_tables(str(tmp_path / "out.csv"), "csv", quarantine.keep([(pa.table({"a": [1]}), bad)]))
    assert list(tmp_path.iterdir()) == []
