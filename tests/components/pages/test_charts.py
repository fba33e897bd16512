import xml.etree.ElementTree as ET

import pytest

from fullpass.components.pages.charts import bar_chart, histogram, line_chart


def parts(chart, tag):
    return [element.attrib for element in ET.fromstring(str(chart)).iter(tag)]


def test_bars_of_a_histogram_are_in_proportion():
    bars = parts(histogram([1, 4, 0, 2], label="x", width=40, height=20), "rect")
    assert [float(bar["height"]) for bar in bars] == [5, 20, 0, 10]
    assert [float(bar["y"]) for bar in bars] == [15, 0, 20, 10]
    assert [float(bar["x"]) for bar in bars] == [0, 10, 20, 30]


def test_a_line_falls_from_the_highest_value_to_the_lowest():
    (line,) = parts(line_chart({"loss": [3.0, 2.0, 1.0]}, label="x", width=262, height=150), "polyline")
    assert line["points"] == "52.0,10.0 152.0,60.0 252.0,110.0"


def test_a_line_leaves_out_values_that_are_not_finite():
    (line,) = parts(line_chart({"loss": [3.0, float("nan"), 1.0]}, label="x", width=262, height=150), "polyline")
    assert line["points"] == "52.0,10.0 252.0,110.0"


def test_horizontal_bars_are_in_proportion():
    bars = parts(bar_chart({"read": 1.0, "train": 4.0}, unit="s", label="x", width=440), "rect")
    assert [float(bar["width"]) for bar in bars] == [50, 200]


@pytest.mark.parametrize(
    "chart", [histogram([], label="x"), histogram([0, 0], label="x"), line_chart({"a": [float("nan")]}, label="x")]
)
def test_a_chart_of_no_values_is_empty(chart):
    assert chart == ""


def test_names_are_escaped():
    chart = line_chart({"<b>&": [1, 2]}, label='"x"')
    assert [element.text for element in ET.fromstring(str(chart)).iter("text")][3] == "<b>&"
