"""Every reader returns whole rows on request, whatever columns are read otherwise."""

import gzip
import json
import sqlite3

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fullpass.components.ingest.readers.read_source import parts_of, read
from fullpass.components.ingest.readers.reader import Reading
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.sources.config import (
    ArrowSource,
    AvroSource,
    CsvSource,
    JsonLinesSource,
    ModuleSource,
    NumpySource,
    OrcSource,
    ParquetSource,
    SqlSource,
    TextSource,
    TfRecordSource,
)
from fullpass.components.ingest.sources.files import SourceFile
from tests.components.ingest.reading_tools import raw

ROWS = [{"city": "Oslo", "n": 5, "x": 1.5}, {"city": "Bergen", "n": 7, "x": 2.25}]
EXPECTED = [b"\x1fcity\x1fOslo\x1fn\x1f5\x1fx\x1f1.5", b"\x1fcity\x1fBergen\x1fn\x1f7\x1fx\x1f2.25"]


def rows_for_module():
    yield from ROWS


def contents_of(file, source, columns):
    found = []
    for part in parts_of(file, source):
        for rows in read(Reading(file, columns, part, all_columns=True), source):
            assert rows.table.column_names == list(columns)
            found += contents(rows.all_columns).to_pylist()
    return found


def example(row):
    feature = {
        "city": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["city"].encode()])),
        "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[row["n"]])),
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[row["x"]])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(tmp_path, kind):
    """Writes ROWS; returns the source and its only part."""
    path = tmp_path / f"rows.{kind}"
    table = pa.Table.from_pylist(ROWS)
    address = ""
    if kind == "csv":
        path.write_text("city,n,x\nOslo,5,1.5\nBergen,7,2.25\n")
        source = CsvSource(format="csv", path="p")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({**row, "none": None}) + "\n" for row in ROWS))
        source = JsonLinesSource(format="jsonl", path="p")
    elif kind == "parquet":
        pq.write_table(table, path)
        source = ParquetSource(format="parquet", path="p")
    elif kind == "arrow":
        pyarrow.feather.write_feather(table, path)
        source = ArrowSource(format="arrow", path="p")
    elif kind == "orc":
        pyarrow.orc.write_table(table, path)
        source = OrcSource(format="orc", path="p")
    elif kind == "avro":
        kinds = {"city": "string", "n": "long", "x": "double"}
        fields = [{"name": name, "type": of} for name, of in kinds.items()]
        with open(path, "wb") as f:
            fastavro.writer(f, {"type": "record", "name": "row", "fields": fields}, ROWS)
        source = AvroSource(format="avro", path="p")
    elif kind == "tfrecord":
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in ROWS:
                writer.write(example(row))
        source = TfRecordSource(format="tfrecord", path="p")
    elif kind == "npz":
        np.savez(path, **{name: np.array([row[name] for row in ROWS]) for name in ROWS[0]})
        source = NumpySource(format="numpy", path="p")
    elif kind == "sql":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE trips (city TEXT, n INTEGER, x REAL)")
            connection.executemany("INSERT INTO trips VALUES (:city, :n, :x)", ROWS)
        source = SqlSource(format="sql", url="u", query="trips")
        return SourceFile("trips", None, 0, "", f"sqlite:///{path}"), source
    else:
        source = ModuleSource(format="module", function="m:f")
        return SourceFile(f"{__name__}:rows_for_module", None, 0, ""), source
    return SourceFile(str(path), None, path.stat().st_size, "", address), source


KINDS = ("csv", "jsonl", "parquet", "arrow", "orc", "avro", "tfrecord", "npz", "sql", "module")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [raw(n="number"), raw(city="string", x="number"), raw(x="string")])
def test_the_same_rows_have_the_same_content_in_every_format(tmp_path, kind, columns):
    file, source = write(tmp_path, kind)
    assert contents_of(file, source, columns) == EXPECTED


def test_folders_named_key_value_are_content(tmp_path):
    (tmp_path / "year=2024").mkdir()
    path = tmp_path / "year=2024" / "a.csv"
    path.write_text("n\n5\n")
    file = SourceFile(str(path), None, path.stat().st_size, "")
    found = contents_of(file, CsvSource(format="csv", path="p"), raw(n="number"))
    assert found == [b"\x1fn\x1f5\x1fyear\x1f2024"]


def test_a_bad_cell_in_a_column_that_nothing_reads_spoils_no_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"n,note\n1,caf\xe9\n2,ok\nfree,x\n")
    file = SourceFile(str(path), None, path.stat().st_size, "")
    found = contents_of(file, CsvSource(format="csv", path="p"), raw(n="number"))
    assert found == [b"\x1fn\x1f1\x1fnote\x1fcaf\xe9", b"\x1fn\x1f2\x1fnote\x1fok", b"\x1fn\x1ffree\x1fnote\x1fx"]


def test_numbers_are_hashed_as_they_are_written(tmp_path):
    """Otherwise a non-numeric cell further down the block would change the hashes of the rows above it."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"n,m\n1.50,1\n007,2\n"))
    file = SourceFile(str(path), None, path.stat().st_size, "")
    source = CsvSource(format="csv", path="p")
    texts = contents_of(file, source, raw(n="string"))
    assert texts == [b"\x1fm\x1f1\x1fn\x1f1.50", b"\x1fm\x1f2\x1fn\x1f007"]
    assert contents_of(file, source, raw(n="number")) == texts


def test_lines_of_text_are_content(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    file = SourceFile(str(path), None, path.stat().st_size, "")
    assert contents_of(file, TextSource(format="text", path="p"), raw(text="string")) == [
        b"\x1ftext\x1fone",
        b"\x1ftext\x1ftwo",
    ]


def test_hash_of_nothing_is_that_of_b2sum():
    """The hashes are of printf 'trip-7' | b2sum -l 64, and of an empty input."""
    assert [f"{h:016x}" for h in hashes(pa.array(["trip-7", None])).tolist()] == [
        "e7cbe8422c7c1249",
        "e4a6a0577479b2b4",
    ]
