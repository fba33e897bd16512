"""Baselines of a forecast beside the model, against the metrics of the rows whose baseline is known."""

import numpy as np
import pytest
from scipy import stats

from fullpass.components.evaluation.measure.forecast_baselines import baselines_of
from fullpass.components.evaluation.measure.measure_rows import measured_of
from fullpass.components.evaluation.measure.sampling_error import group_of
from fullpass.components.evaluation.measure.scored_rows import Codes, Scored, ScoredRows
from fullpass.components.evaluation.measure.slice_accumulator import SliceAccumulator
from fullpass.preprocessing.features.label import Label
from tests.components.evaluation.corrected_errors import corrected_error
from tests.components.evaluation.measured_rows import scored_by

FORECAST = {"ahead": "7d", "season": "365d", "entity": "shop", "at": "day"}
NOW, SEASON = "y now", "y last season"


def measured(label, *batches):
    """Returns the results of parts that were accumulated separately and merged."""
    baselines = baselines_of(Label.model_validate({"name": "y", "forecast": FORECAST, **label}))
    one = SliceAccumulator(("example_count",), (), None, 1, baselines)
    state = one.merge([one.add(one.start(), part) for part in batches])
    return {found["kind"]: found for found in baselines.results(state.baselines)}, measured_of(one, state)[0]


def test_a_regression_is_measured_on_the_rows_that_have_the_baseline():
    rng = np.random.default_rng(0)
    values, codes = rng.normal(size=50), rng.integers(-1, 50, 600)
    labels, scores, weights = rng.normal(size=600), rng.normal(size=600), rng.integers(0, 3, 600).astype(float)
    columns = {NOW: Codes(codes, tuple(values)), SEASON: Codes(np.full(600, -1), ())}
    whole = scored_by(Scored(labels, weights, scores), columns=columns)
    parts = [
        ScoredRows(whole.row_ids[part], whole.spans[part],
                   {n: Codes(c.codes[part], c.values) for n, c in columns.items()}, (whole.models[0].chosen(part),))
        for part in (np.arange(250), np.arange(250, 600))
    ]  # fmt: skip
    found, rows = measured({"task": "regression"}, *parts)
    known = (codes >= 0) & (weights > 0)

    def rmse(of, chosen):
        return np.sqrt(np.average((of - labels)[chosen] ** 2, weights=weights[chosen]))

    theirs = np.append(values, np.nan)[codes]
    last = found["last value"]
    assert last["eval_rows"] == known.sum()
    assert (last["network"], last["reference"]) == pytest.approx((rmse(scores, known), rmse(theirs, known)))
    groups = group_of(whole.row_ids)
    less = np.array([rmse(scores, known & (groups != g)) - rmse(theirs, known & (groups != g)) for g in range(40)])
    assert last["reach"] == pytest.approx(stats.t.ppf(0.975, 39) * corrected_error(less), rel=1e-3)
    assert found["last season"] == {**last, "kind": "last season", "reference": None, "network": None, "reach": None,
                                    "eval_rows": 0}  # fmt: skip
    assert rows.baselines[1] == "last season is known for no row of eval" and rows.baselines[1] in rows.doubt


@pytest.mark.parametrize(
    ("label", "classes", "values", "scores", "expected"),
    [
        ({"task": "binary"}, ("0", "1"), (b"yes", b"0", b"maybe"), [0.9, 0.2, 0.4, 0.9], (2 / 3, 1 / 3)),
        ({"task": "binary", "positive": 3}, ("not 3", "3"), (3.0, 5.0), [0.9, 0.2, 0.4, 0.9], (0.75, 0.25)),
        ({"task": "binary", "classes": ["no", "ok"]}, ("no", "ok"), (b"ok", b"no", b"?"), [0.9, 0.2, 0.4, 0.9],
         (2 / 3, 1 / 3)),
        ({"task": "multiclass"}, ("b", "a", "c"), (b"a", b"b", b"new"), np.eye(3)[[1, 0, 0, 2]], (2 / 3, 1 / 3)),
    ],
)  # fmt: skip
def test_a_last_class_is_right_or_wrong_and_an_unknown_class_is_left_out(label, classes, values, scores, expected):
    codes = Codes(np.array([0, 0, 1, 2 if len(values) > 2 else 1]), values)
    labels = np.array([1.0, 0.0, 1.0, 1.0])
    model = Scored(labels, np.ones(4), np.asarray(scores, float), classes=classes)
    found, _ = measured(label, scored_by(model, columns={NOW: codes, SEASON: codes}))
    assert (found["last value"]["network"], found["last value"]["reference"]) == pytest.approx(expected)
    assert found["last value"]["metric"] == "accuracy"


def test_only_a_forecast_of_one_value_has_baselines():
    assert baselines_of(Label(name="y", task="regression")) is None
    several = {"name": "y", "task": "multilabel", "separator": "|", "forecast": FORECAST}
    assert baselines_of(Label.model_validate(several)) is None
