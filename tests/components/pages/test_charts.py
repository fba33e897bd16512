"""The specifications that several pages share, as data."""

import math

import pytest

from fullpass.components.pages.charts import bar_chart, histogram, limit_chart, line_chart, paired_bars
from tests.components.pages.specs import specs_of, values_of


def test_a_histogram_has_bins_or_values():
    bins = [{"from": 0.0, "to": 2.5, "rows": 3.0}, {"from": 2.5, "to": 5.0, "rows": 1.0}]
    [spec] = specs_of(histogram(bins, label="distribution of x"))
    assert values_of(spec, "from", "to", "rows") == [(0, 2.5, 3), (2.5, 5, 1)]
    channels = {channel: spec["encoding"][channel]["field"] for channel in ("x", "x2", "y")}
    assert (channels, spec["mark"]) == ({"x": "from", "x2": "to", "y": "rows"}, "bar")
    [spec] = specs_of(histogram([{"value": "b", "rows": 2}, {"value": "a", "rows": 1}], label="distribution of x"))
    assert spec["encoding"]["x"] == {"field": "value", "type": "nominal", "sort": None, "axis": None}


def test_a_line_has_its_epochs_without_values_that_are_not_finite():
    losses = {"loss": [3.0, math.nan, 1.0], "val_loss": [4.0]}
    [spec] = specs_of(line_chart(losses, y="loss", label="Loss by epoch", marks=(2,)))
    assert values_of(spec, "epoch", "loss", "series") == [(1, 3, "loss"), (3, 1, "loss"), (1, 4, "val_loss")]
    lines, marked = spec["layer"]
    assert marked["data"] == {"values": [{"epoch": 2}]}
    assert {param["bind"] for param in lines["params"]} == {"scales", "legend"}
    assert lines["encoding"]["color"]["scale"]["domain"] == ["loss", "val_loss"]


def test_bars_have_their_intervals():
    [spec] = specs_of(
        bar_chart({"fare": 0.5, "tips": 0.1}, unit="importance", reach={"fare": 0.2, "tips": 0.1}, label="x")
    )
    assert values_of(spec, "name", "importance", "low", "high") == [("fare", 0.5, 0.3, 0.7), ("tips", 0.1, 0.0, 0.2)]
    [plain] = specs_of(bar_chart({"read": 1.0}, unit="seconds", label="x"))
    assert (len(plain["layer"]), len(spec["layer"])) == (1, 2)


def test_shares_before_and_now_have_bars_below_each_other():
    [spec] = specs_of(paired_bars(["a", "b"], [0.1, 0.2], [0.4, 0.0], label="x"))
    rows = [("a", "before", 0.1), ("b", "before", 0.2), ("a", "now", 0.4), ("b", "now", 0.0)]
    assert values_of(spec, "value", "series", "share of rows") == rows
    assert spec["encoding"]["yOffset"]["field"] == "series"


def test_a_day_beyond_its_limit_is_red_and_the_first_is_named():
    days = {"2026-01-01": 0.5, "2026-01-02": 1.5, "2026-01-03": 2.0}
    [spec] = specs_of(limit_chart(days, 1.0, ["2026-01-02", "2026-01-03"], label="x"))
    within, beyond = "within its limit", "beyond its limit"
    assert values_of(spec, "day", "state") == list(zip(days, (within, beyond, beyond), strict=True))
    dots, first, limit = spec["layer"]
    assert dots["encoding"]["color"]["scale"] == {"domain": [within, beyond], "range": ["#3b82f6", "#dc2626"]}
    assert first["data"]["values"] == [{"day": "2026-01-02", "value": 1.5}] and limit["encoding"]["y"] == {"datum": 1.0}
    [free] = specs_of(limit_chart(days, math.nan, [], label="x"))
    assert len(free["layer"]) == 1


@pytest.mark.parametrize(
    "chart",
    [
        histogram([], label="x"),
        histogram([{"value": "a", "rows": 0}], label="x"),
        line_chart({"a": [math.nan]}, y="y", label="x"),
        limit_chart({"a": math.nan}, 1.0, [], label="x"),
    ],
)
def test_a_chart_of_no_values_is_empty(chart):
    assert chart == ""
