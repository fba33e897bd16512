import base64
import hashlib
import html
import html.parser
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx.types import standard_artifacts

from fullpass.components.data_gate.distribution import Distribution
from fullpass.components.data_gate.divergence import divergence
from fullpass.components.data_gate.gate_verdict import ComparedSeries, GateFinding, GateVerdict
from fullpass.components.data_gate.page import gate_section, render_gate
from fullpass.components.evaluation.judge.verdict import Measured, Slice, Verdict
from fullpass.components.evaluation.measure.class_results import Cell, ClassResults, OfClass
from fullpass.components.evaluation.measure.score_curves import Curve, Curves
from fullpass.components.evaluation.shown.shown_files import ColumnDependence, Dependence, ShownText
from fullpass.components.ingest.writing.manifest import QUARANTINE
from fullpass.components.mlmd_values import ADDRESS
from fullpass.components.pages.charts import histogram
from fullpass.components.report.classes import classes_section, curve_chart, curve_charts
from fullpass.components.report.component import render
from fullpass.components.report.dependence import dependence_section
from fullpass.components.report.identity import identity
from fullpass.components.report.model_card import model_card, to_html, to_markdown
from fullpass.components.report.report_data import (
    Data,
    Parity,
    ReportData,
    ReportedColumn,
    ReportedTraining,
    ShownColumn,
    image_section,
    insight_section,
    quarantines,
    read_columns,
    training,
)
from fullpass.components.run_artifacts import RunArtifacts

HOSTILE = "<script>alert('x')</script>"


def statistics():
    data = statistics_pb2.DatasetFeatureStatistics(num_examples=10)
    number = data.features.add(type=statistics_pb2.FeatureNameStatistics.FLOAT)
    number.path.step.append("fare")
    number.num_stats.common_stats.num_non_missing = 5
    number.num_stats.min, number.num_stats.max, number.num_stats.mean, number.num_stats.median = 1, 9, 4.5, 4
    for kind, counts in ((statistics_pb2.Histogram.QUANTILES, [4, 4]), (statistics_pb2.Histogram.STANDARD, [6, 2])):
        shown = number.num_stats.histograms.add(type=kind)
        for count in counts:
            shown.buckets.add(sample_count=count)
    text = data.features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    text.path.step.append("company")
    stats = text.string_stats
    stats.common_stats.num_non_missing, stats.common_stats.tot_num_values, stats.unique = 10, 10, 2
    for value, count in (("Flash Cab", 7), ("Blue", 3)):
        stats.top_values.add(value=value, frequency=count)
        stats.rank_histogram.buckets.add(label=value, sample_count=count)
    empty = data.features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    empty.path.step.append("empty")
    empty.string_stats.common_stats.num_missing = 10
    return statistics_pb2.DatasetFeatureStatisticsList(datasets=[data])


def test_columns_are_sorted_and_describe_the_train_split():
    assert read_columns(statistics()) == (
        ReportedColumn("company", "text", 0.0, "2 values: Flash Cab (70%), Blue (30%)", (7.0, 3.0)),
        ReportedColumn("empty", "string", 1.0, "no value", ()),
        ReportedColumn("fare", "number", 0.5, "1 to 9, mean 4.5, median 4", (6.0, 2.0)),
    )


def test_lists_say_how_long_they_are():
    told = statistics()
    common = next(f for f in told.datasets[0].features if "fare" in (f.name, *f.path.step)).num_stats.common_stats
    common.min_num_values, common.max_num_values, common.avg_num_values = 1, 7, 2.5
    assert read_columns(told)[2].text == "lists of 1 to 7, mean 2.5; 1 to 9, mean 4.5, median 4"
    common.min_num_values = 7
    assert read_columns(told)[2].text == "lists of 7; 1 to 9, mean 4.5, median 4"


def test_values_that_are_no_text_are_described_as_bytes():
    told = statistics()
    image = told.datasets[0].features.add(type=statistics_pb2.FeatureNameStatistics.STRING)
    image.path.step.append("image")
    stats = image.string_stats
    stats.common_stats.num_non_missing, stats.unique, stats.avg_length = 10, 9, 1234.4
    stats.top_values.add(value="__BYTES_VALUE__", frequency=10)
    assert read_columns(told)[3] == ReportedColumn(
        "image", "bytes", 0.0, "9 different values of 1,234 bytes on average", ()
    )
    stats.top_values.add(value="a", frequency=1)
    assert read_columns(told)[3].text == "9 values: bytes that are not UTF-8 (100%), a (10%)"


def test_quarantined_rows_of_a_store_are_named_by_their_address():
    here, copied = standard_artifacts.Examples(), standard_artifacts.Examples()
    here.uri = copied.uri = "/local"
    copied.set_string_custom_property(ADDRESS, "s3://bucket/examples")
    made = RunArtifacts.of({"examples": [here, copied]})
    assert quarantines(made.all("examples")) == [f"/local/{QUARANTINE}", f"s3://bucket/examples/{QUARANTINE}"]


def test_the_training_shows_the_wait_for_input():
    record = {
        "rows": {"train": 5000, "eval": 500},
        "epochs": 3,
        "best_epoch": 2,
        "batch_size": 100,
        "steps_per_epoch": 50,
        "parameters": 1234,
        "examples_per_second": 9876,
        "ended_by": "epochs",
        "devices": "CPU",
        "precision": "float32",
        "classes": {"0": 4000, "1": 1000},
        "history": {"loss": [3.0, 2.0, 1.0], "val_loss": [3.0, 2.5, 2.6]},
        "input": {"train": "kept in memory"},
        "input_wait": 0.25,
        "step_ms": 8.0,
        "seconds": {"read": 1.0, "train": 2.0},
    }
    found = training(record)
    assert ("input", "awaited in 25% of the time; the train split is kept in memory") in found.facts
    assert ("classes", "0: 4,000; 1: 1,000") in found.facts
    step = ET.fromstring(str(found.step))
    assert [cell.text for row in step for cell in row if cell.text] == [
        "waiting for input",
        "2 ms",
        "model update",
        "6 ms",
    ]
    waiting, update = (float(bar.attrib["width"].rstrip("%")) for bar in step.iter("rect"))
    assert update == pytest.approx(3 * waiting, rel=0.01)
    assert waiting > 0
    grown = {"trees": {"trees": 120, "leaves": 3720, "forests": 6, "random": 3}}
    for validation, learned in (({}, "all rows of train"), ({"validation": 500}, "train and validation")):
        told = f"120 with 3,720 leaves, in 6 forests that grew on {learned}, 3 of them with random thresholds"
        trees = training({**record, **grown, "rows": {**record["rows"], **validation}, "folds": 5})
        assert ("trees", f"{told}; an epoch is ten rounds") in trees.facts
        assert ("folds", "5 of train choose trees, linear model, and their shares of a blend") in trees.facts
    assert not trees.step
    assert not {"batch size", "input"} & {name for name, _ in trees.facts}


def data_verdict(policy="stop"):
    """Four series; the one with the largest drift has 30 values, half of them with HTML markup."""
    names = [HOSTILE, *(f"zone {i}" for i in range(29))]
    before = Distribution("category", tuple(names), tuple([100.0] * 30), missing=50.0)
    now = Distribution("category", tuple(names), tuple([1000.0, *[50.0] * 29]), missing=250.0)
    moved, still = divergence(before, now), divergence(before, before)
    compared = (
        ComparedSeries("zone", "2020-03", moved, 0.1, 0.2),
        ComparedSeries("zone", "the window (2020-01 to 2020-03)", moved, 0.1, 0.2),
        *(ComparedSeries(name, "2020-03", still, 0.1, 0.2) for name in ("fare", "tip", "tolls")),
    )
    finding = GateFinding("drift", "zone", policy, f"zone: moved; most of all {HOSTILE}", 2.0)
    return GateVerdict("2020-04", 3000, "2020-03", "", (finding,) if policy else (), compared, ("1 span missing",))


INSIGHT = {
    "reference": {
        "kind": "logistic regression",
        "metric": "auc",
        "reference": 0.88,
        "network": 0.91,
        "reach": 0.01,
        "train_rows": 20_000,
        "eval_rows": 1234,
    },
    "importance": [
        {"feature": HOSTILE, "importance": 0.2, "reach": 0.01},
        {"feature": "noise", "importance": -0.001, "reach": 0.002},
    ],
    "classes": {"0": 1, "1": 2},
}


def test_the_network_is_shown_beside_a_simple_reference():
    found = insight_section(INSIGHT)
    assert found.reference.endswith("has auc 0.8800, the model 0.9100 on the same 1,234: better by 0.0300 ± 0.0100")
    assert [feature.certain for feature in found.features] == [True, False]
    assert insight_section({}).features == ()


DEPENDENCE = Dependence(
    200,
    ("yes", HOSTILE),
    (0.4, 0.6),
    (
        ColumnDependence("fare", "number", ("1", "2", "5"), (1.0, 2.0, 5.0), ((0.2, 0.4, 0.6), (0.8, 0.6, 0.4))),
        ColumnDependence(HOSTILE, "value", (HOSTILE, "b"), (), ((0.0, 1.0), (1.0, 0.0))),
    ),
    {HOSTILE: "text"},
)


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


def curves(height):
    """Curves of three points; the last has no error."""
    curve = Curve((0.0, 0.5, 1.0), (0.0, height, 1.0), (0.1, 0.02, float("nan")))
    return Curves(curve, curve, curve, curve.x)


def run(*, blessed):
    metrics = (Measured("auc", 0.91234, 0.9, ">= 0.95", "" if blessed else "too low"),)
    reasons = () if blessed else ("auc is too low",)
    missed = (Measured("auc", 0.7, 0.8, ">= 0.75", "too low"),)
    slices = (Slice("hour 7", 100, {"auc": 0.8}), Slice("hour 8", 90, {"auc": 0.7}, {"auc": 0.8}, judged=missed))
    shown = ShownColumn(ReportedColumn(HOSTILE, "text", 0.25, HOSTILE, (1.0, 2.0)), histogram([1], label=HOSTILE))
    return ReportData(
        name="taxi",
        verdict=Verdict(blessed, reasons, metrics, 1234, slices=slices, notes=(HOSTILE,)),
        curves=curve_charts([curves(0.7), curves(0.6)]),
        insight=insight_section(INSIGHT),
        training=ReportedTraining(
            (("epochs", "3"),), histogram([1], label="x"), histogram([2], label="y"), histogram([3], label="z")
        ),
        parity=Parity(1234, 20, 0),
        serving="answered",
        gate=gate_section(data_verdict("warn")),
        data=Data((("rows read", "5,000"),), (HOSTILE,), (shown,), HOSTILE),
        pushed_to="/models/1" if blessed else "",
        dependence=dependence_section(DEPENDENCE),
    )


CODE = {"fullpass": "0.1.0", "commit": None, "line": "TFX 1.21.0, Python 3.13, TensorFlow 2.21.0"}


def test_the_model_card_says_what_it_is_and_where_it_ends():
    lineage = {"run": "r1", "code": CODE}
    record = {**INSIGHT, "model": {"label": HOSTILE, "task": "binary", "lineage": lineage}}
    newest = (Measured("auc", 0.8),)
    shown = run(blessed=False)
    shown = replace(shown, verdict=replace(shown.verdict, newest=newest), identity=identity(record, [], []))
    card = model_card(shown, record)
    markdown = to_markdown("taxi", card)
    assert "<script>" not in markdown + re.sub(r"<script>.*?</script>", "", to_html("taxi", card), flags=re.DOTALL)
    for told in (
        "classes are 0 (33.3% of train), 1 (66.7% of train)",
        "Run: r1.",
        "Fullpass: 0.1.0, with TFX 1.21.0, Python 3.13, TensorFlow 2.21.0.",
        "| auc, newest span | 0.8000 |",
        "Not blessed: auc is too low.",
        "0.9123",
    ):
        assert told in markdown
    assert "no more than chance for noise" in markdown
    assert markdown.index("hour 8") < markdown.index("hour 7")  # the worst slice first


class _Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data.strip())


def read(page):
    parser = _Text()
    parser.feed(page)
    return parser.tags, " ".join(filter(None, parser.text))


WILD = ("\udcff", "\x00", "</script><b>", '"><img src=x>', "&#60;b>", "{{ 7 * 7 }}", "]]>", "<!--", "\x1b[2J\u202e")


@pytest.mark.integration
@settings(max_examples=40, deadline=None)
@given(text=st.one_of(st.text(st.characters(), max_size=20), st.sampled_from(WILD)))
def test_whatever_the_text_the_page_has_the_same_elements_and_can_be_written(text):
    wild = page_of_names(f"x{text}")
    assert read(wild)[0] == elements()
    wild.encode("utf-8")


def page_of_names(name):
    return render(replace(run(blessed=False), name=name, serving=name, data=Data(((name, name),), (name,), (), name)))


@cache
def elements():
    """Returns the elements of the page of a tame name."""
    return read(page_of_names("x"))[0]


def test_a_page_says_that_another_version_is_served():
    _, text = read(render(replace(run(blessed=True), served_instead="7")))
    assert (
        "Blessed, but not served: its version is /models/1, and version 7 was served when this page was made." in text
    )


def test_the_page_shows_verdict_metrics_and_slices():
    _, text = read(render(run(blessed=True)))
    for fact in (
        "Blessed, pushed to /models/1 and served when this page was made.",
        "What is served now: fullpass models",
        "1,234 examples",
        "auc 0.9123 0.9000 >= 0.95 met",
        "hour 7 100 0.8000 hour 8 90 0.7000 (0.8000), not met",
    ):
        assert fact in text
    _, text = read(render(run(blessed=False)))
    assert "Not blessed, not pushed: auc is too low" in text and "not met" in text


def test_curves_have_a_line_and_an_interval_for_each_model():
    from fullpass.components.evaluation.confidence import quantile

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


def classes(names, cells, weights=(60.0, 40.0)):
    """The classes of a model, each with the same metrics."""
    of = {"precision": (0.75, 0.01), "recall": (float("nan"), float("nan"))}
    return ClassResults(tuple(OfClass(n, w, of) for n, w in zip(names, weights, strict=False)), len(names), cells)


def test_the_confusion_matrix_names_classes():
    cells = (Cell("yes", "yes", 45, 0.75, 0.01), Cell("yes", HOSTILE, 15, 0.25, 0.01))
    cells = (*cells, Cell(HOSTILE, "yes", 0, 0.0, float("nan")), Cell(HOSTILE, HOSTILE, 40, 1.0, float("nan")))
    shown = classes_section([classes(("yes", HOSTILE), cells), None], 100)
    [matrix] = shown.matrices
    assert (matrix.model, matrix.names) == ("new model", ("yes", HOSTILE))
    assert matrix.rows == (("yes", "45 (75.0% ± 2.0%)", "15 (25.0% ± 2.0%)"), (HOSTILE, "0 (0.0%)", "40 (100.0%)"))
    assert shown.names == ("precision", "recall")
    assert shown.rows == (("yes", "60.0%", "0.7500 ± 0.0202", ""), (HOSTILE, "40.0%", "0.7500 ± 0.0202", ""))
    _, text = read(render(replace(run(blessed=True), classes=shown)))
    assert f"new model, predicted as yes {HOSTILE} yes 45 (75.0% ± 2.0%) 15 (25.0% ± 2.0%)" in text
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
    _, text = read(render(replace(run(blessed=True), classes=shown)))
    assert "most confused classes predicted as rows (of the class) c3 c4 7 (50.0% ± 20.2%)" in text
    assert "28 classes with fewer rows are not shown." in text


def test_data_is_escaped_and_nothing_is_loaded():
    page = render(run(blessed=True))
    tags, text = read(page)
    assert page.count("prefers-color-scheme: dark") == 1 and 'name="viewport"' in page
    assert HOSTILE in text
    loads_nothing(page, tags)


def loads_nothing(page, tags):
    """The page contains no URL, and one style sheet and one script, whose digests are in its policy."""
    assert "://" not in page and not {"link", "img", "iframe", "object"} & set(tags)
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1))
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("style", "script"):
        assert tags.count(tag) == 1
        inline = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_page_of_a_stop_shows_its_findings_and_the_three_largest_changes():
    page = render_gate("taxi", data_verdict())
    tags, text = read(page)
    assert "Stopped: the data has changed. Nothing was trained or pushed; the served model is unchanged." in text
    assert "2020-04, 3,000 rows, compared with 2020-03." in text and "1 span missing" in text
    assert f"stop drift zone: moved; most of all {HOSTILE}" in text
    assert [name for name in ("zone", "fare", "tip", "tolls") if f"<b>{name}</b>" in page] == ["zone", "fare", "tip"]
    assert tags.count("table") - tags.count("thead") == 3 and "3.3%, 37.0%" in text, (
        "100 of 3,050 rows before, 1,000 of 2,700 now"
    )
    assert "missing 1.6%, 9.3%" in text and "19 others" in text
    loads_nothing(page, tags)


def test_the_page_of_a_run_shows_the_gate():
    _, text = read(render(run(blessed=True)))
    assert f"warn drift zone: moved; most of all {HOSTILE}" in text
    _, text = read(render_gate("taxi", data_verdict("")))
    assert "Passed: training may use the data." in text and "No change is beyond its limit." in text


def test_images_are_shown_in_the_page_itself_with_what_the_model_said():
    one = {"feature": "image", "png": "aGk=", "prediction": "cat", "probability": 0.9}
    record = {"images": [{**one, "label": HOSTILE, "right": False}, {**one, "label": "cat", "right": True}]}
    hostile = {**one, "png": '"><script>', "label": "x", "right": True}
    shown = image_section({"images": [*record["images"], hostile]})
    page = render(replace(run(blessed=True), images=shown))
    _, text = read(page)
    assert page.count('<img src="data:image/png;base64,aGk="') == page.count("<img") == 2
    assert f"is {HOSTILE}" in text and "cat 90%" in text and "://" not in page


def test_texts_are_shown_with_what_the_model_said():
    texts = (
        ShownText({"title": HOSTILE}, label="cat", prediction="dog", probability=0.9),
        ShownText({"title": "purr"}, label="cat", prediction="cat", probability=0.8),
    )
    _, text = read(render(replace(run(blessed=True), texts=texts)))
    assert text.index(HOSTILE) < text.index("purr") and "dog 90%" in text and "cat 80%" in text
    assert "Texts of the eval split" not in read(render(run(blessed=True)))[1]
