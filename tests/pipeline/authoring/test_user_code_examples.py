"""Every file of examples/own_code does what docs/own-code.md says."""

import shutil
import sys

import numpy as np
import pyarrow as pa
import pytest

import fullpass
from fullpass.base.user_modules import use_modules_of
from fullpass.pipeline.authoring.data_check.data_check import check_data
from fullpass.pipeline.authoring.loading.load import load
from tests import REPOSITORY

pytestmark = pytest.mark.integration
EXAMPLE = REPOSITORY / "examples" / "own_code"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the example, whose modules are forgotten afterwards."""
    for file in [*EXAMPLE.glob("own_*.py"), *EXAMPLE.glob("*.yaml")]:
        shutil.copy(file, tmp_path)
    monkeypatch.setenv("FULLPASS_MODULES", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


TRIPS = pa.table(
    {
        "x": [0.0, 2.0, 4.0, None],
        "y": [1.0, 1.0, 1.0, 1.0],
        "miles": [1.0, 3.0, None, 7.0],
        "payment": ["card", "card", "cash", None],
        "tipped": ["yes", "no", "yes", "no"],
    }
)


def test_the_source_and_both_pipelines_are_right(folder):
    for name in ("pipeline.yaml", "preprocessing.yaml"):
        assert fullpass.check(folder / name) == ()
    assert not check_data(load(folder / "pipeline.yaml"), rows=500).has_errors


def test_the_feature_is_the_scaled_distance_from_the_center(folder):
    found = fullpass.load(folder / "pipeline.yaml").analyze(TRIPS).numpy(TRIPS)["from_center_xf"]
    distance = np.abs(np.array([0.0, 2.0, 4.0, 0.0]) - 1.5)
    assert np.allclose(found, (distance - distance.mean()) / distance.std(), atol=1e-5)


def test_the_preprocessing_fn_replaces_all_transforms(folder):
    transform = fullpass.load(folder / "preprocessing.yaml").analyze(TRIPS)
    found = transform.numpy(TRIPS)
    miles = np.log1p([1.0, 3.0, 0.0, 7.0])
    assert np.allclose(found["miles_scaled"], (miles - miles.mean()) / miles.std(), atol=1e-5)
    assert found["miles_known"].tolist() == [1, 1, 0, 1]
    unknown = pa.table({"miles": [1.0], "payment": ["voucher"]})
    assert found["payment_id"].tolist()[:3] == [0, 0, 1] and transform.numpy(unknown)["payment_id"].tolist() == [2]


def test_the_model_builds_from_the_transformed_features(folder):
    from tensorflow_transform import TFTransformOutput

    from fullpass.trainer.models import user_model
    from fullpass.trainer.models.model_inputs import model_inputs, transformed_outputs

    loaded = fullpass.load(folder / "pipeline.yaml")
    graph = TFTransformOutput(str(loaded.analyze(TRIPS, folder / "graph").folder))
    inputs = model_inputs(transformed_outputs(loaded.config.preprocessing_config, graph), graph)
    use_modules_of(folder)
    model = user_model.build(inputs, 1, loaded.config.model, "binary")
    assert model.output_shape == (None, 1)

    (folder / "own_model.py").write_text(
        "import keras\n"
        "def build_model(inputs, task, classes, options):\n"
        "    x = keras.layers.Concatenate()([one.keras_input for one in inputs.values()])\n"
        "    return keras.Model(inputs, keras.layers.Dense(classes)(x))\n"
    )
    for name in [name for name in sys.modules if name.endswith(".own_model")]:
        del sys.modules[name]
    with pytest.raises(fullpass.UserError) as caught:
        user_model.build(inputs, 1, loaded.config.model, "binary")
    message = str(caught.value)
    assert message.startswith("own_model:build_model raised ValueError: ")
    assert "The `keras_input`s are miles_xf float32 (None,), payment_xf int64 (None,)" in message
    assert message.endswith(f"\n  at {folder / 'own_model.py'}:4 in build_model")


def test_the_metric_is_a_mean_cost(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    from own_metric import cost

    predicted = pa.table({"prediction": ["yes", "no", "no", "yes"]})
    assert cost(TRIPS["tipped"], predicted) == (5 + 1) / 4
    del sys.modules["own_metric"]
