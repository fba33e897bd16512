"""Architectures: their computations, what they learn, and the requirements of a user-defined model."""

import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from pydantic import TypeAdapter

from fullpass.base.errors import UserError
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.config import Mlp, ModelConfig
from fullpass.trainer.fit.fit import Fit
from fullpass.trainer.fit.steps import Steps
from fullpass.trainer.input.sharding import Batches
from fullpass.trainer.input.split_counts import SplitCounts
from fullpass.trainer.models.layers import MaskedIds
from fullpass.trainer.models.losses import loss_of
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.networks import build_model, hidden_layers
from fullpass.trainer.models.tasks import add_head
from fullpass.trainer.models.train_statistics import knots_of

pytestmark = pytest.mark.integration
ROWS = 2000


def inputs():
    """Returns inputs x (a number), c (5 ids), m (several of 4 ids)."""
    return {
        "x": ModelInput(keras.Input((), name="x"), Output("x", "x", "dense"), width=1),
        "c": ModelInput(keras.Input((), name="c", dtype="int64"), Output("c", "c", "ids"), 5),
        "m": ModelInput(keras.Input((None,), name="m", dtype="int64"), Output("m", "m", "ids", multi=True), 4),
    }


def values(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "x": random.normal(size=ROWS).astype("float32"),
        "c": random.integers(0, 5, ROWS),
        "m": random.integers(0, 4, (ROWS, 3)),
    }


def build(config: dict | str, given=None, classes: int = 1, task: str | None = None):
    keras.utils.set_random_seed(1)
    task = task or ("binary" if classes == 1 else "multiclass")
    parsed = TypeAdapter(ModelConfig).validate_python(config)
    return build_model(given or inputs(), task=task, classes=classes, config=parsed)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("kind", ["linear", "mlp", "wide_deep", "dcn", {"kind": "dcn", "low_rank": 2}])
def test_every_kind_gives_logits(kind, classes):
    model = build(kind, classes=classes)
    assert model(values()).shape == (ROWS, classes)
    assert {tensor.name for tensor in model.inputs} == {"x", "c", "m"}


def train(model, features, label, *, epochs: int, rate: float, task: str = "binary") -> None:
    """Trains a model as the Trainer does, in batches of 200 rows; the learning rate falls to 0."""
    rows = tf.data.Dataset.from_tensor_slices((features, label.astype("float32"), np.ones(len(label), "float32")))
    steps = -(-len(label) // 200)
    batches = Batches(lambda epoch, step: rows.batch(200).repeat().skip(epoch * steps + step), steps)
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, epochs * steps))
    optimizer.build(model.trainable_variables)
    computations = Steps(model, optimizer, loss_of(task), task, tf.distribute.get_strategy())
    nobody = {"report": lambda *_: None, "on_epoch": lambda *_: None}
    Fit(steps=computations, epochs=epochs, early_stopping=None, **nobody).run(batches, batches)


def trained_accuracy(config, truth) -> float:
    model = build(config)
    train(model, values(), truth(values()), epochs=12, rate=0.05)
    held_out = values(seed=1)
    return float(np.mean((model(held_out).numpy()[:, 0] > 0) == truth(held_out)))


def test_a_linear_model_learns_what_is_linear():
    def truth(v):
        return v["x"] + (v["c"] == 2) * 2 - (v["m"] == 1).sum(axis=1) > 0

    assert trained_accuracy({"kind": "linear"}, truth) > 0.95


@pytest.mark.parametrize("kind", ["mlp", pytest.param("wide_deep", marks=pytest.mark.long), "dcn"])
def test_deep_models_learn_an_interaction_that_a_linear_one_cannot(kind):
    def truth(v):
        return v["x"] * np.where(v["c"] > 2, 1, -1) > 0

    assert trained_accuracy({"kind": kind, "hidden": [32], "dropout": 0.0}, truth) > 0.95
    if kind == "mlp":
        assert trained_accuracy({"kind": "linear"}, truth) < 0.7


def test_a_linear_model_is_a_sum_of_weights():
    model = build("linear")
    random = np.random.default_rng(3)
    for variable in model.weights:
        variable.assign(random.normal(size=variable.shape))
    weight = {variable.path: variable.numpy() for variable in model.weights}
    found = model({"x": np.array([2.0], "f"), "c": np.array([4]), "m": np.array([[3, 0, 1]])}).numpy()
    expected = (
        2.0 * weight["numbers/kernel"][0]
        + weight["ids/table"][4]
        + weight["ids_0/embeddings"][3]
        + weight["ids_0/embeddings"][1]
        + weight["bias/bias"]
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


MLP = {"kind": "mlp", "hidden": [16], "dropout": 0.0}


def test_a_linear_model_reads_a_long_text_like_a_short_one():
    """Rows of weights by tf-idf have length 1: 3 and 4 are 3 / 5 and 4 / 5, and half of them are the same."""
    ids, weights = keras.Input((None,), name="m", dtype="int64"), keras.Input((None,), name="w")
    of_text = Output("m", "m", "ids", multi=True, weights="w", tf_idf=True)
    model = build("linear", {"m": ModelInput(ids, of_text, 4, weights=weights)})
    model.set_weights([np.array([[9.0], [1.0], [2.0], [5.0]]), np.array([0.5])])
    rows = {"m": np.array([[1, 2, 0], [1, 2, 0], [3, 0, 0], [0, 0, 0]])}
    rows["w"] = np.array([[3.0, 4.0, 0.0], [1.5, 2.0, 0.0], [0.01, 0.0, 0.0], [0.0, 0.0, 0.0]], "float32")
    np.testing.assert_allclose(model(rows)[:, 0], [0.6 + 1.6 + 0.5, 2.7, 5.5, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    "kind", ["linear", *(pytest.param(kind, marks=pytest.mark.long) for kind in (MLP, "wide_deep"))]
)
def test_a_value_that_training_never_saw_gets_about_the_mean_prediction(kind):
    """The label is 1 for ids 2 and 3, and 0 for ids 4 and 5. Id 0 is missing, id 1 unknown. The mean label is 0.5."""
    model = build(kind, {"c": category("c", 6)})
    seen = np.random.default_rng(1).integers(2, 6, 8 * ROWS)
    train(model, {"c": seen}, seen < 4, epochs=8, rate=0.03)
    answers = 1 / (1 + np.exp(-model({"c": np.arange(6)}).numpy()[:, 0]))
    np.testing.assert_allclose(answers, [0.5, 0.5, 1, 1, 0, 0], atol=0.15)


def category(name: str, size: int) -> ModelInput:
    """Returns an input of ids; training replaces 2 % of them by 0 (missing) or 1 (unknown)."""
    ids = keras.Input((), name=name, dtype="int64")
    return ModelInput(ids, Output(name, name, "ids", unseen=2), size, masked=MaskedIds([2], 0.02)([ids])[0])


def number(name: str, values: np.ndarray) -> ModelInput:
    """Returns a numeric input with the knots of its values."""
    knots = knots_of(values)
    return ModelInput(keras.Input((), name=name), Output(name, name, "dense"), width=1, knots=knots)


def test_air_of_which_nothing_is_known_is_about_the_mean():
    """Like the air of a city: effects of numbers and places multiply, with mean 80.

    No training value is missing, and then all values are.
    """
    random = np.random.default_rng(1)
    rows = {f"x{i}": random.normal(size=2 * ROWS).astype("float32") for i in range(4)}
    rows |= {"place": random.integers(2, 14, 2 * ROWS), "wind": random.integers(2, 8, 2 * ROWS)}
    effect = np.exp(0.4 * rows["x0"] - 0.3 * rows["x1"]) * (1 + 0.5 * np.sin(rows["place"])) * (1 + 0.1 * rows["wind"])
    label = (80 * effect / effect.mean()).astype("float32")
    given = {name: number(name, column) for name, column in rows.items() if name.startswith("x")}
    given |= {"place": category("place", 14), "wind": category("wind", 8)}
    none, total = np.zeros(0), float(len(label))
    counts = SplitCounts(len(label), 0, none, none, total, float(label.sum()), float((label**2).sum()), {})
    model = add_head(build("wide_deep", given), "regression", counts, np.zeros(0))
    train(model, rows, label, epochs=10, rate=0.003, task="regression")
    missing = {name: np.zeros(1, column.dtype) for name, column in rows.items()}
    assert abs(float(model(missing)[0, 0]) - 80) < 0.5 * label.std()


def test_a_job_that_nobody_had_changes_a_chance_no_more_than_the_jobs_do():
    """Like a bank's clients: one in nine is a yes, mostly by two numbers. A sure no stays a no."""
    random = np.random.default_rng(2)
    rows = {name: random.normal(size=2 * ROWS).astype("float32") for name in ("calls", "balance")}
    rows["job"] = random.integers(2, 14, 2 * ROWS)
    logit = 3 * rows["calls"] + rows["balance"] + 0.2 * np.sin(rows["job"]) - 4.5
    label = random.random(2 * ROWS) < 1 / (1 + np.exp(-logit))
    given = {name: number(name, rows[name]) for name in ("calls", "balance")} | {"job": category("job", 14)}
    model = build("wide_deep", given)
    train(model, rows, label, epochs=10, rate=0.003)
    jobs = np.arange(14)
    client = {"calls": np.full(14, -1, "float32"), "balance": np.zeros(14, "float32"), "job": jobs}
    chance = 1 / (1 + np.exp(-model(client).numpy()[:, 0]))
    assert chance[2:].max() < 0.02 and chance[:2].max() < 1.5 * chance[2:].max()


def test_penalties_are_applied():
    model = build({"kind": "linear", "l1": 0.5, "l2": 0.25})
    model.get_layer("numbers").kernel.assign([[2.0]])
    assert float(sum(model.losses)) == pytest.approx(0.5 * 2 + 0.25 * 4)
    deep = build({"kind": "mlp", "hidden": [2], "l2": 0.1})
    hidden = next(layer for layer in deep.layers if getattr(layer, "units", None) == 2)
    assert float(sum(deep.losses)) == pytest.approx(0.1 * np.sum(hidden.kernel.numpy() ** 2), rel=1e-5)


def test_wide_and_deep_is_wide_plus_deep():
    """With the last kernel of the deep part set to 0, only the wide weights of the ids remain."""
    model = build({"kind": "wide_deep", "hidden": [4], "members": 3})
    model.get_layer("logits").kernel.assign(np.zeros((3, 4, 1)))
    table = np.arange(5.0)[:, None]
    model.get_layer("ids").table.assign(table)
    features = values()
    np.testing.assert_allclose(model(features).numpy()[:, 0], features["c"])


def test_dropout_and_batch_norm_are_there_when_asked_for():
    def kinds(config):
        return {type(layer) for layer in build(config).layers}

    assert keras.layers.Dropout in kinds({"kind": "mlp", "dropout": 0.2})
    assert keras.layers.Dropout not in kinds({"kind": "mlp", "dropout": 0.0})
    assert keras.layers.BatchNormalization in kinds({"kind": "mlp", "batch_norm": True})
    assert keras.layers.AlphaDropout in kinds({"kind": "mlp", "activation": "selu"})


@pytest.mark.parametrize("members", [1, 4])
def test_the_variance_of_hidden_units_neither_dies_nor_explodes(members):
    """He initialization keeps the second moment over many relu layers."""
    keras.utils.set_random_seed(1)
    x = keras.Input((256,))
    model = keras.Model(x, hidden_layers(x, Mlp(kind="mlp", hidden=(256,) * 8, dropout=0.0, members=members)))
    out = model(np.random.default_rng(1).normal(size=(200, 256)).astype("float32")).numpy()
    assert 0.3 < np.mean(out**2) < 3


@pytest.mark.parametrize(("kept", "kind"), [("x", "linear"), ("m", "linear"), ("c", "wide_deep"), ("x", "wide_deep")])
def test_one_feature_is_enough(kept, kind):
    given = {kept: inputs()[kept]}
    assert build(kind, given)({kept: values()[kept]}).shape == (ROWS, 1)


@pytest.fixture
def module(monkeypatch):
    """Returns the function that makes `own_model:build_model` importable."""

    def install(function, name="build_model"):
        found = types.ModuleType("own_model")
        setattr(found, name, function)
        monkeypatch.setitem(sys.modules, "own_model", found)

    return install


def own(**options):
    return {"kind": "module", "function": "own_model:build_model", **options}


def test_a_model_of_ones_own_gets_inputs_task_classes_and_options(module):
    received = {}

    def build_model(inputs, task, classes, options):
        received.update(task=task, classes=classes, options=options, sizes={n: i.size for n, i in inputs.items()})
        x = inputs["x"].keras_input
        return keras.Model({"x": x}, keras.layers.Dense(classes)(keras.layers.Reshape((1,))(x)))

    module(build_model)
    model = build(own(options={"units": 3}), classes=3)
    assert model.outputs[0].shape == (None, 3)
    assert received == {
        "task": "multiclass",
        "classes": 3,
        "options": {"units": 3},
        "sizes": {"x": 0, "c": 5, "m": 4},
    }


def test_a_module_that_is_not_there():
    with pytest.raises(
        UserError, match="model.function: own_model:build_model cannot be .*'own_model'.*beside the YAML"
    ):
        build(own())


def dense_of(inputs, classes: int, name: str = "x") -> keras.Model:
    x = inputs["x"].keras_input if name == "x" else keras.Input((), name=name)
    return keras.Model({name: x}, keras.layers.Dense(classes)(keras.layers.Reshape((1,))(x)))


@pytest.mark.parametrize(
    ("function", "name", "expected"),
    [
        (lambda *_: None, "build_modle", "own_model has no 'build_model'. Did you mean \"build_modle\""),
        (lambda *_: "a model", "build_model", "must return a keras.Model.*Received: builtins.str"),
        (lambda i, *_: dense_of(i, 2), "build_model", r"logits of shape \(None, 3\).*Received: \(None, 2\)"),
        (lambda i, *_: dense_of(i, 3, "another"), "build_model", "Received others: another"),
    ],
    ids=["no function", "no model", "other logits", "other inputs"],
)
def test_a_model_of_ones_own_that_does_not_fit_is_refused(module, function, name, expected):
    module(function, name=name)
    with pytest.raises(UserError, match=expected):
        build(own(), classes=3)


def softmax_by_hand(x):
    e = keras.ops.exp(x - keras.ops.max(x, axis=-1, keepdims=True))
    return e / keras.ops.sum(e, axis=-1, keepdims=True)


class Subclassed(keras.Model):
    def __init__(self, end, classes):
        super().__init__()
        self.dense, self.end = keras.layers.Dense(classes), end

    def call(self, x):
        return self.end(self.dense(x))


PROBABILITIES = {
    "activation": lambda n: keras.layers.Dense(n, activation="sigmoid"),
    "softmax activation": lambda n: keras.layers.Dense(n, activation="softmax"),
    "layer": lambda n: keras.Sequential([keras.layers.Dense(n), keras.layers.Activation("sigmoid")]),
    "Softmax": lambda n: keras.Sequential([keras.layers.Dense(n), keras.layers.Softmax()]),
    "operation": lambda n: lambda x: keras.ops.sigmoid(keras.layers.Dense(n)(x)),
    "by hand": lambda n: lambda x: softmax_by_hand(keras.layers.Dense(n)(x)),
    "subclassed": lambda n: Subclassed(keras.ops.softmax, n),
    "then reshaped": lambda n: keras.Sequential(
        [keras.layers.Dense(n, activation="hard_sigmoid"), keras.layers.Reshape((n,))]
    ),
    "zero kernel": lambda n: keras.layers.Dense(n, activation="sigmoid", kernel_initializer="zeros"),
}
LOGITS = {
    "plain": lambda n: keras.layers.Dense(n),
    "zero kernel": lambda n: keras.layers.Dense(n, kernel_initializer="zeros"),
    "gate": lambda n: lambda x: keras.layers.Dense(n)(keras.layers.Dense(4, activation="sigmoid")(x)),
    "relu": lambda n: keras.layers.Dense(n, activation="relu"),
    "tanh": lambda n: keras.layers.Dense(n, activation="tanh"),
    "batch norm": lambda n: keras.Sequential([keras.layers.Dense(n), keras.layers.BatchNormalization()]),
}


def built_own(module, end, task, classes):
    def build_model(inputs, task, classes, options):
        ids = keras.layers.Embedding(inputs["c"].size, 2)(inputs["c"].keras_input)
        x = keras.layers.Reshape((1,))(inputs["x"].keras_input)
        several = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(4, 2)(inputs["m"].keras_input))
        read = {item.keras_input.name: item.keras_input for item in (inputs["x"], inputs["c"], inputs["m"])}
        return keras.Model(read, end(classes)(keras.layers.Concatenate()([x, ids, several])))

    module(build_model)
    return build(own(), classes=classes, task=task)


@pytest.mark.parametrize("end", PROBABILITIES)
@pytest.mark.parametrize(("task", "classes"), [("binary", 1), ("multiclass", 3), ("multilabel", 3)])
def test_a_model_that_outputs_probabilities_is_refused_wherever_the_sigmoid_is(module, end, task, classes):
    with pytest.raises(UserError, match="outputs probabilities.*Remove the sigmoid or softmax"):
        built_own(module, PROBABILITIES[end], task, classes)


@pytest.mark.parametrize("end", LOGITS)
@pytest.mark.parametrize(("task", "classes"), [("binary", 1), ("multiclass", 3)])
def test_a_model_that_outputs_logits_is_accepted_and_keeps_its_weights(module, end, task, classes):
    weights = built_own(module, LOGITS[end], task, classes).get_weights()
    assert len(weights) and all(np.abs(w).max() <= 1.5 for w in weights)  # initial weights, not those of the trial


def test_a_regression_may_end_with_a_sigmoid(module):
    assert built_own(module, PROBABILITIES["activation"], "regression", 1)
