"""Weights initialized from an earlier model, checked by outputs of exports and by variables read from their files."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.base.state_file import DamagedState
from fullpass.preprocessing.features.ids import Embedding
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.config import TrainingConfig
from fullpass.trainer.fit.warm_start import BaseExport, find_base, keep_encodings, read_base, warm_start_record
from fullpass.trainer.models.model_inputs import encode, encoded_axis, keras_inputs
from fullpass.trainer.models.weight_axes import LOGITS, declare_axes
from fullpass.trainer.models.weight_semantics import encoded_features, weights_of
from fullpass.trainer.run_fn import run_fn
from tests.trainer.conftest import VOCABULARIES, planted_rows, prepare_by_hand, to_examples

pytestmark = pytest.mark.integration
FEW = ("x", "kind", "city")

GROWN = {
    # Every vocabulary has a different order; city, kind and tags have new tokens, and note has lost one.
    "kind": ("new kind", "c", "a", "b"),
    "city": ("new city", *reversed(VOCABULARIES["city"]), "newer city"),
    "tags": ("blue", "red", "violet", "green"),
    "note": tuple(token for token in reversed(VOCABULARIES["note"]) if token != "blue"),
}


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """The planted rows with a transform graph whose vocabularies are reordered and larger."""
    folder = tmp_path_factory.mktemp("grown")
    return prepare_by_hand(folder, "binary", planted_rows(400, 3), planted_rows(100, 4), vocabularies=GROWN)


def train(prepared, folder: Path, base=None, model="wide_deep", **training):
    """Trains a model; returns the export."""
    args = prepared.fn_args(folder, model=model, training={"warm_start": "blessed" if base else "none", **training})
    args.base_model = str(base) if base else None
    run_fn(args)
    return folder / "Format-Serving"


def scores(export: Path, rows) -> np.ndarray:
    signature = tf.saved_model.load(str(export)).signatures["serving_default"]
    return signature(examples=tf.constant(to_examples(rows)))["scores"].numpy()


def weights_in(network) -> dict[str, np.ndarray]:
    return {weight.name: network.model.variables[weight.variable].numpy() for weight in weights_of(network)}


def origins_in(built) -> dict[str, tuple[str, str]]:
    return {origin.weight: (origin.outcome, origin.why) for origin in built.weight_origins}


def weights(export: Path) -> dict[str, np.ndarray]:
    """Returns the variables of an export by the names in its description."""
    reader = tf.train.load_checkpoint(str(export / "variables" / "variables"))
    listed = json.loads((export / "assets.extra" / "weights.json").read_text())["weights"]
    return {w["name"]: reader.get_tensor(f"weights/{w['variable']}/.ATTRIBUTES/VARIABLE_VALUE") for w in listed}


def tokens(export: Path, name: str) -> list[str]:
    return (export / "assets" / f"vocabulary_{name}").read_text().splitlines()


STILL = {"epochs": 1, "learning_rate": 1e-30, "warmup": 0.0}  # changes no weight within float32 precision


@pytest.fixture(scope="module")
def followed(exported, grown):
    """A model that was initialized from the exported one and not changed."""
    return grown.trained(base=exported("binary").directory, model="wide_deep", training=STILL)[1]


@pytest.mark.long
def test_a_model_that_only_began_answers_as_the_one_it_began_from(exported, grown, tmp_path):
    rows = [row for row in planted_rows(300, 9) if "blue" not in (row["tags"] or "")]
    base = exported("binary").directory
    before, after = (scores(export, rows) for export in (base, train(grown, tmp_path, base, **STILL)))
    assert np.ptp(before) > 0.5, "the model says something"
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_the_embedding_of_a_token_survives_growth_and_a_new_token_begins_at_the_mean(exported, followed):
    base, name = exported("binary").directory, "embedding of city_xf/embeddings"
    before, after = weights(base)[name], weights_in(followed.network)[name]
    rows, rows_after = tokens(base, "city"), GROWN["city"]
    assert tuple(rows) != rows_after[1:-1] and len(rows_after) == len(rows) + 2
    for token in rows:
        np.testing.assert_array_equal(after[2 + rows_after.index(token)], before[2 + rows.index(token)], token)
    np.testing.assert_array_equal(after[:2], before[:2], "missing and OOV")
    mean = before[2:].mean(axis=0)
    for token in ("new city", "newer city"):
        np.testing.assert_allclose(after[2 + rows_after.index(token)], mean, rtol=1e-5, atol=1e-7)


def test_it_says_of_every_weight_how_it_began(followed, exported):
    base = exported("binary").directory
    entry = warm_start_record(TrainingConfig(warm_start="blessed"), read_base(str(base)), followed.weight_origins)
    outcomes = {w["weight"]: (w["outcome"], w["why"]) for w in entry["weights"]}
    assert entry["from"] == str(base) and entry["anew"] == 0
    assert outcomes["hidden_1/kernel"] == ("taken", "")
    assert outcomes["embedding of city_xf/embeddings"] == ("partly", "42 of 44 rows are in the earlier model")
    assert outcomes["embedding of kind_x_city_xf/embeddings"] == ("taken", "")
    assert entry["taken"] + entry["partly"] == len(outcomes)


@pytest.mark.long
def test_a_warm_start_is_reproducible_and_differs_from_a_cold_one(exported, grown):
    base, sections = exported("binary").directory, {"model": "wide_deep", "training": {"epochs": 1}}
    trained = [grown.of(*FEW).trained(base=of, **sections)[1] for of in (None, base, base)]
    cold, warm, again = (weights_in(one.network) for one in trained)
    assert cold.keys() == warm.keys() == again.keys()
    for name in warm:
        np.testing.assert_array_equal(warm[name], again[name], name)
    assert not np.array_equal(warm["hidden_1/kernel"], cold["hidden_1/kernel"])


def test_the_optimizer_begins_as_in_a_cold_start(exported, planted):
    rate = 1e-3
    # One update with all rows. Adam trained the earlier model for six epochs, but its slot variables are not reused.
    # With moments that start at 0, the first step of Adam equals the learning rate for every weight, whatever its
    # gradient (smaller by 3e-6 / |gradient|, because of Adam's epsilon). Moments of another training would make it much
    # smaller.
    one_update = {"epochs": 1, "batch_size": 1000, "learning_rate": rate, "warmup": 0.0, "schedule": "constant"}
    base = exported("binary").directory
    _, trained = planted("binary").trained(base=base, model="wide_deep", training=one_update)
    assert {outcome for outcome, _ in origins_in(trained).values()} == {"taken"}
    before, after = weights(base), weights_in(trained.network)
    for name in ("hidden_0/kernel", "hidden_1/kernel", "logits/kernel"):
        steps = np.abs(after[name] - before[name])
        moved = steps[steps > 0]
        assert moved.size > steps.size / 3 and moved.max() < rate * 1.001
        assert np.median(moved) > rate * 0.9, name


def test_what_does_not_fit_begins_anew_and_says_why(exported, grown):
    model = {"kind": "wide_deep", "hidden": [32, 64]}
    origins = origins_in(grown.built(exported("binary").directory, model=model))
    assert origins["hidden_0/kernel"][0] == "anew" and origins["hidden_0/kernel"][1].endswith("x 32")
    assert origins["hidden_1/kernel"] == ("anew", "its shape was 128 x 64 and is 32 x 64")
    assert origins["logits/kernel"] == ("taken", "")
    assert origins["ids/table"][0] == "partly"


def test_classes_are_matched_by_name(exported, planted, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(exported("multiclass").directory, base)
    listed = json.loads((base / "assets.extra" / "weights.json").read_text())
    # As if the earlier model had its classes in another order.
    for part in [s for w in listed["weights"] for axis in w["axes"] if axis for s in axis if s["of"] == "classes"]:
        part["tokens"] = ["high", "low", "gone"]
    listed["head"]["classes"] = ["high", "low", "gone"]
    (base / "assets.extra" / "weights.json").write_text(json.dumps(listed))
    with pytest.raises(DamagedState, match=r"weights\.json is damaged"):
        read_base(str(base))
    (base / "assets.extra" / "fullpass.json").unlink()  # which lists the unchanged file
    built = planted("multiclass").built(base, model="wide_deep")
    before, after = weights(base)["logits/kernel"], weights_in(built.network)["logits/kernel"]
    # The order is now low, middle, high. middle is new and starts at the mean of the others.
    np.testing.assert_array_equal(after[:, [2, 0]], before[:, [0, 1]])
    np.testing.assert_allclose(after[:, 1], before[:, :2].mean(axis=1), rtol=1e-5, atol=1e-7)
    assert origins_in(built)["logits/kernel"] == ("partly", "2 of 3 columns are in the earlier model")


OWN = {"kind": "module", "function": "tests.trainer.fit.test_warm_start:build_own"}


@pytest.fixture(scope="module")
def own(planted, tmp_path_factory) -> Path:
    """The export of a model of the user's own."""
    return train(planted("binary").of(*FEW), tmp_path_factory.mktemp("own"), model=OWN, epochs=1)


def test_a_model_of_the_users_own_begins_from_an_export_too(planted, grown, own):
    same = planted("binary").of(*FEW).built(own, model=OWN)
    assert {outcome for outcome, _ in origins_in(same).values()} == {"taken"}
    moved = grown.of(*FEW).built(own, model=OWN)
    origins = origins_in(moved)
    assert origins["embedding of city_xf/embeddings"][0] == "partly"
    # This layer reads one-hot ids that moved to unknown positions.
    assert origins["dense 0/kernel"][0] == "anew"
    name = "embedding of city_xf/embeddings"
    before = weights(own)[name][2 + tokens(own, "city").index("city 7")]
    np.testing.assert_array_equal(weights_in(moved.network)[name][2 + GROWN["city"].index("city 7")], before)


def test_layers_that_state_what_their_weights_stand_for_begin_by_meaning(grown, own):
    moved = grown.of(*FEW).built(own, model=OWN)
    origins = {weight: outcome for weight, (outcome, _) in origins_in(moved).items()}
    assert origins["first/kernel"] == "partly" and origins["second/kernel"] == origins["third/kernel"] == "taken"
    before, after = weights(own), weights_in(moved.network)
    # The kernel rows of one-hot kinds, after those of the numbers and ids before them, move with their tokens.
    starts = [first_row(features, "kind_xf") for features in (described(own), encoded_features(moved.network))]
    for token in ("a", "b", "c"):
        places = tokens(own, "kind").index(token), GROWN["kind"].index(token)
        there, here = (start + 2 + place for start, place in zip(starts, places, strict=True))
        np.testing.assert_array_equal(after["first/kernel"][here], before["first/kernel"][there], token)
    for name in ("third/kernel", "whole/factor"):
        np.testing.assert_array_equal(after[name], before[name])


def described(export: Path) -> list[dict]:
    return json.loads((export / "assets.extra" / "weights.json").read_text())["features"]


def first_row(features: list[dict], name: str) -> int:
    names = [segment["of"] for segment in features]
    return sum(segment["rows"] for segment in features[: names.index(name)])


class Factor(keras.layers.Layer):
    """A layer with a scalar weight, such as the scale of a target attention."""

    def build(self, shape):
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")

    def call(self, x):
        return x * self.factor


def build_own(inputs, task, classes, options):
    encoded = keras.layers.Concatenate()(encode(inputs))
    unknown = keras.layers.Dense(8, activation="relu")(encoded)
    x = declare_axes(keras.layers.Dense(8, name="first"), kernel=(encoded_axis(inputs), None))(encoded)
    x = declare_axes(keras.layers.Dense(4, name="second"))(x)
    x = keras.layers.Concatenate()([declare_axes(Factor(name="whole"))(x), unknown])
    third = declare_axes(keras.layers.Dense(classes, name="third"), kernel=(None, LOGITS), bias=(LOGITS,))
    return keras.Model(keras_inputs(inputs), third(x))


def test_a_meaning_that_does_not_fit_a_weight_is_refused(planted):
    model = {"kind": "module", "function": "tests.trainer.fit.test_warm_start:build_wrong"}
    with pytest.raises(
        UserError, match=r"weight 'kernel' of layer 'first' has the shape .* for \(1, 8\).*declare_axes"
    ):
        weights_of(planted("binary").of("x").built(model=model).network)


def build_wrong(inputs, task, classes, options):
    first = declare_axes(keras.layers.Dense(8, name="first"), kernel=(LOGITS, None))
    x = first(keras.layers.Concatenate()(encode(inputs)))
    return keras.Model(keras_inputs(inputs), keras.layers.Dense(classes)(x))


def test_without_a_blessed_model_it_begins_cold():
    training = TrainingConfig.model_validate({"warm_start": "blessed"})
    assert find_base(training, None) is None
    entry = {"asked": "blessed", "from": None, "taken": 0, "partly": 0, "anew": 0, "weights": []}
    assert warm_start_record(training, None, ()) == entry


def test_a_folder_that_is_no_export_is_named(tmp_path):
    with pytest.raises(UserError, match="is not an exported model"):
        read_base(str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UserError, match="did not record the meaning of its weights"):
        read_base(str(tmp_path))


def test_a_base_keeps_the_encodings_that_were_left_open():
    base = BaseExport("", {}, (), {"a": "one_hot", "b": 12, "c": 12, "d": 12}, {}, "")
    outputs = [
        Output("a", "a", "ids"),
        Output("b", "b", "ids"),
        Output("c", "c", "ids", encoding=Embedding(embedding=5)),
        Output("d", "d", "ids", encoding=Embedding(shared="x")),
        Output("e", "e", "ids"),
    ]
    kept = [output.encoding for output in keep_encodings(outputs, base)]
    assert kept == [
        "one_hot",
        Embedding(embedding=12),
        Embedding(embedding=5),
        Embedding(embedding=12, shared="x"),
        "auto",
    ]
    assert keep_encodings(outputs, None) == tuple(outputs)
