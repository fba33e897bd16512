"""The columns that Ingest writes beside its examples: readers get from them, bit by bit, what the records hold."""

import logging
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fullpass.components.ingest.readers import rows
from fullpass.components.ingest.writing import shards
from fullpass.components.read_records import RecordReader
from fullpass.preprocessing.columns.raw_columns import RAW_ROW_ID, RAW_TRAIN_ROW, RawColumn
from fullpass.trainer.input.raw_column_files import find_raw_columns
from fullpass.trainer.input.raw_examples import RawExamples, raw_dtypes
from fullpass.trainer.records import column_files
from tests.components.ingest import ingesting
from tests.record_files import read_records, write_records

pytestmark = pytest.mark.integration

COLUMNS = (
    RawColumn("fare", "number"),
    RawColumn("zone", "string"),
    RawColumn("never", "number"),
    RawColumn("place", "vector", width=2),
    RawColumn("tags", "string", many=True),
    RawColumn("stops", "number", many=True),
)
DTYPES = raw_dtypes({column.name: column for column in COLUMNS}) | {RAW_ROW_ID: tf.int64}
NAN = float("nan")
AWKWARD = [
    {"fare": 1.5, "zone": "Zürich".encode(), "place": [1, 2], "tags": [b"x"], "stops": [3]},
    {},
    {"fare": -0.0, "zone": b"", "place": [], "tags": [], "stops": [None]},
    {
        "fare": NAN,
        "zone": b"\xff\xfe\x00",
        "place": [-0.0, 1e-45],
        "tags": [b"y", None, b"", b"\xff"],
        "stops": [1, NAN],
    },
    {"fare": 5, "zone": b"is quarantined", "place": [1, 2, 3]},
    {"fare": 16777217, "zone": b"a" * 3000, "tags": [b"NA"] * 9, "stops": list(range(40))},
]
SOURCE = pa.schema(
    {
        "fare": pa.float64(),
        "zone": pa.binary(),
        "never": pa.null(),
        "place": pa.list_(pa.float32()),
        "tags": pa.list_(pa.binary()),
        "stops": pa.list_(pa.float64()),
    }
)
REPEATED, GOOD = 50, 5
"""How often the awkward rows are there, and how many of them are not quarantined."""


def ingest(folder: Path, columns=COLUMNS, **options):
    """Ingests the awkward rows of three files, and returns the files of records."""
    for part in range(3):
        pq.write_table(pa.Table.from_pylist((AWKWARD * REPEATED)[part::3], SOURCE), folder / f"{part}.parquet")
    ingesting.ingest(
        folder,
        {"format": "parquet", "path": "*.parquet"},
        columns,
        bad_rows=1.0,
        **{"records": {"shard_mb": 1}, **options},
    )
    return sorted(map(str, (folder / "examples").glob("Split-*/*")))


@pytest.fixture
def small_files(monkeypatch):
    """Several files of records and of columns per split, which begin at different rows."""
    monkeypatch.setattr(shards, "LEAST_BYTES", 8_000)
    monkeypatch.setattr(rows, "BATCH_ROWS", 32)
    monkeypatch.setattr(column_files, "FILE_RECORD_BYTES", 10_000)


def batches(file, dtypes=None, rows=16, size=1 << 20):
    return list(RecordReader("read", None, rows, size, dtypes).batches(file))


def content(array):
    """Returns what two arrays have equal if they have the same bits."""
    return array.dtype, array.shape, array.tolist() if array.dtype == object else array.tobytes()


def check_equal(file, dtypes=None, **limits):
    """Checks that columns give the batches of the records, in both forms, and returns the number of rows."""
    dtypes = dtypes or DTYPES
    stored, records = batches(file, dtypes, **limits), batches(file, **limits)
    assert all(isinstance(batch, pa.RecordBatch) for batch in stored)
    assert [len(batch) for batch in stored] == [len(batch) for batch in records]
    examples = RawExamples(dtypes)
    for ours, theirs in zip(stored, records, strict=True):
        found, wanted = examples.lists(ours), examples.lists(theirs)
        assert found.schema == wanted.schema
        for mine, expected in zip(found.columns, wanted.columns, strict=True):
            assert pc.list_value_length(mine).equals(pc.list_value_length(expected))
            assert content(mine.flatten().to_numpy(zero_copy_only=False)) == content(
                expected.flatten().to_numpy(zero_copy_only=False)
            )
        tensors = examples.tensors(ours)
        for name, expected in examples.tensors(theirs).items():
            for part in ("indices", "values", "dense_shape"):
                assert content(getattr(tensors[name], part).numpy()) == content(getattr(expected, part).numpy())
    return sum(map(len, records))


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("gzip", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("limits", [{}, {"rows": 7}, {"size": 3500}, {"rows": 1}], ids=str)
def test_batches_are_those_of_the_records(tmp_path, gzip, limits):
    files = ingest(tmp_path, gzip=gzip)
    assert len(files) > 4 and len(list((tmp_path / "examples" / "columns").glob("*.arrow"))) > 4
    assert sum(check_equal(file, **limits) for file in files) == REPEATED * GOOD


def test_a_split_by_column_and_a_span_have_columns(tmp_path):
    split = {"method": "column", "column": "fare", "values": {"train": "1.5", "eval": "16777217"}}
    files = ingest(tmp_path, split=split, span=3)
    assert [check_equal(file) for file in files] == [REPEATED, REPEATED]


def test_columns_that_ingest_does_not_write_are_missing(tmp_path):
    for file in ingest(tmp_path):
        check_equal(file, {"fare": tf.float32, RAW_TRAIN_ROW: tf.int64, "other": tf.string})


def test_columns_of_another_dtype_are_left_alone(tmp_path):
    (_, file) = ingest(tmp_path)
    assert find_raw_columns(file, {"fare": tf.float32}) is not None
    assert find_raw_columns(file, {"fare": tf.int64}) is None


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (COLUMNS, {"records": {"shuffle": True}}),
        ((*COLUMNS[:1], RawColumn("zone", "string", image=True)), {}),
    ],
    ids=["shuffled", "images"],
)
def test_records_in_another_order_and_images_have_no_columns(tmp_path, columns, options):
    ingest(tmp_path, columns, **options)
    assert not (tmp_path / "examples" / "columns").exists()


def test_texts_that_take_as_much_as_the_records_have_no_columns(tmp_path):
    random = np.random.default_rng(0)
    table = pa.table({"zone": [random.bytes(300).hex() for _ in range(200)], "fare": [1.0] * 200})
    pq.write_table(table, tmp_path / "a.parquet")
    ingesting.ingest(tmp_path, {"format": "parquet", "path": "a.parquet"}, COLUMNS[:2])
    assert not (tmp_path / "examples" / "columns").exists()


def test_columns_end_at_texts_that_take_as_much_as_the_records(tmp_path, monkeypatch):
    """Those of all rows together would take less than half."""
    monkeypatch.setattr(rows, "BATCH_ROWS", 512)
    monkeypatch.setattr(column_files, "FILE_RECORD_BYTES", 10_000)
    random = np.random.default_rng(0)
    zones = [random.bytes(300).hex() for _ in range(100)] + ["short"] * 6000
    pq.write_table(pa.table({"zone": zones, "fare": [1.0] * len(zones)}), tmp_path / "a.parquet")
    manifest = ingesting.ingest(tmp_path, {"format": "parquet", "path": "a.parquet"}, COLUMNS[:2])
    assert sum(manifest.written.values()) == len(zones)
    assert not (tmp_path / "examples" / "columns").exists()


def test_records_of_very_many_columns_have_none(tmp_path):
    names = [f"a number that has the number {number}" for number in range(1500)]
    pq.write_table(pa.table({name: [1.0] * 20 for name in names}), tmp_path / "a.parquet")
    for chosen, written in ((names, False), (names[:1000], True)):
        columns = tuple(RawColumn(name, "number") for name in chosen)
        ingesting.ingest(tmp_path, {"format": "parquet", "path": "a.parquet"}, columns)
        assert (tmp_path / "examples" / "columns").exists() == written
        shutil.rmtree(tmp_path / "examples")


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("damage", [flip, Path.unlink])
@pytest.mark.parametrize("name", ["train-00000.arrow", "train-00001.arrow", "train.json"])
def test_the_records_are_read_from_where_columns_are_damaged(tmp_path, caplog, damage, name):
    files = [file for file in ingest(tmp_path) if "train" in file]
    expected = [batches(file, rows=4) for file in files]
    damage(tmp_path / "examples" / "columns" / name)
    with caplog.at_level(logging.WARNING):
        found = [batches(file, DTYPES, rows=4) for file in files]
    numbers = RawExamples({RAW_ROW_ID: tf.int64})
    for ours, theirs in zip(found, expected, strict=True):
        assert [numbers.lists(one) for one in ours] == [numbers.lists(one) for one in theirs]
    told = [name in record.getMessage() for record in caplog.records]
    # Without an index there are no column files, as in a split that was written without them.
    assert any(told) == ((damage, name) != (Path.unlink, "train.json"))


def test_columns_of_other_records_are_left_alone(tmp_path, caplog):
    (file, *_) = ingest(tmp_path)
    records = list(read_records(file))
    write_records(file, records[1:])
    with caplog.at_level(logging.WARNING):
        assert batches(file, DTYPES, rows=len(records)) == [records[1:]]
    assert "is not the file that was written" in caplog.text
    more = write_records(f"{file}.more", records)
    assert batches(more, DTYPES, rows=len(records)) == [records]
