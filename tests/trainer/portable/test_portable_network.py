"""The network of layers of Keras alone, against the network that was built: in memory, and in a fresh process."""

import subprocess
import sys

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.portable.export_portable import WRITERS
from fullpass.preprocessing.internals.tf_internals import frozen
from fullpass.trainer.export.signatures import feature_keys
from fullpass.trainer.fit.blend import blend
from fullpass.trainer.fit.build_training import build_training
from fullpass.trainer.fit.sampled_rows import sample_rows
from fullpass.trainer.models.losses import AUTO
from fullpass.trainer.models.model_inputs import apply_model
from fullpass.trainer.portable.portable_network import portable_network

pytestmark = pytest.mark.integration

KINDS = {
    "wide_deep": ({"kind": "wide_deep", "hidden": [8]}, "multiclass", {}),
    "members": ({"kind": "mlp", "hidden": [8, 8], "members": 4, "batch_norm": True}, "multilabel", {}),
    "cross": ({"kind": "dcn", "hidden": [8], "low_rank": 3}, "regression", {}),
    "blend": ({"kind": "mlp", "hidden": [8]}, "binary", {}),
    "trees": ({"kind": "trees"}, "binary", {"epochs": 5}),
}
OTHERS = {
    "linear": ({"kind": "linear"}, "binary", {}),
    "quantiles": ({"kind": "mlp", "hidden": [8]}, "regression", {"loss": {"kind": "quantile", "levels": [0.1, 0.5]}}),
    "counts": ({"kind": "mlp", "hidden": [8]}, "regression", {"loss": "poisson"}),
}
LOAD = """
import sys
sys.modules["fullpass"] = None
import keras, numpy as np
for kind in sys.argv[2:]:
    model = keras.models.load_model(f"{sys.argv[1]}/{kind}.keras")
    rows = dict(np.load(f"{sys.argv[1]}/{kind}.npz"))
    np.save(f"{sys.argv[1]}/{kind}.npy", model(rows, training=False))
"""


# A linear network is a part of wide_deep, and quantiles and counts differ from others in the last layer alone.
@pytest.fixture(scope="module", params=[KINDS, pytest.param(OTHERS, marks=pytest.mark.long)], ids=["kinds", "others"])
def answers(request, planted, tmp_path_factory):
    """Returns a folder with each portable network and rows, and by kind the logits of both networks.

    The weights are random; trees are grown. Two kinds read every feature.
    """
    folder, found = tmp_path_factory.mktemp("portable"), {}
    for kind, (model, task, training) in request.param.items():
        prepared = planted(task)
        if kind not in ("wide_deep", "cross"):
            prepared = prepared.of("x", "city", "tags")
        data, built = network_of(prepared, model, training)
        if kind == "blend":
            built = blend_of(prepared, model)
        sampled = sample_rows(data.evaluation.split, data.in_model, 300)
        features = {tensor.name: sampled.padded(tensor.name) for tensor in built.inputs}
        portable = portable_network(built)
        assert {type(layer).__module__.partition(".")[0] for layer in portable.layers} == {"keras"}
        found[kind] = [apply_model(one, features, training=False).numpy() for one in (built, portable)]
        portable.save(folder / f"{kind}.keras")
        np.savez(folder / f"{kind}.npz", **features)
    return folder, found


def blend_of(prepared, model):
    """Returns the blend of three networks, as `model: auto` makes it."""
    made = {}
    for config in (model, {"kind": "linear"}, {"kind": "dcn", "hidden": [4]}):
        data, spec, strategy = prepared.loaded(model=config)
        built = build_training(spec, data.statistics, data.in_model, updates=1, strategy=strategy)
        made[config["kind"]] = built.network
        for variable in built.model.trainable_variables:
            variable.assign(np.random.default_rng(3).normal(0, 0.3, variable.shape))
    return blend(made, {"mlp": 0.25, "linear": 0.5, "dcn": 0.25}, "binary", AUTO).model


def network_of(prepared, model, training):
    if model["kind"] == "trees":
        data, trained = prepared.trained(model=model, training=training)
        return data, trained.network.model
    data, spec, strategy = prepared.loaded(model=model, training=training)
    built = build_training(spec, data.statistics, data.in_model, updates=1, strategy=strategy).network.model
    drawn = np.random.default_rng(1)
    for variable in built.trainable_variables:
        variable.assign(drawn.normal(0, 0.3, variable.shape))
    return data, built


def test_it_answers_like_the_network(answers):
    for kind, (expected, found) in answers[1].items():
        assert np.ptp(expected) > 0, kind
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5 * expected.std(), err_msg=kind)


def test_keras_loads_it_without_fullpass(answers):
    folder, logits = answers
    subprocess.run([sys.executable, "-c", LOAD, str(folder), *logits], check=True)
    for kind, (_, expected) in logits.items():
        np.testing.assert_allclose(np.load(folder / f"{kind}.npy"), expected, rtol=1e-6, err_msg=kind)


@pytest.mark.parametrize("to", [pytest.param("litert", marks=pytest.mark.long), "onnx"])
def test_other_runtimes_answer_like_keras(answers, to):
    """Writes the saved networks in another format, and runs them on other numbers of rows."""
    folder, logits_of = answers
    for kind, (_, expected) in logits_of.items():
        model = keras.models.load_model(folder / f"{kind}.keras")
        keys, rows = feature_keys(model), dict(np.load(folder / f"{kind}.npz"))
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype, name=keys[tensor.name]) for tensor in model.inputs]

        @tf.function(autograph=False, input_signature=specs)
        def logits(*values, model=model, keys=keys):
            return model(dict(zip(keys, values, strict=True)), training=False)

        run = WRITERS[to](frozen(logits.get_concrete_function()), keys, folder / f"{kind}.{to}")
        if to == "onnx":  # ONNX Runtime warns of each constant that nothing reads
            graph = onnx.load(folder / f"{kind}.{to}").graph
            assert {one.name for one in graph.initializer} <= {name for node in graph.node for name in node.input}
        for count in (1, 7):
            found = run({keys[name]: values[:count] for name, values in rows.items()})
            np.testing.assert_allclose(found, expected[:count], rtol=2e-5, atol=1e-5 * expected.std(), err_msg=kind)


def test_a_layer_of_a_user_is_refused_by_name():
    class Doubled(keras.layers.Layer):
        def call(self, x):
            return 2 * x

    x = keras.Input((3,), name="x")
    with pytest.raises(UserError, match=r"its layer twice \(.*Doubled\)"):
        portable_network(keras.Model({"x": x}, Doubled(name="twice")(x)))
