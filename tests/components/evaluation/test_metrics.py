"""A new metric is a row, a formula and a term: nothing else of the source is touched."""

import numpy as np
import pytest

from fullpass.components.evaluation.measure.class_counts import CLASS_FORMULAS, PER_CLASS
from fullpass.components.evaluation.measure.metric_terms import FORMULAS
from fullpass.components.evaluation.measure.one_vs_rest import is_one_vs_rest
from fullpass.components.evaluation.measure.slice_states import AREAS
from fullpass.components.evaluation.metrics import METRICS, OF_A_CLASS
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
from fullpass.components.evaluation.measure.slice_states import SliceAccumulator
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
        "components/evaluation/metrics.py",
        '    "mse": Metric(',
        '    "error_cubed": Metric(("regression",), False),\n',
    ),
    (
        "components/evaluation/measure/metric_terms.py",
        '    "squared_error": ',
        '    "cubed": lambda r: np.abs(r.scores - r.labels) ** 3,\n',
    ),
    (
        "components/evaluation/measure/metric_terms.py",
        '    "mse": _mean(',
        '    "error_cubed": _mean("cubed", "weight"),\n',
    ),
)


@pytest.mark.integration
def test_a_metric_is_added_in_three_places(tmp_path):
    assert insert_lines(copy_source(tmp_path), ADDED) == 3
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "good.yaml").write_text(YAML.replace("MOST", "3"))
    told = answers_of(PROGRAM, tmp_path)
    assert told["problems"] == [] and told["page"] and told["schema"]
    assert told["value"] == pytest.approx([np.mean([0.5**3, 1.0, 0.0])])


def test_every_metric_has_a_formula_or_is_an_area():
    of_sums = FORMULAS.keys() | AREAS.keys() | CLASS_FORMULAS.keys()
    assert METRICS.keys() == of_sums | {name for name in METRICS if is_one_vs_rest(name)}
    assert len(of_sums & {name for name in METRICS if is_one_vs_rest(name)}) == 0
    assert OF_A_CLASS.keys() == PER_CLASS.keys() | {"auc"}
