"""A `run_fn` of TFX gets what TFX's Trainer gives it, in a process with the Keras that it is written for."""

import json

import pytest
import tensorflow as tf
from tfx.components.trainer.executor import GenericExecutor
from tfx.types import standard_artifacts
from tfx.utils import json_utils

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.training.component import RunFnExecutor
from fullpass.trainer.export.export_files import read_description, verify_export

pytestmark = pytest.mark.integration
MODULE = """\
import json
import neighbor
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.utils import io_utils
from tfx_bsl.public import tfxio

def run_fn(fn_args):
    told = {name: value for name, value in vars(fn_args).items() if name != "data_accessor"}
    options = tfxio.TensorFlowDatasetOptions(batch_size=1, num_epochs=1)
    schema = io_utils.parse_pbtxt_file(fn_args.schema_file, schema_pb2.Schema())
    read = fn_args.data_accessor.tf_dataset_factory(fn_args.train_files, options, schema)
    rows = [float(row["x"].values[0]) for row in read]
    with open(f"{fn_args.model_run_dir}/told.json", "w") as file:
        json.dump({"told": told, "rows": rows, "keras": tf.keras.Model.__module__, "neighbor": neighbor.HERE}, file)
    if fn_args.custom_config["save"]:
        tf.saved_model.save(tf.Module(), fn_args.serving_model_dir)
    else:
        raise ValueError("no rows")
"""


def example(x):
    value = tf.train.Feature(float_list=tf.train.FloatList(value=[x]))
    return tf.train.Example(features=tf.train.Features(feature={"x": value}))


@pytest.fixture
def node(tmp_path):
    """Returns the inputs, the outputs and a maker of the parameters of a Trainer on two train rows."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "models.py").write_text(MODULE)
    (tmp_path / "mine" / "neighbor.py").write_text("HERE = 'yes'\n")
    use_modules_of(tmp_path / "mine")
    made = {name: kind() for name, kind in (
        ("examples", standard_artifacts.Examples), ("schema", standard_artifacts.Schema),
        ("transform_graph", standard_artifacts.TransformGraph), ("hyperparameters", standard_artifacts.HyperParameters),
        ("model", standard_artifacts.Model), ("model_run", standard_artifacts.ModelRun),
    )}  # fmt: skip
    for name, artifact in made.items():
        artifact.uri = str(tmp_path / name)
        (tmp_path / name).mkdir()
    made["examples"].split_names = '["train", "eval"]'
    for split in ("train", "eval"):
        (tmp_path / "examples" / f"Split-{split}").mkdir()
        with tf.io.TFRecordWriter(str(tmp_path / "examples" / f"Split-{split}" / "rows")) as writer:
            for x in (1.5, 2.5):
                writer.write(example(x).SerializeToString())
    (tmp_path / "schema" / "schema.pbtxt").write_text('feature { name: "x" type: FLOAT }')
    (tmp_path / "hyperparameters" / "best.txt").write_text('{"units": 3}')
    inputs = {name: [made[name]] for name in ("examples", "schema", "transform_graph", "hyperparameters")}
    outputs = {name: [made[name]] for name in ("model", "model_run")}

    def parameters(custom, **options):
        return {"run_fn": "models:run_fn", "train_args": '{"num_steps": 7}', "eval_args": "{}",
                "custom_config": json_utils.dumps({"custom_config": custom, **options})}  # fmt: skip

    return inputs, outputs, parameters


def test_it_gets_what_tfx_gives_and_its_export_is_described(node, tmp_path):
    inputs, outputs, parameters = node
    custom, facts = {"save": True, "deep": {"units": [3, 4]}}, {"name": "penguins", "made_from": "abc"}
    RunFnExecutor().Do(inputs, outputs, parameters(custom, keras=2, facts=facts))
    told = json.loads((tmp_path / "model_run" / "told.json").read_text())
    of_tfx = vars(GenericExecutor()._GetFnArgs(inputs, outputs, parameters(None) | {
        "custom_config": json_utils.dumps(custom)}))  # fmt: skip
    assert told["told"] == {name: value for name, value in of_tfx.items() if name != "data_accessor"}
    assert (told["told"]["train_steps"], told["told"]["eval_steps"]) == (7, None)
    assert told["keras"].startswith("tf_keras.")
    assert (sorted(told["rows"]), told["neighbor"]) == ([1.5, 2.5], "yes")
    export = str(tmp_path / "model" / "Format-Serving")
    described = read_description(export)
    assert (described["name"], described["made_from"], described["run_fn"]) == ("penguins", "abc", "models:run_fn")
    assert "saved_model.pb" in described["files"]
    verify_export(export)


def test_an_error_of_the_module_is_that_of_the_node(node, tmp_path):
    inputs, outputs, parameters = node
    with pytest.raises(UserError) as refused:
        RunFnExecutor().Do(inputs, outputs, parameters({"save": False}, keras=3, facts={}))
    at = f"{tmp_path}/mine/models.py:19 in run_fn"
    assert f"models:run_fn raised ValueError: no rows\n  at {at}" in str(refused.value)
    assert json.loads((tmp_path / "model_run" / "told.json").read_text())["keras"].startswith("keras.")
