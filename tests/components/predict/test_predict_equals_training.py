"""Random tables in every format: Ingest with the input function, and predict, pass the same values to the model."""

import csv
import json
import re
import tempfile
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fullpass.components.ingest.config import BadRows, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.ingest import ingest_task
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.read_rate import ReadRate
from fullpass.components.ingest.read_tasks import ReadTask
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.readers.rows import WHOLE
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.ingest.sources.formats import Source
from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.trainer.input.decoder import Decoder
from tests.components.ingest.reading_tools import raw
from tests.components.predict.predicted_rows import input_rows
from tests.spreadsheet_files import write_xlsx

pytestmark = pytest.mark.integration

FLAT = raw(**{"x": "number", "n": "string", "kind": "string", "a.b": "number", "a.c": "string"})
NESTED = FLAT | raw(v=2)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
SPECS = {"number": tf.float32, "string": tf.string, "vector": tf.float32}

doubles = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.none() | st.sampled_from([0.0, -9.0, 1.5, 1e39, 16777217.0]) | doubles
whole = st.none() | st.integers(-(2**60), 2**60)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
words = texts | st.sampled_from(["", "NA", " a ", "?", "-9", 'say "hi"', "1,2;3|4\t5", "two\nlines", "é"])
rows = st.fixed_dictionaries(
    {"x": numbers, "n": whole, "kind": words, "b": numbers, "c": words, "v": st.none() | st.just([0.5, -2.0])}
)
tables = st.lists(rows, min_size=1, max_size=8)


def flat(row):
    return {"x": row["x"], "n": row["n"], "kind": row["kind"], "a.b": row["b"], "a.c": row["c"]}


def nested(row):
    return {"x": row["x"], "n": row["n"], "kind": row["kind"], "a": {"b": row["b"], "c": row["c"]}, "v": row["v"]}


def write_csv(path, table, options):
    decimal = options.get("decimal", ".")

    def cell(value):
        return "" if value is None else str(value).replace(".", decimal) if isinstance(value, float) else value

    encoding = options.get("encoding", "utf-8")
    with path.open("w", newline="", encoding=encoding, errors="replace") as file:
        writer = csv.writer(file, delimiter=options.get("separator", ","), lineterminator="\r\n")
        if "columns" not in options:
            writer.writerow([" x", "n ", *list(FLAT)[2:]])
        writer.writerows([cell(value) for value in flat(row).values()] for row in table)


def write_excel(path, table, options):
    """An empty row is no row, so the rows are numbered. XML holds no control characters."""
    cells = [[i, *flat(row).values()] for i, row in enumerate(table)]
    cells = [[_CONTROLS.sub("?", cell) if isinstance(cell, str) else cell for cell in row] for row in cells]
    write_xlsx(path, {"rows": [["number", *FLAT], *cells]})


def write_json_lines(path, table, options):
    path.write_text("".join(json.dumps(nested(row)) + "\n" for row in table), encoding="utf-8")


def arrow(table):
    fields = pa.struct({"b": pa.float64(), "c": pa.string()})
    kinds = {"x": pa.float64(), "n": pa.int64(), "kind": pa.string(), "a": fields, "v": pa.list_(pa.float32())}
    return pa.Table.from_pylist([nested(row) for row in table], pa.schema(kinds))


def write_parquet(path, table, options):
    pa.parquet.write_table(arrow(table), path)


def write_arrow(path, table, options):
    with pa.ipc.new_file(path, arrow(table).schema) as writer:
        writer.write_table(arrow(table))


def write_orc(path, table, options):
    pa.orc.write_table(arrow(table), path)


def write_avro(path, table, options):
    def field(name, kind):
        return {"name": name, "type": ["null", kind]}

    inner = {"type": "record", "name": "A", "fields": [field("b", "double"), field("c", "string")]}
    fields = [field("x", "double"), field("n", "long"), field("kind", "string"), {"name": "a", "type": inner}]
    fields.append(field("v", {"type": "array", "items": "float"}))
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, [nested(row) for row in table])


def write_tf_records(path, table, options):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in table:
            feature = {name: tf_feature(value) for name, value in flat(row).items() if value is not None}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def tf_feature(value):
    if isinstance(value, str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[np.clip(value, -1e30, 1e30)]))


def write_numpy(path, table, options):
    columns = {name: [flat(row)[name] for row in table] for name in FLAT}
    numeric = {n: np.array([np.nan if v is None else v for v in columns[n]], float) for n in ("x", "a.b")}
    text = {n: np.array(["" if v is None else v for v in columns[n]], dtype=np.str_) for n in ("kind", "a.c")}
    np.savez(path, **numeric, **text, n=np.array([v or 0 for v in columns["n"]], np.int64))


CSV_OPTIONS = st.sampled_from(
    [
        {},
        {"separator": "\t"},
        {"separator": ";", "decimal": ",", "missing": ["", "?"]},
        {"columns": list(FLAT), "strip": False},
        {"encoding": "latin-1", "missing_in": {"x": ["-9"]}},
        {"encoding": "utf-16", "separator": "|"},
    ]
)
MISSING = st.sampled_from([{}, {"missing": ["", "NA"], "missing_in": {"x": ["-9"], "a.c": ["?"]}}])
FORMATS = {
    "csv": ("in.csv", write_csv, CSV_OPTIONS, FLAT),
    "excel": ("in.xlsx", write_excel, MISSING, FLAT),
    "jsonl": ("in.jsonl", write_json_lines, MISSING, NESTED),
    "parquet": ("in.parquet", write_parquet, MISSING, NESTED),
    "arrow": ("in.arrow", write_arrow, MISSING, NESTED),
    "orc": ("in.orc", write_orc, MISSING, NESTED),
    "avro": ("in.avro", write_avro, MISSING, NESTED),
    "tfrecord": ("in.tfrecord", write_tf_records, MISSING, FLAT),
    "numpy": ("in.npz", write_numpy, MISSING, FLAT),
}


def source_of(name, path, options):
    return TypeAdapter(Source).validate_python({"format": name, "path": str(path), **options})


def trained_on(source, columns, folder):
    """Returns the raw columns that the input function passes to a model, and the bad rows as (row, column, reason)."""
    files = tuple(find_inputs(source, lambda path: resolve_path(path, folder)))
    split = RandomSplit(method="random", ratios={"train": 1, "none": 1e-12})
    config = IngestConfig(source=source, split=split, records=RecordsConfig(), bad_rows=BadRows(max_fraction=1.0))
    ingest = Ingestion(config, files, ("train", "none"), tuple(columns.values()), str(folder / "examples"), False)
    result = ingest_task(ingest, ReadTask(((0, WHOLE),), 0, last=True), ReadRate(files))
    records = [r for p in result["chunks"]["train"] for r in tf.data.TFRecordDataset(p["path"]).as_numpy_iterator()]
    specs = {name: tf.io.VarLenFeature(SPECS[column.type]) for name, column in columns.items()}
    decoder = Decoder({}, {name: name for name in columns}, specs, None, columns, 0)
    block = decoder.transform(decoder.parse(tf.constant(records, tf.string)))
    bad = [(row["row"], row["column"], row["reason"]) for row in result["bad"]]
    return {name: block[raw_name(name)].numpy() for name in columns}, bad


def predicted_from(source, path, columns):
    """Returns the raw columns that predict passes to a model, and the bad rows."""
    batches = list(input_rows(source.description(), path, columns))
    values = {name: np.concatenate([batch.inputs[name] for batch in batches if batch.inputs]) for name in columns}
    return values, [(row.row, row.column, row.reason) for batch in batches for row in batch.bad]


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name, strict=True)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=12)
@given(data=st.data(), table=tables)
def test_the_format_of_training(name, data, table):
    file, write, all_options, columns = FORMATS[name]
    options = data.draw(all_options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        # The last row is valid, so there is at least one.
        good = {"x": 1.0, "n": 1, "kind": "a", "b": 2.0, "c": "b", "v": [1.0, 2.0]}
        write(path, [*table, good], options)
        source = source_of(name, path, options)
        expected, bad = trained_on(source, columns, Path(folder))
        found, found_bad = predicted_from(source, path, columns)
    assert found_bad == bad
    assert len(bad) + len(expected["x"]) == len(table) + 1
    assert_equal(found, expected)


clean_texts = st.none() | st.text(st.sampled_from("abé ,;'\"|"), max_size=5).map(str.strip).filter(bool)
clean_numbers = st.none() | st.floats(-1e30, 1e30)
clean_rows = st.fixed_dictionaries(
    {"x": clean_numbers, "n": whole, "kind": clean_texts, "b": clean_numbers, "c": clean_texts, "v": st.none()}
)


@settings(max_examples=25)
@given(
    trained=st.sampled_from(sorted(FORMATS)),
    asked=st.sampled_from(sorted(FORMATS)),
    options=CSV_OPTIONS,
    table=st.lists(clean_rows, min_size=1, max_size=8),
)
def test_another_format_than_that_of_training(trained, asked, options, table):
    """Uses tables that every format can hold; NumPy has no missing integers."""
    table = [{**row, "n": row["n"] or 0} for row in table]
    with tempfile.TemporaryDirectory() as folder:
        file, write, _, _ = FORMATS[trained]
        options = options if trained == "csv" else {}
        write(Path(folder) / file, table, options)
        source = source_of(trained, Path(folder) / file, options)
        expected, bad = trained_on(source, FLAT, Path(folder))
        other, write_other, _, _ = FORMATS[asked]
        path = Path(folder) / f"other_{other}"
        write_other(path, table, options if asked == trained else {})
        found, found_bad = predicted_from(source, path, FLAT)
    if "latin-1" not in options.values():
        assert bad == found_bad == []
    assert_equal(found, expected)
