"""Charts of the errors of a regression."""

import pytest

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.shown.shown_files import AtTime, Decile, RegressionErrors
from fullpass.components.report.regression import errors_section
from tests.components.pages.specs import specs_of, values_of


def tenths(*residuals):
    return tuple(Decile(float(i), residual, 0.5) for i, residual in enumerate(residuals))


def test_points_are_predictions_over_labels():
    shown = errors_section(RegressionErrors(9, (0.0, 10.0, 5.0), (0.0, 12.0, 10.0), tenths(0.0)))
    spec = specs_of(shown.charts[0])[0]
    assert (shown.rows, shown.points, shown.bias) == (9, 3, "")
    assert values_of(spec, "label", "prediction") == [(0, 0), (10, 12), (5, 10)]
    ends = spec["layer"][0]["data"]["values"]
    assert ends == [{"label": 0, "prediction": 0}, {"label": 12, "prediction": 12}]


def test_residuals_have_intervals_around_zero():
    deciles = (Decile(1.0, -2.0, 0.5), Decile(3.0, 2.0, float("nan")))
    spec = specs_of(errors_section(RegressionErrors(30, (1.0,), (1.0,), deciles)).charts[1])[0]
    reach = quantile(0.975) * 0.5
    assert values_of(spec, "low", "high") == [pytest.approx((-2 - reach, -2 + reach)), (2, 2)]
    assert spec["layer"][0]["encoding"]["y"] == {"datum": 0}
    assert errors_section(None) is None


@pytest.mark.parametrize(
    "residuals, words",
    [
        ([1.0] * 9 + [11.0], "Predictions are too low in every tenth of the rows, by 2.0000 on average"),
        ([-0.5] * 10, "Predictions are too high in every tenth of the rows, by 0.5000 on average"),
        ([1.0] * 9 + [-0.1], ""),
        ([1.0] * 9, ""),
    ],
)
def test_a_bias_of_all_tenths_is_said(residuals, words):
    assert errors_section(RegressionErrors(30, (1.0,), (1.0,), tenths(*residuals))).bias == words


def test_a_forecast_has_labels_and_predictions_over_time():
    errors = RegressionErrors(
        5, (1.0,), (1.0,), tenths(0.0), (AtTime(19000.5, 3, 7.0, 6.0), AtTime(19001.5, 2, 8.0, 9.0))
    )
    over_time, *others = errors_section(errors).charts
    [spec] = specs_of(over_time)
    assert len(others) == 2
    assert values_of(spec, "time", "series", "mean", "rows") == [
        ("2022-01-08 12:00", "label", 7, 3),
        ("2022-01-09 12:00", "label", 8, 2),
        ("2022-01-08 12:00", "prediction", 6, 3),
        ("2022-01-09 12:00", "prediction", 9, 2),
    ]
    assert spec["data"]["values"][0]["at"] == 19000.5 * 86_400_000
