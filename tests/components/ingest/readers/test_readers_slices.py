"""Slices of the batches of every format, which begin in the middle of a buffer, hold the texts of their own rows."""

import json
import sqlite3

import duckdb
import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, wrappers_pb2
from pydantic import TypeAdapter

from fullpass.components.ingest.readers.read_source import parts_of, read
from fullpass.components.ingest.readers.reader import Reading
from fullpass.components.ingest.readers.row_hash import contents
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.components.ingest.sources.formats import Source
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import cut_batch
from fullpass.preprocessing.values.convert import convert

TEXTS = [
    "longer than its neighbours",
    None,
    "8.0",
    "NA",
    "ü",
    *(f"text {i} " * (i % 3 + 1) for i in range(8)),
    None,
    "z",
]
ROWS = [{"text": text} for text in TEXTS]
TABLE = pa.table({"text": pa.array(TEXTS)})


def lines(path):
    path.write_text("".join(f"{text or 'NA'}\n" for text in ["text", *TEXTS]))


def json_lines(path):
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def avro(path):
    schema = {"type": "record", "name": "r", "fields": [{"name": "text", "type": ["null", "string"]}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, ROWS)


def records(path, encoded):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for one in encoded:
            writer.write(one)


def example(text):
    values = [] if text is None else [text.encode()]
    feature = {"text": tf.train.Feature(bytes_list=tf.train.BytesList(value=values))}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def proto(path):
    described = descriptor_pb2.FileDescriptorSet()
    wrappers_pb2.DESCRIPTOR.CopyToProto(described.file.add())
    path.with_name("x").write_bytes(described.SerializeToString())
    records(path, [wrappers_pb2.StringValue(value=text or "NA").SerializeToString() for text in TEXTS])


def database(connect):
    def write(path):
        with connect(path) as connection:
            connection.execute("create table rows (text text)")
            connection.executemany("insert into rows values (?)", [(text,) for text in TEXTS])

    return write


def rows_of_module():
    yield from TABLE.to_batches(max_chunksize=7)


def rows_of_polars():
    return pl.from_arrow(TABLE)


FORMATS = {
    "csv": ({"format": "csv"}, lines),
    "json lines": ({"format": "jsonl"}, json_lines),
    "text": ({"format": "text"}, lines),
    "parquet": ({"format": "parquet"}, lambda path: pq.write_table(TABLE, path)),
    "parquet of large text": (
        {"format": "parquet"},
        lambda path: pq.write_table(TABLE.cast(pa.schema([("text", pa.large_string())])), path),
    ),
    "arrow": ({"format": "arrow"}, lambda path: pa.feather.write_feather(TABLE, str(path))),
    "arrow dictionary": (
        {"format": "arrow"},
        lambda path: pa.feather.write_feather(pa.table({"text": TABLE["text"].dictionary_encode()}), str(path)),
    ),
    "orc": ({"format": "orc"}, lambda path: pa.orc.write_table(TABLE, str(path))),
    "avro": ({"format": "avro"}, avro),
    "numpy": (
        {"format": "numpy"},
        lambda path: np.savez(path.open("wb"), text=np.array([text or "NA" for text in TEXTS])),
    ),
    "tfrecord": ({"format": "tfrecord"}, lambda path: records(path, map(example, TEXTS))),
    "proto": (
        {
            "format": "proto",
            "descriptor_set": "x",
            "message": "google.protobuf.StringValue",
            "fields": {"text": "value"},
        },
        proto,
    ),
    "sqlite": ({"format": "sql", "query": "rows", "url": "sqlite:///{path}"}, database(sqlite3.connect)),
    "duckdb": ({"format": "sql", "query": "rows", "url": "duckdb:///{path}"}, database(duckdb.connect)),
    "record batches": ({"format": "module", "function": f"{__name__}:rows_of_module"}, lambda path: None),
    "polars": ({"format": "module", "function": f"{__name__}:rows_of_polars"}, lambda path: None),
}


@pytest.mark.parametrize("name", FORMATS)
def test_slices_of_batches_hold_the_texts_of_their_rows(name, tmp_path):
    options, write = FORMATS[name]
    path = tmp_path / "data"
    write(path)
    address = options.get("url", "").format(path=path) or str(tmp_path / "x")
    options = {"path": "x", **options} if options["format"] not in ("sql", "module") else options
    source = TypeAdapter(Source).validate_python(options)
    file = SourceFile(options.get("function") or options.get("query") or str(path), None, 0, "", address)
    column = RawColumn("text", "string")
    texts, contents_of_rows, offsets = [], [], []
    for part in parts_of(file, source):
        for rows in read(Reading(file, {"text": column}, part, all_columns="to_hash"), source):
            for cut in cut_batch(rows.table, rows=4):
                cells = cut["text"].chunk(0)
                offsets.append(cells.offset)
                texts += convert(cells, column, strip=False, missing=("NA", "text")).flat.to_pylist()
            contents_of_rows += [
                one for cut in cut_batch(rows.all_columns, rows=4) for one in contents(cut).to_pylist()
            ]
    expected = [None if text in (None, "NA") else text.encode() for text in TEXTS]
    assert texts[-len(expected) :] == expected
    assert offsets[1] > 0
    kept = [one.rpartition(b"\x1f")[2] for one in contents_of_rows]
    assert [None if one in (b"", b"NA") else one for one in kept[-len(expected) :]] == expected
