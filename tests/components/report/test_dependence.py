"""Charts of the partial dependence lie where the scores are."""

import xml.etree.ElementTree as ET

import pytest

from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence
from fullpass.components.report.dependence import dependence_section
from tests.components.report.shown import DEPENDENCE, HOSTILE


def test_curves_and_dots_lie_where_the_scores_are():
    shown = dependence_section(DEPENDENCE)
    legend, line, dots = (ET.fromstring(str(chart)) for chart in shown.charts)
    assert [span[0].tail.strip() for span in legend] == ["yes", HOSTILE]
    first, second = (
        [tuple(map(float, p.split(","))) for p in one.attrib["points"].split()] for one in line.iter("polyline")
    )
    left, right = first[0][0], first[-1][0]
    assert first[1][0] == pytest.approx(left + (right - left) / 4, abs=0.1), "2 is a quarter of the way from 1 to 5"
    bottom = 118  # y of score 0; score 1 is 110 higher
    assert [y for _, y in first] == pytest.approx([bottom - 110 * score for score in (0.2, 0.4, 0.6)], abs=0.1)
    assert [y for _, y in second] == pytest.approx([bottom - 110 * score for score in (0.8, 0.6, 0.4)], abs=0.1)
    across = [dot.attrib["cx"] for dot in dots.iter("circle")]
    assert across == ["0.0%", "100.0%", "100.0%", "0.0%"], "the scores of two series at two values"
    assert "yes from 0.2 at 1 to 0.6 at 5" in line.find("svg").attrib["aria-label"]
    assert [chart.find("figcaption").text for chart in (line, dots)] == ["fare", HOSTILE]
    assert shown.figures[:2] == (("fare", "1", "0.2", "0.8"), ("fare", "2", "0.4", "0.6"))
    assert shown.score == f"probability of yes, {HOSTILE}"
    assert dependence_section(None) is None


def test_one_score_for_all_values_is_a_line_in_the_middle():
    flat = Dependence(
        20, ("prediction",), (3.0,), (ColumnDependence("x", "number", ("1", "2"), (1, 2), ((3, 3),)),), {}
    )
    shown = dependence_section(flat)
    (chart,) = shown.charts
    assert shown.score == "prediction"
    (line,) = ET.fromstring(str(chart)).iter("polyline")
    assert [point.split(",")[1] for point in line.attrib["points"].split()] == ["63.0", "63.0"]


@pytest.mark.parametrize(
    "ends, shown",
    [
        (("2013-03-02T23:45:00", "2016-05-10T12:45:00"), ["2013-03-02", "2016-05-10"]),
        (("2013-03-02T23:45:00", "2013-03-04T01:00:00"), ["2013-03-02 23:45", "2013-03-04 01:00"]),
        (("2013-03-02", "2016-05-10"), ["2013-03-02", "2016-05-10"]),
    ],
)
def test_dates_on_an_axis_are_as_long_as_they_must_be(ends, shown):
    column = ColumnDependence("started", "date", ends, (1.0, 2.0), ((0.2, 0.4),))
    [chart] = dependence_section(Dependence(20, ("yes",), (0.3,), (column,), {})).charts
    assert [text.text for text in ET.fromstring(str(chart)).iter("text")][-2:] == shown
