from dataclasses import asdict

import numpy as np
import pytest

from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.measure.scored_rows import Scored
from fullpass.components.evaluation.shown.shown_files import (
    ERRORS_FILE,
    AtTime,
    read_regression_errors,
    regression_errors,
)


def test_a_decile_is_a_tenth_of_the_rows_by_prediction(tmp_path):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=1005)
    labels, weights = scores + 0.5 + rng.normal(size=1005), np.ones(1005)
    labels[:3], weights[3:5] = np.nan, 0.0
    found = regression_errors(Scored(labels, weights, scores))
    assert found.rows == 1000 and len(found.deciles) == 10
    order = 5 + np.argsort(scores[5:])
    for decile, part in zip(found.deciles, np.split(order, 10), strict=True):
        residuals = (labels - scores)[part]
        assert decile.prediction == pytest.approx(scores[part].mean())
        assert decile.residual == pytest.approx(residuals.mean())
        assert decile.error == pytest.approx(residuals.std(ddof=1) / 100**0.5)
    assert found.labels == tuple(labels[5:505]) and found.predictions == tuple(scores[5:505])
    (tmp_path / ERRORS_FILE).write_text(to_json_text(asdict(found)))
    assert read_regression_errors(str(tmp_path)) == found
    assert read_regression_errors(str(tmp_path / "earlier")) is None


def test_weights_and_few_rows():
    found = regression_errors(Scored(np.array([3.0, 1.0]), np.array([1.0, 3.0]), np.array([1.0, 1.5])))
    assert [(d.prediction, d.residual) for d in found.deciles] == [(1.0, 2.0), (1.5, -0.5)]
    assert all(np.isnan(d.error) for d in found.deciles)
    assert regression_errors(Scored(np.zeros(2), np.zeros(2), np.zeros(2))) is None


def test_the_rows_of_a_forecast_are_averaged_by_the_time_of_their_label():
    times = np.array([2.0, 1.0, 2.0, np.nan, 1.0])
    rows = Scored(np.arange(5.0), np.array([1.0, 1, 3, 1, 0]), np.arange(5.0) * 10)
    found = regression_errors(rows, times).times
    assert found == (AtTime(1.0, 1, 1.0, 10.0), AtTime(2.0, 2, 1.5, 15.0)), "the mean of 2 has weights of 1 and 3"
    many = np.random.default_rng(0).permutation(250.0 + np.arange(250))
    grouped = regression_errors(Scored(many, np.ones(250), many + 1), many).times
    assert len(grouped) == 84 and sum(one.rows for one in grouped) == 250
    assert [one.label for one in grouped] == sorted(one.time for one in grouped)
