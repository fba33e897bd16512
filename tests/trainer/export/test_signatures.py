"""The inputs and outputs of the exported signatures."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from fullpass.components.serving_check.probe import _bytes_or_object
from fullpass.preprocessing.columns.raw_columns import RawColumn
from fullpass.trainer.export.export import _write_requests
from fullpass.trainer.export.sample_requests import read_samples, rest_body, to_row, write_samples
from tests.record_files import example, read_records, write_records
from tests.trainer.conftest import to_examples

KEYS = ["city", "kind", "note", "position", "tags", "trip_miles", "x"]


@pytest.fixture(scope="session")
def loaded(exported):
    return tf.saved_model.load(str(exported("binary").directory))


def raw_columns(rows) -> dict[str, object]:
    """Returns rows as inputs of `serving_raw`."""
    nan = float("nan")

    def texts(name):
        return tf.constant([row[name] or "" for row in rows])

    def numbers(name):
        return tf.constant([nan if row[name] is None else row[name] for row in rows], tf.float32)

    return {
        **{name: texts(name) for name in ("city", "kind", "note", "tags")},
        "x": numbers("x"),
        "trip_miles": numbers("trip miles"),
        "position": tf.constant([row["position"] or [nan, nan] for row in rows], tf.float32),
    }


def examples_of(rows):
    return tf.constant(to_examples(rows))


@pytest.fixture(scope="session")
def rows(exported):
    return exported("binary").prepared.rows["eval"][:40]


pytestmark = pytest.mark.integration


def test_raw_columns_and_examples_give_the_same_answers(exported, loaded, rows):
    by_columns = loaded.signatures["serving_raw"](**raw_columns(rows))
    by_examples = loaded.signatures["serving_default"](examples=examples_of(rows))
    assert by_columns.keys() == by_examples.keys() == {"scores", "prediction", "probabilities", "classes"}
    for name in by_columns:
        assert np.array_equal(by_columns[name], by_examples[name]), name


def test_labels_are_not_needed(exported, loaded, rows):
    labels = ("likes", "group", "topics", "price")
    bare = [{name: value for name, value in row.items() if name not in labels} for row in rows]
    with_labels = loaded.signatures["serving_default"](examples=examples_of(rows))
    without = loaded.signatures["serving_default"](examples=examples_of(bare))
    assert np.array_equal(with_labels["scores"], without["scores"])


def test_one_row_and_many_give_the_same_answers(loaded, rows):
    together = loaded.signatures["serving_raw"](**raw_columns(rows))["scores"].numpy()
    alone = [loaded.signatures["serving_raw"](**raw_columns([row]))["scores"].numpy()[0] for row in rows[:5]]
    np.testing.assert_allclose(together[:5], alone, rtol=1e-4)


def test_an_absent_column_is_missing_in_every_row(loaded, rows):
    given = raw_columns(rows)
    absent = {name: value for name, value in given.items() if name in ("kind", "x")}
    nothing = {name: value[:0] for name, value in given.items()}
    missing = raw_columns(
        [{**row, **dict.fromkeys(("city", "note", "tags", "trip miles", "position"))} for row in rows]
    )
    expected = loaded.signatures["serving_raw"](**missing)["scores"]
    assert np.array_equal(loaded.signatures["serving_raw"](**{**nothing, **absent})["scores"], expected)
    assert np.array_equal(loaded.serving_raw(**absent)["scores"], expected)


def test_a_server_fills_in_the_inputs_that_a_request_lacks(exported, loaded):
    """TF Serving runs the graph in a session, where inputs that are not fed get the placeholders' defaults."""
    directory = str(exported("binary").directory)
    saved = saved_model_pb2.SavedModel.FromString((exported("binary").directory / "saved_model.pb").read_bytes())
    signature = saved.meta_graphs[0].signature_def["serving_raw"]
    assert sorted(signature.inputs) == sorted(signature.defaults) == KEYS
    assert [tf.make_ndarray(signature.defaults[key]).shape[0] for key in KEYS] == [0] * len(KEYS)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.load(session, ["serve"], directory)
        fed = {signature.inputs["x"].name: [0.5, -0.5], signature.inputs["kind"].name: ["a", "b"]}
        found = session.run(signature.outputs["scores"].name, fed)
    given = {"x": tf.constant([0.5, -0.5]), "kind": tf.constant(["a", "b"])}
    np.testing.assert_allclose(found, loaded.serving_raw(**given)["scores"], rtol=1e-4)


def test_columns_of_different_lengths_are_refused(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="columns differ in length"):
        loaded.serving_raw(x=tf.constant([1.0, 2.0]), kind=tf.constant(["a", "b", "c"]))


def test_an_empty_batch_gives_an_empty_answer(loaded, rows):
    assert loaded.signatures["serving_default"](examples=tf.constant([], tf.string))["scores"].shape == (0,)


def test_the_span_of_a_row_is_told_beside_its_features(loaded, rows):
    # Day 20,516 modulo 4,096, the second file of that day, and its rows from 7 on.
    examples = to_examples(rows[:2], first=(36 << 15) + 1 << 36 | 7)
    assert loaded.signatures["transform_features"](examples=tf.constant(examples))["span"].numpy().tolist() == [36, 36]


def test_transformed_features_are_those_of_training(exported, loaded, rows):
    prepared = exported("binary").prepared
    found = loaded.signatures["transform_features"](examples=examples_of(rows))
    spec = prepared.tft_output.transformed_feature_spec()
    by_id = {}
    for file in prepared.files("transformed", "eval"):
        for record in read_records(file):
            parsed = tf.io.parse_single_example(record, spec)
            by_id[int(parsed["row_id"])] = parsed
    assert found.keys() == spec.keys() | {"span"}
    for place in range(len(rows)):
        for name in spec.keys() - {"row_id"}:
            expected = by_id[1000 + place][name]
            expected = expected.values if isinstance(expected, tf.SparseTensor) else expected
            cell = found[name].numpy()[place]
            cell = cell[: len(expected)] if expected.shape.rank else cell
            assert np.array_equal(cell, expected), name


def test_a_multilabel_label_is_dense_for_the_evaluator(exported):
    model = tf.saved_model.load(str(exported("multilabel").directory))
    rows = exported("multilabel").prepared.rows["eval"][:10]
    found = model.signatures["transform_features"](examples=examples_of(rows))["label"].numpy()
    topics = [row["topics"].split("|") for row in rows]
    assert found.tolist() == [[float("warm" in t), float("far" in t)] for t in topics]


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_labels_alone_are_those_of_transform_features(exported, task):
    model = tf.saved_model.load(str(exported(task).directory))
    examples = examples_of(exported(task).prepared.rows["eval"][:40])
    found, every = model.labels(examples), model.signatures["transform_features"](examples=examples)
    assert found.keys() == {"label", "example_weight", "row_id", "span"}
    for name, values in found.items():
        np.testing.assert_array_equal(values, every[name])


def test_the_description_says_how_to_call_the_model(exported):
    description = json.loads((exported("binary").directory / "assets.extra" / "fullpass.json").read_text())
    assert (description["name"], description["task"], description["label"]) == ("test", "binary", "likes")
    assert description["classes"] == ["no", "yes"]
    assert description["source"] == {"format": "csv", "missing": ["", "NA"], "strip": True}
    assert [(c["name"], c["key"], c["type"]) for c in description["columns"]] == [
        ("city", "city", "string"),
        ("kind", "kind", "string"),
        ("note", "note", "string"),
        ("position", "position", "vector"),
        ("tags", "tags", "string"),
        ("trip miles", "trip_miles", "number"),
        ("x", "x", "number"),
    ]
    assert description["columns"][3]["width"] == 2
    assert description["versions"]["tensorflow"] == tf.version.VERSION


def test_sample_requests_are_the_first_raw_eval_rows(exported):
    """The first file holds the even rows; a request contains the raw row without the label."""
    folder = exported("binary").directory / "assets.extra"
    found = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    raw = exported("binary").prepared.rows["eval"]
    assert len(found) == 10
    for row, expected in zip(found, raw[0:20:2], strict=True):
        assert sorted(row) == sorted(["city", "kind", "note", "position", "tags", "trip miles", "x"])
        for name in ("city", "kind", "note", "tags"):
            assert row[name] == expected[name]
        assert row["x"] == pytest.approx(expected["x"])
        assert row["trip miles"] == (None if expected["trip miles"] is None else pytest.approx(expected["trip miles"]))
        assert row["position"] == (None if expected["position"] is None else pytest.approx(expected["position"]))


def test_the_sample_body_is_what_a_server_takes(exported, loaded):
    """Reads the body as TF Serving does: by column, into tensors of the signature's dtypes."""
    folder = exported("binary").directory / "assets.extra"
    body = json.loads((folder / "request.json").read_text())
    assert body["signature_name"] == "serving_raw"
    specs = loaded.signatures["serving_raw"].structured_input_signature[1]
    given = {key: tf.constant(value, specs[key].dtype) for key, value in body["inputs"].items()}
    found = loaded.signatures["serving_raw"](**given)["scores"].numpy()
    rows = exported("binary").prepared.rows["eval"][0:20:2]
    expected = loaded.signatures["serving_raw"](**raw_columns(rows))["scores"].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_warmup_requests_can_be_run(exported, loaded):
    path = str(exported("binary").directory / "assets.extra" / "tf_serving_warmup_requests")
    logs = [prediction_log_pb2.PredictionLog.FromString(r.numpy()) for r in tf.data.TFRecordDataset(path)]
    requests = [log.predict_log.request for log in logs]
    assert [request.model_spec.signature_name for request in requests] == ["serving_default", "serving_raw"]
    answers = [
        loaded.signatures[request.model_spec.signature_name](
            **{name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        )["scores"].numpy()
        for request in requests
    ]
    assert len(answers[0]) == 10
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-5)


def test_without_kept_rows_there_is_one_in_which_all_is_missing(tmp_path):
    columns = {"a": RawColumn("a", "number"), "b": RawColumn("b", "string"), "c": RawColumn("c", "vector", 2)}
    rows = [to_row(example, columns) for example in read_samples(str(tmp_path))]
    assert rows == [{"a": None, "b": None, "c": None}]
    body = json.loads(rest_body(rows, columns, {"a": "a", "b": "b", "c": "c"}, "serving_raw"))
    assert math.isnan(body["inputs"].pop("a")[0])
    assert body["inputs"] == {"b": [], "c": []}


def test_sample_numbers_are_as_short_as_they_were():
    fare = tf.train.Feature(float_list=tf.train.FloatList(value=[12.45]))
    example = tf.train.Example(features=tf.train.Features(feature={"fare": fare})).SerializeToString()
    assert to_row(example, {"fare": RawColumn("fare", "number")}) == {"fare": 12.45}


def test_sample_requests_hold_any_bytes_and_any_text(tmp_path):
    cells = [b"\xff\xfe", 'a\u2028b\u0085c\nd"'.encode(), "café".encode(), b"\xed\xa0\x80"]
    _write_requests(str(tmp_path), {"t": RawColumn("t", "string")}, [example({"t": cell}) for cell in cells])
    lines = (tmp_path / "requests.jsonl").read_text().splitlines()
    found = [json.loads(line, object_hook=_bytes_or_object)["t"] for line in lines]
    assert [value if isinstance(value, bytes) else value.encode() for value in found] == cells
    body = json.loads((tmp_path / "request.json").read_text(), object_hook=_bytes_or_object)
    assert body["inputs"]["t"] == found
    assert json.loads(lines[0]) == {"t": {"b64": "//4="}}


def test_samples_of_large_rows_are_few(tmp_path):
    for name, sizes in {"small": [5, 6], "large": [3 << 20] * 3, "huge": [9 << 20, 5]}.items():
        write_records(tmp_path / name, (b"x" * size for size in sizes))

    def sizes_of(*names):
        write_samples(str(tmp_path), [str(tmp_path / name) for name in names])
        return [len(record) for record in read_samples(str(tmp_path))]

    assert sizes_of("small", "large") == [5, 6, 3 << 20]
    assert sizes_of("huge") == [9 << 20]
    assert sizes_of("small", "small") == [5, 6, 5, 6]


def test_nothing_of_the_optimizer_is_exported(exported):
    """The weights are stored once: the variables file is not much larger than the parameters."""
    size = sum(file.stat().st_size for file in (exported("binary").directory / "variables").iterdir())
    assert size < 4 * exported("binary").training["parameters"] + 20_000
