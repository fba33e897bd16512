import html.parser
import xml.etree.ElementTree as ET

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx.types import standard_artifacts

from components.data_gate.distribution import Distribution
from components.data_gate.divergence import divergence
from components.data_gate.verdict import Compared, Finding
from components.data_gate.verdict import Verdict as DataVerdict
from components.evaluation.verdict import Measured, Slice, Verdict
from components.ingest.manifest import QUARANTINE
from components.recorded import ADDRESS
from components.report.charts import histogram
from components.report.columns import Column, read_columns
from components.report.component import render
from components.report.facts import Data, Parity, Run, ShownColumn, Training, quarantines, training
from components.report.gate import gate_section
from components.report.gate_page import render_gate

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


def test_columns_by_name_with_what_train_holds():
    assert read_columns(statistics()) == (
        Column("company", "text", 0.0, "2 values: Flash Cab (70%), Blue (30%)", (7.0, 3.0)),
        Column("empty", "string", 1.0, "no value", ()),
        Column("fare", "number", 0.5, "1 to 9, mean 4.5, median 4", (6.0, 2.0)),
    )


def test_rows_left_out_are_looked_for_where_they_stay():
    here, copied = standard_artifacts.Examples(), standard_artifacts.Examples()
    here.uri = copied.uri = "/local"
    copied.set_string_custom_property(ADDRESS, "s3://bucket/examples")
    assert quarantines([here, copied]) == [f"/local/{QUARANTINE}", f"s3://bucket/examples/{QUARANTINE}"]


def test_the_training_says_what_a_step_waits_for():
    record = {
        "rows": {"train": 5000, "eval": 500},
        "epochs": 3,
        "best_epoch": 2,
        "batch_size": 100,
        "steps_per_epoch": 50,
        "parameters": 1234,
        "examples_per_second": 9876,
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
    assert [text.text for text in step.iter("text")] == ["waiting for input", "2 ms", "the update itself", "6 ms"]
    waiting, update = (float(bar.attrib["width"]) for bar in step.iter("rect"))
    assert update == pytest.approx(3 * waiting, rel=0.01)
    assert waiting > 0


def data_verdict(policy="stop"):
    """Four series; the one that moved most has 30 values, half of them hostile to HTML."""
    names = [HOSTILE, *(f"zone {i}" for i in range(29))]
    before = Distribution("category", tuple(names), tuple([100.0] * 30), missing=50.0)
    now = Distribution("category", tuple(names), tuple([1000.0, *[50.0] * 29]), missing=250.0)
    moved, still = divergence(before, now), divergence(before, before)
    compared = (
        Compared("zone", "2020-03", moved, 0.1, 0.2),
        Compared("zone", "the window (2020-01 to 2020-03)", moved, 0.1, 0.2),
        *(Compared(name, "2020-03", still, 0.1, 0.2) for name in ("fare", "tip", "tolls")),
    )
    finding = Finding("drift", "zone", policy, f"zone: moved; most of all {HOSTILE}", 2.0)
    return DataVerdict("2020-04", 3000, "2020-03", "", (finding,) if policy else (), compared, ("1 span missing",))


def run(*, blessed):
    metrics = (Measured("auc", 0.91234, 0.9, ">= 0.95", blessed),)
    reasons = () if blessed else ("auc is too low",)
    missed = (Measured("auc", 0.7, 0.8, ">= 0.75", False),)
    slices = (Slice("hour 7", 100, {"auc": 0.8}), Slice("hour 8", 90, {"auc": 0.7}, {"auc": 0.8}, judged=missed))
    shown = ShownColumn(Column(HOSTILE, "text", 0.25, HOSTILE, (1.0, 2.0)), histogram([1], label=HOSTILE))
    return Run(
        name="taxi",
        verdict=Verdict(blessed, reasons, metrics, 1234, slices=slices, notes=(HOSTILE,)),
        training=Training(
            (("epochs", "3"),), histogram([1], label="x"), histogram([2], label="y"), histogram([3], label="z")
        ),
        parity=Parity(1234, 20, 0),
        serving="answered",
        gate=gate_section(data_verdict("warn")),
        data=Data((("rows read", "5,000"),), (HOSTILE,), (shown,), HOSTILE),
        pushed_to="/models/1" if blessed else "",
    )


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


def test_the_page_says_what_happened():
    _, text = read(render(run(blessed=True)))
    for fact in (
        "Blessed, served from /models/1",
        "1,234 examples",
        "auc 0.9123 0.9000 >= 0.95 held",
        "hour 7 100 0.8000 hour 8 90 0.7000 (0.8000), not held",
    ):
        assert fact in text
    _, text = read(render(run(blessed=False)))
    assert "Not blessed, not pushed: auc is too low" in text and "not held" in text


def test_nothing_of_the_data_becomes_markup_and_nothing_is_loaded_from_elsewhere():
    page = render(run(blessed=True))
    tags, text = read(page)
    assert page.count("prefers-color-scheme: dark") == 1 and 'name="viewport"' in page
    assert "script" not in tags and HOSTILE in text
    assert "http" not in page and "link" not in tags and "img" not in tags


def test_the_page_of_a_stop_says_what_moved_and_shows_the_three_worst():
    page = render_gate("taxi", data_verdict())
    tags, text = read(page)
    assert "Stopped: the data has changed, nothing was trained or pushed" in text
    assert "2020-04, 3,000 rows, compared with 2020-03." in text and "1 span missing" in text
    assert f"stop drift zone: moved; most of all {HOSTILE}" in text
    assert [name for name in ("zone", "fare", "tip", "tolls") if f"<b>{name}</b>" in page] == ["zone", "fare", "tip"]
    assert tags.count("svg") == 3 and "3.3%, 37.0%" in text, "100 of 3,050 rows before, 1,000 of 2,700 now"
    assert "missing 1.6%, 9.3%" in text and "19 others" in text
    assert "script" not in tags and "http" not in page and "link" not in tags


def test_the_page_of_a_run_has_the_gate_too():
    _, text = read(render(run(blessed=True)))
    assert f"warn drift zone: moved; most of all {HOSTILE}" in text
    _, text = read(render_gate("taxi", data_verdict("")))
    assert "The data may be trained on." in text and "Nothing moved further than it may." in text
