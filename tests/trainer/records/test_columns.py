"""Column files beside the TFRecord files: they hold the rows of the parsed examples, and are used only if complete."""

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

from fullpass.base import state_file
from fullpass.base.errors import UserError
from fullpass.components.ingest.writing.shards import ShardLayout
from fullpass.components.transform.apply_graph import examples_of
from fullpass.components.transform.full_pass import FullPass, finish_full_pass, run_full_pass
from fullpass.preprocessing.columns.raw_schema import raw_schema
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.internals.beam_internals import local_pipeline
from fullpass.trainer.input.decoder import Decoder, decoder, stored_layout
from fullpass.trainer.input.input_plan import ReadingPlan
from fullpass.trainer.input.load_split import RowSpec, Split, load_split
from fullpass.trainer.input.placement import placement_of
from fullpass.trainer.input.trained_rows import read_trained_rows
from fullpass.trainer.models.model_inputs import transformed_outputs
from fullpass.trainer.records import column_files
from fullpass.trainer.records.blocks import Layout, PackedColumn
from fullpass.trainer.records.column_files import ColumnWriter, publish_columns
from fullpass.trainer.records.columns import as_columns, find_columns, layout_of_schema
from fullpass.trainer.records.record_files import list_files
from tests.record_files import example, write_records

VALUES: dict[str, list[list[float]]] = {
    "x": [[1.5], [-0.0], [3e38], [7.0], [2.0]],
    "vector": [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], [0] * 6, [1] * 6, [-1] * 6],
    "id": [[0], [-1], [2**62], [3], [4]],
    "ids": [[], [5, 6], [7], [], [8, 9, 10]],
    "label": [[0], [1], [1], [0], [1]],
    "example_weight": [[1], [0.5], [2], [0], [1]],
}
SHAPES: dict[str, tuple[int, ...]] = {"vector": (2, 3)}
LAYOUT = Layout(
    tuple(
        PackedColumn(name, "int64" if name.startswith("id") else "float32", SHAPES.get(name, ()), ragged=name == "ids")
        for name in VALUES
    )
)
USED = [0, 1, 2, 4]
"""The rows of VALUES whose weight is not 0."""


def batch_of(values: dict[str, list[list[float]]]) -> pa.RecordBatch:
    kinds = {column.name: pa.from_numpy_dtype(column.dtype) for column in LAYOUT.columns}
    lists = [pa.array(rows, pa.large_list(kinds[name])) for name, rows in values.items()]
    return pa.record_batch(lists, names=list(values))


def parses(layout: Layout) -> Decoder:
    """Returns a decoder of examples with the features of a layout."""
    specs: dict[str, Any] = {
        column.name: tf.io.RaggedFeature(tf.as_dtype(column.dtype), row_splits_dtype=tf.int64)
        if column.ragged
        else tf.io.FixedLenFeature(column.shape, tf.as_dtype(column.dtype))
        for column in layout.columns
    }
    return Decoder(specs, {}, {}, None, {}, 0)


def write(folder: Path, batches: list[pa.RecordBatch], split: str = "train") -> list[str]:
    """Writes batches as Transform does, and returns the TFRecord files."""
    examples, pending = folder / f"Split-{split}" / "examples-00000-of-00001.tfrecord", folder / "pending"
    examples.parent.mkdir(parents=True)
    writer = ColumnWriter(str(pending), "0")
    for batch in batches:
        writer.write(as_columns(batch, LAYOUT))
    write_records(examples, (record for batch in batches for record in examples_of(batch).to_pylist()))
    writer.close()
    publish_columns(str(folder), str(pending), split, LAYOUT, writer.files)
    return [str(examples)]


def load(files: list[str], **plan: Any) -> Split:
    spec = RowSpec(parses(LAYOUT), None, "binary", 2)
    return load_split("train", tuple(files), spec, ReadingPlan(**plan))


def rows_of(split: Split) -> dict[str, list[Any]]:
    assert split.in_memory is not None
    block = split.layout.unpack(split.in_memory)
    return {
        name: value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()
        for name, value in block.items()
    }


EXPECTED = {
    name: [
        rows[i]
        if name == "ids"
        else np.reshape(rows[i], SHAPES.get(name, ())).astype("i8" if name == "id" else "f4").tolist()
        for i in USED
    ]
    for name, rows in VALUES.items()
}


@pytest.fixture
def never_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("examples are parsed")

    monkeypatch.setattr(tf.io, "parse_example", refuse)


@pytest.mark.usefixtures("never_parsed")
@pytest.mark.parametrize("size", [1, 2, 5])
def test_all_rows_of_a_weight_come_in_their_order(tmp_path, size):
    batch = batch_of(VALUES)
    split = load(write(tmp_path, [batch.slice(first, size) for first in range(0, 5, size)]))
    assert rows_of(split) == EXPECTED
    assert (split.counts.rows, split.counts.weightless) == (5, 1)
    assert split.counts.class_rows.tolist() == [1, 3]
    assert split.counts.class_weight.tolist() == [1.0, 3.5]
    assert split.counts.widths == {"ids": 3}


@pytest.mark.usefixtures("never_parsed")
def test_rows_beyond_the_size_of_a_file_go_to_another(tmp_path, monkeypatch):
    monkeypatch.setattr(column_files, "FILE_BYTES", 1)
    files = write(tmp_path, [batch_of(VALUES)] * 3)
    assert sorted(path.name for path in (tmp_path / "columns").iterdir()) == [
        *(f"train-{number:05d}.arrow" for number in range(3)),
        "train.json",
    ]
    assert rows_of(load(files)) == {name: rows * 3 for name, rows in EXPECTED.items()}


def test_any_program_reads_them_with_arrow(tmp_path):
    write(tmp_path, [batch_of(VALUES)])
    with pa.OSFile(str(tmp_path / "columns" / "train-00000.arrow")) as file:
        table = pa.ipc.open_stream(file).read_all()
    assert table["id"].to_pylist() == [0, -1, 2**62, 3, 4]
    assert table["ids"].to_pylist() == VALUES["ids"]
    assert table["vector"].to_pylist() == VALUES["vector"]


@pytest.mark.usefixtures("never_parsed")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_is_refused_by_name(tmp_path, bad):
    vector = [*VALUES["vector"][:4], [0, 0, bad, 0, 0, 0]]
    with pytest.raises(UserError, match="split 'train' contains NaN or infinity.*vector in 1 row"):
        load(write(tmp_path, [batch_of({**VALUES, "vector": vector})]))


@pytest.mark.usefixtures("never_parsed")
def test_nan_in_a_row_of_weight_0_does_not_matter(tmp_path):
    x = [*VALUES["x"][:3], [np.nan], VALUES["x"][4]]
    assert rows_of(load(write(tmp_path, [batch_of({**VALUES, "x": x})]))) == EXPECTED


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def replace_key(file: Path, **keys: Any) -> None:
    content = json.loads(file.read_text())
    file.write_bytes(state_file.encode({**content, **keys}))


@pytest.mark.integration
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("name", ["train-00001.arrow", "train.json"])
def test_the_examples_are_read_where_columns_are_damaged(tmp_path, monkeypatch, caplog, damage, name):
    monkeypatch.setattr(column_files, "FILE_BYTES", 1)
    files = write(tmp_path, [batch_of(VALUES)] * 3)
    damage(tmp_path / "columns" / name)
    with caplog.at_level(logging.WARNING):
        assert rows_of(load(files)) == {column: rows * 3 for column, rows in EXPECTED.items()}
    told = [record.getMessage() for record in caplog.records if "columns" in record.getMessage()]
    # Without an index there are no column files, as in a split that was written without them.
    assert [name in message for message in told] == ([] if (damage, name) == (Path.unlink, "train.json") else [True])


def read_trained(files: list[str], rows: int) -> dict[str, list[Any]]:
    """Returns the values of the rows that Parity compares, by feature."""
    found: dict[str, list[Any]] = {name: [] for name in VALUES}
    for block in read_trained_rows(files, parses(LAYOUT), rows):
        assert len(block["label"]) <= rows
        for name, value in block.items():
            found[name] += value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()
    return found


EVERY = {
    column.name: VALUES["ids"]
    if column.ragged
    else np.reshape(VALUES[column.name], (-1, *column.shape)).astype(column.dtype).tolist()
    for column in LAYOUT.columns
}
"""All rows of VALUES as training holds them."""


@pytest.mark.usefixtures("never_parsed")
@pytest.mark.parametrize("rows", [1, 2, 4, 100])
def test_parity_reads_every_row_of_the_columns(tmp_path, rows):
    files = write(tmp_path, [batch_of(VALUES)] * 2)
    assert read_trained(files, rows) == {name: values * 2 for name, values in EVERY.items()}


@pytest.mark.integration
@pytest.mark.parametrize("number", [0, 1, 2])
def test_parity_reads_the_examples_from_where_columns_are_damaged(tmp_path, monkeypatch, number):
    monkeypatch.setattr(column_files, "FILE_BYTES", 1)
    files = write(tmp_path, [batch_of(VALUES)] * 3)
    flip(tmp_path / "columns" / f"train-{number:05d}.arrow")
    assert read_trained(files, 3) == {name: values * 3 for name, values in EVERY.items()}


@pytest.mark.integration
def test_parity_reads_the_examples_without_columns(tmp_path):
    files = write(tmp_path, [batch_of(VALUES)])
    shutil.rmtree(tmp_path / "columns")
    assert read_trained(files, 3) == EVERY


@pytest.mark.parametrize("format_", [1, 3, "2"])
def test_columns_of_another_format_are_left_alone(tmp_path, format_):
    files = write(tmp_path, [batch_of(VALUES)])
    replace_key(tmp_path / "columns" / "train.json", format=format_, columns="of another kind")
    assert find_columns(files, stored_layout(parses(LAYOUT))) is None


def test_columns_of_other_files_are_left_alone(tmp_path):
    files = write(tmp_path, [batch_of(VALUES)])
    assert find_columns(files, stored_layout(parses(LAYOUT))) is not None
    more = tmp_path / "Split-train" / "examples-00001-of-00001.tfrecord"
    shutil.copy(files[0], more)
    assert find_columns([*files, str(more)], stored_layout(parses(LAYOUT))) is None
    assert find_columns([str(more)], stored_layout(parses(LAYOUT))) is None
    write_records(files[0], examples_of(batch_of(VALUES)).to_pylist()[:1])
    assert find_columns(files, stored_layout(parses(LAYOUT))) is None


def test_files_that_no_transform_wrote_have_no_columns(tmp_path):
    file = tmp_path / "rows.tfrecord"
    file.write_bytes(b"")
    assert find_columns([str(file)], stored_layout(parses(LAYOUT))) is None
    assert find_columns([str(file), str(tmp_path / "Split-train" / "a")], stored_layout(parses(LAYOUT))) is None


def test_features_that_they_lack_or_have_otherwise_are_parsed(tmp_path):
    files = write(tmp_path, [batch_of(VALUES)])
    for column in (PackedColumn("new", "float32"), PackedColumn("x", "int64"), PackedColumn("x", "float32", (1,))):
        others = tuple(each for each in LAYOUT.columns if each.name != column.name)
        assert find_columns(files, stored_layout(parses(Layout((*others, column))))) is None
    found = find_columns(files, stored_layout(parses(Layout(LAYOUT.columns[2:]))))
    assert found is not None
    assert [column.name for column in found.layout.columns] == list(VALUES)[2:]


def test_features_that_the_input_function_computes_are_parsed():
    whole = parses(LAYOUT)
    assert stored_layout(Decoder(whole.stored, {}, {}, lambda columns: columns, {}, 0)) is None
    assert stored_layout(Decoder(whole.stored, {"a": "raw/a"}, {}, None, {}, 0)) is None
    assert stored_layout(lambda records: whole(records)) is None


@pytest.mark.parametrize(
    ("spec", "column"),
    [
        (tf.io.FixedLenFeature([], tf.float32), PackedColumn("f", "float32")),
        (tf.io.FixedLenFeature([3], tf.int64), PackedColumn("f", "int64", (3,))),
        (tf.io.VarLenFeature(tf.int64), PackedColumn("f", "int64", ragged=True)),
        (tf.io.FixedLenFeature([], tf.string), None),
        (tf.io.VarLenFeature(tf.string), None),
        (tf.io.FixedLenFeature([8, 8, 3], tf.int64), None),
        (tf.io.FixedLenFeature([0], tf.float32), None),
    ],
)
def test_text_and_pixels_have_no_columns(spec, column):
    schema: schema_pb2.Schema = schema_utils.schema_from_feature_spec({"f": spec})
    assert layout_of_schema(schema) == (column and Layout((column,)))


@dataclass(frozen=True)
class Transformed:
    """The outputs of Transform. x: the numbers of the train split in row order."""

    folder: Path
    rows: RowSpec
    x: np.ndarray


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "gzip"])
def transformed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    folder, x = tmp_path_factory.mktemp("columns"), np.random.default_rng(0).normal(size=900).astype(np.float32)
    files = [str(folder / f"raw-{number}") for number in range(3)]
    for number, file in enumerate(files):
        rows = range(300 * number, 300 * (number + 1))
        values = ({"fullpass_row": i, "x": float(x[i]), "kind": "abcd"[i % 4], "y": float(i)} for i in rows)
        write_records(file, map(example, values))
    features = {"x": {"type": "number", "transforms": []}, "kind": {"type": "category", "vocabulary": {"min_count": 1}}}
    config = PreprocessingConfig.model_validate({"features": features, "label": {"name": "y", "task": "regression"}})
    full_pass = FullPass(
        preprocessing=config,
        schema=raw_schema(config),
        examples={"train": files, "eval": files[:1]},
        rows={"train": 900, "eval": 300},
        graph=str(folder / "graph"),
        transformed=str(folder / "transformed"),
        layout=ShardLayout(shard_bytes=16 << 10, readers=1, gzip=request.param),
        temporary=str(folder / "temporary"),
    )
    with local_pipeline() as pipeline:
        run_full_pass(full_pass, pipeline)
    finish_full_pass(full_pass)
    output = tft.TFTransformOutput(full_pass.graph)
    placement = placement_of(config, transformed_outputs(config, output))
    spec = RowSpec(decoder(output, placement, placement.read), None, "regression", 0)
    return Transformed(folder / "transformed", spec, x)


@pytest.mark.integration
@pytest.mark.usefixtures("never_parsed")
def test_transform_writes_every_row_in_order(transformed):
    files = list_files([f"{transformed.folder}/Split-train/*"], "train")
    assert len(files) > 1
    split = load_split("train", files, transformed.rows, ReadingPlan(readers=2))
    assert split.in_memory is not None
    block = split.layout.unpack(split.in_memory)
    np.testing.assert_array_equal(block["x_xf"], transformed.x)
    np.testing.assert_array_equal(block["label"], np.arange(900, dtype=np.float32))
    assert len(set(zip(block["kind_xf"].numpy().tolist(), np.arange(900) % 4, strict=True))) == 4


@pytest.mark.integration
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_training_reads_the_same_batches_without_columns(transformed, tmp_path, limit):
    bare = tmp_path / "bare"
    shutil.copytree(transformed.folder, bare, ignore=shutil.ignore_patterns("columns"))
    found = []
    for folder in (transformed.folder, bare):
        files = list_files([f"{folder}/Split-train/*"], "train")
        found.append(load_split("train", files, transformed.rows, ReadingPlan(readers=1, memory_limit=limit)))
    ours, parsed = found
    assert ours.layout == parsed.layout
    assert ours.row_bytes == parsed.row_bytes
    assert ours.counts.to_json() == parsed.counts.to_json()
    if limit:
        for key, value in (ours.in_memory or {}).items():
            np.testing.assert_array_equal(value, (parsed.in_memory or {})[key])
