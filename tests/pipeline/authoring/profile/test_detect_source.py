import gzip
import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.read_source import columns_of_file, find_inputs
from fullpass.pipeline.authoring.profile import detect_source
from fullpass.pipeline.authoring.profile.detect_source import infer_source
from fullpass.pipeline.authoring.profile.sample import read_sample
from tests.pipeline.authoring.profile.csv_file import CSV, sample_of, write
from tests.record_files import example, write_records


def source_of(data, folder):
    return dict(infer_source(str(data), folder).settings)


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
    for name in ("s", "s.arrow"):
        with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
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
        **dict.fromkeys(("f", "s", "s.arrow"), "arrow"),
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
    found = infer_source(str(tmp_path / "d"), tmp_path)
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
        found = infer_source(str(data), tmp_path)
        columns_of_file(found.files[0], found.source)


def test_missing_file_with_a_hint(tmp_path):
    write(tmp_path / "trips.csv")
    with pytest.raises(UserError, match='no such file. Did you mean "trips.csv"'):
        infer_source(str(tmp_path / "tripps.csv"), tmp_path)
    with pytest.raises(UserError, match=r"no such file. \[1\] stands for one .* write .*x\[\[\]1\]"):
        infer_source(str(tmp_path / "x[1]" / "*.csv"), tmp_path)


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ("adult-train.csv adult-test.csv notes.txt", {"train": "d/adult-train.csv", "eval": "d/adult-test.csv"}),
        (
            "train/0.csv train/1.csv validation/0.csv validation/1.csv test/0.csv",
            {
                "train": ("d/train/0.csv", "d/train/1.csv"),
                "eval": ("d/validation/0.csv", "d/validation/1.csv"),
                "test": "d/test/0.csv",
            },
        ),
        ("1.csv 2.csv", "d"),
        ("1.csv 2.csv readme.txt", "d/*.csv"),
    ],
)
def test_files_of_a_folder_are_splits_by_their_names_or_one_source(tmp_path, files, path):
    for name in files.split():
        write(tmp_path / "d" / name, "hello\n" if name == "readme.txt" else CSV)
    assert source_of(tmp_path / "d", tmp_path)["path"] == path


def test_paths_are_relative_to_the_yaml_up_to_a_point(tmp_path):
    data = write(tmp_path / "data" / "a.csv")
    near, far = tmp_path / "pipelines", tmp_path / "1" / "2" / "3" / "4"
    near.mkdir()
    assert source_of(data, near)["path"] == "../data/a.csv"
    assert source_of(data, far)["path"] == str(data)


def test_columns_of_json_lines_are_the_keys_seen(tmp_path):
    rows = [{"a": 1, "b": {"c": 2, "d": {}}}, {"e": None, "a": 3}]
    data = write(tmp_path / "data.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = infer_source(str(data), tmp_path)
    assert columns_of_file(found.files[0], found.source) == ["a", "b.c", "b.d", "e"]


def test_one_object_of_records_by_their_ids_is_no_table(tmp_path):
    records = {f"id{i}": {"a": i, "b": "x"} for i in range(34_006)}
    data = write(tmp_path / "a.json", json.dumps(records))
    found = infer_source(str(data), tmp_path)
    with pytest.raises(
        UserError, match="a.json: its rows have more than 10,000 different keys, such as 'id0.a', 'id0.b'"
    ):
        columns_of_file(found.files[0], found.source)


ROWS = [("0.5", "x", "1"), ("1.5", "y", "2"), ("2.5", "x", "3"), ("3.5", "z", "1"), ("4.5", "y", "2")]

BODY = "".join(",".join(row) + "\n" for row in ROWS)

ABY = ["a", "b", "y"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "settings", "names"),
    [
        ("# made by hand\n# in cm\n\na,b,y\n" + BODY + "# end\n", {"skip_lines": ["#"]}, ABY),
        ("% by hand\na,b,y\n" + BODY, {"skip_lines": ["%"]}, ABY),
        ("#a,b,y\n" + BODY, {}, ["#a", "b", "y"]),
        ("Report of May 2024\nthe office, room 3\n\na,b,y\n" + BODY, {"skip_rows": 3}, ABY),
        ("# by hand\nReport\na,b,y\n" + BODY, {"skip_rows": 2, "skip_lines": ["#"]}, ABY),
        ("a,b,y\n(kg),,(cm)\n" + BODY, {"header_rows": 2}, ABY),
        ("a,b,y\nkg,,cm\nmean,,sum\n" + BODY, {"header_rows": 3}, ABY),
        ("a,film,\n,one,two\n" + BODY, {"header_rows": 2}, ["a", "film one", "film two"]),
        ("a,b,y\n" + BODY + "Total,,9\n", {"skip_lines": ["Total,"]}, ABY),
        ("a,b,y\n" + BODY, {}, ABY),
        ("Report of May,,\na,b,y\n" + BODY, {"skip_rows": 1}, ABY),
        (",,\nReport of May,,\n,,\na,b,y\n" + BODY, {"skip_rows": 3}, ABY),
        ("a,b,y\n" + BODY + '\n,"Grand total:",9\n', {"skip_lines": [',"Grand total:",']}, ABY),
        (
            ",,\na,b,y\n" + BODY + ",,\nTotal,,9\nMean,,1.8\n",
            {"skip_lines": ["Total,", "Mean,"], "skip_empty": True},
            ABY,
        ),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
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
        "who,b,y\nAnn Lee,x,1\nBo Li,y,2\nCora Moon,x,1\nEva May,,\n",
        ",value\nAnn,1\nBob,2\nEve,3\n",
        "who,city,\nAnn,Rome,x\n\nBob,Bern,y\nEve,Biel,z\n",
        "milk,,\nbread,eggs,\nmilk,,\nsalt,rice,tea\n" * 4,
    ],
    ids=["unknown_first", "subtotals", "cut_short", "codes", "missing_cells", "index", "gap", "baskets"],
)
def test_rows_that_look_like_other_lines_stay_rows(tmp_path, text):
    assert set(source_of(write(tmp_path / "a.csv", text), tmp_path)) - {"columns"} == {"format", "path"}


def test_the_options_of_the_user_are_written_and_the_rest_fits_them(tmp_path):
    data = write(tmp_path / "a.csv", "old,x,1\nold,y,2\na;b;y\n1,5;x;1\n2,5;y;2\nEnd;x;3\n")
    given = {"skip_rows": 2, "missing": ["x"], "skip_lines": ["End"]}
    found = infer_source(str(data), tmp_path, given=given)
    assert found.settings == {"format": "csv", "path": "a.csv", "separator": ";", **given}
    assert columns_of_file(found.files[0], found.source) == ABY
    assert found.changed("missing", ["x", "?"], "guessed").settings == found.settings
    assert found.why["skip_rows"] == "given"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"skip_row": 2}, 'which has no setting "skip_row". Did you mean "skip_rows"?'),
        ({"path": "b.csv"}, 'which has no setting "path"'),
        ({"skip_rows": "x"}, "cannot be read as csv: skip_rows: Input should be a valid integer"),
        ({"format": "xls"}, "a file of the format xls"),
    ],
)
def test_options_that_the_format_does_not_have_are_refused(tmp_path, given, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        infer_source(str(write(tmp_path / "a.csv")), tmp_path, given=given)


def test_totals_at_the_end_of_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr(detect_source, "_LOOK", 10_000)
    data = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{i},x\n" for i in range(9000)) + "Total,\n")
    assert source_of(data, tmp_path)["skip_lines"] == ["Total,"]


def test_tfrecords_of_examples_are_told_by_their_content(tmp_path):
    rows = [{"a": [7], "b": b"x", "v": [1.0, 2.0]}, {"a": [], "b": "ü", "v": [3.0, 4.0]}]
    data = tmp_path / "records"
    write_records(data, map(example, rows), "GZIP")
    (tmp_path / "d").mkdir()
    for name in ("a.tfrecord-00000-of-00001", "b.tfrecord"):
        (tmp_path / "d" / name).write_bytes(data.read_bytes())
    assert source_of(tmp_path / "d", tmp_path) == {"format": "tfrecord", "path": "d"}
    assert len(infer_source(str(tmp_path / "d"), tmp_path).files) == 2

    found = infer_source(str(data), tmp_path)
    assert found.settings == {"format": "tfrecord", "path": "records"}
    assert columns_of_file(found.files[0], found.source) == ["a", "b", "v"]
    sample = read_sample(found.files, found.source, ["a", "b", "v"], rows=None)
    assert sample.columns["a"].to_pylist() == ["7", None]
    assert sample.columns["b"].to_pylist() == ["x", "ü"]
    assert sample.columns["v"].to_pylist() == [[1, 2], [3, 4]]


def test_tfrecords_of_sequence_examples_and_of_something_else(tmp_path):
    numbers = tf.train.Feature(float_list=tf.train.FloatList(value=[2.5]))
    lists = tf.train.FeatureLists(feature_list={"s": tf.train.FeatureList(feature=[numbers])})
    sequence = tf.train.SequenceExample(context=tf.train.Features(feature={"n": numbers}), feature_lists=lists)
    for name, record in {"s.tfrecord": sequence.SerializeToString(), "x.tfrecord": b"no proto"}.items():
        write_records(tmp_path / name, [record])

    found = infer_source(str(tmp_path / "s.tfrecord"), tmp_path)
    assert found.settings["payload"] == "sequence_example"
    assert columns_of_file(found.files[0], found.source) == ["n", "s"]
    with pytest.raises(UserError, match="a TFRecord file, but of no tf.Example"):
        infer_source(str(tmp_path / "x.tfrecord"), tmp_path)
