"""Lists in a model: the pooling of their ids, and equal outputs of an export for tf.Examples and JSON."""

import json

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from fullpass.components.ingest.writing.encode import encode_rows
from fullpass.components.predict.exported import load_export
from fullpass.components.serving_check.probe import _columns, _example
from fullpass.preprocessing.analysis.analyze import analyze_table
from fullpass.preprocessing.columns.outputs import feature_names
from fullpass.preprocessing.columns.raw_columns import serving_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.values.convert import convert
from fullpass.preprocessing.values.raw_batches import raw_batches
from fullpass.trainer.config import TrainerConfig
from fullpass.trainer.export.export import export_model
from fullpass.trainer.export.signatures import Served, trace_export
from fullpass.trainer.input.raw_tensors import DTYPES
from fullpass.trainer.models.layers import AttentionPool, MultiHot, Pool
from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs
from fullpass.trainer.models.networks import build_model
from fullpass.trainer.models.weight_semantics import Network

TABLE = {
    "tags": [["a", "b", "a"], None, [], ["c", None, "b"], ["a", None], ["d"] * 5],
    "scores": [[1.0, 2.0, 0.5], None, [], [3.0, 1.0, None], [1.0, 9.0], [0.1] * 5],
    "prices": [[1.0, 2.5], [None], [3.0, None], None, [], [7.0, 8.0, 9.0]],
    "days": [["2024-01-05"], [], ["2024-07-01", "2023-12-31"], None, ["no date"], ["2024-02-29"]],
    "age": [20.0, 30.0, None, 50.0, 60.0, 70.0],
    "y": [0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
}
FEATURES = {
    "tags": {"type": "category", "list": {"weights": "scores", "max_length": 4, "keep": "last"}},
    "attended": {
        "type": "category", "column": "tags", "encoding": {"embedding": 3}, "list": {"pooling": "attention"}
    },
    "largest": {"type": "category", "column": "tags", "encoding": {"embedding": 3}, "list": {"pooling": "max"}},
    "prices": {"type": "number", "list": True, "indicator": True},
    "days": {"type": "date", "parts": ["month", "year"], "list": True},
    "age": "number",
}  # fmt: skip


@pytest.mark.parametrize("how", ["mean", "sum", "sqrt_n", "max"])
def test_pooling_is_over_the_ids_that_are_not_zero(how):
    ids = np.array([[1, 2, 1, 0], [0, 3, 0, 0], [0, 0, 0, 0]])
    weights = np.array([[2.0, 1.0, 1.0, 9.0], [5.0, 0.5, 5.0, 5.0], [1.0] * 4], np.float32)
    vectors = np.arange(24, dtype=np.float32).reshape(3, 4, 2) - 8
    expected, hot = np.zeros((3, 2)), np.zeros((3, 4))
    for row in range(2):
        held = ids[row] > 0
        v, w = vectors[row][held], weights[row][held, None]
        divisor = {"mean": w.sum(), "sum": 1, "sqrt_n": np.sqrt((w**2).sum()), "max": 1}[how]
        expected[row] = v.max(0) if how == "max" else (v * w).sum(0) / divisor
        for i, share in zip(ids[row][held], w[:, 0], strict=True):
            hot[row, i] = 1 if how == "max" else hot[row, i] + share / divisor
    np.testing.assert_allclose(Pool(how)(vectors, ids, weights), expected, rtol=1e-6)
    np.testing.assert_allclose(MultiHot(4, how)(ids, weights), hot, rtol=1e-6)


def test_attention_begins_as_the_mean_and_leaves_padding_out():
    ids = np.array([[1, 2, 0], [0, 0, 0]])
    vectors = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    layer = AttentionPool()
    np.testing.assert_allclose(layer(vectors, ids), [[1, 2], [0, 0]], rtol=1e-6)
    layer.query.assign([1.0, 0.0])
    share = np.exp([0.0, 2.0]) / np.exp([0.0, 2.0]).sum()
    np.testing.assert_allclose(layer(vectors, ids)[0], share @ vectors[0, :2], rtol=1e-6)


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["mlp", pytest.param("linear", marks=pytest.mark.long)])
def test_an_export_answers_examples_and_json_alike(tmp_path, kind):
    served = served_lists(tmp_path, kind)
    arrays = {
        name: convert(pa.array(TABLE[name]), column, strip=False, missing=()).flat
        for name, column in served.columns.items()
    }
    examples = encode_rows(arrays).to_pylist()
    export_model(trace_export(served), str(tmp_path / "export"), name="lists", source={}, samples=examples)
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    scores = loaded.signatures["serving_default"](examples=tf.constant(examples))["scores"].numpy()
    assert len(np.unique(scores)) == len(TABLE["y"]), scores  # every row has a distinct score

    request = json.loads((tmp_path / "export/assets.extra/request.json").read_text())["inputs"]
    given = {name: tf.constant(request[name], DTYPES[column.type]) for name, column in served.columns.items()}
    np.testing.assert_allclose(loaded.signatures["serving_raw"](**given)["scores"], scores, rtol=1e-5)
    # Additional missing elements after a list change nothing.
    longer = {name: padded(value) if value.shape.rank == 2 else value for name, value in given.items()}
    np.testing.assert_allclose(loaded.signatures["serving_raw"](**longer)["scores"], scores, rtol=1e-5)
    one_by_one = [
        loaded.signatures["serving_raw"](**{name: value[i : i + 1] for name, value in given.items()})["scores"][0]
        for i in range(len(examples))
    ]
    np.testing.assert_allclose(one_by_one, scores, rtol=1e-5)

    description = json.loads((tmp_path / "export/assets.extra/fullpass.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "export/assets.extra/requests.jsonl").read_text().splitlines()]
    assert [row["tags"] for row in rows] == [["a", "b", "a"], None, None, ["c", None, "b"], ["a", None], ["d"] * 5]
    probed = loaded.signatures["serving_raw"](**_columns(tf, description, rows))["scores"]
    np.testing.assert_allclose(probed, scores, rtol=1e-5)
    again = tf.constant([_example(tf, description, row) for row in rows])
    np.testing.assert_allclose(loaded.signatures["serving_default"](examples=again)["scores"], scores, rtol=1e-5)

    assert load_export(tmp_path / "export").columns == dict(served.columns)


def served_lists(folder, kind):
    """Returns the parts of an export of an untrained model on the table's lists."""
    config = PreprocessingConfig.model_validate({"features": FEATURES, "label": {"name": "y", "task": "binary"}})
    output = analyze_table(config, list(raw_batches(config, pa.table(TABLE))), str(folder / "graph"))
    features = transformed_outputs(config, output)
    inputs = model_inputs(features, output)
    keras.utils.set_random_seed(1)
    model = build_model(inputs, task="binary", classes=1, config=TrainerConfig.model_validate({"model": kind}).model)
    model.set_weights([np.random.default_rng(1).normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    network = Network(model, inputs, config, ())
    return Served(network, output, serving_columns(config), feature_names(features), config.label, ("0", "1"))


def padded(value):
    missing = "" if value.dtype == tf.string else float("nan")
    return tf.pad(value, [[0, 0], [0, 2]], constant_values=missing)
