"""Steps read from a graph answer like the graph; a feature without steps is refused by its name."""

import json

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.portable.preprocess import Preprocessing
from fullpass.components.portable.read_graph import GraphReader
from fullpass.preprocessing.apply.category import separated_tokens
from fullpass.preprocessing.apply.column_tensors import Columns
from fullpass.preprocessing.config import PreprocessingConfig

pytestmark = pytest.mark.integration
ROWS = [{"fare": 9.0, "city": "Rome", "tags": ["a", "b"]}, {"city": "Oslo"}, {"fare": None, "city": "", "tags": ["b"]}]


@pytest.fixture(scope="module")
def saved():
    module = tf.Module()
    keys = tf.lookup.KeyValueTensorInitializer(["Rome", "Oslo"], tf.constant([1, 2], tf.int64))
    module.table = tf.lookup.StaticHashTable(keys, -1)
    columns = {"fare": tf.float32, "city": tf.string, "tags": tf.string}

    @tf.function(
        autograph=False, input_signature=[{n: tf.SparseTensorSpec([None, None], t) for n, t in columns.items()}]
    )
    def transform(raw):
        rows = raw["city"].dense_shape[0]

        def cells(name, missing):
            one = tf.SparseTensor(raw[name].indices, raw[name].values, tf.stack([rows, 1]))
            return tf.sparse.to_dense(one, missing, validate_indices=False)[:, 0]

        fare, tags = cells("fare", np.float32("nan")), raw["tags"]
        hashed = tf.strings.to_hash_bucket_fast(tags.values, 5) + 1
        return {
            "fare_xf": tf.where(tf.math.is_nan(fare), 0.0, tf.math.log1p(fare) - tf.sqrt(2.0)),
            "city_xf": module.table.lookup(cells("city", "")),
            "tags_xf": tf.SparseTensor(tags.indices, hashed, tags.dense_shape),
            "words_xf": tf.strings.unicode_transcode(cells("city", ""), "UTF-8", "UTF-16-BE"),
        }

    module.transform = transform
    return module


KINDS = {"fare": ("number", False), "city": ("string", False), "tags": ("string", True)}


def preprocessing_of(saved, folder, names, kinds=KINDS):
    reader = GraphReader(saved.transform.get_concrete_function())
    inputs = reader.inputs({name: name for name in names})
    content = {
        "columns": {name: {"type": kind, "many": many, "decimal": "."} for name, (kind, many) in kinds.items()},
        "feeds": reader.feeds,
        "inputs": inputs,
        "answer": {"classes": ["no", "yes"], "levels": [], "threshold": 0.3, "separator": None},
        "tables": reader.tables,
        "steps": reader.used(inputs.values()),
    }
    (folder / "preprocessing.json").write_text(json.dumps(content))
    return Preprocessing(folder / "preprocessing.json")


def test_rows_become_the_inputs_of_the_network(saved, tmp_path):
    found = preprocessing_of(saved, tmp_path, ["fare_xf", "city_xf", "tags_xf"]).features(ROWS)
    np.testing.assert_allclose(found["fare_xf"], [np.log(10.0) - np.sqrt(2.0), 0.0, 0.0], rtol=1e-6)
    assert found["fare_xf"].dtype == np.float32
    assert found["city_xf"].tolist() == [1, 2, -1] and found["city_xf"].dtype == np.int64
    a, b = (hash_of(text) for text in ("a", "b"))
    assert found["tags_xf"].tolist() == [[a, b], [0, 0], [b, 0]]


def hash_of(text):
    return int(tf.strings.to_hash_bucket_fast(text, 5)) + 1


def test_the_threshold_decides_the_answer(saved, tmp_path):
    answers = preprocessing_of(saved, tmp_path, ["fare_xf"]).answers(np.array([[0.6, 0.4], [0.8, 0.2]]))
    assert [answer["prediction"] for answer in answers] == ["yes", "no"]
    assert answers[1]["probabilities"] == {"no": 0.8, "yes": 0.2}


def test_a_feature_without_steps_is_refused_by_name(saved, tmp_path):
    with pytest.raises(UserError, match=r"words_xf: UnicodeTranscode\n.*Remove these features"):
        preprocessing_of(saved, tmp_path, ["fare_xf", "words_xf"])


def test_lists_in_text_become_rows_of_ids(tmp_path):
    feature = {"type": "category", "separator": "['a', 'b']"}
    label = {"name": "y", "task": "regression"}
    config = PreprocessingConfig.model_validate({"features": {"x": feature}, "label": label})

    @tf.function(autograph=False, input_signature=[{"x": tf.SparseTensorSpec([None, None], tf.string)}])
    def transform(raw):
        rows = separated_tokens(Columns(raw, config), "x", "['a', 'b']")
        return {"x_xf": rows.with_values(tf.strings.to_hash_bucket_fast(rows.values, 5) + 1).to_sparse()}

    module = tf.Module()
    module.transform = transform
    found = preprocessing_of(module, tmp_path, ["x_xf"], {"x": ("string", False)})
    rows = [{"x": "['Ann, Lee', 'Bo']"}, {"x": "[]"}, {}, {"x": '["O\'Hara"]'}]
    ids = {text: hash_of(text) for text in ("Ann, Lee", "Bo", "O'Hara")}
    expected = [[ids["Ann, Lee"], ids["Bo"]], [0, 0], [0, 0], [ids["O'Hara"], 0]]
    assert found.features(rows)["x_xf"].tolist() == expected
