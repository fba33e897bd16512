"""TFRecords, databases, user-defined functions, images, and files by URL."""

import gzip
import io
import sqlite3
import struct
import sys

import duckdb
import fsspec
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from PIL import Image

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers.read_source import columns_of, columns_of_file, find_inputs, parts_of
from fullpass.components.ingest.sources.config import (
    CsvSource,
    ImagesSource,
    ModuleSource,
    ParquetSource,
    SqlSource,
    TfRecordSource,
)
from fullpass.components.ingest.sources.files import SourceFile, fingerprint
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.convert import convert_raw
from tests.components.ingest.reading_tools import inputs, raw, read_file, read_input
from tests.image_files import encode_image
from tests.record_files import example, write_records

TFRECORD = TfRecordSource(format="tfrecord", path="x")


def fill(feature, values):
    kind = {float: "float_list", int: "int64_list", bytes: "bytes_list"}[type(values[0])] if values else "float_list"
    getattr(feature, kind).value.extend(values)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_examples(tmp_path, compression):
    path = tmp_path / "data"
    records = [example({"a": [1.5], "b": [b"x\xff"], "n": [2**60]}), example({"b": [b"y", b"z"]}), example({"a": []})]
    write_records(path, records, compression)
    rows, numbers, _ = read_file(path, TFRECORD, ["n", "b", "a"])
    assert rows == [([2**60], [b"x\xff"], [1.5]), (None, [b"y", b"z"], None), (None, None, [])]
    assert numbers == [1, 2, 3]


def test_context_and_feature_lists_of_sequence_examples(tmp_path):
    sequences = []
    for steps in ([[1.0], [2.5]], [], [[], [4.0, 5.0]]):
        sequence = tf.train.SequenceExample()
        fill(sequence.context.feature["a"], [3])
        for values in steps:
            sequence.feature_lists.feature_list["steps"].feature.add().float_list.value.extend(values)
        sequences.append(sequence.SerializeToString())
    write_records(tmp_path / "data", sequences)
    source = TfRecordSource(format="tfrecord", path="x", payload="sequence_example")
    rows, _, _ = read_file(tmp_path / "data", source, ["a", "steps", "none"])
    assert rows == [([3], [[1.0], [2.5]], None), ([3], None, None), ([3], [[], [4.0, 5.0]], None)]


def test_a_record_that_is_no_example_is_a_bad_row(tmp_path):
    records = [example({"a": [float(i)]}) for i in range(5)]
    records[3] = b"no message"
    write_records(tmp_path / "data", records)
    rows, numbers, bad = read_file(tmp_path / "data", TFRECORD, ["a"])
    assert rows == [([float(i)],) for i in (0, 1, 2, 4)] and numbers == [1, 2, 3, 5]
    assert [(row.row, row.reason) for row in bad] == [(4, "no tf.Example")]


def test_an_empty_list_of_another_kind_is_an_empty_list(tmp_path):
    records = [example({"a": []}), example({"a": [b"x"]}), b"no message", example({})]
    write_records(tmp_path / "data", records)
    rows, numbers, bad = read_file(tmp_path / "data", TFRECORD, ["a"])
    assert rows == [([],), ([b"x"],), (None,)] and numbers == [1, 2, 4] and [row.row for row in bad] == [3]
    assert columns_of_file(SourceFile(str(tmp_path / "data"), None, 0, ""), TFRECORD) == ["a"]


def test_values_of_several_kinds_are_text_that_the_column_judges(tmp_path):
    values = [[1.5], [7], [b"x"], [float("nan")], [0.1, 2.0]]
    write_records(tmp_path / "data", [example({"a": value, "b": [1.0]}) for value in values])
    rows, _, bad = read_file(tmp_path / "data", TFRECORD, ["a", "b"])
    assert rows == [(a, [1.0]) for a in ([b"1.5"], [b"7"], [b"x"], [], [b"0.1", b"2"])] and not bad
    column = pa.array([row[0] for row in rows[:4]])
    converted = convert_raw(column, RawColumn("a", "number"), TFRECORD.raw_text)
    assert converted.flat.to_pylist() == [1.5, 7.0, None, None]
    assert converted.bad.tolist() == [False, False, True, False] and converted.reason_of(2) == "not a number"


def test_steps_of_several_kinds(tmp_path):
    sequence = tf.train.SequenceExample()
    for values in ([], [b"x"], [2]):
        fill(sequence.feature_lists.feature_list["steps"].feature.add(), values)
    sequence.feature_lists.feature_list["steps"].feature.add()
    other = tf.train.SequenceExample()
    fill(other.context.feature["steps of none"], [1.0])
    write_records(tmp_path / "data", [sequence.SerializeToString(), other.SerializeToString()])
    source = TfRecordSource(format="tfrecord", path="x", payload="sequence_example")
    rows, _, _ = read_file(tmp_path / "data", source, ["steps"])
    assert rows == [([[], [b"x"], [b"2"], None],), (None,)]
    assert columns_of_file(SourceFile(str(tmp_path / "data"), None, 0, ""), source) == ["steps", "steps of none"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: data[:-3], "the file ends inside record 3"),
        (lambda data: data[: -struct.calcsize("<I") - 4] + b"!" + data[-7:], "record 3 is corrupt"),
        (lambda data: b"\x01" + data[1:], "record 1 is corrupt: the checksum of its length"),
        (lambda data: data + b"abc", "the file ends inside record 4"),
    ],
)
def test_corrupt_records_are_named(tmp_path, spoil, says):
    write_records(tmp_path / "data", [example({"a": [float(i)]}) for i in range(3)])
    (tmp_path / "data").write_bytes(spoil((tmp_path / "data").read_bytes()))
    with pytest.raises(UserError, match=f"data: reading stopped: {says}"):
        read_file(tmp_path / "data", TFRECORD, ["a"])


def sql(url, query, **options):
    return SqlSource(format="sql", url=url, query=query, **options)


def sqlite_trips(folder):
    with sqlite3.connect(folder / "trips.db") as database:
        database.execute('CREATE TABLE trips (id INTEGER, fare REAL, "the zone" TEXT, note)')
        rows = [(i, None if i % 5 == 0 else i / 2, f"z{i}", i if i % 2 else "text") for i in range(20)]
        database.executemany("INSERT INTO trips VALUES (?, ?, ?, ?)", [*rows[::-1], (None, 1.0, "x", None)])
    database.close()
    return "sqlite:///trips.db"


def test_a_table_of_sqlite_in_ranges_of_its_key(tmp_path):
    source = sql(sqlite_trips(tmp_path), "trips", key="id", rows_per_range=6)
    (table,) = inputs(source, tmp_path)
    assert columns_of(table, source) == ["id", "fare", "the zone", "note"]
    assert [part.first_row for part in parts_of(table, source)] == [1, 7, 13, 19, 21]
    rows, numbers, _ = read_input(table, source, raw(fare="number", **{"the zone": "string"}))
    assert rows == [*((None if i % 5 == 0 else i / 2, f"z{i}") for i in range(20)), (1.0, "x")]
    assert numbers == list(range(1, 22))


def test_a_query_with_values_of_several_types_in_one_column(tmp_path):
    source = sql(sqlite_trips(tmp_path), "SELECT id, note FROM trips WHERE id < 4 ORDER BY id;")
    (query,) = inputs(source, tmp_path)
    assert read_input(query, source, raw(note="string"))[0] == [("text",), ("1",), ("text",), ("3",)]


@pytest.mark.integration
def test_keys_that_are_not_unique_or_no_numbers(tmp_path):
    with duckdb.connect(str(tmp_path / "trips.duckdb")) as database:
        database.execute(
            "CREATE TABLE trips AS SELECT DATE '2024-01-01' + CAST(i // 4 AS INTEGER) AS day, i AS n, "
            "CAST(i AS DECIMAL(9, 2)) AS paid FROM range(30) t(i)"
        )
    source = sql("duckdb:///trips.duckdb", "SELECT * FROM trips", key="day", rows_per_range=7)
    (query,) = inputs(source, tmp_path)
    parts = parts_of(query, source)
    assert [part.first_row for part in parts] == [1, 5, 13, 21, 29]
    rows, numbers, _ = read_input(query, source, raw(n="number", paid="number"))
    assert sorted(rows) == [(i, i) for i in range(30)] and numbers == list(range(1, 31))


def test_a_query_per_split(tmp_path):
    queries = {"train": "SELECT * FROM trips WHERE id < 15", "eval": "SELECT * FROM trips WHERE id >= 15"}
    source = sql(sqlite_trips(tmp_path), queries)
    assert source.given_splits == ("train", "eval")
    train, evaluated = inputs(source, tmp_path)
    assert (train.split, evaluated.split) == ("train", "eval")
    assert len(read_input(evaluated, source, raw(id="number"))[0]) == 5


def test_a_changed_database_file_changes_the_fingerprint(tmp_path):
    source = sql(sqlite_trips(tmp_path), "trips")
    before = fingerprint(inputs(source, tmp_path))
    assert fingerprint(inputs(source, tmp_path)) == before
    with sqlite3.connect(tmp_path / "trips.db") as database:
        database.execute("DELETE FROM trips")
    database.close()
    assert fingerprint(inputs(source, tmp_path)) != before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"query": "trip"}, "no such table: trip"),
        ({"query": "SELECT fee FROM trips"}, "no such column: fee"),
        ({"query": "trips", "key": "ids"}, "no column 'ids'. Did you mean \"id\"?"),
        ({"query": "trips", "url": "sqlite:///trip.db"}, 'no file .*trip.db. Did you mean "trips.db"?'),
        ({"query": "trips", "url": "oracle9://x/y"}, "data.source.url: .*oracle9"),
        ({"query": "trips", "url": "no url"}, "dialect://user@host/database"),
        ({"query": "trips", "url": "postgresql+psycopg://u@localhost/x"}, "Install its driver"),
        (
            {"query": "trips", "url": "postgresql://reader@db.example.com/trips", "password_env": "NO_SUCH_VARIABLE"},
            "the environment variable NO_SUCH_VARIABLE is not set, so there is no password for "
            "postgresql://reader@db.example.com/trips",
        ),
    ],
)
def test_databases_that_cannot_be_read_say_why(tmp_path, options, says):
    url = sqlite_trips(tmp_path)
    source = sql(**{"url": url, **options})
    with pytest.raises(UserError, match=says.replace("?", r"\?")):
        for table in inputs(source, tmp_path):
            read_input(table, source, raw(id="number"))


def test_the_password_comes_from_the_environment(monkeypatch):
    from fullpass.components.ingest.readers.sql import SqlReader

    source = sql("postgresql://reader@db.example.com/trips", "trips", password_env="TRIPS_PASSWORD")
    monkeypatch.setenv("TRIPS_PASSWORD", "p@ss/word")
    url = SqlReader(find_inputs(source, str)[0], source)._url()
    assert url.password == "p@ss/word" and "p@ss" not in url.render_as_string()


MODULE = """
import pandas as pd, polars as pl, pyarrow as pa

def frame(): return pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=[5, 6])
def polars(): return pl.DataFrame({"a": [1, 2], "b": ["x", None]})
def table(): return pa.table({"a": [1, 2], "b": ["x", None]})
def reader(): return pa.RecordBatchReader.from_batches(table().schema, table().to_batches())
def dicts(): yield from ({"a": 1, "b": "x"}, {"a": 2})
def frames():
    yield frame().iloc[:1]
    yield polars()[1:]
def number(): return 3
def numbers(): yield 3
def wrong(): return table().rename_columns(["a", "c"])
def broken(): yield {"a": 1 / 0}
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    (tmp_path / "user_rows.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda name: ModuleSource(format="module", function=f"user_rows:{name}")
    sys.modules.pop("user_rows", None)


@pytest.mark.parametrize("name", ["frame", "polars", "table", "reader", "dicts", "frames"])
def test_functions_that_return_rows(tmp_path, user_module, name):
    source = user_module(name)
    (function,) = inputs(source, tmp_path)
    rows, numbers, _ = read_input(function, source, raw(b="string", a="number"))
    assert rows == [("x", 1), (None, 2)] and numbers == [1, 2]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("number", "returned builtins.int. Accepted: a pandas or polars DataFrame"),
        ("numbers", "yielded builtins.int. Accepted"),
        ("wrong", "no column 'b'"),
        ("broken", r"user_rows:broken raised ZeroDivisionError: division by zero\n  at .*user_rows.py:\d+ in broken"),
        ("missing", "cannot be imported"),
    ],
)
def test_functions_that_do_not_say_why(tmp_path, user_module, name, says):
    source = user_module(name)
    (function,) = inputs(source, tmp_path)
    with pytest.raises(UserError, match=says):
        read_input(function, source, raw(a="number", b="string"))


def image(width, height, mode, form):
    pixels = np.random.default_rng(1).integers(0, 255, (height, width, 4), dtype=np.uint8)
    return encode_image(pixels, form, mode)


def test_images_in_a_folder_per_class(tmp_path):
    images = {
        "cat/1.jpg": image(30, 20, "RGB", "JPEG"),
        "cat/2.png": image(7, 5, "RGBA", "PNG"),
        "dog/3.JPG": image(16, 16, "L", "JPEG"),
        "dog/4.bmp": image(3, 4, "RGB", "BMP"),
    }
    for name, data in {**images, "dog/5.jpg": images["cat/1.jpg"][:200], "dog/notes.txt": b"x"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    source = ImagesSource(format="images", path=".")
    (folder,) = inputs(source, tmp_path)
    columns = raw(image="string", height="number", width="number", channels="number", label="string", file="string")
    rows, numbers, bad = read_input(folder, source, columns)
    assert rows == [
        (images["cat/1.jpg"], 20, 30, 3, "cat", "cat/1.jpg"),
        (images["cat/2.png"], 5, 7, 4, "cat", "cat/2.png"),
        (images["dog/3.JPG"], 16, 16, 1, "dog", "dog/3.JPG"),
        (images["dog/4.bmp"], 4, 3, 3, "dog", "dog/4.bmp"),
    ]
    assert numbers == [1, 2, 3, 4]
    assert [(row.row, row.text) for row in bad] == [(5, str(tmp_path / "dog" / "5.jpg"))]
    assert "truncated" in bad[0].reason.lower()
    for data, *rest in rows:
        assert list(tf.io.decode_image(data).shape) == rest[:3]


def test_images_named_by_a_manifest(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(image(7, 5, "RGB", "PNG"))
    (tmp_path / "photos" / "w.png").write_bytes(image(7, 5, "RGB", "WEBP"))
    (tmp_path / "list.csv").write_text("file,breed\nphotos/a.png,corgi\nphotos/none.png,pug\nphotos/w.png,pug\n")
    source = ImagesSource(format="images", path="list.csv", labels="manifest")
    (manifest,) = inputs(source, tmp_path)
    rows, numbers, bad = read_input(manifest, source, raw(breed="string", width="number"))
    assert rows == [("corgi", 7)] and numbers == [2]
    assert [row.row for row in bad] == [3, 4]
    assert "No such file" in bad[0].reason and "WEBP, not JPEG, PNG" in bad[1].reason


def test_decoded_images_are_pixels_row_by_row_at_one_size(tmp_path):
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10
    flat = np.full((40, 60, 3), 77, np.uint8)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels, "RGB").save(tmp_path / "a" / "1.png")
    Image.fromarray(flat, "RGB").save(tmp_path / "a" / "2.jpg", quality=95)
    source = ImagesSource(format="images", path=".", decode={"height": 2, "width": 3})
    (folder,) = inputs(source, tmp_path)
    columns = {"pixels": RawColumn("pixels", "vector", width=18), "width": RawColumn("width", "number")}
    rows, _, bad = read_input(folder, source, columns)
    assert bad == [] and [row[1] for row in rows] == [3, 60]
    assert list(rows[0][0]) == pixels.ravel().tolist()
    assert np.abs(np.array(list(rows[1][0])) - 77).max() <= 1  # JPEG is lossy

    grey = ImagesSource(format="images", path=".", decode={"height": 4, "width": 6, "channels": 1})
    columns = {"pixels": RawColumn("pixels", "vector", width=24)}
    rows, _, _ = read_input(folder, grey, columns)
    with Image.open(tmp_path / "a" / "1.png") as image:
        assert list(rows[0][0]) == np.asarray(image.convert("L").resize((6, 4), Image.BILINEAR)).ravel().tolist()


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/trips", recursive=True)


def test_files_by_address(tmp_path, memory):
    memory.pipe({"/trips/2.csv": b"a,b\n3,z\n", "/trips/1.csv.gz": gzip.compress(b"a,b\n1,x\n2,y\n")})
    source = CsvSource(format="csv", path="memory://trips/*.csv*")
    files = inputs(source, tmp_path)
    assert [file.path for file in files] == ["memory:///trips/1.csv.gz", "memory:///trips/2.csv"]
    assert [read_input(file, source, raw(a="string"))[0] for file in files] == [[("1",), ("2",)], [("3",)]]
    before = fingerprint(files)
    memory.pipe("/trips/2.csv", b"a,b\n4,z\n")
    assert fingerprint(inputs(source, tmp_path)) != before


def test_folders_by_address(tmp_path, memory):
    data = io.BytesIO()
    pa.parquet.write_table(pa.table({"a": [1]}), data)
    memory.pipe({"/trips/day=1/x.parquet": data.getvalue(), "/trips/_SUCCESS": b""})
    source = ParquetSource(format="parquet", path="memory://trips")
    (file,) = inputs(source, tmp_path)
    assert read_input(file, source, raw(day="string", a="number"))[0] == [("1", 1)]


def test_a_file_address_is_a_path(tmp_path):
    (tmp_path / "my trips.csv").write_text("a\n1\n")
    source = CsvSource(format="csv", path=f"file://{tmp_path}/my%20trips.csv")
    assert [file.path for file in inputs(source, tmp_path)] == [str(tmp_path / "my trips.csv")]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("memory://none/*.csv", "'memory://none/\\*.csv' is no file"),
        ("s3://bucket/a.csv", "its driver is not installed: .*s3fs"),
        ("nosuch://bucket/a.csv", "Protocol not known: nosuch"),
    ],
)
def test_addresses_that_lead_nowhere(tmp_path, path, says):
    with pytest.raises(UserError, match=says):
        inputs(CsvSource(format="csv", path=path), tmp_path)
