"""The Evaluator on real models and real records: its metrics, its verdict and its blessing."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk

from fullpass.base.errors import UserError
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.verdict import read_verdict
from fullpass.components.evaluation.measure.class_results import read_class_results
from fullpass.components.evaluation.measure.measured_metrics import read_measured
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from tests.components.evaluation.answering_model import Answers, evaluate, example, saved, written

pytestmark = pytest.mark.integration
# Zone -> rows, and the errors of the new and of the last blessed model.
ZONES = {"good": (150, 1.0, 1.0), "worse": (120, 3.0, 1.0), "tiny": (10, 100.0, 1.0)}
NEWEST = 7
TOGETHER = (150 * 1 + 120 * 3 + 10 * 100) / 280
SLICES = {"not_worse_than": "blessed", "tolerance": 1, "min_examples": 100}
OPTIONS = json.dumps({"columns": {"zone": "string"}, "spanned": True})


def rows():
    """Yields the rows of all zones; every second row is of the newest span."""
    for zone, (count, new, old) in ZONES.items():
        for i in range(count):
            label = float(i % 5)
            numbers = {LABEL: label, "new": label + new, "old": label + old, SPAN: NEWEST - i % 2, ROW_ID: i}
            yield example({name: [v] for name, v in {**numbers, EXAMPLE_WEIGHT: 1}.items()}, {"zone": zone})


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Returns `evaluated(threshold of mae)`, which returns the evaluation's folder and the blessing."""
    folder = tmp_path_factory.mktemp("evaluated")
    examples = written(list(rows()), folder / "examples", NEWEST)
    models = [saved(Answers(column), folder / column, n) for n, column in enumerate(("new", "old"), start=1)]

    def run(threshold, name):
        config = EvaluationConfig.model_validate({"slices": [["zone"]], "thresholds": {"mae": threshold}})
        made = evaluate(config, examples, models, folder / name, options=OPTIONS)
        (blessing,) = made["blessing"]
        blessed = blessing.get_int_custom_property("blessed") == 1
        marks = {path.name for path in Path(blessing.uri).iterdir()}
        assert marks == {"BLESSED" if blessed else "NOT_BLESSED"}
        assert blessing.get_string_custom_property("baseline_model") == str(folder / "old")
        assert blessing.get_int_custom_property("current_model_id") == 1
        return made["evaluation"][0].uri, blessed

    return run


def test_a_worse_slice_blocks_the_push_and_a_tiny_one_does_not(evaluated):
    uri, blessed = evaluated({"max": 10, "slices": SLICES}, "worse")
    verdict = read_verdict(uri)
    assert not blessed
    assert verdict.reasons == (
        "on the slice zone worse (120 examples) mae is 3.0000, the last blessed model has 1.0000 on the same rows: "
        "worse by over 1 (evaluation.thresholds.mae.slices.tolerance)",
    )
    assert [(m.value, m.baseline, m.passed) for m in verdict.metrics] == [(pytest.approx(TOGETHER), 1.0, True)]
    assert verdict.examples == 280 and verdict.newest_examples == 140
    assert verdict.notes == ("mae: of 3 slices, 1 have fewer than 100 examples (10 in all); these are not judged",)


def test_every_slice_is_shown_on_the_window_and_on_the_newest_span(evaluated):
    uri, blessed = evaluated({"slices": {**SLICES, "tolerance": 2}}, "held")
    assert blessed
    found = {(one.name, one.newest): one for one in read_verdict(uri).slices}
    for zone, (count, new, old) in ZONES.items():
        for newest, rows_of_it in ((False, count), (True, count // 2)):
            one = found.pop((f"zone {zone}", newest))
            assert one.examples == rows_of_it
            assert (one.values["mae"], one.baseline["mae"]) == (pytest.approx(new), pytest.approx(old))
    assert not found


def test_the_newest_span_is_judged_by_itself(evaluated):
    uri, blessed = evaluated({"newest_span": {"slices": {"max": 2, "min_examples": 60}}}, "newest")
    reasons = read_verdict(uri).reasons
    assert not blessed and len(reasons) == 1
    assert "on the slice zone worse of the newest span (60 examples) mae is 3.0000" in reasons[0]


def test_metrics_and_matrix_are_of_what_the_export_predicts(tmp_path):
    rng = np.random.default_rng(3)
    labels, scores = (rng.random(400) < 0.3) * 1.0, rng.random(400).round(3)
    scores = np.clip(scores * 0.6 + labels * 0.2, 0, 1).astype(np.float32)
    rows = [
        example({LABEL: [label], "new": [score], EXAMPLE_WEIGHT: [1], SPAN: [NEWEST], ROW_ID: [i]}, {"zone": "x"})
        for i, (label, score) in enumerate(zip(labels, scores, strict=True))
    ]
    model = saved(Answers("new", decides=("no", "yes", 0.33)), tmp_path / "new", 1)
    config = EvaluationConfig.model_validate({"metrics": ["auc", "f1", "mcc", "precision"]})
    made = evaluate(config, written(rows, tmp_path / "rows", NEWEST), [model], tmp_path / "of", options=OPTIONS)
    uri, said = made["evaluation"][0].uri, scores > np.float32(0.33)
    values = read_measured(uri)[0].values
    assert values["f1"] == pytest.approx(sk.f1_score(labels, said))
    assert values["mcc"] == pytest.approx(sk.matthews_corrcoef(labels, said))
    assert values["precision"] == pytest.approx(sk.precision_score(labels, said))
    (classes,) = read_class_results(uri)
    matrix = sk.confusion_matrix(labels, said).ravel()
    pairs = [("no", "no"), ("no", "yes"), ("yes", "no"), ("yes", "yes")]
    assert {(c.label, c.predicted): c.weight for c in classes.cells} == dict(zip(pairs, matrix, strict=True))


def test_an_evaluation_without_its_measured_metrics_is_refused(tmp_path):
    with pytest.raises(UserError, match="no measured.json. Run the pipeline again"):
        read_measured(str(tmp_path))
