"""Readers yield batches bounded by bytes: 36 rows of 1 MB become several batches in every format, and none is lost."""

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
from google.protobuf import descriptor_pb2, wrappers_pb2

from fullpass.components.ingest.readers.read_source import parts_of, read
from fullpass.components.ingest.readers.reader import Reading
from fullpass.components.ingest.sources.config import (
    ArrowSource,
    AvroSource,
    JsonLinesSource,
    ModuleSource,
    OrcSource,
    ParquetSource,
    ProtoSource,
    SqlSource,
    TextSource,
    TfRecordSource,
)
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import BATCH_BYTES
from fullpass.trainer.records.record_files import record_batches

ROWS = 36
CELL = "x" * (1 << 20)


def rows_of_module():
    for _ in range(ROWS):
        yield {"text": CELL}


def example() -> bytes:
    feature = {"text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[CELL.encode()]))}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_records(path, record: bytes, compression: str = ""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for _ in range(ROWS):
            writer.write(record)


def tfrecord(folder):
    write_records(folder / "a.tfrecord", example())
    return TfRecordSource(format="tfrecord", path="x"), folder / "a.tfrecord", ""


def proto(folder):
    write_records(folder / "a.tfrecord", wrappers_pb2.StringValue(value=CELL).SerializeToString())
    described = descriptor_pb2.FileDescriptorSet()
    wrappers_pb2.DESCRIPTOR.CopyToProto(described.file.add())
    (folder / "wrappers.pb").write_bytes(described.SerializeToString())
    message, fields = "google.protobuf.StringValue", {"text": "value"}
    source = ProtoSource(format="proto", path="x", descriptor_set="x", message=message, fields=fields)
    return source, folder / "a.tfrecord", str(folder / "wrappers.pb")


def parquet(folder):
    pq.write_table(pa.table({"text": [CELL[:-1] + chr(65 + i % 60) for i in range(ROWS)]}), folder / "a.parquet")
    return ParquetSource(format="parquet", path="x"), folder / "a.parquet", ""


def parquet_of_one_repeated_cell(folder):
    pq.write_table(pa.table({"text": [CELL] * ROWS}), folder / "a.parquet")
    return ParquetSource(format="parquet", path="x"), folder / "a.parquet", ""


def arrow(folder):
    pa.feather.write_feather(pa.table({"text": [CELL] * ROWS}), str(folder / "a.arrow"))
    return ArrowSource(format="arrow", path="x"), folder / "a.arrow", ""


def orc(folder):
    pa.orc.write_table(pa.table({"text": [CELL] * ROWS}), str(folder / "a.orc"))
    return OrcSource(format="orc", path="x"), folder / "a.orc", ""


def avro(folder):
    schema = {"type": "record", "name": "r", "fields": [{"name": "text", "type": "string"}]}
    with open(folder / "a.avro", "wb") as file:
        fastavro.writer(file, schema, rows_of_module(), codec="deflate")
    return AvroSource(format="avro", path="x"), folder / "a.avro", ""


def json_lines(folder):
    with gzip.open(folder / "a.jsonl.gz", "wt", compresslevel=1) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows_of_module())
    return JsonLinesSource(format="jsonl", path="x"), folder / "a.jsonl.gz", ""


def text(folder):
    with gzip.open(folder / "a.txt.gz", "wt", compresslevel=1) as file:
        file.writelines(CELL + "\n" for _ in range(ROWS))
    return TextSource(format="text", path="x"), folder / "a.txt.gz", ""


def sql(folder):
    with sqlite3.connect(folder / "a.db") as connection:
        connection.execute("create table rows (text text)")
        connection.executemany("insert into rows values (?)", [(CELL,)] * ROWS)
    return SqlSource(format="sql", url="x", query="rows"), "rows", f"sqlite:///{folder}/a.db"


def module(folder):
    return ModuleSource(format="module", function=f"{__name__}:rows_of_module"), f"{__name__}:rows_of_module", ""


MAKERS = [tfrecord, proto, parquet, parquet_of_one_repeated_cell, arrow, orc, avro, json_lines, text, sql, module]


CASES = [(make, None) for make in MAKERS] + [(make, "to_hash") for make in (tfrecord, parquet, json_lines, sql)]


@pytest.mark.integration
@pytest.mark.parametrize(("make", "whole"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_batches_are_bounded_by_bytes(tmp_path, make, whole):
    source, path, address = make(tmp_path)
    file = SourceFile(str(path), None, 0, "", address)
    numbers = []
    for part in parts_of(file, source):
        reading = Reading(file, {"text": RawColumn("text", "string")}, part, all_columns=whole)
        for rows in read(reading, source):
            assert sum(len(cell[0] if isinstance(cell, list) else cell) for cell in _cells(rows)) <= BATCH_BYTES
            numbers += rows.numbers.tolist()
    assert numbers == list(range(1, ROWS + 1))


def _cells(rows):
    return rows.table.column("text").to_pylist()


def test_rows_of_usual_size_stay_together(tmp_path):
    table = pa.table({"a": np.arange(40_000), "b": [f"row {i}" for i in range(40_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=50_000)
    file = SourceFile(str(tmp_path / "a.parquet"), None, 0, "")
    reading = Reading(file, {name: RawColumn(name, "string") for name in "ab"})
    batches = list(read(reading, ParquetSource(format="parquet", path="x")))
    assert [len(rows.numbers) for rows in batches] == [16_384, 16_384, 40_000 - 2 * 16_384]
    assert pa.concat_tables([rows.table for rows in batches]).equals(table)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_are_read_in_batches_bounded_by_bytes(tmp_path, compression):
    path = tmp_path / f"a.tfrecord{'.gz' if compression else ''}"
    records = [bytes([i]) * n for i, n in enumerate((400, 400, 400, 1100, 100, 100, 100, 100))]
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    batches = list(record_batches(str(path), rows=3, most_bytes=1000))
    assert [len(batch) for batch in batches] == [2, 1, 1, 3, 1]
    assert [record for batch in batches for record in batch] == records
