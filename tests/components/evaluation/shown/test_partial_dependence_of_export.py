"""The partial dependence of a real export, against its outputs for serialized rows with a replaced column."""

import pytest
import tensorflow as tf

from fullpass.components.evaluation.shown.partial_dependence import dependence_of_export
from fullpass.preprocessing.config import PreprocessingConfig
from tests.trainer.conftest import to_examples

pytestmark = pytest.mark.integration
ROWS = 150
"""Fewer rows than the sample limit, so that the means are over all rows."""


def test_the_curves_are_the_means_of_the_answers_to_replaced_rows(exported):
    trained = exported("regression")
    rows = trained.prepared.rows["eval"][:ROWS]
    config = PreprocessingConfig.model_validate(trained.prepared.preprocessing)
    found = dependence_of_export(str(trained.directory), to_examples(rows), config, trained.training["importance"])
    assert (found.rows, found.series) == (ROWS, ("prediction",))
    serve = tf.saved_model.load(str(trained.directory)).signatures["serving_default"]

    def mean(**replaced):
        examples = to_examples([{**row, **replaced} for row in rows])
        return float(serve(examples=tf.constant(examples))["scores"].numpy().mean())

    assert found.means == pytest.approx((mean(),), rel=1e-4)
    shown = {one.column: one for one in found.columns}
    x, kind = shown["x"], shown["kind"]
    assert x.scores[0] == pytest.approx([mean(x=place) for place in x.places], rel=1e-4)
    assert kind.scores[0] == pytest.approx([mean(kind=value) for value in kind.values], rel=1e-4)
    assert list(x.scores[0]) == sorted(x.scores[0]), "price is 1000 + 200 x + 50 miles"
    assert {"text", "a vector"} <= set(found.left_out.values())
