"""Training and export through run_fn, as TFX calls it, for every task."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fullpass.base.errors import UserError
from fullpass.trainer.export.export_files import DESCRIPTION
from fullpass.trainer.input.decoder import decoder, read_blocks
from fullpass.trainer.input.epochs import to_batch
from fullpass.trainer.models.model_inputs import apply_model
from fullpass.trainer.records.blocks import join
from fullpass.trainer.run_fn import run_fn
from fullpass.trainer.train import training_record
from tests.trainer.conftest import Prepared, training_of

TASKS = ("binary", "multiclass", "multilabel", "regression")
pytestmark = pytest.mark.integration


def eval_labels(exported, task) -> list:
    column = {"binary": "likes", "multiclass": "group", "multilabel": "topics", "regression": "price"}[task]
    return [row[column] for row in exported(task).prepared.rows["eval"]]


def eval_records(prepared: Prepared) -> list[bytes]:
    """Returns the raw examples of eval in the order of the rows."""
    by_shard = prepared.records("raw", "eval")
    return [by_shard[i % 2][i // 2] for i in range(sum(map(len, by_shard)))]


@pytest.fixture(scope="module")
def answers(exported) -> Callable[[str], dict[str, np.ndarray]]:
    """Returns the function that returns what the export of a task answers to the eval rows."""

    @cache
    def of_task(task):
        loaded = tf.saved_model.load(str(exported(task).directory))
        given = loaded.signatures["serving_default"](examples=tf.constant(eval_records(exported(task).prepared)))
        return {name: value.numpy() for name, value in given.items()}

    return of_task


def test_binary_learns_the_planted_function(exported, answers):
    truth = np.array([label == "yes" for label in eval_labels(exported, "binary")])
    found = answers("binary")
    predicted = found["prediction"] == b"yes"
    assert max(truth.mean(), 1 - truth.mean()) < 0.6
    assert (predicted == truth).mean() > 0.9
    assert np.array_equal(predicted, found["scores"] > 0.5)
    assert found["classes"].tolist() == [[b"no", b"yes"]] * len(truth)
    np.testing.assert_allclose(found["probabilities"][:, 1], found["scores"])
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, atol=1e-6)


def test_multiclass_learns_the_planted_function(exported, answers):
    truth = np.array(eval_labels(exported, "multiclass"))
    found = answers("multiclass")
    assert (found["prediction"].astype(str) == truth).mean() > 0.8
    assert found["classes"][0].tolist() == [b"low", b"middle", b"high"]
    likeliest = found["classes"][np.arange(len(truth)), found["scores"].argmax(axis=1)]
    assert np.array_equal(likeliest, found["prediction"])
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, atol=1e-5)


def test_multilabel_learns_the_planted_function(exported, answers):
    truth = [set(label.split("|")) - {""} for label in eval_labels(exported, "multilabel")]
    found = answers("multilabel")
    predicted = [set(text.decode().split("|")) - {""} for text in found["prediction"]]
    right = [(topic in t) == (topic in p) for t, p in zip(truth, predicted, strict=True) for topic in ("warm", "far")]
    assert np.mean(right) > 0.9
    above = [{n for n, s in zip(("warm", "far"), row, strict=True) if s >= 0.5} for row in found["scores"]]
    assert above == predicted


def test_regression_is_in_units_of_the_label(exported, answers):
    truth = np.array(eval_labels(exported, "regression"))
    found = answers("regression")
    assert np.sqrt(np.mean((found["prediction"] - truth) ** 2)) < 0.3 * truth.std()
    assert np.array_equal(found["prediction"], found["scores"])
    assert "classes" not in found


@pytest.mark.parametrize("task", TASKS)
def test_the_export_agrees_with_the_metrics_of_training(exported, answers, task):
    record = exported(task).training
    best = record["best_epoch"] - 1
    found, labels = answers(task), eval_labels(exported, task)
    if task == "regression":
        expected = np.sqrt(np.mean((found["scores"] - np.array(labels)) ** 2))
        assert record["history"]["val_rmse"][best] == pytest.approx(expected, rel=1e-4)
        return
    if task == "multilabel":
        hot = np.array([[topic in label.split("|") for topic in ("warm", "far")] for label in labels], float)
        p = found["scores"].astype(float)
        expected = -np.mean(hot * np.log(p) + (1 - hot) * np.log(1 - p))
    else:
        names = [name.decode() for name in found["classes"][0]]
        place = [names.index(label) for label in labels]
        expected = -np.mean(np.log(found["probabilities"][np.arange(len(labels)), place]))
    # Training measures the network before calibration; the export returns calibrated probabilities.
    before, after = (record["calibration"][when]["log_loss"] for when in ("before", "after"))
    assert record["history"]["val_log_loss"][best] == pytest.approx(before, rel=1e-3)
    assert expected == pytest.approx(after, rel=1e-3, abs=1e-6)


def test_the_exports_answer_with_tensorflow_alone(exported, answers, tmp_path: Path):
    """Runs in a fresh process, in another folder, which imports only TensorFlow."""
    requests = {
        task: [str(exported(task).directory), [record.hex() for record in eval_records(exported(task).prepared)[:20]]]
        for task in TASKS
    }
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    code = """
import json, sys
import tensorflow as tf
scores = {}
for task, (directory, examples) in json.load(open("requests.json")).items():
    model = tf.saved_model.load(directory)
    given = tf.constant([bytes.fromhex(example) for example in examples])
    scores[task] = model.signatures["serving_default"](examples=given)["scores"].numpy().tolist()
packages = {name.split(".")[0] for name in sys.modules}
print(json.dumps([scores, sorted(packages)]))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    scores, packages = json.loads(done.stdout)
    assert not {"fullpass", "tfx", "tensorflow_transform", "tfx_bsl", "tf_keras"} & set(packages)
    for task in TASKS:
        np.testing.assert_allclose(scores[task], answers(task)["scores"][:20], rtol=1e-5)


def test_training_json_says_how_it_went(exported):
    record = exported("binary").training
    rows = exported("binary").prepared.rows
    assert record["rows"] == {"train": len(rows["train"]), "eval": len(rows["eval"])}
    positive = sum(row["likes"] == "yes" for row in rows["train"])
    assert record["classes"] == {"no": len(rows["train"]) - positive, "yes": positive}
    losses = record["history"]["val_log_loss"]
    assert record["epochs"] == len(losses) <= 8
    assert record["best_epoch"] == 1 + losses.index(min(losses))
    assert record["steps_per_epoch"] == math.ceil(len(rows["train"]) / record["batch_size"])
    assert set(record["seconds"]) == {"read", "train", "export"}
    assert (record["devices"], record["precision"], record["in_memory"]) == ("CPU", "float32", True)


def test_the_network_is_measured_beside_a_linear_model(exported, answers):
    """`likes` depends on x and kind together, which a linear model cannot express; `price` is linear."""
    binary, regression = (exported(task).training["reference"] for task in ("binary", "regression"))
    assert (binary["kind"], binary["metric"]) == ("logistic regression", "auc")
    assert binary["network"] - binary["reference"] > binary["reach"] > 0
    truth = np.array([label == "yes" for label in eval_labels(exported, "binary")])
    scores = answers("binary")["scores"]
    pairs = scores[truth][:, None] - scores[~truth]
    assert binary["network"] == pytest.approx((pairs > 0).mean() + (pairs == 0).mean() / 2, abs=1e-6)
    assert regression["metric"] == "rmse"
    # The ridge can only use the mean for a missing number; the network can learn more.
    assert regression["network"] - regression["reference"] < regression["reach"]
    assert regression["reference"] < 0.2 * np.std(eval_labels(exported, "regression"))
    assert exported("multilabel").training["reference"] is None


def test_features_are_important_if_the_label_follows_from_them(exported):
    found = {entry["feature"]: entry for entry in exported("binary").training["importance"]}
    assert set(found) == {"x", "trip miles", "kind", "city", "tags", "note", "position"}
    assert set(list(found)[:2]) == {"x", "kind"}
    assert all(found[name]["importance"] > found[name]["reach"] for name in ("x", "kind"))
    by_price = [entry["feature"] for entry in exported("regression").training["importance"]]
    assert set(by_price[:3]) == {"x", "trip miles", "position"}  # position contains both


@pytest.mark.parametrize(
    ("folder", "curve", "of"),
    [
        ("validation", "log_loss", "val_log_loss"),
        ("train", "input_wait", "input_wait"),
        ("train", "step_ms", "step_ms"),
    ],
)
def test_curves_are_written_for_tensorboard(exported, folder, curve, of):
    record = exported("binary").training
    events = EventAccumulator(str(exported("binary").model_run / folder), size_guidance={"tensors": 0}).Reload()
    found = [float(tf.make_ndarray(event.tensor_proto)) for event in events.Tensors(curve)]
    assert found == pytest.approx(record["history"][of])


def test_the_kept_scores_are_those_of_the_export(exported, answers):
    kept = np.load(exported("multiclass").model_run / "eval_scores.npz")
    order = np.argsort(kept["row_id"])
    np.testing.assert_allclose(kept["scores"][order], answers("multiclass")["scores"], atol=1e-6)


def trained(prepared, seed: int = 1, preprocessing: dict | None = None, **sections):
    """Trains without exporting; returns the model and the record."""
    sections = {"model": "wide_deep", "training": {"epochs": 2, "seed": seed, "learning_rate": 0.01}} | sections
    data, found = prepared.trained(preprocessing, **sections)
    return found.network.model, training_record(data, found, {})


def test_the_same_seed_gives_the_same_model(planted):
    prepared, model = planted("binary").of("x", "kind", "city"), {"kind": "mlp", "hidden": [8]}
    first, again = (trained(prepared, model=model)[0].get_weights() for _ in range(2))
    assert all(map(np.array_equal, first, again))
    one, other = (prepared.built(model=model, training={"seed": seed}).model.get_weights() for seed in (1, 2))
    assert not all(map(np.array_equal, one, other))


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [{"compute_at": "input"}, {"compute_at": "model"}, {"cache": "none", "shuffle_buffer": 5000}]
)
def test_other_ways_of_reading_learn_as_well(planted, way):
    prepared = planted("binary").of("x", "kind", "tags")
    _, record = trained(prepared, input=way, training={"epochs": 6, "learning_rate": 0.01})
    assert max(record["history"]["val_accuracy"]) > 0.9
    assert record["in_memory"] is ("cache" not in way)


def test_xla_compiles_lists_of_categories_and_changes_nothing(planted):
    """Lists are padded to the longest list of the split, and the last batch to the batch size."""
    losses = []
    for xla in (False, True):
        # XLA draws different random numbers, so masking is off.
        training = {"epochs": 2, "learning_rate": 0.01, "mask_rate": 0.0, "xla": xla}
        _, record = trained(planted("binary").of("kind", "tags", "note"), model="linear", training=training)
        losses.append(record["history"]["val_log_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_xla_refuses_text_in_the_model(planted):
    with pytest.raises(UserError, match="XLA cannot process text, from which the model computes .*kind_xf"):
        trained(planted("binary").of("kind"), model="linear", input={"compute_at": "model"}, training={"xla": True})


def test_the_order_of_features_decides_nothing_but_the_order_of_inputs(planted):
    prepared = planted("binary").of("x", "kind", "tags", "position")
    turned = {**prepared.preprocessing, "features": dict(reversed(prepared.preprocessing["features"].items()))}
    model, record = trained(prepared, preprocessing=turned, training={"epochs": 6, "learning_rate": 0.01})
    assert max(record["history"]["val_accuracy"]) > 0.9
    names = [tensor.name for tensor in model.inputs]
    assert names.index("position_xf") < names.index("x_xf")


def refused(prepared, **sections) -> str:
    with pytest.raises(UserError) as caught:
        trained(prepared, **sections)
    return str(caught.value)


def test_a_train_split_of_fewer_rows_than_one_batch_is_one_update_an_epoch_and_said_so(changed, caplog):
    prepared = changed(lambda row: row).of("x")
    _, record = trained(prepared, model="linear", training={"batch_size": 1000, "epochs": 2})
    assert record["steps_per_epoch"] == 1 and record["epochs"] == 2
    assert "input: split train has 200 rows, less than a batch of 1000: an epoch is one update" in caplog.messages


def test_missing_labels(changed):
    numbers = iter(range(200))
    prepared = changed(lambda row: {**row, "likes": None if next(numbers) < 30 else row["likes"]}).of("x")
    assert refused(prepared, model="linear").startswith("30 of 200 train rows (15.0%) have no usable label in 'likes'")
    allowed = {**prepared.preprocessing, "label": {**prepared.preprocessing["label"], "max_missing": 0.2}}
    _, record = trained(prepared, preprocessing=allowed, model="linear")
    assert record["rows_without_weight"]["train"] == 30
    assert record["steps_per_epoch"] == math.ceil(170 / record["batch_size"])


def test_training_that_diverges(planted):
    training = {"optimizer": "sgd", "learning_rate": 1e30, "epochs": 3, "warmup": 0.0}
    message = refused(planted("regression").of("x"), model="linear", training=training)
    assert "training diverged: lower training.learning_rate" in message


def test_balanced_classes_move_a_rare_class_up(changed):
    """About 10 of 200 rows are a random yes; with balanced weights, the mean prediction is about 0.5."""
    numbers = iter(range(200))
    prepared = changed(lambda row: {**row, "likes": "yes" if next(numbers) % 20 == 0 else "no"}).of("x")
    label = {**prepared.preprocessing["label"], "class_weights": "balanced"}
    declared = {**prepared.preprocessing, "label": label}
    training = {"epochs": 1, "learning_rate": 1e-6}
    means = []
    for preprocessing in (prepared.preprocessing, declared):
        model, record = trained(prepared, preprocessing=preprocessing, model="linear", training=training)
        means.append(mean_probability(model, prepared))
    assert means == pytest.approx([0.05, 0.5], abs=0.01)
    assert record["class_weights"] == pytest.approx({"no": 200 / (2 * 190), "yes": 200 / (2 * 10)})


@pytest.mark.parametrize(
    ("task", "weighted"), [("binary", "yes"), pytest.param("multiclass", "low", marks=pytest.mark.long)]
)
def test_the_focal_loss_of_a_row_counts_by_the_weight_of_its_class(planted, task, weighted):
    """One class has weight 3; compares the loss of an epoch without learning with NumPy."""
    prepared = planted(task).of("x", "kind")
    label = {**prepared.preprocessing["label"], "class_weights": {weighted: 3.0}}
    model, record = trained(
        prepared,
        preprocessing={**prepared.preprocessing, "label": label},
        model="linear",
        training={"epochs": 1, "learning_rate": 1e-30, "loss": {"kind": "focal", "gamma": 1.5}, "mask_rate": 0.0},
    )
    logits, truth = logits_and_labels(model, prepared, "train")
    if task == "binary":
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    odds = np.exp(logits.astype(np.float64))
    probability = (odds / odds.sum(axis=1, keepdims=True))[np.arange(len(truth)), truth.astype(int)]
    weights = np.where(truth == list(record["classes"]).index(weighted), 3.0, 1.0)
    expected = np.average(-((1 - probability) ** 1.5) * np.log(probability), weights=weights)
    assert record["history"]["loss"] == [pytest.approx(expected, rel=1e-4)]
    assert record["history"]["loss"] != [
        pytest.approx(np.mean(-((1 - probability) ** 1.5) * np.log(probability)), rel=1e-2)
    ]


def logits_and_labels(model, prepared, split: str) -> tuple[np.ndarray, np.ndarray]:
    names = [tensor.name for tensor in model.inputs]
    decode = decoder(prepared.tft_output, prepared.placement("transform"), names)
    blocks = read_blocks(prepared.files("transformed", split), decode, 1)
    features, label, _ = to_batch(join(list(blocks)))
    return apply_model(model, features, training=False).numpy(), label.numpy()


def mean_probability(model, prepared) -> float:
    logits, _ = logits_and_labels(model, prepared, "eval")
    return float(np.mean(1 / (1 + np.exp(-logits))))


def test_the_export_predicts_with_the_threshold_of_the_decision(planted, tmp_path: Path):
    prepared = planted("binary").of("x", "kind", "tags")
    arguments = prepared.fn_args(tmp_path, model="linear", training={"epochs": 1, "learning_rate": 0.01})
    arguments.custom_config["decision"] = {"cost": {"false_positive": 1, "false_negative": 4}}
    run_fn(arguments)
    decision = training_of(tmp_path)["decision"]
    export = tmp_path / "Format-Serving"
    assert json.loads((export / DESCRIPTION).read_text())["decision"] == decision
    signature = tf.saved_model.load(str(export)).signatures["serving_default"]
    found = {name: value.numpy() for name, value in signature(examples=tf.constant(eval_records(prepared))).items()}
    said = found["prediction"] == b"yes"
    assert 0 < decision["threshold"] < 0.5 and said.sum() > (found["scores"] > 0.5).sum()
    assert np.array_equal(said, found["scores"] > np.float32(decision["threshold"]))
    truth = np.array([row["likes"] == "yes" for row in prepared.rows["eval"]])
    costs = 4 * (truth & ~said) + (~truth & said)
    assert decision["value"] == pytest.approx(costs.mean()) and decision["rows"] == len(truth)


def test_a_model_of_ones_own_may_use_some_of_the_inputs(planted, monkeypatch, tmp_path: Path):
    (tmp_path / "own_network.py").write_text(
        """
import keras

def build(inputs, task, classes, options):
    x = inputs["x_xf"].keras_input
    hidden = keras.layers.Dense(options["units"], activation="relu")(keras.layers.Reshape((1,))(x))
    return keras.Model(x, keras.layers.Dense(classes)(hidden))
"""
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = {"kind": "module", "function": "own_network:build", "options": {"units": 4}}
    prepared = planted("regression").of("x", "kind")
    run_fn(prepared.fn_args(tmp_path, model=own, training={"epochs": 8, "learning_rate": 0.05}))
    loaded = tf.saved_model.load(str(tmp_path / "Format-Serving"))
    found = loaded.serving_raw(x=tf.constant([-1.0, 1.0]))["prediction"].numpy()
    assert found[1] - found[0] == pytest.approx(400, rel=0.15)
