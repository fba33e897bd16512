"""The page of a run and its model card, and the page of a stop by the data gate."""

import base64
import hashlib
import html
import html.parser
import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx.types import standard_artifacts

from fullpass.components.data_gate.distribution import Distribution
from fullpass.components.data_gate.divergence import divergence
from fullpass.components.data_gate.gate_verdict import ComparedSeries, GateFinding, GateVerdict
from fullpass.components.data_gate.page import gate_section, render_gate
from fullpass.components.evaluation.judge.verdict import Measured, Slice, Verdict
from fullpass.components.evaluation.measure.class_results import Cell
from fullpass.components.evaluation.shown.shown_files import ShownText
from fullpass.components.ingest.writing.manifest import QUARANTINE
from fullpass.components.mlmd_values import ADDRESS
from fullpass.components.pages.charts import histogram, line_chart
from fullpass.components.report.classes import classes_section, curve_charts
from fullpass.components.report.columns import ReportedColumn
from fullpass.components.report.component import render
from fullpass.components.report.config import CardFacts
from fullpass.components.report.dependence import dependence_section
from fullpass.components.report.identity import identity
from fullpass.components.report.model_card import model_card, to_html, to_markdown
from fullpass.components.report.report_data import ReportData, of_importance, quarantines, shown_images
from fullpass.components.run_artifacts import RunArtifacts
from tests.components.pages.specs import specs_of, values_of
from tests.components.report.shown import DEPENDENCE, HOSTILE, classes, curves


def test_quarantined_rows_of_a_store_are_named_by_their_address():
    here, copied = standard_artifacts.Examples(), standard_artifacts.Examples()
    here.uri = copied.uri = "/local"
    copied.set_string_custom_property(ADDRESS, "s3://bucket/examples")
    made = RunArtifacts.of({"examples": [here, copied]})
    assert quarantines(made.all("examples")) == [f"/local/{QUARANTINE}", f"s3://bucket/examples/{QUARANTINE}"]


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


def run(*, blessed):
    metrics = (Measured("auc", 0.91234, 0.9, ">= 0.95", "" if blessed else "too low"),)
    reasons = () if blessed else ("auc is too low",)
    missed = (Measured("auc", 0.7, 0.8, ">= 0.75", "too low"),)
    slices = (
        Slice("hour 7", 100, {"auc": 0.8}),
        Slice("hour 8", 90, {"auc": 0.7}, {"auc": 0.8}, judged=missed, errors={"auc": 0.01}),
    )
    return ReportData(
        name="taxi",
        verdict=Verdict(blessed, reasons, metrics, 1234, slices=slices, notes=(HOSTILE,)),
        **of_importance(INSIGHT),
        curves=curve_charts([curves(0.7), curves(0.6)]),
        training=(("epochs", "3"),),
        training_charts=(line_chart({HOSTILE: [1.0]}, y="loss", label=HOSTILE),),
        parity={"rows": 1234, "compared": 20, "mismatches": 0},
        serving="answered",
        gate=gate_section(data_verdict("warn")),
        data=(("rows read", "5,000"),),
        data_notes=(HOSTILE,),
        columns=(
            ReportedColumn(HOSTILE, "text", 0.25, HOSTILE, histogram([{"value": HOSTILE, "rows": 1}], label=HOSTILE)),
        ),
        schema=HOSTILE,
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
    facts = CardFacts(owner=HOSTILE, intended_use="ranking", formula="tips > 0.2 * fare", columns=(HOSTILE,))
    card = model_card(shown, record, facts)
    markdown = to_markdown("taxi", card)
    assert "<script>" not in markdown + re.sub(r"<script>.*?</script>", "", to_html("taxi", card), flags=re.DOTALL)
    for told in (
        "(binary), which is tips \\> 0.2 \\* fare.",
        "- Intended use: ranking.\n- Owner: ",
        "was missing in 25% of train",
        "classes are 0 (33.3% of train), 1 (66.7% of train)",
        "Run: r1.",
        "Fullpass: 0.1.0, with TFX 1.21.0, Python 3.13, TensorFlow 2.21.0.",
        "| auc, newest span | 0.8000 |",
        "Not blessed: auc is too low.",
        "0.9123",
    ):
        assert told in markdown
    assert "no more than chance for noise" in markdown
    assert "25% of train" not in to_markdown("taxi", model_card(shown, record, CardFacts())), "no request has it"
    assert markdown.index("hour 8") < markdown.index("hour 7")  # the worst slice first


class _Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        if self.cdata_elem is None:
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
    named = {
        "name": name,
        "serving": name,
        "data": ((name, name),),
        "data_notes": (name,),
        "columns": (),
        "schema": name,
    }
    return render(replace(run(blessed=False), **named))


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
        "when this page was made. auc 0.9123: >= 0.95 What is served",
        "auc 0.9123 0.9000 +0.0123 too few rows to tell met >= 0.95",
        "Weakest slice: hour 8 , auc 0.7000 ± 0.0202 on 90 rows, all rows 0.9123.",
        "hour 7 100 0.8000 hour 8 90 0.7000 (0.8000), not met",
    ):
        assert fact in text
    order = [text.index(part) for part in ("Blessed, pushed", "Weakest slice", "Simple reference", "2 slices")]
    assert order[0] < order[2] < order[1] < order[3], "the verdict is above all else"
    _, text = read(render(run(blessed=False)))
    assert "Not blessed, not pushed: what is served stays. auc is too low" in text and "not met" in text


def test_the_page_shows_reference_importance_and_classes():
    cells = (Cell("yes", "yes", 45, 0.75, 0.01), Cell("yes", HOSTILE, 15, 0.25, 0.01))
    cells = (*cells, Cell(HOSTILE, "yes", 0, 0.0, float("nan")), Cell(HOSTILE, HOSTILE, 40, 1.0, float("nan")))
    pairs = (Cell("c3", "c4", 7, 0.5, 0.1),)
    for names, of, told in (
        (("yes", HOSTILE), cells, f"yes {HOSTILE} 15 0.25 0.020"),
        (tuple(f"c{i}" for i in range(30)), pairs, "predicted as rows (of the class) c3 c4 7 (50.0% ± 20.2%)"),
        (tuple(f"c{i}" for i in range(30)), pairs, "28 classes with fewer rows are not shown."),
    ):
        _, text = read(
            render(replace(run(blessed=True), curves=(), classes=classes_section([classes(names, of)], 100)))
        )
        assert told in text
    assert "has auc 0.8800, the model 0.9100 on the same 1,234: better by 0.0300 ± 0.0100." in text
    assert "noise -0.0010 0.0020 no more than chance" in text and f"{HOSTILE} 0.2000 0.0100 column" not in text


def test_data_is_escaped_and_nothing_is_loaded():
    page = render(run(blessed=True))
    tags, text = read(page)
    assert page.count("prefers-color-scheme: dark") == 1 and 'name="viewport"' in page
    assert HOSTILE in text and len(specs_of(page)) > 8
    loads_nothing(page, tags)


def loads_nothing(page, tags):
    """The page contains no URL, one style sheet, and only scripts whose digests are in its policy."""
    assert "://" not in page and not {"link", "img", "iframe", "object"} & set(tags)
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1))
    assert "default-src 'none'" in policy and "unsafe" not in policy and tags.count("style") == 1
    for tag in ("style", "script"):
        (allowed,) = re.findall(f"{tag}-src ([^;]*)", policy)
        for inline in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL):
            assert f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'" in allowed.split()


def test_the_page_of_a_stop_shows_its_findings_and_the_three_largest_changes():
    page = render_gate("taxi", data_verdict())
    tags, text = read(page)
    assert "Stopped: the data has changed. Nothing was trained or pushed; the served model is unchanged." in text
    assert "2020-04, 3,000 rows, compared with 2020-03." in text and "1 span missing" in text
    assert f"stop drift zone: moved; most of all {HOSTILE}" in text
    assert [name for name in ("zone", "fare", "tip", "tolls") if f"<b>{name}</b>" in page] == ["zone", "fare", "tip"]
    assert tags.count("figure") == 3
    zone = {row[:2]: row[2] for row in values_of(specs_of(page)[0], "value", "series", "share of rows")}
    found = [zone[value, side] for value in (HOSTILE, "missing") for side in ("before", "now")]
    assert found == pytest.approx([100 / 3050, 1000 / 2700, 50 / 3050, 250 / 2700], abs=1e-3)
    assert ("19 others", "now") in zone
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
    shown = shown_images({"images": [*record["images"], hostile]})
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
