"""Every row of every source is in one split or in quarantine, for every split method."""

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

from fullpass.components.ingest.config import (
    BadRows,
    ColumnSplit,
    HashSplit,
    IngestConfig,
    RandomSplit,
    RecordsConfig,
    TimeSplit,
)
from fullpass.components.ingest.ingest import finish, run
from fullpass.components.ingest.ingestion import Ingestion
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
    TfRecordSource,
)
from fullpass.components.ingest.sources.files import SourceFile
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.preprocessing.internals.beam_internals import local_pipeline

pytestmark = pytest.mark.integration
COLUMNS = (RawColumn("fare", "number"), RawColumn("zone", "string"))
BAD = (7, 23, 41)
ROWS = [
    {"fare": "oops" if i in BAD else f"{i}.5", "zone": "ab"[i % 2], "day": f"2024-01-{i % 28 + 1:02}"}
    for i in range(60)
]
GOOD_FARES = sorted(i + 0.5 for i in range(60) if i not in BAD)


def rows_for_module():
    yield from ROWS


def _tfrecord(path):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in ROWS:
            feature = {n: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode()])) for n, v in row.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def _avro(path):
    fields = [{"name": name, "type": "string"} for name in ROWS[0]]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, ROWS)


def _sqlite(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE trips (fare TEXT, zone TEXT, day TEXT)")
        connection.executemany("INSERT INTO trips VALUES (:fare, :zone, :day)", ROWS)


TABLE = pa.Table.from_pylist(ROWS)
CSV = "fare,zone,day\n" + "".join(f"{r['fare']},{r['zone']},{r['day']}\n" for r in ROWS)
FILES = {
    "csv": (CsvSource, lambda path: path.write_text(CSV)),
    "jsonl": (JsonLinesSource, lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))),
    "parquet": (ParquetSource, lambda path: pq.write_table(TABLE, path, row_group_size=25)),
    "arrow": (ArrowSource, lambda path: pyarrow.feather.write_feather(TABLE, str(path), chunksize=25)),
    "orc": (OrcSource, lambda path: pyarrow.orc.write_table(TABLE, str(path))),
    "avro": (AvroSource, _avro),
    "tfrecord": (TfRecordSource, _tfrecord),
    "numpy": (NumpySource, lambda path: np.savez(path, **{n: np.array([row[n] for row in ROWS]) for n in ROWS[0]})),
}
SPLITS = {
    "hash": HashSplit(method="hash"),
    "hash of a column": HashSplit(method="hash", column="fare"),
    "random": RandomSplit(method="random"),
    "time": TimeSplit(method="time", column="day", until={"train": "2024-01-20"}),
    "column": ColumnSplit(method="column", column="zone", values={"train": "a", "eval": "b"}),
}


def ingest(folder, source, file, split):
    config = IngestConfig(source=source, split=split, records=RecordsConfig(), bad_rows=BadRows(max_fraction=0.1))
    ingestion = Ingestion(config, (file,), ("train", "eval"), COLUMNS, str(folder / "out"), False)
    with local_pipeline() as pipeline:
        run([ingestion], pipeline)
    return finish(ingestion)


def fares_written(folder, split):
    """Returns the fares of one split, read by TensorFlow."""
    records = tf.data.TFRecordDataset([str(path) for path in (folder / "out" / f"Split-{split}").iterdir()])
    examples = (tf.train.Example.FromString(record) for record in records.as_numpy_iterator())
    return [example.features.feature["fare"].float_list.value[0] for example in examples]


def check(folder, manifest):
    written = {split: fares_written(folder, split) for split in ("train", "eval")}
    assert sorted(written["train"] + written["eval"]) == GOOD_FARES
    assert manifest.written == {split: len(fares) for split, fares in written.items()} and all(written.values())
    assert (manifest.read, manifest.rows_quarantined) == (60, 3)
    (file,) = manifest.by_file
    assert (file.read, file.written, file.quarantined) == (60, manifest.written, 3)
    quarantined = pq.read_table(folder / "out" / "quarantine.parquet").to_pylist()
    assert [(row["column"], row["text"]) for row in quarantined] == [("fare", "oops")] * 3
    return written


@pytest.mark.parametrize("kind", FILES)
def test_of_every_kind_of_file(tmp_path, kind):
    of, write = FILES[kind]
    path = tmp_path / ("rows.npz" if kind == "numpy" else f"rows.{kind}")
    write(path)
    source = of(format=kind, path=path.name)
    check(tmp_path, ingest(tmp_path, source, SourceFile(str(path), None, path.stat().st_size, ""), SPLITS["hash"]))


def test_of_a_database(tmp_path):
    _sqlite(tmp_path / "db")
    source = SqlSource(format="sql", url="sqlite:///db", query="trips")
    file = SourceFile("trips", None, 0, "", f"sqlite:///{tmp_path}/db")
    check(tmp_path, ingest(tmp_path, source, file, SPLITS["hash"]))


def test_of_a_function(tmp_path):
    source = ModuleSource(format="module", function=f"{__name__}:rows_for_module")
    file = SourceFile(f"{__name__}:rows_for_module", None, 0, "")
    check(tmp_path, ingest(tmp_path, source, file, SPLITS["hash"]))


@pytest.mark.parametrize("method", SPLITS)
def test_however_rows_are_split(tmp_path, method):
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    source = CsvSource(format="csv", path="rows.csv")
    file = SourceFile(str(path), None, path.stat().st_size, "")
    written = check(tmp_path, ingest(tmp_path, source, file, SPLITS[method]))
    if method == "time":
        assert sorted(written["eval"]) == [fare for fare in GOOD_FARES if int(fare) % 28 + 1 >= 20]
    if method == "column":
        assert sorted(written["train"]) == [fare for fare in GOOD_FARES if int(fare) % 2 == 0]
