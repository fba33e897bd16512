import xml.etree.ElementTree as ET

import pytest

from fullpass.components.pages.charts import bar_chart, histogram, line_chart, paired_bars


def parts(chart, tag):
    return [element.attrib for element in ET.fromstring(str(chart)).iter(tag)]


def test_bars_of_a_histogram_are_in_proportion():
    bars = parts(histogram([1, 4, 0, 2], label="x", width=40, height=20), "rect")
    assert [float(bar["height"]) for bar in bars] == [5, 20, 0, 10]
    assert [float(bar["y"]) for bar in bars] == [15, 0, 20, 10]
    assert [float(bar["x"]) for bar in bars] == [0, 10, 20, 30]


def test_a_line_falls_from_the_highest_value_to_the_lowest():
    (line,) = parts(line_chart({"loss": [3.0, 2.0, 1.0]}, label="x", width=262, height=130), "polyline")
    assert line["points"] == "15.0,10.0 133.5,60.0 252.0,110.0"


def test_a_line_leaves_out_values_that_are_not_finite():
    (line,) = parts(line_chart({"loss": [3.0, float("nan"), 1.0]}, label="x", width=262, height=130), "polyline")
    assert line["points"] == "15.0,10.0 252.0,110.0"


def test_horizontal_bars_are_in_proportion():
    chart = bar_chart({"<read>": 1.0, "train": 4.0}, unit="s", label="x")
    assert [bar["width"] for bar in parts(chart, "rect")] == ["25.0%", "100.0%"]
    cells = [[cell.text for cell in row if cell.text] for row in ET.fromstring(str(chart))]
    assert cells == [["<read>", "1 s"], ["train", "4 s"]]


def test_shares_before_and_now_have_bars_below_each_other():
    chart = paired_bars(["a", "b"], [0.1, 0.2], [0.4, 0.0], label="x")
    bars = [(bar["y"], bar["width"]) for bar in parts(chart, "rect")]
    assert bars == [("0", "25.0%"), ("6", "100.0%"), ("0", "50.0%"), ("6", "0.0%")]
    assert [cell.text for cell in ET.fromstring(str(chart)).iter("td") if cell.text] == ["10.0%, 40.0%", "20.0%, 0.0%"]


def test_marked_epochs_have_a_vertical_line():
    chart = line_chart({"loss": [3.0, 2.0, 1.0]}, label="x", marks=(2,), width=262, height=130)
    assert [path["d"] for path in parts(chart, "path") if "stroke-dasharray" in path] == ["M133.5 10v100"]


@pytest.mark.parametrize(
    "chart", [histogram([], label="x"), histogram([0, 0], label="x"), line_chart({"a": [float("nan")]}, label="x")]
)
def test_a_chart_of_no_values_is_empty(chart):
    assert chart == ""


def test_names_are_escaped():
    chart = line_chart({"<b>&": [1, 2]}, label='"x"')
    assert [element[0].tail.strip() for element in ET.fromstring(str(chart)).iter("span")] == ["<b>&"]
