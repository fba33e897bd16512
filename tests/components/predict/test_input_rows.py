"""Rows to predict are read as Ingest reads training rows."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.joins.build_index import build_index
from fullpass.components.ingest.joins.config import Join
from fullpass.components.ingest.joins.tables import Tables
from fullpass.components.ingest.sources.config import (
    CsvSource,
    ImagesSource,
    JsonLinesSource,
    NumpySource,
    ParquetSource,
    ProtoSource,
    SqlSource,
    TextSource,
    TfdsSource,
    TfRecordSource,
)
from fullpass.components.predict.input_rows import OtherRows, TableRows
from fullpass.components.predict.input_source import input_files, input_source
from fullpass.pipeline.api.frames import as_arrow
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.raw_text import RawText
from tests.components.ingest.reading_tools import raw, read_file
from tests.components.predict.predicted_rows import input_rows
from tests.spreadsheet_files import write_xlsx

X_KIND = raw(x="number", kind="string")


def csv_source(**options):
    return CsvSource(format="csv", path="trips/*.csv", **options)


def batches(source, path, raw_columns, **read_as):
    return list(input_rows(source.description(), path, raw_columns, read_as=read_as))


def values(source, path, raw_columns, **read_as):
    """Returns the values that reach the model, by column; None is missing."""
    found = batches(source, path, raw_columns, **read_as)
    inputs = {n: [v for b in found if n in b.inputs for v in b.inputs[n].tolist()] for n in raw_columns}
    return {name: [None if v != v or v == b"" else v for v in cells] for name, cells in inputs.items()}


def write(path, text, encoding="utf-8"):
    path.write_text(text, encoding=encoding)
    return path


def test_blanks_in_a_header_are_no_part_of_a_name(tmp_path):
    path = write(tmp_path / "a.csv", "fare, tips\n9.5, 2\n")
    columns = raw(fare="number", tips="number")
    assert read_file(path, csv_source(), columns)[0] == [(9.5, 2.0)]
    assert values(csv_source(), path, columns) == {"fare": [9.5], "tips": [2.0]}


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("x,kind,,", ["x", "kind", "column_3", "column_4"]),
        (",x,kind,column_1", ["column_1", "x", "kind", "column_1_2"]),
        ("x,a,kind,a", ["x", "a", "kind", "a_2"]),
        ("a,x,a,a_2,kind,", ["a", "x", "a_3", "a_2", "kind", "column_6"]),
    ],
)
def test_columns_without_a_name_of_their_own_do_not_matter_as_in_training(tmp_path, header, shown):
    cells = ",".join({"x": "1.5", "kind": "k"}.get(name, "z") for name in header.split(","))
    path = write(tmp_path / "a.csv", f"{header}\n{cells}\n")
    assert read_file(path, csv_source(), X_KIND)[0] == [(1.5, "k")]
    (batch,) = batches(csv_source(), path, X_KIND)
    assert (batch.shown.column_names, batch.inputs["x"].tolist()) == (shown, [1.5])


@pytest.mark.parametrize("name", ["a.txt", "a.log", "a.csv", "a"])
def test_json_lines_and_gzip_are_recognized_whatever_the_name(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b'{"x": 1.5, "kind": "k"}\n'))
    for trained in (csv_source(), JsonLinesSource(format="jsonl", path="x")):
        assert values(trained, path, X_KIND) == {"x": [1.5], "kind": [b"k"]}
    path.write_bytes(gzip.compress(b"x,kind\n1.5,k\n"))
    assert values(csv_source(), path, X_KIND) == {"x": [1.5], "kind": [b"k"]}


def test_a_file_without_a_header_line(tmp_path):
    source = csv_source(columns=["fare", "tips", "day"])
    path = write(tmp_path / "a.csv", "9.5,2,monday\n1,0,friday\n")
    columns = raw(fare="number", day="string")
    assert read_file(path, source, columns)[0] == [(9.5, "monday"), (1.0, "friday")]
    assert values(source, path, columns) == {"fare": [9.5, 1.0], "day": [b"monday", b"friday"]}


def test_nested_json(tmp_path):
    source = JsonLinesSource(format="jsonl", path="*.jsonl")
    path = write(tmp_path / "a.jsonl", '{"a": {"b": 1.5, "c": {"d": "x"}}}\n{"a": {}}\n{"a.b": 3}\n')
    columns = raw(**{"a.b": "number", "a.c.d": "string"})
    assert read_file(path, source, columns)[0] == [(1.5, "x"), (None, None), (3.0, None)]
    assert values(source, path, columns) == {"a.b": [1.5, None, 3.0], "a.c.d": [b"x", None, None]}


def test_nested_parquet(tmp_path):
    pq.write_table(pa.table({"a": [{"b": 1.5}, None]}), tmp_path / "a.parquet")
    source = ParquetSource(format="parquet", path="x")
    assert values(source, tmp_path / "a.parquet", raw(**{"a.b": "number"})) == {"a.b": [1.5, None]}


def test_nested_rows_in_memory_are_read_as_those_of_files():
    """Against the values as they are written; the rows are shown as they were given."""
    rows = [{"a": {"b": 1.5}, "seen": [{"item": "x"}, {"item": "y"}]}, {"a": None, "seen": []}]
    columns = {**raw(**{"a.b": "number"}), "seen.item": RawColumn("seen.item", "string", many=True)}
    table = TableRows(as_arrow(rows), RawText(), {**columns, **raw(gone="number")})
    (batch,) = table
    np.testing.assert_array_equal(batch.inputs["a.b"], [1.5, np.nan])
    assert batch.inputs["seen.item"].tolist() == [[b"x", b"y"], [b"", b""]]
    assert batch.shown.to_pylist() == rows and table.absent == ("gone",)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_csv_in_the_encoding_of_training(tmp_path, encoding):
    path = write(tmp_path / "a.csv", 'straße,b\n"Café, Düsseldorf",1\n', encoding=encoding)
    (batch,) = batches(csv_source(encoding=encoding), path, raw(**{"straße": "string"}))
    assert batch.shown.to_pylist() == [{"straße": "Café, Düsseldorf", "b": "1"}]
    assert batch.inputs["straße"].tolist() == ["Café, Düsseldorf".encode()]


def test_cells_are_cut_as_in_training(tmp_path):
    path = write(tmp_path / "a.csv", 'kind;x;inches\n5" ;2,5;a"b\n;-9,0;\n')
    source = csv_source(separator=";", decimal=",", quoting=False, missing_in={"x": ["-9"]})
    (batch,) = batches(source, path, X_KIND)
    assert values(source, path, X_KIND) == {"x": [2.5, None], "kind": [b'5"', None]}
    assert batch.shown.column("kind").to_pylist() == ['5" ', ""]


def test_names_of_folders_are_columns(tmp_path):
    folder = tmp_path / "kind=a b"
    folder.mkdir()
    path = write(folder / "x.csv", "x\n1\n")
    assert values(csv_source(), path, X_KIND) == {"x": [1.0], "kind": [b"a b"]}


def test_another_format_than_that_of_training(tmp_path):
    source = csv_source(separator=";", decimal=",", missing=["", "?"], missing_in={"x": ["-9"]}, columns=["x", "kind"])
    path = write(tmp_path / "a.jsonl", '{"x": "2,5", "kind": " a "}\n{"x": -9, "kind": "?"}\n{"kind": ""}\n')
    assert values(source, path, X_KIND) == {"x": [2.5, None, None], "kind": [b"a", None, None]}
    pq.write_table(pa.table({"x": [2.5, -9.0], "kind": ["a", "?"]}), tmp_path / "a.parquet")
    assert values(source, tmp_path / "a.parquet", X_KIND) == {"x": [2.5, None], "kind": [b"a", None]}


def test_csv_for_a_model_that_was_trained_on_parquet(tmp_path):
    source = ParquetSource(format="parquet", path="x", missing=["?"])
    path = write(tmp_path / "a.csv", "x,kind\n 2.5 , a\n,\nNA,?\n")
    assert values(source, path, X_KIND) == {"x": [2.5, None, None], "kind": [b"a", None, None]}


def test_excel_for_a_model_that_was_trained_on_a_decimal_comma(tmp_path):
    source = CsvSource(format="csv", path="x", separator=";", decimal=",", missing=["?"])
    write_xlsx(tmp_path / "a.xlsx", {"S": [["x", "kind"], [2.5, " a "], [1.125, "?"]]})
    assert values(source, tmp_path / "a.xlsx", X_KIND) == {"x": [2.5, 1.125], "kind": [b"a", None]}


@pytest.mark.parametrize(
    ("name", "trained", "expected"),
    [
        ("a.csv", "parquet", "csv"),
        ("a.CSV.gz", "parquet", "csv"),
        ("a.tsv", "csv", "csv"),
        ("a.b.jsonl.zst", "csv", "jsonl"),
        ("a.pq", "csv", "parquet"),
        ("a.feather", "csv", "arrow"),
        ("a.xlsx", "csv", "excel"),
        ("a.ods", "parquet", "excel"),
        ("a.tfrecord.gz", "csv", "tfrecord"),
        ("a.txt", "text", "text"),
        ("a.txt", "csv", "csv"),
        ("a.dat", "csv", "csv"),
        ("part-0.gz", "jsonl", "jsonl"),
    ],
)
def test_the_format_is_told_by_the_name_or_that_of_training(name, trained, expected):
    assert input_source({"format": trained}, name, {}).source.format == expected


def test_a_format_that_no_name_and_no_training_tells():
    with pytest.raises(UserError, match=r"a.dat: cannot tell the format from '.dat'.*--format"):
        input_source({"format": "sql"}, "a.dat", {})
    with pytest.raises(UserError, match='does not support the format "jsonlines".*Accepted: csv'):
        input_source({"format": "csv"}, "a.dat", {"format": "jsonlines"})


def test_tabs_part_the_cells_of_tsv(tmp_path):
    path = write(tmp_path / "a.tsv", "x\tkind\n1\ta,b\n")
    assert values(csv_source(separator=";"), path, X_KIND) == {"x": [1.0], "kind": [b"a,b"]}
    assert values(csv_source(), write(tmp_path / "b.dat", path.read_text()), X_KIND, format="tsv")["x"] == [1.0]


def test_options_change_what_was_trained_with(tmp_path):
    path = write(tmp_path / "a.csv", "1|a\n-|b\n")
    read_as = {"separator": "|", "columns": ("x", "kind"), "missing": ("-",), "encoding": "latin-1", "strip": False}
    assert values(csv_source(), path, X_KIND, **read_as) == {"x": [1.0, None], "kind": [b"a", b"b"]}
    headed = write(tmp_path / "b.csv", "kind,x\na,1\n")
    assert values(csv_source(columns=["x", "kind"]), headed, X_KIND, columns=None) == {"x": [1.0], "kind": [b"a"]}


@pytest.mark.parametrize("rows", ['{"fare": 3.5}', '[{"fare": 3.5}]', "fare\n3.5\n", "3.5," * 100])
def test_rows_that_are_given_in_place_of_their_path(rows):
    with pytest.raises(UserError, match="no path of a file. Write rows that are text to a file"):
        input_source({"format": "csv"}, rows, {})


def test_a_part_of_an_address_may_be_longer_than_a_file_name():
    path = f"gs://bucket/{'a' * 300}/rows.csv"
    assert input_source({"format": "csv"}, path, {"format": "csv"}).source.path == path


@pytest.mark.parametrize(
    ("read_as", "says"),
    [
        ({"separator": ",", "decimal": ","}, "a.csv: cannot be read as csv: .*both"),
        ({"encoding": "utf9"}, 'encoding: .*no encoding "utf9"'),
        ({"seperator": ";"}, "seperator.*--source KEY=VALUE"),
        ({"seperator": ";"}, 'a.csv: is read as csv, .* no setting "seperator". Did you mean "separator"'),
        (
            {"format": "jsonl", "separator": ";"},
            'a.csv: is read as jsonl, .* no setting "separator". Accepted: missing',
        ),
        ({"path": "b.csv"}, "--source path=b.csv: the rows are named already, by a.csv; drop it"),
    ],
)
def test_options_that_a_source_does_not_take(read_as, says):
    with pytest.raises(UserError, match=f"(?s){says}"):
        input_source({"format": "csv"}, "a.csv", read_as)


def test_bad_rows_stand_in_their_order_among_the_others(tmp_path):
    path = write(tmp_path / "a.csv", "x,kind\n1,a\n2\noops,c\n4,d\n5,e,f\n")
    batch, last = batches(csv_source(), path, X_KIND)
    assert [(row.row, row.column, row.reason, row.text) for row in [*batch.bad, *last.bad]] == [
        (3, None, "1 cells, expected 2", "2"),
        (4, "x", "not a number", "oops"),
        (6, None, "3 cells, expected 2", "5,e,f"),
    ]
    assert batch.good.tolist() == [True, False, False, True] and last.good.tolist() == [False]
    assert batch.shown.column("kind").to_pylist() == ["a", None, "c", "d"]
    assert last.shown.to_pylist() == [{"x": None, "kind": None}]
    assert batch.inputs["x"].tolist() == [1.0, 4.0]
    assert {row.file for row in [*batch.bad, *last.bad]} == {str(path)}


@pytest.mark.integration
def test_bad_rows_far_ahead_of_the_rows_around_them(tmp_path):
    """A reader records all bad lines of a block of megabytes before it yields the first row of the block."""
    lines = [f'{{"x": {i}}}' if i % 7_000 else "{oops" for i in range(40_000)]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    csv_lines = [f"{i},a" if i % 7_000 else "oops" for i in range(40_000)]
    csv_path = write(tmp_path / "a.csv", "\n".join(["x,kind", *csv_lines]))
    for file in (path, csv_path):
        found = batches(csv_source(), file, X_KIND)
        numbers = np.concatenate([b.shown.column("x").to_pylist() for b in found]).tolist()
        assert [None if n is None else int(n) for n in numbers] == [i if i % 7_000 else None for i in range(40_000)]
        assert sum(len(b.bad) for b in found) == 6 and len(found) > 2


def test_only_bad_rows(tmp_path):
    path = write(tmp_path / "a.csv", "x,kind\n1\n2\n")
    (batch,) = batches(csv_source(), path, X_KIND)
    assert batch.good.tolist() == [False, False] and batch.shown.to_pylist() == [{"x": None, "kind": None}] * 2
    (batch,) = batches(csv_source(), write(tmp_path / "b.jsonl", "{,\n[1]\n"), X_KIND)
    assert [row.reason.partition(":")[0] for row in batch.bad] == ["no JSON", "no JSON object"]


def test_lines_that_do_not_parse_are_bad_rows_of_a_folder_with_a_column_in_every_batch(tmp_path):
    lines = ['{"x": 1}'] * 40_000
    lines[5] = lines[39_000] = "{"
    (tmp_path / "kind=a").mkdir()
    path = write(tmp_path / "kind=a" / "x.jsonl", "\n".join(lines))
    found = batches(JsonLinesSource(format="jsonl", path=str(path)), path, X_KIND)
    assert [bad.row for batch in found for bad in batch.bad] == [6, 39_001]
    assert sum(len(batch.good) for batch in found) == 40_000


def test_files_of_a_folder_in_the_order_of_their_names(tmp_path):
    write(tmp_path / "b.csv", "x\n2\n")
    write(tmp_path / "a.csv", "kind,x\nk,1\n")
    assert values(csv_source(), tmp_path, X_KIND) == {"x": [1.0, 2.0], "kind": [b"k"]}
    assert values(csv_source(), tmp_path / "*.csv", X_KIND)["x"] == [1.0, 2.0]


def test_absent_columns_are_known_after_the_last_row(tmp_path):
    lines = [json.dumps({"x": 1.0} if i < 20_000 else {"kind": "a"}) for i in range(20_001)]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    rows = input_rows({"format": "jsonl"}, path, X_KIND)
    assert rows.absent == ("x", "kind")
    next(iter(rows))
    assert rows.absent == ("kind",)
    assert sum(len(batch.good) for batch in rows) == 20_001 and rows.absent == ()


@pytest.mark.parametrize(
    ("name", "text", "source", "says"),
    [
        ("a.csv", "kinds;x\n", csv_source(), "none of the columns.*model reads: x, kind.*has: kinds;x.*--separator"),
        ("a.csv", "1,2\n3,4\n", csv_source(), "none of the columns.*--columns"),
        ("a.csv", "x,x\n", csv_source(), "column 'x' appears twice"),
        ("a.csv", "", csv_source(), "the file is empty; a header line"),
        ("a.jsonl", '{"y": 1}\n', JsonLinesSource(format="jsonl", path="x"), "none of the columns.*has: y"),
        ("a.parquet", "x,kind\n1,a\n", csv_source(), "reading stopped"),
        ("a.csv", None, csv_source(), "no such file"),
    ],
)
def test_an_input_that_cannot_be_read(tmp_path, name, text, source, says):
    if text is not None:
        write(tmp_path / name, text)
    with pytest.raises(UserError, match=f"(?s){name}: .*{says}"):
        batches(source, tmp_path / name, X_KIND)


def test_brackets_are_a_pattern_in_what_is_written_and_none_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "run[1]" / "day[2]").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run[1]")
    write(tmp_path / "run[1]" / "day[2]" / "a.csv", "x,kind\n1,a\n")
    assert values(csv_source(), "day*/a.csv", X_KIND)["x"] == [1.0]
    assert values(csv_source(), "day[2]/a.csv", X_KIND)["x"] == [1.0]  # as such a file exists
    with pytest.raises(UserError, match=r"no such file. \[2\] stands for one .* write day\[\[\]2\]/\*.csv"):
        batches(csv_source(), "day[2]/*.csv", X_KIND)


_PLACES = {"path", "url", "password_env", "query", "key", "rows_per_range", "descriptor_set", "project", "location"}
_PLACES |= {"name", "version", "data_dir", "splits", "function", "folders"}


@pytest.mark.parametrize(
    "source",
    [
        csv_source(),
        ParquetSource(format="parquet", path="s3://bucket/key"),
        TfRecordSource(format="tfrecord", path="x"),
        ProtoSource(format="proto", path="x", descriptor_set="secret/place.pb", message="a.B"),
        SqlSource(format="sql", url="postgresql://me@host/db", password_env="PASSWORD", query="SELECT 1"),
        TfdsSource(format="tfds", name="a", data_dir="secret/place", splits="train"),
        NumpySource(format="numpy", path="x"),
        ImagesSource(format="images", path="x"),
        TextSource(format="text", path="x"),
    ],
    ids=lambda source: source.format,
)
def test_what_travels_with_a_model_says_how_data_is_read_and_not_where_it_is(source):
    """Every new field of a source must be classified as one or the other."""
    described = source.description()
    assert described.keys() | _PLACES >= type(source).model_fields.keys()
    assert not described.keys() & _PLACES


def test_a_file_without_joined_columns_is_joined_or_refused(tmp_path):
    join = Join(source=csv_source(), on="place", as_of={"left": "at", "right": "at", "within": "1h"})
    write(tmp_path / "table.csv", "place,at,temp\nA,2024-01-01T00:00,1\nB,2024-01-01T00:00,2\n")
    path = write(tmp_path / "rows.csv", "place,at,fare\nB,2024-01-01T00:30,5\nA,soon,6\nB,2024-01-01T09:00,7\n")
    columns, trained = raw(**{"fare": "number", "weather.temp": "number"}), csv_source().description()
    with pytest.raises(UserError, match=r"rows.csv: the columns weather.temp are absent.*--join weather=PATH"):
        list(input_rows(trained, path, columns, joins=("weather",)))
    of_table = input_source(trained, str(tmp_path / "table.csv"), {})
    table = input_files(of_table.source, str(tmp_path / "table.csv"))
    index = build_index("weather", join, Tables(table), columns.values(), 0, str(tmp_path / "index"))
    (batch,) = input_rows(trained, path, columns, joins=("weather",), others=OtherRows((index,)))
    assert batch.inputs["fare"].tolist() == [5, 7]
    np.testing.assert_array_equal(batch.inputs["weather.temp"], [2, np.nan])
    assert batch.good.tolist() == [True, False, True] and batch.bad[0].reason == "no date of the format iso"
    given = write(tmp_path / "given.csv", "fare,weather.temp\n5,30\n")
    (batch,) = input_rows(trained, given, columns, joins=("weather",), others=OtherRows((index,)))
    assert batch.inputs["weather.temp"].tolist() == [30]


@pytest.mark.parametrize(("name", "text"), [("rows.csv", "fare\n5\n"), ("rows.jsonl", '{"fare": 5}\n')])
def test_a_file_without_the_lists_of_a_history_is_refused(tmp_path, name, text):
    group = "data.history.trips"
    lists = {n: RawColumn(n, "number", many=True, group=group) for n in ("trips.at", "trips.fare")}
    columns = {**raw(fare="number"), **lists}
    with pytest.raises(UserError, match=r"no column 'trips\.at'.* the oldest event first: trips\.at, trips\.fare;"):
        batches(csv_source(), write(tmp_path / name, text), columns)
    given = write(tmp_path / "given.jsonl", '{"fare": 5, "trips.at": [60, 5], "trips.fare": [1, 2]}\n{"fare": 6}\n')
    (batch,) = input_rows({"format": "jsonl"}, given, columns)
    np.testing.assert_array_equal(batch.inputs["trips.at"], [[60, 5], [np.nan, np.nan]])
