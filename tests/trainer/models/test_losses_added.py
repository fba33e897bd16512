"""A new loss is a class, a line in a union, and a formula: nothing else of the source is touched."""

import numpy as np
import pytest

from tests.changed_source import answers_of, copy_source, insert_lines

LABELS, SCORES, DEVIATION = [1.0, 2.0, 4.0], [1.5, 1.0, 4.0], 2.0
CLASS = '''class Cubed(_Loss):
    """The cube of the error's size."""

    kind: Literal["cubed"]


'''
ADDED = (
    ("trainer/loss_config.py", "class Huber(", CLASS),
    ("trainer/loss_config.py", "    Auto | Squared", "    Cubed |\n"),
    (
        "trainer/models/losses.py",
        "        loss_config.Huber: ",
        "        loss_config.Cubed: lambda y, z: tf.pow(tf.abs(y - z[:, 0]) / unit, 3.0),\n",
    ),
)
YAML = """
name: cubed
data: {source: {format: csv, path: rows.csv}}
label: {name: y, task: TASK}
features: {x: number}
model: MODEL
training: {loss: cubed}
"""
PROGRAM = f"""
import json
from pathlib import Path

import tensorflow as tf

import fullpass as api
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.reference.reference import config_page
from fullpass.trainer.models.losses import loss_of

config = load(Path("good.yaml")).config.training.loss
loss = loss_of("regression", config, label_deviation={DEVIATION})
print(json.dumps({{
    **{{name: [problem.message for problem in api.check(f"{{name}}.yaml")] for name in ("good", "task", "trees")}},
    "schema": "Cubed" in json_schema()["$defs"],
    "page": "The cube of the error's size." in config_page(),
    "values": loss(tf.constant({LABELS}), tf.constant({SCORES})[:, None]).numpy().tolist(),
}}))
"""


@pytest.mark.integration
def test_a_loss_is_added_in_three_places(tmp_path):
    assert insert_lines(copy_source(tmp_path), ADDED) == 3
    (tmp_path / "rows.csv").write_text("x,y\n1,0\n2,1\n")
    for name, task, model in (
        ("good", "regression", "mlp"),
        ("task", "binary", "mlp"),
        ("trees", "regression", "trees"),
    ):
        (tmp_path / f"{name}.yaml").write_text(YAML.replace("TASK", task).replace("MODEL", model))
    told = answers_of(PROGRAM, tmp_path)
    assert told["good"] == [] and told["schema"] and told["page"]
    assert "cubed is not for binary" in told["task"][0] and "cubed is not for trees" in told["trees"][0]
    errors = np.abs(np.subtract(LABELS, SCORES)) / DEVIATION
    assert told["values"] == pytest.approx(errors**3)
