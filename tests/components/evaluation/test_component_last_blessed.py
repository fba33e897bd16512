"""Tests which blessed models are measured on the rows of a pipeline, and what the gate says of the others."""

import json

import pytest

from fullpass.base import state_file
from fullpass.components.evaluation.component import why_not_measured
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.verdict import read_verdict
from fullpass.components.evaluation.measure.measured_metrics import read_measured
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.trainer.export.export_files import DESCRIPTION
from tests.components.evaluation.answering_model import READS, Answers, evaluate, example, saved, written

ZONE, MILES = {"name": "zone", "type": "string"}, {"name": "miles", "type": "number"}
ABSENT = "the last blessed model reads hour, which this pipeline no longer reads"


def describe(export, columns, label="fare", task="regression"):
    path = export / DESCRIPTION
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(state_file.encode({"label": label, "task": task, "columns": columns}))


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"columns": [MILES]}, ""),
        ({"columns": [ZONE, MILES]}, ""),
        ({"columns": [{"name": "hour", "type": "number"}, MILES]}, ABSENT),
        (
            {"columns": [{**ZONE, "type": "number"}]},
            "the last blessed model reads zone as a number, and this pipeline as text",
        ),
        (
            {"columns": [MILES], "label": "tip"},
            "the last blessed model predicts tip (regression), and this pipeline fare (regression)",
        ),
        (
            {"columns": [MILES], "task": "binary"},
            "the last blessed model predicts fare (binary), and this pipeline fare (regression)",
        ),
    ],
    ids=["fewer columns", "the same columns", "another column", "another type", "another label", "another task"],
)
def test_a_model_is_measured_if_the_rows_have_what_it_reads_and_predicts(tmp_path, described, why):
    describe(tmp_path, **described)
    assert why_not_measured(str(tmp_path), READS) == why


def test_an_export_without_a_description_is_measured(tmp_path):
    assert why_not_measured(str(tmp_path), READS) == ""


@pytest.mark.parametrize(("of_tfx", "other"), [({"run_fn": "m:run_fn"}, False), ({}, True)])
def test_models_of_two_trainers_are_not_compared(tmp_path, of_tfx, other):
    (tmp_path / DESCRIPTION).parent.mkdir()
    described = {"label": "fare", "task": "regression", "columns": [MILES], **of_tfx}
    (tmp_path / DESCRIPTION).write_bytes(state_file.encode(described))
    assert "was trained by another Trainer" in why_not_measured(str(tmp_path), READS, other=other)
    assert why_not_measured(str(tmp_path), READS, other=not other) == ""


@pytest.mark.integration
@pytest.mark.parametrize(("threshold", "blessed"), [({"not_worse_than": "blessed"}, False), ({"max": 10}, True)])
def test_a_model_that_reads_a_column_the_rows_lack_is_not_compared_and_the_verdict_says_so(
    tmp_path, threshold, blessed
):
    """The old model is wrong by 5, as models are whose best column is missing, and the new one by 1."""
    rows = [
        example({LABEL: [i], "new": [i + 1], "old": [i + 5], SPAN: [0], ROW_ID: [i], EXAMPLE_WEIGHT: [1]}, {})
        for i in range(50)
    ]
    examples = written(rows, tmp_path / "examples", 0)
    models = [saved(Answers(column), tmp_path / column, n) for n, column in enumerate(("new", "old"), start=1)]
    describe(tmp_path / "old" / "Format-Serving", [{"name": "hour", "type": "number"}])
    config = EvaluationConfig.model_validate({"thresholds": {"mae": threshold}})
    options = json.dumps({"columns": {}, "spanned": False})
    made = evaluate(config, examples, models, tmp_path / "made", options=options)
    (blessing,) = made["blessing"]
    assert blessing.get_int_custom_property("blessed") == blessed
    assert not blessing.get_string_custom_property("baseline_model")
    uri = made["evaluation"][0].uri
    (whole,) = read_measured(uri)
    assert (whole.values["mae"], whole.baseline) == (pytest.approx(1), {})
    verdict = read_verdict(uri)
    assert f"mae: not compared, because {ABSENT}" in verdict.notes
    reason = f"mae is 1.0000, not compared, because {ABSENT} (evaluation.thresholds.mae.not_worse_than;"
    assert [why.startswith(reason) for why in verdict.reasons] == ([] if blessed else [True])
