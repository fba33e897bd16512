"""A challenger that scores the rows of the served model, against numpy and scikit-learn on the same rows."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from fullpass.base.errors import UserError
from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.measured_metrics import MeasuredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.components.watch.config import WatchConfig
from fullpass.components.watch.log_rows import LogBatch, LoggedColumns
from fullpass.components.watch.went_out import DAY, ScoringPlan, WentOutSums, out_together
from fullpass.pipeline.registry.compared_model import ComparedModel
from fullpass.pipeline.watching.challenger import shadow_json, shadow_report, with_challenger
from fullpass.preprocessing.columns.outputs import EXAMPLE_WEIGHT, LABEL, ROW_ID, SPAN
from fullpass.preprocessing.columns.raw_columns import RawColumn
from tests.components.evaluation.answering_model import Answers, saved

ROWS, FIRST = 2000, 20_454
BOTH = SliceAccumulator(("example_count", "auc", "log_loss"), (), None, 2)
YAML = """
name: trips
data: {source: {format: csv, path: trips.csv}}
label: {name: late, task: binary}
features: {km: %s, zone: category}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A served model whose score is the column `score`, and a challenger of `other`; they decide otherwise."""
    folder = tmp_path_factory.mktemp("models")
    for name, threshold in (("score", 0.5), ("other", 0.4)):
        saved(Answers(name, decides=("no", "yes", threshold)), folder / name, 1)
    exports = [f"{folder}/{name}/Format-Serving" for name in ("score", "other")]
    return ScoringPlan(exports[0], {}, 0.0, exports[1])


def rows_of(seed):
    draw = np.random.default_rng(seed)
    label = draw.integers(0, 2, ROWS).astype("f4")
    names, low = ("score", "other"), 0.25 + 0.3 * draw.random((2, ROWS))
    scores = {n: (of + 0.3 * label * draw.random(ROWS)).astype("f4") for n, of in zip(names, low, strict=True)}
    numbers = scores | {LABEL: label, ROW_ID: np.arange(ROWS), SPAN: np.zeros(ROWS), EXAMPLE_WEIGHT: np.ones(ROWS)}
    arrays = {name: pa.array(of, pa.float32()) for name, of in numbers.items()}
    times = (FIRST * DAY + draw.integers(0, DAY, ROWS)).astype(np.int64)
    labelled, none = draw.random(ROWS) < 0.7, np.zeros(ROWS, np.int64)
    rates = np.where(draw.random(ROWS) < 0.5, 1.0, 0.25)
    ids = pa.array(map(str, range(ROWS)))
    return LogBatch(1, np.arange(ROWS), times, rates, arrays, labelled, none, None, None, ids), scores, label


def found_of(plan, *batches):
    parts = []
    for batch in batches:
        sums = WentOutSums({1: plan}, BOTH)
        sums.add(batch)
        parts.append(sums.found)
    return out_together(parts, BOTH)


@pytest.mark.integration
def test_both_models_are_measured_on_the_same_rows(plan):
    batch, scores, label = rows_of(1)
    found = found_of(plan, batch.chosen(np.arange(ROWS) < 900), batch.chosen(np.arange(ROWS) >= 900))
    whole = measured_of(BOTH, found.labelled[1, FIRST])[0]
    known, weights = batch.labelled, 1 / batch.rates
    for values, name in ((whole.values, "score"), (whole.baseline, "other")):
        expected = roc_auc_score(label[known], scores[name][known], sample_weight=weights[known])
        assert values["auc"] == pytest.approx(expected, abs=2e-3)
    # The sampling error of the difference: of the weighed terms of the loss, row by row.
    loss = {n: -np.log(np.where(label > 0, s, 1 - s)).astype(float)[known] for n, s in scores.items()}
    apart, weight = loss["score"] - loss["other"], weights[known]
    mean = (apart * weight).sum() / weight.sum()
    error = math.sqrt((weight**2 * (apart - mean) ** 2).sum()) / weight.sum()
    report = shadow_report("run 2", found.shadow[1, FIRST], whole, WatchConfig(), has_classes=True)
    of = {one.metric: one for one in report.metrics}
    assert of["log_loss"].difference == pytest.approx(-mean, abs=1e-6)
    assert of["log_loss"].half_width == pytest.approx(1.96 * error, rel=0.35)  # it is estimated by groups of rows
    assert report.labels == known.sum() and report.missed == ()


@pytest.mark.integration
def test_disagreement_is_known_without_labels(plan):
    batch, scores, _ = rows_of(2)
    batch = replace(batch, labelled=np.zeros(ROWS, bool))
    chosen = np.zeros(ROWS, bool)
    for hour in range(24):  # 50 rows of an hour are scored: those of the lowest ids
        chosen[np.flatnonzero((batch.times - FIRST * DAY) // (DAY // 24) == hour)[:50]] = True
    sums = found_of(plan, batch).shadow[1, FIRST]
    report = shadow_report("7", sums, None, WatchConfig(), has_classes=True)
    weights = 1 / batch.rates[chosen]
    served, other = (scores[n][chosen] for n in ("score", "other"))
    assert report.rows == weights.sum()
    assert report.other_class == pytest.approx(weights @ ((served > 0.5) != (other > 0.4)) / weights.sum())
    assert report.distance == pytest.approx(weights @ np.abs(served - other) / weights.sum(), rel=1e-6)
    assert "answers another class in" in next(report.words) and "no label is known yet" in [*report.words][1]


def rows(a, b, error, labels=1000):
    return MeasuredRows((), {"example_count": labels, "auc": a}, {"auc": b}, difference_errors={"auc": error})


@pytest.mark.parametrize(
    ("measured", "missed"),
    [
        (rows(0.8, 0.75, 0.01), "worse"),  # five standard errors
        (rows(0.8, 0.79, 0.01), ""),  # no more than chance
        (rows(0.8, 0.9, 0.01), ""),
        (rows(0.8, 0.5, 0.01, labels=300), "300 labels are known, fewer than watch.after"),
        (None, "0 labels are known"),
    ],
)
def test_a_challenger_is_not_worse_than_the_served_model(measured, missed):
    live = {"auc": {"not_worse_than": "served", "confidence": 0.95}, "log_loss": {"max": 1.0}}
    report = shadow_report("9", np.ones(3), measured, WatchConfig(live=live), has_classes=True)
    assert len(report.missed) == bool(missed) and all(missed in one for one in report.missed)
    if missed == "worse":
        assert report.missed[0].startswith("auc is 0.75") and "the served model has 0.8" in report.missed[0]
        assert shadow_json(report)["metrics"][0]["words"] == "A is better"


def test_a_challenger_adds_its_columns_and_reads_the_others_alike(tmp_path):
    columns = LoggedColumns({"km": RawColumn("km", "number"), "shop": RawColumn("shop", "string")}, {})
    model = ComparedModel("9", "model 9", YAML % "number", tmp_path)
    assert set(with_challenger(columns, model).columns) == {"km", "shop", "zone"}
    with pytest.raises(UserError, match="9: cannot be a challenger: it reads km as a string of another kind"):
        with_challenger(columns, ComparedModel("9", "model 9", YAML % "category", tmp_path))
    with pytest.raises(UserError, match="run 3: cannot be a challenger: its model is gone"):
        with_challenger(columns, ComparedModel("run 3", "", None, None, "its model is gone"))
