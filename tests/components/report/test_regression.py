import xml.etree.ElementTree as ET

import pytest

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.shown.shown_files import Decile, RegressionErrors
from fullpass.components.report.regression import errors_section


def dots(chart):
    return [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in ET.fromstring(str(chart)).iter("circle")]


def test_points_are_predictions_over_labels_on_equal_axes():
    shown = errors_section(RegressionErrors(9, (0.0, 10.0, 5.0), (0.0, 10.0, 10.0), (Decile(1.0, 0.0, 0.1),)))
    (left, bottom), (right, top), (middle, high) = dots(shown.charts[0])
    assert (shown.rows, shown.points) == (9, 3)
    assert right - left == bottom - top > 0 and middle == (left + right) / 2 and high == top


def test_residuals_have_intervals_around_zero():
    deciles = (Decile(1.0, -2.0, 0.5), Decile(3.0, 2.0, 0.5), Decile(5.0, 0.0, float("nan")))
    chart = errors_section(RegressionErrors(30, (1.0,), (1.0,), deciles)).charts[1]
    (_, low), (_, high), (_, zero) = dots(chart)
    assert zero == pytest.approx((low + high) / 2, abs=0.1)
    bars = [path.attrib["d"] for path in ET.fromstring(str(chart)).iter("path") if path.attrib["stroke"] == "#3b82f6"]
    assert len(bars) == 2  # the third has no error
    ends = sorted(float(point.split(",")[1]) for point in bars[0][1:].split("L"))
    unit = (low - high) / 4
    assert ends == pytest.approx([low - quantile(0.975) * 0.5 * unit, low + quantile(0.975) * 0.5 * unit], abs=0.2)


def test_one_row_and_none():
    shown = errors_section(RegressionErrors(1, (2.0,), (2.0,), (Decile(2.0, 0.0, float("nan")),)))
    assert len(dots(shown.charts[0])) == len(dots(shown.charts[1])) == 1
    assert errors_section(None) is None
