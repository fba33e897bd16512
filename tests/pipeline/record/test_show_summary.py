"""What a run ends with, as it is printed: the last blessed model beside the new one, and slices that do not hold."""

from pathlib import Path

import pytest

from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.judge.judge_metrics import judge_metrics
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.pipeline.printing import console
from fullpass.pipeline.record.events import RunResult
from fullpass.pipeline.record.run_summary import RunSummary
from fullpass.pipeline.record.show_summary import print_summary

WINDOW = [(None, 1000, 0.8, 0.82), ("a", 600, 0.9, 0.9), ("b", 390, 0.6, 0.75), ("c", 10, 0.1, 0.9)]
NEWEST = [(None, 100, 0.71, 0.83), ("a", 60, 0.88, 0.87), ("b", 40, 0.79, 0.78)]


def rows(*, newest):
    for zone, examples, value, baseline in NEWEST if newest else WINDOW:
        values = {"auc": value, "example_count": float(examples)}
        yield MeasuredRows(() if zone is None else (("zone", zone),), values, {"auc": baseline}, newest)


@pytest.fixture
def printed(capsys):
    """Returns `printed(threshold of auc)`: the lines of a refused model's summary."""

    def run(threshold):
        config = EvaluationConfig.model_validate({"slices": [["zone"]], "thresholds": {"auc": threshold}})
        verdict = judge_metrics([*rows(newest=False), *rows(newest=True)], config)
        summary = RunSummary(verdict=verdict, rows={"train": 9000, "eval": 1020})
        result = RunResult(run_id="1", pipeline_name="p", metadata_path=Path("m"), nodes=(), seconds=1.0)
        print_summary(summary, result, console(width=200))
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return run


def test_the_window_and_the_newest_span_stand_beside_the_last_blessed_model(printed):
    lines = printed({"min": 0.85})
    assert "Evaluation, 1,000 examples, 100 of the newest span" in lines
    assert "labels 20 of 1,020 eval rows are not measured: no label, or weight 0" in lines
    assert "auc 0.8000 0.8200 >= 0.85 not met" in lines
    assert "auc, newest span 0.7100 0.8300" in lines


def test_a_slice_that_does_not_hold_is_named_with_its_value_and_the_bound(printed):
    lines = printed({"slices": {"not_worse_than": "blessed", "tolerance": 0.05}})
    assert "auc, zone b 0.6000 0.7500 no worse than blessed by over 0.05 not met" in lines
    assert not [line for line in lines if line.startswith("auc, zone a")]
    assert "auc: of 3 slices, 1 have fewer than 100 examples (10 in all); these are not judged" in lines
    assert any(line.startswith("on the slice zone b (390 examples) auc is 0.6000") for line in lines)


def test_of_slices_that_all_hold_the_worst_is_shown(printed):
    lines = printed({"min": 0.85, "newest_span": {"slices": {"min": 0.5, "min_examples": 10}}})
    assert "auc, worst of 2 slices, newest span 0.7900 0.7800 >= 0.5 met" in lines
