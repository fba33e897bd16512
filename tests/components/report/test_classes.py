"""Curves, confusion matrices and tables of classes."""

from dataclasses import replace

import pytest

from fullpass.components.evaluation.confidence import quantile
from fullpass.components.evaluation.measure.class_results import Cell
from fullpass.components.evaluation.measure.score_curves import Decisions
from fullpass.components.report.classes import classes_section, curve_chart, curve_charts
from tests.components.pages.specs import specs_of, values_of
from tests.components.report.shown import HOSTILE, classes, curves

CELLS = (Cell("yes", "yes", 45, 0.75, 0.01), Cell("yes", HOSTILE, 15, 0.25, 0.01))
CELLS = (*CELLS, Cell(HOSTILE, "yes", 0, 0.0, float("nan")), Cell(HOSTILE, HOSTILE, 40, 1.0, float("nan")))


def test_curves_have_a_line_and_an_interval_for_each_model():
    roc, precision, calibration = (specs_of(chart)[0] for chart in curve_charts([curves(0.7), None]))
    reach = quantile(0.975) * 0.02
    assert values_of(roc, "false positive rate", "true positive rate") == [(0, 0), (0.5, 0.7), (1, 1)]
    assert values_of(roc, "low", "high")[1] == pytest.approx((0.7 - reach, 0.7 + reach), abs=1e-5)
    assert [layer["mark"]["type"] for layer in roc["layer"]] == ["area", "line", "line"], "band, curve, diagonal"
    assert len(precision["layer"]) == 2 and calibration["layer"][1]["mark"]["point"]
    assert curve_charts([]) == ()


def test_many_curves_have_a_color_each_and_no_interval():
    lines = {f"class {number}": curves(number / 10).roc for number in range(8)}
    [spec] = specs_of(curve_chart(lines, "x", "y", label="ROC curves"))
    [line] = spec["layer"]
    assert line["encoding"]["color"]["scale"]["domain"] == list(lines)
    assert len(set(line["encoding"]["color"]["scale"]["range"])) == 8


def test_a_threshold_is_shared_by_decisions_costs_and_curves():
    decided = Decisions(60.0, 40.0, (0.0, 0.5, 1.0), (60.0, 45.0, 0.0), (40.0, 10.0, 0.0))
    of_classes = classes(("no", HOSTILE), (Cell("no", "no", 1, 1, 0), *[Cell(HOSTILE, HOSTILE, 1, 1, 0)] * 3))
    charts = curve_charts([replace(curves(0.7), decisions=decided)], ("A",), 0.314, [of_classes])
    specs = [specs_of(chart)[0] for chart in charts]
    decisions, costs, roc, precision, _ = specs
    assert all("threshold" in spec["usermeta"]["shared"] for spec in specs)
    assert {spec["params"][0]["value"] for spec in specs} == {0.31}
    assert [("bind" in spec["params"][0]) for spec in specs] == [True, False, False, False, False]
    at_half = [row for row in values_of(decisions, "threshold", "class", "predicted as", "rows", "of the class")]
    assert [row[1:] for row in at_half if row[0] == 0.5] == [
        (HOSTILE, HOSTILE, 45, 0.75),
        (HOSTILE, "no", 15, 0.25),
        ("no", HOSTILE, 10, 0.25),
        ("no", "no", 30, 0.75),
    ]
    assert values_of(costs, "threshold", "misses", "false alarms") == [(0, 0, 40), (0.5, 15, 10), (1, 60, 0)]
    assert {param["name"] for param in costs["params"]} >= {"price_of_a_miss", "price_of_a_false_alarm"}
    dots = [spec["layer"][-1]["data"]["values"][1] for spec in (roc, precision)]
    assert (dots[0]["false positive rate"], dots[0]["true positive rate"]) == (0.25, 0.75)
    assert (dots[1]["recall"], dots[1]["precision"]) == (0.75, pytest.approx(45 / 55, abs=1e-5))


def test_the_confusion_matrix_is_a_heat_map():
    shown = classes_section([classes(("yes", HOSTILE), CELLS), None], 100)
    [spec] = specs_of("".join(shown.matrices))
    reach = quantile(0.975) * 0.01
    rows = values_of(spec, "class", "predicted as", "rows", "of the class")
    assert rows == [
        ("yes", "yes", 45, 0.75),
        ("yes", HOSTILE, 15, 0.25),
        (HOSTILE, "yes", 0, 0),
        (HOSTILE, HOSTILE, 40, 1),
    ]
    assert [row[0] for row in values_of(spec, "±")] == [pytest.approx(reach), pytest.approx(reach), None, None]
    assert [layer["encoding"].get("text", {}).get("field") for layer in spec["layer"]] == [None, "rows", "of the class"]
    assert shown.names == ("precision", "recall") and "new model" in shown.matrices[0]
    assert shown.rows == (("yes", "60.0%", "0.7500 ± 0.0202", ""), (HOSTILE, "40.0%", "0.7500 ± 0.0202", ""))
    # A matrix by weight has no numbers of rows.
    [weighted] = specs_of("".join(classes_section([classes(("yes", HOSTILE), CELLS)], 1234).matrices))
    assert values_of(weighted, "rows") == [(None,)] * 4 and len(weighted["layer"]) == 2
    assert classes_section([], 0) is None and classes_section([None], 0) is None


@pytest.mark.parametrize("count, texts", [(4, 2), (5, 1), (11, 0)])
def test_cells_have_texts_while_there_is_room(count, texts):
    names = tuple(f"c{i}" for i in range(count))
    cells = tuple(Cell(one, other, 4.0, 0.2, 0.01) for one in names for other in names)
    [spec] = specs_of("".join(classes_section([classes(names, cells, (20.0,) * count)], 20 * count).matrices))
    assert len(spec["layer"]) == 1 + texts


def test_the_curves_of_a_class_lie_over_each_other_if_two_models_have_them():
    one, other = (
        replace(classes(("yes", "no"), CELLS[:1]), roc={name: curves(level).roc for name in ("yes", "no")})
        for level in (0.1, 0.5)
    )
    alone = classes_section([one, None], 100, ("A", "B")).charts
    assert [lines(chart) for chart in alone] == [["yes", "no"], []]
    both = classes_section([one, other], 100, ("A", "B")).charts
    assert [lines(chart) for chart in both] == [["A", "B"], ["A", "B"]]
    assert [row[0] for row in values_of(specs_of(both[0])[0], "true positive rate")] == [0, 0.1, 1, 0, 0.5, 1]


def lines(chart):
    return list(dict.fromkeys(row[0] for row in values_of(specs_of(chart)[0], "series")))


def test_of_many_classes_the_most_confused_pairs_are_shown():
    names = tuple(f"c{number}" for number in range(30))
    for rows, told in ((100, "7 (50.0% ± 20.2%)"), (1234, "50.0% ± 20.2%")):
        shown = classes_section([classes(names, (Cell("c3", "c4", 7, 0.5, 0.1),))], rows)
        [pairs] = shown.pairs
        assert shown.matrices == () and pairs.rows == (("c3", "c4", told),) and shown.left_out == 28
