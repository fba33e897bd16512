"""Rules of `evaluation`: one wrong thing at a time."""

import pytest

from tests.pipeline.conftest import TRIPS, mistake

MISTAKES = {
    "misspelt metric": mistake({20: "    acu: {min: 0.8}"}, "evaluation.thresholds.acu", 20, 'Did you mean "auc"?'),
    "metric of quantiles without any": mistake({12: "  name: tips", 13: "  task: regression",
        20: "    pinball: {max: 1}"},
        "evaluation.thresholds.pinball", 20, "pinball is for models of quantiles", "kind: quantile"),
    "coverage of a quantile without any": mistake({12: "  name: tips", 13: "  task: regression",
        20: "    coverage[0.9]: {min: 0.85}"},
        'evaluation.thresholds["coverage[0.9]"]', 20, "coverage[0.9] is for models of quantiles", "kind: quantile"),
    "coverage of a level that is not predicted": mistake({12: "  name: tips", 13: "  task: regression",
        20: "    coverage[0.8]: {min: 0.75}\ntraining: {loss: {kind: quantile, levels: [0.1, 0.9]}}"},
        'evaluation.thresholds["coverage[0.8]"]', 20, "no quantile of level 0.8", "coverage[0.1], coverage[0.9]"),
    "metric of another task": mistake({20: "    auc: {min: 0.8}\n  metrics: [auc, rmse]"},
        "evaluation.metrics[1]", 21, "rmse is for regression"),
    "lower bound where less is better": mistake({20: "    log_loss: {min: 0.4}"},
        "evaluation.thresholds.log_loss.min", 20, "log_loss: {max: 0.4}"),
    "calibration against the last blessed": mistake({20: "    calibration: {not_worse_than: blessed}"},
        "evaluation.thresholds.calibration.not_worse_than", 20, "calibration: {min: 0.9, max: 1.1}"),
    "a newest span where there are no spans": mistake({20: "    auc: {newest_span: {min: 0.8}}"},
        "evaluation.thresholds.auc.newest_span", 20, "the source has no spans", "{YYYY}-{MM}-{DD}"),
    "a lower bound of a loss on the newest span": mistake({5: "    path: span-{SPAN}.csv",
        20: "    log_loss: {newest_span: {min: 0.4}}"},
        "evaluation.thresholds.log_loss.newest_span.min", 20, "log_loss: {max: 0.4}"),
    "thresholds on slices where there are none": mistake({20: "    auc: {slices: {min: 0.8}}"},
        "evaluation.thresholds.auc.slices", 20, "evaluation.slices is empty", "slices: [[company]]"),
    "thresholds on slices of the newest span where there are none": mistake({5: "    path: span-{SPAN}.csv",
        20: "    auc: {newest_span: {slices: {min: 0.8}}}"},
        "evaluation.thresholds.auc.newest_span.slices", 20, "evaluation.slices is empty"),
    "a lower bound of a loss on slices": mistake({20: "    log_loss: {slices: {min: 0.4}}\n  slices: [[company]]"},
        "evaluation.thresholds.log_loss.slices.min", 20, "log_loss: {max: 0.4}"),
    "metric of an unknown class": mistake({12: "  name: hour", 13: "  task: multiclass\n  classes: ['7', '23.0']",
        20: "    recall[24]: {min: 0.1}"},
        'evaluation.thresholds["recall[24]"]', 21, "no class '24' in label.classes", "recall[7], recall[23]"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def span(folder):
    (folder / "span-1.csv").write_text(TRIPS)


@pytest.mark.parametrize(("lines", "path", "line", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place_and_its_remedy(assert_told, lines, path, line, says):
    assert_told(lines, path, line, says)


def test_the_class_of_a_metric_is_a_token(edited, problems_of):
    label = {12: "  name: hour", 13: "  task: multiclass\n  classes: ['7', '23.0']"}
    for written in ("23", "23.0", "7.0"):
        problems = problems_of(edited({**label, 20: f"    recall[{written}]: {{min: 0.1}}"}))
        assert [problem for problem in problems if problem.severity == "error"] == [], written
