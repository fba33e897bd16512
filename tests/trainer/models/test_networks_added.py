"""A new kind of network is a class, a line in a union, and a function: nothing else of the source is touched."""

import pytest

from tests.changed_source import answers_of, copy_source, insert_lines

CLASS = '''class OneHidden(_Network):
    """One hidden layer of rectified units."""

    kind: Literal["one_hidden"]
    units: Count = 4
    """Its units."""


'''
FUNCTION = """@_builds("one_hidden")
def _one_hidden(inputs, classes, config):
    hidden = keras.layers.Dense(config.units, "relu", name="hidden")(_concatenate(encode(inputs)))
    return _logits_of(hidden, classes)


"""
ADDED = (
    ("trainer/config.py", "class Trees(", CLASS),
    ("trainer/config.py", "    Linear | Mlp", "    OneHidden |\n"),
    ("trainer/models/networks.py", '@_builds("mlp")', FUNCTION),
)
YAML = """
name: hidden
data: {source: {format: csv, path: rows.csv}}
label: {name: y, task: binary}
features: {x: number}
model: {kind: one_hidden, units: UNITS}
tuning: {search: {model.units: {choices: [2, 3]}}}
"""
PROGRAM = """
import json
from pathlib import Path

import keras

import fullpass as api
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.reference.reference import config_page
from fullpass.preprocessing.features.output import Output
from fullpass.trainer.models.model_inputs import ModelInput
from fullpass.trainer.models.networks import build_model

config = load(Path("good.yaml")).config.model
inputs = {"x": ModelInput(keras.Input((), name="x"), Output("x", "x", "dense"), width=1)}
model = build_model(inputs, task="multiclass", classes=3, config=config)
print(json.dumps({
    "good": [problem.message for problem in api.check("good.yaml")],
    "bad": [problem.message for problem in api.check("bad.yaml")],
    "schema": "OneHidden" in json_schema()["$defs"],
    "page": "One hidden layer of rectified units." in config_page(),
    "weights": [list(weight.shape) for weight in model.weights],
}))
"""


@pytest.mark.integration
def test_a_kind_of_network_is_added_in_three_places(tmp_path):
    assert insert_lines(copy_source(tmp_path), ADDED) == 3
    (tmp_path / "rows.csv").write_text("x,y\n1,0\n2,1\n")
    for name, units in (("good", "5"), ("bad", "0")):
        (tmp_path / f"{name}.yaml").write_text(YAML.replace("UNITS", units))
    told = answers_of(PROGRAM, tmp_path)
    assert told["good"] == [] and "the number 0" in told["bad"][0]
    assert told["schema"] and told["page"]
    assert told["weights"] == [[1, 5], [5], [5, 3], [3]]
