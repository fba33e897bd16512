"""Transform on the examples of another ExampleGen, whose properties tell neither rows nor span."""

import glob

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from tfx.types import Channel, standard_artifacts

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.ingest.component import rows_of_split
from fullpass.components.ingest.config import RecordsConfig
from fullpass.components.internals.tfx_internals import base_beam_executor
from fullpass.components.transform.component import Transform, TransformExecutor
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.output import transformed_name

pytestmark = pytest.mark.integration
X = {"train": np.array([1.0, 2.0, 6.0]), "eval": np.array([3.0])}
MODULE = """\
import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    assert isinstance(inputs["n"], tf.Tensor) and inputs["n"].dtype == tf.int64
    return {"x_xf": tft.scale_to_z_score(inputs["x"]), "n_xf": inputs["n"], "y_xf": tf.cast(inputs["y"] > 1, tf.int64)}
"""


def _example(x, n):
    floats = {"x": x, "y": 2.0 * n}
    features = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[v])) for name, v in floats.items()}
    features["n"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture
def transform(tmp_path):
    """Returns `transform(config)`, which runs the executor on records as CsvExampleGen and SchemaGen describe them."""

    def artifact(kind, name):
        found = kind()
        found.uri = str(tmp_path / name)
        (tmp_path / name).mkdir()
        return found

    examples = artifact(standard_artifacts.Examples, "examples")
    examples.split_names = '["train", "eval"]'
    for split, values in X.items():
        (tmp_path / "examples" / f"Split-{split}").mkdir()
        file = str(tmp_path / "examples" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz")
        with tf.io.TFRecordWriter(file, "GZIP") as writer:
            for number, value in enumerate(values):
                writer.write(_example(value, number))
    schema = artifact(standard_artifacts.Schema, "schema")

    def run(config, *integers):
        shape = "shape { dim { size: 1 } } presence { min_fraction: 1 }"
        kinds = {name: "INT" if name in integers else "FLOAT" for name in ("x", "n", "y")}
        columns = [f'feature {{ name: "{name}" type: {kind} {shape} }}' for name, kind in kinds.items()]
        (tmp_path / "schema" / "schema.pbtxt").write_text("\n".join(columns))
        made = {
            "transform_graph": [artifact(standard_artifacts.TransformGraph, "graph")],
            "transformed_examples": [artifact(standard_artifacts.Examples, "transformed")],
        }
        channels = {"examples": standard_artifacts.Examples, "schema": standard_artifacts.Schema}
        given = {name: Channel(type=kind) for name, kind in channels.items()}
        node = Transform(config, materialize=True, records=RecordsConfig(), gzip=False, code="", **given)
        context = base_beam_executor.BaseBeamExecutor.Context(tmp_dir=str(tmp_path / "tmp"), unique_id="1")
        TransformExecutor(context).Do({"examples": [examples], "schema": [schema]}, made, node.exec_properties)
        rows = {}
        for split in X:
            files = sorted(glob.glob(f"{made['transformed_examples'][0].uri}/Split-{split}/*"))
            spec = tft.TFTransformOutput(made["transform_graph"][0].uri).transformed_feature_spec()
            records = [record.numpy() for file in files for record in tf.data.TFRecordDataset(file)]
            rows[split] = tf.io.parse_example(records, spec)
        assert rows_of_split([examples], "train") == 3
        return rows

    return run


def test_a_preprocessing_fn_of_tfx_gets_all_columns_as_the_schema_says_and_names_the_outputs(tmp_path, transform):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pre.py").write_text(MODULE)
    use_modules_of(tmp_path / "modules")
    config = PreprocessingConfig.model_validate(
        {
            "features": {"x": {"type": "number"}},
            "label": {"name": "y", "task": "binary"},
            "function": "pre:preprocessing_fn",
            "whole": True,
        }
    )
    rows = transform(config, "n")
    mean, deviation = X["train"].mean(), X["train"].std()
    for split, values in X.items():
        assert set(rows[split]) == {"x_xf", "n_xf", "y_xf"}
        order = np.argsort(rows[split]["n_xf"].numpy().ravel())
        found = rows[split]["x_xf"].numpy().ravel()[order]
        np.testing.assert_allclose(found, (values - mean) / deviation, rtol=1e-5)


def test_features_of_the_yaml_read_its_numbers(transform):
    config = {
        "features": {"x": {"type": "number", "transforms": ["z_score"]}},
        "label": {"name": "y", "task": "regression"},
    }
    rows = transform(PreprocessingConfig.model_validate(config), "n")
    values = sorted(rows["train"][transformed_name("x")].numpy().ravel())
    np.testing.assert_allclose(values, (X["train"] - X["train"].mean()) / X["train"].std(), rtol=1e-5)


def test_integers_for_features_of_the_yaml_are_refused_with_what_reads_them(transform):
    config = {"features": {"n": {"type": "number"}}, "label": {"name": "y", "task": "regression"}}
    with pytest.raises(UserError, match="column 'n': the examples hold integers, and the features read a number"):
        transform(PreprocessingConfig.model_validate(config), "n")
