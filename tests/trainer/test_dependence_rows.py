"""The partial dependence of a real export, against its outputs for serialized rows with a replaced column."""

import pytest

from fullpass.preprocessing.config import PreprocessingConfig

pytestmark = pytest.mark.integration
ROWS = 150
"""Fewer rows than the sample limit, so that the means are over all rows."""


def test_the_curves_are_the_means_of_the_answers_to_replaced_rows(exported, tmp_path):
    import tensorflow as tf

    from fullpass.components.evaluation.dependence_rows import dependence_of_export, sample_records
    from tests.trainer.conftest import to_examples, write_records

    trained = exported("regression")
    rows = trained.prepared.rows["eval"][:ROWS]
    write_records(tmp_path / "eval", to_examples(rows), 3)
    files = sorted(map(str, (tmp_path / "eval").iterdir()))
    assert sorted(sample_records(files, ROWS)) == sorted(to_examples(rows))
    config = PreprocessingConfig.model_validate(trained.prepared.preprocessing)
    found = dependence_of_export(str(trained.directory), files, ROWS, config, trained.training["importance"])
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


def test_rows_are_taken_from_all_of_a_file(tmp_path):
    from fullpass.components.evaluation.dependence_rows import sample_records
    from tests.trainer.conftest import write_records

    write_records(tmp_path / "eval", [f"{number:05}".encode() for number in range(10_000)], 1)
    taken = [int(record) for record in sample_records(sorted(map(str, (tmp_path / "eval").iterdir())), 10_000)]
    assert taken == list(range(0, 10_000, 5))
