"""Curves, confusion matrices and tables of classes."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.measure.class_results import Cell
from fullpass.components.report.classes import classes_section, curve_chart, curve_charts
from tests.components.report.shown import HOSTILE, classes, curves


def test_curves_have_a_line_and_an_interval_for_each_model():
    picture = ET.fromstring(str(curve_charts([curves(0.7), None])[0]))
    [line], [band] = ([shape.attrib["points"] for shape in picture.iter(kind)] for kind in ("polyline", "polygon"))
    (left, bottom), (middle, at), (right, top) = ([float(n) for n in point.split(",")] for point in line.split())
    assert middle == (left + right) / 2 and (bottom - at) / (bottom - top) == pytest.approx(0.7, abs=1e-3)
    around = sorted(y for x, y in (map(float, p.split(",")) for p in band.split()) if x == middle)
    reach = quantile(0.975) * 0.02 * (bottom - top)
    assert around == pytest.approx([at - reach, at + reach], abs=0.1)
    assert curve_charts([]) == ()


def test_many_curves_have_a_line_and_a_name_each_and_no_interval():
    lines = {f"class {number}": curves(number / 10).roc for number in range(8)}
    picture = ET.fromstring(str(curve_chart(lines, x="x", y="y", label="ROC curves")))
    assert len(list(picture.iter("polyline"))) == 8 and not list(picture.iter("polygon"))
    assert [span[0].tail.strip() for span in picture.iter("span")] == list(lines)


def test_the_confusion_matrix_names_classes():
    cells = (Cell("yes", "yes", 45, 0.75, 0.01), Cell("yes", HOSTILE, 15, 0.25, 0.01))
    cells = (*cells, Cell(HOSTILE, "yes", 0, 0.0, float("nan")), Cell(HOSTILE, HOSTILE, 40, 1.0, float("nan")))
    shown = classes_section([classes(("yes", HOSTILE), cells), None], 100)
    [matrix] = shown.matrices
    assert (matrix.model, matrix.names) == ("new model", ("yes", HOSTILE))
    assert matrix.rows == (("yes", "45 (75.0% ± 2.0%)", "15 (25.0% ± 2.0%)"), (HOSTILE, "0 (0.0%)", "40 (100.0%)"))
    assert shown.names == ("precision", "recall")
    assert shown.rows == (("yes", "60.0%", "0.7500 ± 0.0202", ""), (HOSTILE, "40.0%", "0.7500 ± 0.0202", ""))
    # A class without rows has no shares.
    absent = (
        Cell(HOSTILE, "yes", 0, float("nan"), float("nan")),
        Cell(HOSTILE, HOSTILE, 0, float("nan"), float("nan")),
    )
    [matrix] = classes_section([classes(("yes", HOSTILE), (*cells[:2], *absent), (60.0, 0.0))], 60).matrices
    assert matrix.rows[1] == (HOSTILE, "0", "0")
    # A matrix by weight has no numbers of rows.
    [weighted] = classes_section([classes(("yes", HOSTILE), cells)], 1234).matrices
    assert weighted.rows[0] == ("yes", "75.0% ± 2.0%", "25.0% ± 2.0%")
    assert classes_section([], 0) is None and classes_section([None], 0) is None


def test_the_curves_of_a_class_lie_over_each_other_if_two_models_have_them():
    cells = (Cell("yes", "yes", 45, 0.75, 0.01),)
    one, other = (
        replace(classes(("yes", "no"), cells), roc={name: curves(level).roc for name in ("yes", "no")})
        for level in (0.1, 0.5)
    )
    alone = classes_section([one, None], 100, ("A", "B")).charts
    assert [legend(chart) for chart in alone] == [["yes", "no"], []]
    both = classes_section([one, other], 100, ("A", "B")).charts
    assert [legend(chart) for chart in both] == [["yes, A", "yes, B"], ["no, A", "no, B"]]
    lines = [line.get("points") for line in ET.fromstring(str(both[0])).iter("polyline")]
    assert len(set(lines)) == 2, "each line is of another model"


def legend(chart):
    return [span[0].tail.strip() for span in ET.fromstring(str(chart)).iter("span")]


def test_cells_of_five_classes_have_no_intervals():
    cells = tuple(Cell(f"c{i}", f"c{j}", 4.0, 0.2, 0.01) for i in range(5) for j in range(5))
    [matrix] = classes_section([classes(tuple(f"c{i}" for i in range(5)), cells, (20.0,) * 5)], 100).matrices
    assert matrix.rows[0] == ("c0", *["4 (20.0%)"] * 5)


def test_of_many_classes_the_most_confused_pairs_are_shown():
    names = tuple(f"c{number}" for number in range(30))
    shown = classes_section([classes(names, (Cell("c3", "c4", 7, 0.5, 0.1),))], 100)
    [matrix] = shown.matrices
    assert matrix.names == () and matrix.rows == (("c3", "c4", "7 (50.0% ± 20.2%)"),) and shown.left_out == 28
