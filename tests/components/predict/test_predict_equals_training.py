"""Random tables in every format: Ingest with the input function, and predict, pass the same values to the model."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fullpass.components.ingest.config import BadRows, IngestConfig, RandomSplit, RecordsConfig
from fullpass.components.ingest.ingest import ingest_task
from fullpass.components.ingest.ingestion import Ingestion
from fullpass.components.ingest.read_rate import ReadRate
from fullpass.components.ingest.read_tasks import ReadTask
from fullpass.components.ingest.readers.read_source import find_inputs
from fullpass.components.ingest.readers.rows import WHOLE
from fullpass.components.ingest.sources.files import resolve_path
from fullpass.components.ingest.sources.formats import TOLD_FORMATS
from fullpass.preprocessing.columns.compute_at import raw_name
from fullpass.trainer.input.decoder import Decoder
from tests.components.ingest.reading_tools import raw
from tests.components.ingest.row_files import SAMPLES, sample_of, write_rows
from tests.components.predict.predicted_rows import input_rows

pytestmark = pytest.mark.integration

FLAT = raw(**{"x": "number", "n": "string", "kind": "string", "a.b": "number", "a.c": "string"})
NESTED = FLAT | raw(v=2)
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


def table_of(rows, name, options):
    """Returns the rows as a format can hold them. They are numbered, since an empty row of a sheet is no row."""
    fields = pa.struct({"b": pa.float64(), "c": pa.string()})
    kinds = {"x": pa.float64(), "n": pa.int64(), "kind": pa.string(), "a": fields, "v": pa.list_(pa.float32())}
    nested = [{**row, "number": i, "a": {"b": row["b"], "c": row["c"]}} for i, row in enumerate(rows)]
    table = pa.Table.from_pylist(nested, pa.schema({"number": pa.int64(), **kinds}))
    if SAMPLES[name].nested:
        return table
    table = table.drop(["v"]).flatten()
    if name == "csv":
        padded = ["number", " x", "n ", *table.column_names[3:]]
        return table.select(list(FLAT)) if "columns" in options else table.rename_columns(padded)
    return table


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
OPTIONS = {"csv": CSV_OPTIONS}


def write(folder, name, rows, options):
    """Writes rows and returns the source and the path of its file."""
    source, file = write_rows(folder, name, table_of(rows, name, options), **options)
    return source, Path(file.path)


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


@pytest.mark.parametrize("name", TOLD_FORMATS)
@settings(max_examples=12)
@given(data=st.data(), table=tables)
def test_the_format_of_training(name, data, table):
    columns = NESTED if sample_of(name).nested else FLAT
    options = data.draw(OPTIONS.get(name, MISSING))
    with tempfile.TemporaryDirectory() as folder:
        # The last row is valid, so there is at least one.
        good = {"x": 1.0, "n": 1, "kind": "a", "b": 2.0, "c": "b", "v": [1.0, 2.0]}
        source, path = write(Path(folder), name, [*table, good], options)
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
    trained=st.sampled_from(sorted(TOLD_FORMATS)),
    asked=st.sampled_from(sorted(TOLD_FORMATS)),
    options=CSV_OPTIONS,
    table=st.lists(clean_rows, min_size=1, max_size=8),
)
def test_another_format_than_that_of_training(trained, asked, options, table):
    """Uses tables that every format can hold; NumPy has no missing integers."""
    table = [{**row, "n": row["n"] or 0} for row in table]
    with tempfile.TemporaryDirectory() as folder:
        options = options if trained == "csv" else {}
        source, _ = write(Path(folder), trained, table, options)
        expected, bad = trained_on(source, FLAT, Path(folder))
        (Path(folder) / "asked").mkdir()
        _, path = write(Path(folder) / "asked", asked, table, options if asked == trained else {})
        found, found_bad = predicted_from(source, path, FLAT)
    if "latin-1" not in options.values():
        assert bad == found_bad == []
    assert_equal(found, expected)
