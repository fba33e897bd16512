"""Slices of the batches of every format, which begin in the middle of a buffer, hold the texts of their own rows."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, wrappers_pb2

from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.row_hash import contents
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.byte_batches import cut_batch
from fullpass.preprocessing.values.convert import convert
from tests.components.ingest.row_files import source_of, source_of_function, write_rows
from tests.record_files import write_records
from tests.spreadsheet_files import write_xlsx

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


def proto(path):
    described = descriptor_pb2.FileDescriptorSet()
    wrappers_pb2.DESCRIPTOR.CopyToProto(described.file.add())
    path.with_name("x").write_bytes(described.SerializeToString())
    write_records(path, [wrappers_pb2.StringValue(value=text or "NA").SerializeToString() for text in TEXTS])


def database_of_duckdb(path):
    with duckdb.connect(path) as connection:
        connection.execute("create table rows (text text)")
        connection.executemany("insert into rows values (?)", [(text,) for text in TEXTS])


def rows_of_module():
    yield from TABLE.to_batches(max_chunksize=7)


def rows_of_polars():
    return pl.from_arrow(TABLE)


FORMATS = {
    "csv": ({"format": "csv"}, lines),
    "excel": (
        {"format": "excel"},
        lambda path: write_xlsx(path, {"rows": [[text or "NA"] for text in ["text", *TEXTS]]}),
    ),
    "text": ({"format": "text"}, lines),
    "parquet of large text": (
        {"format": "parquet"},
        lambda path: pq.write_table(TABLE.cast(pa.schema([("text", pa.large_string())])), path),
    ),
    "arrow dictionary": (
        {"format": "arrow"},
        lambda path: pa.feather.write_feather(pa.table({"text": TABLE["text"].dictionary_encode()}), str(path)),
    ),
    "numpy": (
        {"format": "numpy"},
        lambda path: np.savez(path.open("wb"), text=np.array([text or "NA" for text in TEXTS])),
    ),
    "proto": (
        {
            "format": "proto",
            "descriptor_set": "x",
            "message": "google.protobuf.StringValue",
            "fields": {"text": "value"},
        },
        proto,
    ),
    "duckdb": ({"format": "sql", "query": "rows", "url": "duckdb:///{path}"}, database_of_duckdb),
}
FUNCTIONS = {"record batches": rows_of_module, "polars": rows_of_polars}
WRITTEN = ("jsonl", "parquet", "arrow", "orc", "avro", "tfrecord", "sql")


def source_in(folder, name):
    """Returns the source with the texts, and its file."""
    if name in FUNCTIONS:
        return source_of_function(FUNCTIONS[name])
    if name in WRITTEN:
        return write_rows(folder, name, ROWS, group=len(ROWS))
    options, write = FORMATS[name]
    path = folder / "data"
    write(path)
    address = options.get("url", "").format(path=path) or str(folder / "x")
    source = source_of(**({"path": "x"} if "query" not in options else {}), **options)
    return source, SourceFile(options.get("query") or str(path), None, 0, "", address)


@pytest.mark.parametrize("name", [*FORMATS, *FUNCTIONS, *WRITTEN])
def test_slices_of_batches_hold_the_texts_of_their_rows(name, tmp_path):
    source, file = source_in(tmp_path, name)
    column = RawColumn("text", "string")
    texts, contents_of_rows, offsets = [], [], []
    for part in parts_of(file, source):
        for rows in read_rows(Reading(file, {"text": column}, part, all_columns="to_hash"), source):
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
