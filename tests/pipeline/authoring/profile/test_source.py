import gzip
import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.ingest.sources.source_files import find_inputs
from fullpass.pipeline.authoring.profile import detect_source, sample
from fullpass.pipeline.authoring.profile.detect_source import column_names, find_source
from fullpass.pipeline.authoring.profile.sample import read_sample, row_keys
from fullpass.pipeline.authoring.profile.source_profile import profile_source

CSV = "a,b\n1,x\n2,y\n3,x\n"


def write(path, text=CSV):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def source_of(data, folder):
    return dict(find_source(str(data), folder).settings)


def test_csv_needs_nothing_but_its_path(tmp_path):
    assert source_of(write(tmp_path / "d" / "data.csv"), tmp_path) == {"format": "csv", "path": "d/data.csv"}


def test_settings_that_are_not_the_usual_ones(tmp_path):
    data = write(tmp_path / "data.txt", "1;ä\n2;ö\n".encode("cp1252"))
    expected = {"path": "data.txt", "separator": ";", "columns": ["column_1", "column_2"], "encoding": "cp1252"}
    assert source_of(data, tmp_path) == {"format": "csv", **expected}


def test_format_by_content_where_the_name_says_nothing(tmp_path):
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    pq.write_table(table, tmp_path / "p")
    pyarrow.feather.write_feather(table, tmp_path / "f")
    write(tmp_path / "j", '{"a": 1}\n{"a": 2}\n')
    for name in ("j.txt", "j.log", "j.csv", "j.gz"):
        write(tmp_path / name, '\ufeff{"a": 1\n\n{"a": 1}\r\n{"a": 2}\r\n')
    write(tmp_path / "z.json", gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    for name in ("c.gz", "c", "ORC_c.csv"):
        write(tmp_path / name, gzip.compress(CSV.encode()))
    write(tmp_path / "ORC.csv", "ORC_count,PAR1_count,y\n1,2,3\n2,3,4\n")
    files = sorted(path for path in tmp_path.iterdir())
    assert {file.name: source_of(file, tmp_path)["format"] for file in files} == {
        "p": "parquet",
        "f": "arrow",
        **dict.fromkeys(("j", "j.txt", "j.log", "j.csv", "j.gz", "z.json"), "jsonl"),
        **dict.fromkeys(("c.gz", "c", "ORC_c.csv", "ORC.csv"), "csv"),
    }


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (("a.log", "b.log"), "d/*.log"),
        (("a.txt", "b.txt"), "d/*.txt"),
        (("a", "b"), "d/*"),
        (("a.jsonl", "b.json"), "d/*.jsonl"),
        (("a.jsonl", "b.jsonl.gz"), "d"),
    ],
)
def test_a_folder_of_json_lines_under_any_name(tmp_path, names, path):
    for name in names:
        write(tmp_path / "d" / name, '{"a": 1}\n{"a": 2}\n')
    found = find_source(str(tmp_path / "d"), tmp_path)
    assert (found.settings["format"], found.settings["path"]) == ("jsonl", path)
    assert find_inputs(found.source, lambda written: str(tmp_path / written)) == found.files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"[1, 2]", "one JSON array"),
        (b"SQLite format 3\0...", "an SQLite database"),
        (b"\x89PNG....", "an image"),
        (b"one\ncolumn\n", "no separator"),
        (b'{\n "a": 1\n}\n', "one JSON object over several lines"),
        (b"1 5:0.47 8:0.38\n2 qid:3 1:0.22 # x\n-1\n+1 7:1e-3\n", "LibSVM text"),
        (b"% by hand\n@RELATION iris\n", "ARFF"),
        (b"<?xml version='1.0'?><rows/>", "XML"),
        (b"\x80\x04\x95....", "pickle"),
        (b"PAR1 cut short", "Parquet|reading stopped"),
    ],
)
def test_what_cannot_be_read(tmp_path, content, message):
    data = write(tmp_path / "data.bin", content)
    with pytest.raises(UserError, match=message):
        found = find_source(str(data), tmp_path)
        column_names(found.files[0], found.source)


def test_missing_file_with_a_hint(tmp_path):
    write(tmp_path / "trips.csv")
    with pytest.raises(UserError, match='no such file. Did you mean "trips.csv"'):
        find_source(str(tmp_path / "tripps.csv"), tmp_path)


def test_files_named_after_splits(tmp_path):
    write(tmp_path / "d" / "adult-train.csv")
    write(tmp_path / "d" / "adult-test.csv")
    write(tmp_path / "d" / "notes.txt")
    assert source_of(tmp_path / "d", tmp_path)["path"] == {"train": "d/adult-train.csv", "eval": "d/adult-test.csv"}


def test_folders_named_after_splits(tmp_path):
    for split in ("train", "validation", "test"):
        for i in range(2):
            write(tmp_path / "d" / split / f"{i}.csv")
    path = source_of(tmp_path / "d", tmp_path)["path"]
    assert list(path) == ["train", "eval", "test"]
    assert path["eval"] == ("d/validation/0.csv", "d/validation/1.csv")


def test_a_folder_of_one_kind_and_of_several(tmp_path):
    write(tmp_path / "d" / "1.csv")
    write(tmp_path / "d" / "2.csv")
    assert source_of(tmp_path / "d", tmp_path)["path"] == "d"
    write(tmp_path / "d" / "readme.txt", "hello\n")
    assert source_of(tmp_path / "d", tmp_path)["path"] == "d/*.csv"


def test_paths_are_relative_to_the_yaml_up_to_a_point(tmp_path):
    data = write(tmp_path / "data" / "a.csv")
    near, far = tmp_path / "pipelines", tmp_path / "1" / "2" / "3" / "4"
    near.mkdir()
    assert source_of(data, near)["path"] == "../data/a.csv"
    assert source_of(data, far)["path"] == str(data)


def test_columns_of_json_lines_are_the_keys_seen(tmp_path):
    rows = [{"a": 1, "b": {"c": 2, "d": {}}}, {"e": None, "a": 3}]
    data = write(tmp_path / "data.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = find_source(str(data), tmp_path)
    assert column_names(found.files[0], found.source) == ["a", "b.c", "b.d", "e"]


def sample_of(data, folder, rows=None):
    found = find_source(str(data), folder)
    return read_sample(found.files, found.source, column_names(found.files[0], found.source), rows=rows)


def test_sample_is_text_as_ingest_reads_it(tmp_path):
    seen = sample_of(write(tmp_path / "a.csv", "a, b\n 1 ,x\n2\n3,\n"), tmp_path)
    assert {name: array.to_pylist() for name, array in seen.columns.items()} == {"a": ["1", "3"], "b": ["x", ""]}
    assert (seen.rows, seen.seen, seen.malformed, seen.whole) == (2, 2, 1, True)
    assert row_keys(seen, ["a", "b"]).to_pylist() == ["1\x1fx", "3\x1f"]


ROWS = [("0.5", "x", "1"), ("1.5", "y", "2"), ("2.5", "x", "3"), ("3.5", "z", "1"), ("4.5", "y", "2")]
BODY = "".join(",".join(row) + "\n" for row in ROWS)
ABY = ["a", "b", "y"]


@pytest.mark.parametrize(
    ("text", "settings", "names"),
    [
        ("# made by hand\n# in cm\n\na,b,y\n" + BODY + "# end\n", {"skip_lines": ["#"]}, ABY),
        ("% by hand\na,b,y\n" + BODY, {"skip_lines": ["%"]}, ABY),
        ("# by hand\n# a, b, y\n" + BODY, {"skip_lines": ["#"], "columns": ABY}, ABY),
        ("#a,b,y\n" + BODY, {}, ["#a", "b", "y"]),
        ("Report of May 2024\nthe office, room 3\n\na,b,y\n" + BODY, {"skip_rows": 3}, ABY),
        ("# by hand\nReport\na,b,y\n" + BODY, {"skip_rows": 2, "skip_lines": ["#"]}, ABY),
        ("sep=,\r\na,b,y\r\n" + BODY, {"skip_lines": ["sep="]}, ABY),
        ("a,b,y\n(kg),,(cm)\n" + BODY, {"header_rows": 2}, ABY),
        ("a,b,y\nkg,,cm\nmean,,sum\n" + BODY, {"header_rows": 3}, ABY),
        ("a,film,\n,one,two\n" + BODY, {"header_rows": 2}, ["a", "film one", "film two"]),
        ("a,y\n" + BODY, {"skip_rows": 1, "columns": ["column_1", "a", "y"]}, ["column_1", "a", "y"]),
        ("a,b,y,\n" + BODY, {"skip_rows": 1, "columns": ABY}, ABY),
        ("a,b,y\n" + BODY + "Total,,9\n", {"skip_lines": ["Total,"]}, ABY),
        ("a,b,y\n" + BODY + '\n,"Grand total:",9\n(5 rows)\n', {"skip_lines": [',"Grand total:",', "(5 rows)"]}, ABY),
        ("a,b,y\n" + BODY + "Source: ministry\n", {"skip_lines": ["Source: ministry"]}, ABY),
        ("a,b,y\n" + BODY, {}, ABY),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
def test_lines_that_are_no_rows_are_found_and_skipped(tmp_path, text, settings, names, encoding):
    data = write(tmp_path / "a.csv", text.encode(encoding))
    found = source_of(data, tmp_path)
    assert {key: found[key] for key in found if key not in ("format", "path", "encoding")} == settings
    seen = sample_of(data, tmp_path)
    assert list(seen.columns) == names and seen.malformed == 0
    assert list(zip(*(array.to_pylist() for array in seen.columns.values()), strict=True)) == ROWS


@pytest.mark.parametrize(
    "text",
    [
        "name,a,y\nBob,unknown,3\nAnn,1.5,4\nEve,2.5,5\n",
        "region,n\nTotal,1\na,2\nTotal,3\nb,4\nTotal,5\n",
        "a,b,y\n1,x,1\n2,y,2\n3,x,1\nJohn\n",
        "code,b,y\nA1,x,1\nB2,y,2\nC3,x,1\n",
    ],
    ids=["unknown_first", "subtotals", "cut_short", "codes"],
)
def test_rows_that_look_like_other_lines_stay_rows(tmp_path, text):
    assert set(source_of(write(tmp_path / "a.csv", text), tmp_path)) == {"format", "path"}


def test_totals_at_the_end_of_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(detect_source, "_LOOK", 10_000)
    data = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{i},x\n" for i in range(9000)) + "Total,\n")
    assert source_of(data, tmp_path)["skip_lines"] == ["Total,"]


def test_types_of_parquet_become_text_lists_stay(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1.0, None]),
            "b": pa.array([True, False]),
            "v": pa.array([[1.0], [2.0]]),
            "s": pa.array([{"k": 1}, None]),
            "t": pa.array([0, 1], pa.timestamp("s")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    seen = sample_of(tmp_path / "a.parquet", tmp_path)
    assert seen.columns["n"].to_pylist() == ["1", None]
    assert seen.columns["b"].to_pylist() == ["true", "false"]
    assert seen.columns["t"].to_pylist() == ["1970-01-01T00:00:00", "1970-01-01T00:00:01"]
    assert seen.columns["v"].to_pylist() == [[1.0], [2.0]]
    assert seen.columns["s.k"].to_pylist() == ["1", None]
    assert list(seen.unreadable) == ["s"]


def test_a_sample_of_fewer_rows_is_spread_over_the_file(tmp_path):
    data = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{i},x\n" for i in range(10_000)))
    seen = sample_of(data, tmp_path, rows=100)
    numbers = [int(text) for text in seen.columns["n"].to_pylist()]
    assert (seen.rows, seen.seen) == (100, 10_000)
    assert numbers == sorted(numbers) and len(set(numbers)) == 100
    assert 3500 < sum(numbers) / 100 < 6500


def test_a_large_file_is_read_in_pieces_from_all_over_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sample._BUDGET, "csv", 1 << 16)
    data = write(tmp_path / "a.csv", "n,label\n" + "".join(f"{i:06d},{i // 50_000}\n" for i in range(100_000)))
    seen = sample_of(data, tmp_path)
    numbers = [int(text) for text in seen.columns["n"].to_pylist()]
    assert numbers[0] == 0 and numbers[-1] == 99_999
    assert len(set(numbers)) == len(numbers) < 10_000
    assert set(seen.columns["label"].to_pylist()) == {"0", "1"}
    assert not seen.whole and seen.evenly_spread and seen.malformed == 0


def test_a_parquet_file_of_one_row_group_is_sampled_over_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_MOST_ROWS", 50_000)
    label = ["low"] * 150_000 + ["high"] * 150_000
    pq.write_table(pa.table({"n": range(300_000), "label": label}), tmp_path / "a.parquet", row_group_size=1 << 26)
    seen = sample_of(tmp_path / "a.parquet", tmp_path)
    numbers = [int(text) for text in seen.columns["n"].to_pylist()]
    assert 20_000 < len(numbers) <= 50_000 and numbers[0] == 0 and numbers[-1] > 250_000
    assert set(seen.columns["label"].to_pylist()) == {"low", "high"}
    assert (seen.whole, seen.evenly_spread, seen.total) == (False, True, 300_000)


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


def test_decimal_commas_of_single_columns_and_of_a_file(tmp_path):
    rows = "".join(f'"{i % 90},{i % 7}",{i % 9}.5,"{i:,}"\n' for i in range(1000, 1400))
    found = profile_source(str(write(tmp_path / "a.csv", "w,p,n\n" + rows)), tmp_path, rows=500)
    likes = {column.name: (column.kind, column.like) for column in found.columns}
    assert likes == {"w": ("written_number", "1234,5"), "p": ("number", None), "n": ("written_number", "1,234.5")}
    rows = "".join(f"{i % 90},{i % 7};1.{i % 1000:03d};3,{i % 3}\n" for i in range(1000, 1400))
    found = profile_source(str(write(tmp_path / "b.csv", "w;n;y\n" + rows)), tmp_path, rows=500)
    assert found.found.source.decimal == ","
    assert found.column("n").like == "1.234,5"
    assert found.column("n").numbers.low == 1000


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


def test_a_large_file_with_line_breaks_in_cells_is_read_from_its_start(tmp_path, monkeypatch):
    monkeypatch.setitem(sample._BUDGET, "csv", 1 << 16)
    data = write(tmp_path / "a.csv", "n,t\n" + "".join(f'{i},"x\ny"\n' for i in range(20_000)))
    seen = sample_of(data, tmp_path)
    assert set(seen.columns["t"].to_pylist()) == {"x\ny"}
    assert not seen.whole and not seen.evenly_spread


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


def test_decimal_comma(tmp_path):
    data = write(tmp_path / "a.csv", "price;city\n" + "".join(f"{i},5;Oslo\n" for i in range(50)))
    seen = profile_source(str(data), tmp_path, rows=100)
    assert seen.found.settings["decimal"] == ","
    assert seen.column("price").kind == "number"
    assert seen.column("price").numbers.median == 25


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


def test_tfrecords_of_examples_are_told_by_their_content(tmp_path):
    def feature(**value):
        return tf.train.Feature(**{kind: getattr(tf.train, kind[0].upper() + kind[1:].replace("_l", "L"))(value=v)
                                   for kind, v in value.items()})  # fmt: skip

    rows = [
        {"a": feature(int64_list=[7]), "b": feature(bytes_list=[b"x"]), "v": feature(float_list=[1, 2])},
        {"a": feature(int64_list=[]), "b": feature(bytes_list=["ü".encode()]), "v": feature(float_list=[3, 4])},
    ]
    data = tmp_path / "records"
    with tf.io.TFRecordWriter(str(data), options="GZIP") as writer:
        for row in rows:
            writer.write(tf.train.Example(features=tf.train.Features(feature=row)).SerializeToString())
    (tmp_path / "d").mkdir()
    for name in ("a.tfrecord-00000-of-00001", "b.tfrecord"):
        (tmp_path / "d" / name).write_bytes(data.read_bytes())
    assert source_of(tmp_path / "d", tmp_path) == {"format": "tfrecord", "path": "d"}
    assert len(find_source(str(tmp_path / "d"), tmp_path).files) == 2

    found = find_source(str(data), tmp_path)
    assert found.settings == {"format": "tfrecord", "path": "records"}
    assert column_names(found.files[0], found.source) == ["a", "b", "v"]
    sample = read_sample(found.files, found.source, ["a", "b", "v"], rows=None)
    assert sample.columns["a"].to_pylist() == ["7", None]
    assert sample.columns["b"].to_pylist() == ["x", "ü"]
    assert sample.columns["v"].to_pylist() == [[1, 2], [3, 4]]


def test_tfrecords_of_sequence_examples_and_of_something_else(tmp_path):
    numbers = tf.train.Feature(float_list=tf.train.FloatList(value=[2.5]))
    lists = tf.train.FeatureLists(feature_list={"s": tf.train.FeatureList(feature=[numbers])})
    example = tf.train.SequenceExample(context=tf.train.Features(feature={"n": numbers}), feature_lists=lists)
    for name, record in {"s.tfrecord": example.SerializeToString(), "x.tfrecord": b"no proto"}.items():
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            writer.write(record)

    found = find_source(str(tmp_path / "s.tfrecord"), tmp_path)
    assert found.settings["payload"] == "sequence_example"
    assert column_names(found.files[0], found.source) == ["n", "s"]
    with pytest.raises(UserError, match="a TFRecord file, but of no tf.Example"):
        find_source(str(tmp_path / "x.tfrecord"), tmp_path)
