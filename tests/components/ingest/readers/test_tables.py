"""Parquet, Arrow, ORC, Avro, NumPy: each written by its own library and read back."""

import datetime
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from fullpass.base.errors import UserError
from fullpass.components.ingest.readers import tables
from fullpass.components.ingest.readers.avro import AvroReader
from fullpass.components.ingest.readers.convert_rows import convert_rows
from fullpass.components.ingest.readers.read_source import parts_of, read_rows
from fullpass.components.ingest.readers.row_hash import contents, hashes
from fullpass.components.ingest.readers.rows import Reading
from fullpass.components.ingest.sources.config import ArrowSource, AvroSource, NumpySource, OrcSource, ParquetSource
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.values.raw_text import RawText
from tests.components.ingest.reading_tools import inputs, raw, read_file, read_input
from tests.components.ingest.row_files import write_rows

PARQUET = ParquetSource(format="parquet", path="x")
TABLE = pa.table(
    {
        "a": [0, None, 3],
        "b": ["", "y", None],
        "s": [{"x": 1, "t": {"u": 2.5}}, None, {"x": None, "t": {"u": None}}],
        "v": [[1.0, 2.0], [], None],
    }
)


def write_stream(folder, rows):
    with pa.ipc.new_stream(folder / "rows.arrow", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=2)
    source = ArrowSource(format="arrow", path="rows.arrow")
    return source, inputs(source, folder)[0]


WRITERS = {name: partial(write_rows, format=name, group=2) for name in ("parquet", "arrow", "orc")}
WRITERS["stream"] = write_stream
"""Form of a table -> writes it into a folder, and returns the source and the file."""


@pytest.mark.parametrize("name", WRITERS)
def test_types_nulls_lists_and_fields_of_structs(tmp_path, name):
    source, file = WRITERS[name](tmp_path, rows=TABLE)
    rows, numbers, _ = read_input(file, source, ["b", "a", "s.t.u", "v"])
    assert rows == [("", 0, 2.5, [1.0, 2.0]), ("y", None, None, []), (None, 3, None, None)]
    assert numbers == [1, 2, 3]
    with pytest.raises(UserError, match=r"rows.\w+: no column 's.tu'. Did you mean \"s.t.u\"\?"):
        read_input(file, source, ["s.tu"])


@pytest.mark.parametrize(("name", "parts"), [("parquet", 5), ("arrow", 5), ("orc", 1), ("stream", 1)])
def test_parts_are_numbered_through(tmp_path, monkeypatch, name, parts):
    monkeypatch.setattr(tables, "PART_BYTES", 1)
    source, file = WRITERS[name](tmp_path, rows=pa.table({"a": list(range(9))}))
    assert len(parts_of(file, source)) == parts
    rows, numbers, _ = read_input(file, source, raw(a="number"))
    assert rows == [(i,) for i in range(9)] and numbers == list(range(1, 10))


@pytest.mark.integration
def test_stripes_of_orc_are_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PART_BYTES", 1)
    values = np.random.default_rng(1).normal(size=300_000)
    pa.orc.write_table(pa.table({"a": values}), str(tmp_path / "data"), stripe_size=1 << 20, batch_size=1024)
    source = OrcSource(format="orc", path="data")
    (file,) = inputs(source, tmp_path)
    assert len(parts_of(file, source)) > 1
    rows, numbers, _ = read_input(file, source, raw(a="number"))
    assert [row[0] for row in rows] == values.tolist() and numbers == list(range(1, 300_001))


def test_a_name_with_a_dot_is_no_path(tmp_path):
    pq.write_table(pa.table({"a.b": [1], "a": [{"b": 2, "c.d": 3}]}), tmp_path / "data")
    assert read_file(tmp_path / "data", PARQUET, ["a.b", "a.c.d"])[0] == [(1, 3)]


@pytest.mark.integration
@pytest.mark.parametrize("name", [*WRITERS, "avro", "excel", "numpy", "proto", "tfrecord"])
def test_a_file_cut_short_is_named(tmp_path, name):
    table = pa.table({"a": np.random.default_rng(1).normal(size=10_000)})
    source, file = WRITERS[name](tmp_path, rows=table) if name in WRITERS else write_rows(tmp_path, name, table)
    path = Path(file.path)
    path.write_bytes(path.read_bytes()[: file.size // 2 - 3])  # records of equal size would end in the middle
    with pytest.raises(UserError, match=f"{path}: reading stopped: .*cut short"):
        read_input(replace(file, state=""), source, ["a"])


def test_hive_folders_are_columns(tmp_path):
    for year, city, value in [("2023", "S%C3%A3o", 1), ("2024", "__HIVE_DEFAULT_PARTITION__", 2)]:
        folder = tmp_path / "trips" / f"year={year}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"a": [value]}), folder / "part-0.parquet")
    (tmp_path / "trips" / "_SUCCESS").write_text("")
    (tmp_path / "trips" / "_temporary").mkdir()
    pq.write_table(pa.table({"a": [9]}), tmp_path / "trips" / "_temporary" / "part-0.parquet")
    source = ParquetSource(format="parquet", path="trips")
    rows = [
        read_input(file, source, raw(year="number", a="number", city="string"))[0] for file in inputs(source, tmp_path)
    ]
    assert rows == [[("2023", 1, "São")], [("2024", 2, None)]]


def test_a_folder_written_by_spark_may_be_matched_by_a_glob(tmp_path):
    for day in (1, 2):
        folder = tmp_path / f"day{day}.parquet"
        folder.mkdir()
        pq.write_table(pa.table({"a": [day]}), folder / "part-0.snappy.parquet")
    source = ParquetSource(format="parquet", path="day*.parquet")
    assert [file.path for file in inputs(source, tmp_path)] == [
        str(tmp_path / f"day{day}.parquet" / "part-0.snappy.parquet") for day in (1, 2)
    ]


AVRO = AvroSource(format="avro", path="x")
AVRO_SCHEMA = {
    "type": "record",
    "name": "Trip",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "fare", "type": ["null", "double"]},
        {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "zones", "type": {"type": "array", "items": "string"}},
        {
            "name": "car",
            "type": ["null", {"type": "record", "name": "Car", "fields": [{"name": "kind", "type": "string"}]}],
        },
    ],
}


def test_avro(tmp_path):
    at = datetime.datetime(2024, 2, 29, 13, 5, tzinfo=datetime.UTC)
    trips = [
        {"id": 2**60, "fare": None, "paid": Decimal("1.50"), "at": at, "zones": ["a", "b"], "car": {"kind": "taxi"}},
        {"id": 0, "fare": 0.0, "paid": Decimal("0.00"), "at": at, "zones": [], "car": None},
    ]
    with (tmp_path / "data.avro").open("wb") as file:
        fastavro.writer(file, AVRO_SCHEMA, trips, codec="deflate")
    rows, numbers, _ = read_file(tmp_path / "data.avro", AVRO, ["id", "fare", "paid", "at", "zones", "car.kind"])
    assert rows == [
        (2**60, None, Decimal("1.50"), at, ["a", "b"], "taxi"),
        (0, 0.0, Decimal("0.00"), at, [], None),
    ]
    assert numbers == [1, 2]


def test_avro_fields_of_named_types_and_of_records_in_arrays(tmp_path):
    address = {"type": "record", "name": "Address", "fields": [{"name": "zip", "type": ["null", "string"]}]}
    item = {
        "type": "record",
        "name": "Item",
        "fields": [{"name": "q", "type": "long"}, {"name": "to", "type": "Address"}],
    }
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "x", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
    }
    fields = {
        "billing": address,
        "shipping": ["null", "Address"],
        "items": {"type": "array", "items": ["null", item]},
        "more": ["null", {"type": "array", "items": "Item"}],
        "node": node,
    }
    schema = {"type": "record", "name": "Root", "namespace": "a.b"}
    schema["fields"] = [{"name": name, "type": kind} for name, kind in fields.items()]
    z = [{"zip": "z0"}, {"zip": None}]
    row = {"billing": z[0], "shipping": z[1], "items": [{"q": 1, "to": z[0]}, {"q": 2, "to": z[1]}], "more": None}
    rows = [row | {"node": {"x": 1, "next": {"x": 2, "next": None}}}]
    rows += [rows[0] | {"shipping": None, "items": [], "more": [{"q": 3, "to": z[0]}]}]
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, schema, rows, codec="snappy")
    columns = raw(**{"billing.zip": "string", "shipping.zip": "string"})
    columns |= {
        name: RawColumn(name, kind, many=True) for name, kind in (("items.q", "number"), ("more.to.zip", "string"))
    }
    names = AvroReader(SourceFile(str(tmp_path / "x.avro"), None, 0, ""), AVRO).columns()
    assert names == [
        *("billing", "billing.zip", "shipping", "shipping.zip", "items", "items.q", "items.to", "items.to.zip"),
        *("more", "more.q", "more.to", "more.to.zip", "node", "node.x", "node.next"),
    ]
    read_rows, _, bad = read_file(tmp_path / "x.avro", AVRO, columns)
    assert read_rows == [("z0", None, [1, 2], None), ("z0", None, None, ["z0"])] and bad == []


@pytest.mark.parametrize("codec", ["zstandard", "lz4"])
def test_avro_of_a_codec_without_its_package_names_the_package(tmp_path, codec):
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, AVRO_SCHEMA, [])
    data = (tmp_path / "x.avro").read_bytes()
    name = b"avro.codec" + bytes([2 * len(codec)]) + codec.encode()
    block = data[-16:] and b"\x02\x02\x00" + data[-16:]  # a block of one row of one byte
    (tmp_path / "x.avro").write_bytes(data.replace(b"avro.codec\x08null", name) + block)
    with pytest.raises(UserError, match=f"x.avro: compressed with {codec}, which needs the Python package"):
        read_file(tmp_path / "x.avro", AVRO, ["id"])


def test_avro_that_is_something_else_is_named(tmp_path):
    with (tmp_path / "data.avro").open("wb") as file:
        fastavro.writer(file, "long", [1, 2])
    with pytest.raises(UserError, match="must be a record"):
        read_file(tmp_path / "data.avro", AVRO, ["id"])
    (tmp_path / "text.avro").write_text("id\n1\n")
    with pytest.raises(UserError, match="text.avro: reading stopped"):
        read_file(tmp_path / "text.avro", AVRO, ["id"])


def numpy_source(**options):
    return NumpySource(format="numpy", path="x", **options)


def test_npz_arrays_are_columns(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=np.arange(3, dtype=">i4"), image=np.arange(12.0).reshape(3, 2, 2), y=["a", "é", ""])
    rows, numbers, _ = read_file(path, numpy_source(), ["y", "x", "image"])
    assert rows == [("a", 0, [0, 1, 2, 3]), ("é", 1, [4, 5, 6, 7]), ("", 2, [8, 9, 10, 11])]
    assert numbers == [1, 2, 3]


def test_npy_plain_named_and_structured(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.array([[1, 2], [3, 4]], dtype=np.float32))
    assert read_file(path, numpy_source(), ["data"])[0] == [([1.0, 2.0],), ([3.0, 4.0],)]
    assert read_file(path, numpy_source(columns=("a", "b")), ["b"])[0] == [(2.0,), (4.0,)]
    np.save(path, np.array([(1, "x"), (2, "y")], dtype=[("n", "i8"), ("t", "U3")]))
    assert read_file(path, numpy_source(), ["t", "n"])[0] == [("x", 1), ("y", 2)]


def test_numpy_that_cannot_be_read_says_why(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="holds Python objects"):
        read_file(path, numpy_source(), ["data"])
    np.save(path, np.ones((2, 3)))
    with pytest.raises(UserError, match="names 2 columns, but a row of the array is 3 numbers"):
        read_file(path, numpy_source(columns=("a", "b")), ["a"])
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match="ends inside the array"):
        read_file(path, numpy_source(), ["data"])
    np.savez(tmp_path / "data.npz", a=np.ones(2), b=np.ones(3))
    with pytest.raises(UserError, match="Received: a 2, b 3"):
        read_file(tmp_path / "data.npz", numpy_source(), ["a"])


def broken(*cells):
    """Text that is not UTF-8; Arrow's string type does not check it."""
    return pa.array(cells, pa.binary()).view(pa.string())


@pytest.mark.parametrize("name", WRITERS)
def test_text_that_is_not_utf8_is_bytes_and_spoils_numbers(tmp_path, name):
    cells = broken(b"1.5", b"\xff\xfe", None, b"caf\xe9")
    lists = pa.ListArray.from_arrays([0, 1, 3, 3, 4], broken(b"a", b"\xff", b"b", b"c"))
    table = pa.table({"t": cells, "n": cells, "l": lists, "s": pa.StructArray.from_arrays([cells], ["x"])})
    source, file = WRITERS[name](tmp_path, rows=table)
    columns = raw(t="string", n="number", l="string") | {"s.x": RawColumn("s.x", "string")}
    for whole in (None, "to_hash", "to_show"):
        reading = Reading(file, columns, all_columns=whole)
        for rows in read_rows(reading, source):
            arrays, _ = convert_rows(columns.values(), RawText(strip=True), reading, rows)
            if whole == "to_hash":
                assert len(set(hashes(contents(rows.all_columns)).tolist())) == rows.table.num_rows
        bad = reading.take_bad()
        assert [(row.column, row.reason) for row in bad if row.column == "n"] == [("n", "not UTF-8")] * 2


def test_a_dictionary_that_is_not_utf8_is_bytes(tmp_path):
    table = pa.table({"t": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), broken(b"\xff", b"b"))})
    pa.feather.write_feather(table, str(tmp_path / "a.arrow"), compression="uncompressed")
    rows, _, bad = read_file(tmp_path / "a.arrow", ArrowSource(format="arrow", path="x"), ["t"])
    assert rows == [(b"\xff",), (b"b",), (b"\xff",)] and not bad


def test_what_contradicts_itself_is_refused_before_it_is_used():
    offsets = pa.py_buffer(np.array([0, 1 << 30, 2], np.int32).tobytes())
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(pa.ArrowInvalid):
        tables.validated(pa.table({"a": column}))


def test_a_date_that_python_has_none_for_is_a_bad_row(tmp_path):
    pq.write_table(pa.table({"at": pa.array([0, 2**62], pa.timestamp("us"))}), tmp_path / "a.parquet")
    columns = raw(at="string")
    reading = Reading(SourceFile(str(tmp_path / "a.parquet"), None, 0, ""), columns)
    for rows in read_rows(reading, PARQUET):
        convert_rows(columns.values(), RawText(), reading, rows)
    (bad,) = reading.take_bad()
    assert (bad.row, bad.reason, bad.text) == (2, "outside the years 1 to 9999", str(2**62))


def test_an_extension_type_of_a_file_is_read_as_its_storage(tmp_path):
    class Metres(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.float32(), "tests.metres")

        def __arrow_ext_serialize__(self):
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, serialized):
            return cls()

    pa.register_extension_type(Metres())
    try:
        metres = pa.ExtensionArray.from_storage(Metres(), pa.array([1.5, None], pa.float32()))
        pa.parquet.write_table(pa.table({"x": metres}), tmp_path / "data")
        rows, _, bad = read_file(tmp_path / "data", PARQUET, ["x"])
    finally:
        pa.unregister_extension_type("tests.metres")
    assert rows == [(1.5,), (None,)] and not bad
