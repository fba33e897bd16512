"""Hints at misspelt names."""

import pytest

from fullpass.base.errors import did_you_mean

METRICS = ("auc", "auc_pr", "log_loss", "mean_squared_error")
COLUMNS = ("fare", "trip_miles", "trip_seconds", "pickup_zone", "Company", "label")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("acu", METRICS, "auc"),
        ("logloss", METRICS, "log_loss"),
        ("mean", METRICS, "mean_squared_error"),
        ("compny", COLUMNS, "Company"),
        ("fair", COLUMNS, "fare"),
        ("trip_mile", COLUMNS, "trip_miles"),
        ("pickupzone", COLUMNS, "pickup_zone"),
    ],
)
def test_what_is_near_is_meant(name, known, meant):
    assert did_you_mean(name, known) == f' Did you mean "{meant}"?'


@pytest.mark.parametrize("name", ["table", "date", "passengers", "dropoff_zone", "x", ""])
def test_what_is_far_is_not(name):
    """`table` shares three of five letters with `label`."""
    assert did_you_mean(name, COLUMNS) == ""
