"""A new metric is a row and a term: nothing else of the source is touched."""

import numpy as np
import pytest

from fullpass.components.evaluation.measure.formulas import COUNT, Formula
from fullpass.components.evaluation.measure.metric_terms import TERMS
from fullpass.components.evaluation.measure.metrics import METRICS
from fullpass.components.evaluation.measure.moments import MOMENTS
from tests.changed_source import answers_of, copy_source, insert_lines

LABELS, SCORES = [1.0, 2.0, 4.0], [1.5, 1.0, 4.0]
YAML = """
name: worst
data: {source: {format: csv, path: rows.csv}}
label: {name: y, task: regression}
features: {x: number}
evaluation: {metrics: [error_cubed], thresholds: {error_cubed: {max: MOST}}}
"""
PROGRAM = f"""
import json
from pathlib import Path

import numpy as np

from fullpass.components.evaluation.measure.scored_rows import Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.pipeline.authoring.checks.check import check
from fullpass.pipeline.authoring.loading.json_schema import json_schema
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.reference.reference import config_page

loaded = load(Path("good.yaml"))
scored = Scored(np.array({LABELS}), np.ones(3), np.array({SCORES}))
rows = ScoredRows(np.arange(3), np.zeros(3, np.int64), {{}}, (scored,))
one = SliceAccumulator(("error_cubed",), (), None, 1)
print(json.dumps({{
    "problems": [problem.message for problem in check(loaded) if problem.severity == "error"],
    "page": any("`error_cubed`" in less for less in [row.split("|")[3] for row in config_page().splitlines()
                if row.startswith("| regression |")]),
    "schema": "error_cubed" in json.dumps(json_schema()),
    "value": one.measure(one.add(one.start(), rows)).values[0]["error_cubed"].tolist(),
}}))
"""


ADDED = (
    (
        "components/evaluation/measure/metrics.py",
        '    "mse": Metric(',
        '    "error_cubed": Metric(("regression",), False, mean_of_term("cubed", "weight")),\n',
    ),
    (
        "components/evaluation/measure/metric_terms.py",
        '    "squared_error": ',
        '    "cubed": lambda r: np.abs(r.scores - r.labels) ** 3,\n',
    ),
)


@pytest.mark.integration
def test_a_metric_is_added_in_two_places(tmp_path):
    assert insert_lines(copy_source(tmp_path), ADDED) == 2
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "good.yaml").write_text(YAML.replace("MOST", "3"))
    told = answers_of(PROGRAM, tmp_path)
    assert told["problems"] == [] and told["page"] and told["schema"]
    assert told["value"] == pytest.approx([np.mean([0.5**3, 1.0, 0.0])])


def test_every_term_of_a_metric_is_known():
    formulas = [metric.computed for metric in METRICS.values() if isinstance(metric.computed, Formula)]
    terms = {term for f in formulas for term in (*f.terms, f.trials, f.rests_on, f.tail) if term}
    assert terms <= {*TERMS, *MOMENTS, COUNT} and len(formulas) > 20
