"""Texts of the report, for a model whose outputs are a column of the row."""

from dataclasses import asdict

import numpy as np
import pytest
import tensorflow as tf

from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.shown.shown_files import TEXTS_FILE, ShownText, read_texts
from fullpass.components.evaluation.shown.shown_texts import texts_of_export
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.preprocessing.config import PreprocessingConfig
from tests.components.evaluation.answering_model import Answers, example, saved

pytestmark = pytest.mark.integration


class Classes(Answers):
    """A model that predicts `spam` where its column, a probability, is above 0.5."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(self, examples):
        scores = self._read(examples, self._column)
        names = tf.constant([["ham", "spam"]])
        prediction = tf.where(scores[:, 0] > 0.5, "spam", "ham")
        return {"scores": scores, "classes": tf.repeat(names, tf.shape(scores)[0], axis=0), "prediction": prediction}


def test_the_surest_mistakes_come_first_and_texts_are_cut(tmp_path):
    told = [("free", 1, 0.9, 1), ("hello", 0, 0.7, 1), ("x" * 400, 0, 0.95, 1), ("hi", 1, 0.2, 1), ("lost", 1, 0.1, 0)]
    rows = [
        example({LABEL: [y], "p": [p], EXAMPLE_WEIGHT: [w], ROW_ID: [i], SPAN: [0]}, {"body": text})
        for i, (text, y, p, w) in enumerate(told)
    ]
    saved(Classes("p"), tmp_path / "model", 1)

    def found(task="binary", **features):
        config = PreprocessingConfig.model_validate({"features": features, "label": {"name": "y", "task": task}})
        return texts_of_export(str(tmp_path / "model/Format-Serving"), rows, config)

    shown = found(message={"type": "text", "column": "body"}, p="number")
    assert [(one.texts["message"][:5], one.label, one.prediction, one.right) for one in shown] == [
        ("xxxxx", "ham", "spam", False),
        ("hi", "spam", "ham", False),
        ("hello", "ham", "spam", False),
        ("free", "spam", "spam", True),
    ]
    assert len(shown[0].texts["message"]) == 300 and shown[0].texts["message"].endswith("…")
    np.testing.assert_allclose([one.probability for one in shown], [0.95, 0.8, 0.7, 0.9], rtol=1e-6)
    assert found(p="number") == () == found(task="regression", message={"type": "text", "column": "body"})


def test_the_report_reads_what_the_evaluator_wrote(tmp_path):
    shown = (ShownText({"body": "hi"}, "ham", "spam", 0.8),)
    (tmp_path / TEXTS_FILE).write_text(to_json_text([asdict(one) for one in shown]))
    assert read_texts(str(tmp_path)) == shown
    assert read_texts(str(tmp_path / "nothing")) == ()
