"""What the nodes recorded, as tables: each against the figures written into their files."""

import json
import math

import pandas as pd
import pytest

from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.measure.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows, measured_json
from fullpass.pipeline.api import run_tables as tables
from fullpass.pipeline.api.run import Metrics
from tests.trainer.insight.test_leaderboard import TRIED

T39 = 2.0227
"""The 97.5 % quantile of Student's t with 39 degrees of freedom, from a printed table: 40 groups give an error."""


@pytest.fixture
def evaluation(tmp_path) -> str:
    rows = [
        MeasuredRows((), {"example_count": 9.0, "auc": 0.9, "new": 3.0}, {"auc": 0.8}, errors={"auc": 0.01}),
        MeasuredRows((), {"example_count": 2.0, "auc": 0.1}, newest=True),
        MeasuredRows((("hour", "7"), ("zone", "a")), {"example_count": 4.0, "auc": 0.7}, errors={"auc": 0.1}),
    ]
    (tmp_path / "measured.json").write_text(measured_json(rows))
    curve = {"x": [0, 1], "y": [0.2, 0.4], "error": [None, 0.1]}
    curves = {"roc": curve, "precision_recall": curve, "calibration": curve, "thresholds": [1.0, 0.0]}
    (tmp_path / "curves.json").write_text(json.dumps([curves, None]))
    pairs = {("yes", "yes"): 5, ("yes", "no"): 2, ("no", "yes"): 1, ("no", "no"): 7}
    cells = tuple(Cell(*pair, weight, 0.5, math.nan) for pair, weight in pairs.items())
    (tmp_path / "classes.json").write_text(
        to_json_text([ClassResults((OfClass("yes", 7.0, {}), OfClass("no", 8.0, {})), 2, cells), None])
    )
    return str(tmp_path)


def test_metrics_have_intervals_and_a_new_metric_is_one_more_row(evaluation):
    metrics = Metrics({"auc": 0.9, "new": 3.0}, evaluation)
    assert metrics == {"auc": 0.9, "new": 3.0} and metrics["auc"] == 0.9
    table = metrics.table
    assert list(table.index) == ["auc", "new"] and table.index.name == "metric"
    assert table.loc["auc"].tolist() == pytest.approx([0.9, 0.9 - 0.01 * T39, 0.9 + 0.01 * T39, 0.8], abs=1e-5)
    assert table.loc["new", "value"] == 3.0 and table.loc["new", ["low", "high", "last_blessed"]].isna().all()


def test_slices(evaluation):
    (row,) = tables.slices(evaluation).to_dict("records")
    assert (row["slice"], row["newest_span"], row["examples"], row["metric"]) == ("hour 7, zone a", False, 4, "auc")
    assert (row["low"], row["high"]) == pytest.approx((0.7 - 0.1 * T39, 0.7 + 0.1 * T39), abs=1e-4)


def test_curves_and_the_confusion_matrix(evaluation):
    """Of 15 rows, 5 + 7 are right; 1 no was taken for yes, 2 yes were missed."""
    confusion = tables.confusion(evaluation)
    assert confusion.loc["yes", "yes"] == 5 and confusion.loc["no", "no"] == 7
    assert confusion.loc["no", "yes"] == 1 and confusion.loc["yes", "no"] == 2
    assert list(confusion.index) == list(confusion.columns) == ["yes", "no"]
    assert (confusion.index.name, confusion.columns.name) == ("actual", "predicted")
    curves = tables.curves(evaluation)
    roc = curves[curves["curve"] == "roc"]
    assert roc[["x", "y"]].to_numpy().tolist() == [[0, 0.2], [1, 0.4]]
    assert math.isnan(roc["low"][0]) and roc["high"][1] == pytest.approx(0.4 + 0.1 * T39, abs=1e-4)


def test_training(tmp_path):
    recorded = {
        "history": {"loss": [0.5, None, 0.25], "val_auc": [0.6]},
        "importance": [{"feature": "fare", "importance": 0.25, "reach": 0.125}],
    }
    (tmp_path / "training.json").write_text(json.dumps(recorded))
    history = tables.history(str(tmp_path))
    expected = pd.DataFrame(
        {"loss": [0.5, math.nan, 0.25], "val_auc": [0.6, math.nan, math.nan]}, pd.RangeIndex(1, 4, name="epoch")
    )
    pd.testing.assert_frame_equal(history, expected)
    board = tables.leaderboard({"training": TRIED})
    assert list(board.index) == ["blend", "trees", "wide_deep"] and board.loc["trees", "eval_log_loss"] == 0.3
    assert tables.leaderboard({"training": None, "trials": None}).empty
    importance = tables.importance(str(tmp_path))
    assert importance.loc["fare"].to_dict() == {"importance": 0.25, "low": 0.125, "high": 0.375}


def test_charts_are_those_of_the_report_and_notebooks_draw_them(evaluation, tmp_path):
    recorded = {"history": {"loss": [0.5]}, "seconds": {"train": 2.0}, "step_ms": 4.0, "input_wait": 0.5}
    (tmp_path / "training.json").write_text(json.dumps(recorded))
    found = tables.charts(evaluation, str(tmp_path))
    assert list(found)[::3] == ["Loss by epoch", "ROC curve", "Confusion matrix, new model"] and len(found) == 7
    shown = found["Loss by epoch"]._repr_mimebundle_()["application/vnd.vegalite.v5+json"]
    assert shown["data"]["values"] == [{"epoch": 1, "loss": 0.5, "series": "loss"}]
    assert tables.charts(None, None) == tables.charts("/no/such/folder", "/no/such/folder") == {}


@pytest.mark.parametrize("folder", [None, "/no/such/folder"])
def test_what_was_not_recorded_is_an_empty_table(folder):
    for read in (tables.slices, tables.history, tables.importance, tables.confusion, tables.curves):
        assert read(folder).empty
    assert Metrics({"auc": 0.5}, folder).table["value"].to_dict() == {"auc": 0.5}
