"""Charts of the partial dependence hold the scores."""

from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence
from fullpass.components.report.dependence import dependence_section
from tests.components.pages.specs import specs_of, values_of
from tests.components.report.shown import DEPENDENCE, HOSTILE


def test_numbers_are_lines_and_values_are_dots_on_one_scale():
    shown = dependence_section(DEPENDENCE, ("no", HOSTILE, "yes"))
    line, dots = (specs_of(chart)[0] for chart in shown.charts)
    scores = [("1", 1, 0.2), ("2", 2, 0.4), ("5", 5, 0.6)]
    assert [row[:3] for row in values_of(line, "value", "place", "score", "series") if row[3] == "yes"] == scores
    assert values_of(dots, "value", "series", "score") == [
        (HOSTILE, "yes", 0.0),
        ("b", "yes", 1.0),
        (HOSTILE, HOSTILE, 1.0),
        ("b", HOSTILE, 0.0),
    ]
    (means, drawn), (_, dotted) = line["layer"], dots["layer"]
    assert means["data"]["values"] == [{"series": "yes", "score": 0.4}, {"series": HOSTILE, "score": 0.6}]
    assert drawn["encoding"]["x"]["field"] == "place" and dotted["encoding"]["y"]["field"] == "value"
    assert drawn["encoding"]["y"]["scale"] == dotted["encoding"]["x"]["scale"], "all charts have one scale"
    assert drawn["encoding"]["color"]["scale"]["range"] == ["#059669", "#d97706"], "the colors of the page's classes"
    assert shown.score == f"probability of yes, {HOSTILE}"
    assert dependence_section(None) is None


def test_dates_are_moments_in_utc():
    column = ColumnDependence("started", "date", ("2013-03-02T12:00:00", "x"), (15766.5, 15767.0), ((3, 3),))
    shown = dependence_section(Dependence(20, ("prediction",), (3.0,), (column,), {}))
    [spec] = specs_of(shown.charts[0])
    assert values_of(spec, "place") == [(1362225600000.0,), (1362268800000.0,)]
    x = spec["layer"][1]["encoding"]["x"]
    assert (x["type"], x["scale"], shown.score) == ("temporal", {"type": "utc"}, "prediction")
