"""A model of another Trainer: its labels and scores against those computed by hand."""

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.errors import UserError
from fullpass.components.evaluation.measure.other_model import LabelOutput, types_in
from fullpass.components.evaluation.measure.score_rows import Scorer

pytestmark = pytest.mark.integration
TEXTS = tf.TensorSpec([None], tf.string, "examples")


class _Model(tf.Module):
    """Two numbers of a row are its scores; the label is a third column."""

    def _parse(self, examples):
        spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "y": tf.io.FixedLenFeature([1], tf.int64)}
        return tf.io.parse_example(examples, spec)

    @tf.function(input_signature=[TEXTS])
    def serve(self, examples):
        return {"outputs": self._parse(examples)["x"]}

    @tf.function(input_signature=[TEXTS])
    def serve_one(self, examples):
        return {"outputs": self._parse(examples)["x"][:, :1]}

    @tf.function(input_signature=[TEXTS])
    def features(self, examples):
        return {"y_xf": self._parse(examples)["y"]}


def example(x, y):
    features = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[y])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


ROWS = [example([0.25, -1.0], 0), example([2.0, 1.0], 1)]


@pytest.fixture
def saved(tmp_path):
    def save(serve="serve"):
        module, folder = _Model(), str(tmp_path / serve)
        signatures = {"serving_default": getattr(module, serve), "transform_features": module.features}
        tf.saved_model.save(module, folder, signatures=signatures)
        return folder

    return save


def test_logits_become_probabilities_and_each_row_has_its_label(saved):
    scored = Scorer([saved()], {}, LabelOutput("y_xf", logits=True))(tf.constant(ROWS))
    [model] = scored.models
    assert model.labels.tolist() == [0.0, 1.0] and model.weights.tolist() == [1.0, 1.0]
    logits = np.array([[0.25, -1.0], [2.0, 1.0]])
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.scores, expected, rtol=1e-6)
    assert model.classes == ("0", "1") and len(set(scored.row_ids.tolist())) == 2


def test_a_single_score_stays_what_it_is(saved):
    [model] = Scorer([saved("serve_one")], {}, LabelOutput("y_xf"))(tf.constant(ROWS)).models
    assert model.scores.tolist() == [0.25, 2.0]


def test_slices_by_a_column_of_integers_are_those_of_its_numbers(saved, tmp_path):
    file = str(tmp_path / "rows")
    with tf.io.TFRecordWriter(file) as writer:
        for row in ROWS:
            writer.write(row)
    types = types_in(file, {"y": "number", "x": "number", "z": "string"})
    assert types == {"y": "integer", "x": "number", "z": "string"}
    scored = Scorer([saved()], {"y": types["y"]}, LabelOutput("y_xf", logits=True))(tf.constant(ROWS))
    column = scored.columns["y"]
    assert [column.values[code] for code in column.codes] == [0.0, 1.0]


def test_a_label_that_is_not_there_is_named_with_those_that_are(saved):
    with pytest.raises(UserError, match=r"no output 'y'.*Give label= one of y_xf"):
        Scorer([saved()], {}, LabelOutput("y"))
    with pytest.raises(UserError, match="is of another Trainer, and tells no label"):
        Scorer([saved()], {})
