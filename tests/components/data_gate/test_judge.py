"""The findings of the data gate, from rows to messages."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fullpass.components.data_gate import sketches
from fullpass.components.data_gate.config import GatesConfig
from fullpass.components.data_gate.gate_verdict import parse_verdict
from fullpass.components.data_gate.judge import judge_span
from fullpass.components.data_gate.series import SeriesSource, series_of
from fullpass.components.data_gate.sketches import Sketches
from fullpass.components.data_gate.span_summary import SpanSummary, SummaryStore, merge_parts, merge_spans
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.dates.read_dates import read_dates

CONFIG = {
    "features": {
        "fare": "number",
        "zone": "category",
        "tags": {"type": "category", "separator": "|"},
        "at": "date",
        "note": "text",
        "surcharge": "number",
    },
    "label": {"name": "paid", "task": "binary", "positive": "card"},
}
ROWS = 2000


def preprocessing(**more):
    return PreprocessingConfig.model_validate(CONFIG | more)


def rows_of_month(month, seed=0, rows=ROWS):
    random = np.random.default_rng(seed * 1000 + month)
    return {
        "fare": random.gamma(2, 5, rows).astype(np.float32).tolist(),
        "zone": [f"z{z}" for z in random.integers(0, 40, rows)],
        "tags": [f"a|b{i % 3}" for i in range(rows)],
        "at": [f"2020-{month:02d}-{1 + i % 28:02d} {h:02d}:15:00" for i, h in enumerate(random.integers(0, 24, rows))],
        "note": ["x" * n for n in random.integers(1, 60, rows)],
        "surcharge": [None] * rows,
        "paid": ["card" if x < 0.6 else "cash" for x in random.random(rows)],
    }


def arrays(table):
    numbers = ("fare", "surcharge")
    return {
        name: pa.array(values, pa.float32())
        if name in numbers
        else pa.array([v if v is None else v.encode() for v in values], pa.binary())
        for name, values in table.items()
    }


def summary(number, table, config=None):
    config = config or preprocessing()
    sketches = Sketches(SeriesSource.of(config, "month"))
    rows = len(table["fare"])
    half = rows // 2
    for part in (slice(0, half), slice(half, rows)):
        columns = {name: array[part] for name, array in arrays(table).items()}
        sketches.add(columns, len(columns["fare"]))
    return merge_parts(number, f"2020-{number:02d}", f"f{number}", sketches.rows, [sketches.distributions()])


def months(*numbers):
    return [summary(n, rows_of_month(n)) for n in numbers]


def found(newest, window=(), earlier=(), gates=None, config=None, **more):
    of_config = series_of(config or preprocessing(), "month")
    return judge_span(newest, window, earlier, of_config, GatesConfig.model_validate(gates or {}), **more)


def changed(month, **columns):
    table = rows_of_month(month)
    return table | {name: make(table[name]) for name, make in columns.items()}


def tripled(fares):
    return [3 * fare for fare in fares]


def subjects(verdict):
    return {(f.check, f.subject) for f in verdict.findings}


@pytest.mark.integration
def test_ordinary_months_have_no_finding():
    every = months(*range(1, 9))
    for i in range(1, 8):
        assert found(every[i], every[max(0, i - 5) : i]).findings == ()


def test_the_series_of_a_config():
    names = [one.name for one in series_of(preprocessing(), "month")]
    parts = ["at, day", "at, day of week", "at, hour"]
    assert names == [*parts, "fare", "note, length", "surcharge", "tags", "zone", "label paid"]
    assert [n for n in (one.name for one in series_of(preprocessing(), "day")) if n.startswith("at")] == ["at, hour"]
    assert not [one for one in series_of(preprocessing(), "hour") if one.column == "at"]


def test_values_become_tokens_and_numbers():
    distributions = summary(1, rows_of_month(1)).distributions
    table = rows_of_month(1)
    assert counted(distributions["tags"]) == {"a": 2000, "b0": 667, "b1": 667, "b2": 666}
    weekdays = counted(distributions["at, day of week"])
    mondays = sum(int(text[8:10]) in (6, 13, 20, 27) for text in table["at"])
    assert weekdays["Monday"] == mondays and len(weekdays) == 7
    assert distributions["surcharge"].missing == ROWS
    paid = counted(distributions["label paid"])
    assert paid == {"card": table["paid"].count("card"), "not card": table["paid"].count("cash")}
    lengths = distributions["note, length"]
    assert min(lengths.values) == 1 and max(lengths.values) == 59


def test_the_dates_of_a_column_are_read_once_for_all_of_its_series(monkeypatch):
    reads = []
    monkeypatch.setattr(sketches, "read_dates", lambda *given: reads.append(given) or read_dates(*given))
    summary(1, rows_of_month(1))
    assert len(reads) == 2  # one for each half of the rows


def test_two_spellings_of_a_token_are_counted_as_one():
    config = PreprocessingConfig.model_validate(
        {
            "features": {"tags": {"type": "category", "separator": "|"}},
            "derive": {"y": "concat(tags, '.0')"},
            "label": {"name": "y", "task": "multiclass"},
        }
    )
    sketches = Sketches(SeriesSource.of(config, None))
    sketches.add({"tags": pa.array([[b"7.0|8"], [b"7"]])}, 2)
    found = {name: counted(one) for name, one in sketches.distributions().items()}
    assert found == {"tags": {"7": 2, "8": 1}, "label y": {"7.0|8.0": 1, "7": 1}}


def counted(distribution):
    return dict(zip(distribution.values, distribution.counts, strict=True))


def test_a_drifted_number_names_its_divergence_and_the_span():
    now = summary(4, changed(4, fare=tripled))
    verdict = found(now, months(1, 2, 3), gates={"drift": "stop"})
    (finding,) = verdict.findings
    assert (finding.check, finding.subject, finding.policy) == ("drift", "fare", "stop") and verdict.stopped
    assert "fare: drifted from" in finding.text and "Jensen-Shannon 0." in finding.text and "over 0.1" in finding.text
    assert verdict.worst[0].series == "fare" and len(verdict.worst) == 3
    assert verdict.previous == "2020-03" and verdict.window == "the window (2020-01 to 2020-03)"


def test_a_column_that_appears_and_one_that_goes():
    (before,) = months(1)
    now = summary(2, changed(2, surcharge=lambda s: [2.5] * len(s), zone=lambda z: [None] * len(z)))
    verdict = found(now, [before])
    assert {("new_columns", "surcharge"), ("dropped_columns", "zone")} <= subjects(verdict)
    assert verdict.stopped, "a lost column stops by default"
    texts = {f.check: f.text for f in verdict.findings}
    assert texts["new_columns"] == "surcharge: has values in 100.0% of rows; had none in 2020-01."
    assert "100.0% of rows had one in 2020-01" in texts["dropped_columns"]
    assert not found(now, [before], gates={"dropped_columns": "warn"}).stopped


def test_a_changed_share_of_missing_values():
    gone = summary(3, changed(3, zone=lambda z: [None if i % 8 == 0 else v for i, v in enumerate(z)]))
    verdict = found(gone, months(1, 2))
    assert ("missing", "zone") in subjects(verdict)
    assert "12.5% of values missing, 0.0% in" in next(f.text for f in verdict.findings if f.check == "missing")
    assert ("missing", "zone") in subjects(found(summary(4, rows_of_month(4)), [gone]))
    few = summary(3, changed(3, zone=lambda z: [None if i % 25 == 0 else v for i, v in enumerate(z)]))
    assert found(few, months(1, 2)).findings == ()


def test_the_label_has_limits_of_its_own():
    shifted = changed(3, paid=lambda paid: ["card" if i % 4 else "cash" for i in range(len(paid))])
    verdict = found(summary(3, shifted), months(1, 2), gates={"label": {"policy": "retrain", "linf": 0.05}})
    assert subjects(verdict) == {("label", "label paid")} and verdict.retrain and not verdict.stopped
    assert "'not card': 40.2% of rows before, 25.0% now." in verdict.findings[0].text
    assert found(summary(3, shifted), months(1, 2), gates={"label": "ignore"}).findings == ()


@pytest.mark.parametrize(
    ("label", "column", "moved"),
    [
        ({"name": "paid", "task": "multiclass"}, ["card", "cash"], ["card", "voucher"]),
        ({"name": "paid", "task": "multilabel", "separator": "|"}, ["a|b", "a"], ["c", "b"]),
        ({"name": "fare", "task": "regression"}, [1.0, 2.0, 3.0], [2.5, 9.0, 9.5]),
        ({"name": "rich", "task": "binary"}, [1.0, 20.0], [20.0, 20.0, 20.0, 1.0]),
    ],
)
def test_labels_of_every_task(label, column, moved):
    config = PreprocessingConfig.model_validate(
        {"features": {"zone": "category"}, "label": label, "derive": {"rich": "fare > 10"}}
    )

    def of(number, values):
        table = rows_of_month(number)
        name = "fare" if label["name"] in ("fare", "rich") else "paid"
        table[name] = [values[i % len(values)] for i in range(ROWS)]
        return summary(number, table, config)

    verdict = found(of(2, moved), [of(1, column)], config=config)
    assert ("label", f"label {label['name']}") in subjects(verdict)
    assert ("label", f"label {label['name']}") not in subjects(found(of(2, column), [of(1, column)], config=config))


def test_rows_against_the_median_of_the_spans_before():
    before = months(1, 2, 3)
    few = summary(4, {name: values[:800] for name, values in rows_of_month(4).items()})
    (finding,) = found(few, before).findings
    assert finding.check == "rows" and "800 rows, 40% of the 2,000 of the 3 before (median)" in finding.text
    many = summary(4, {name: values * 3 for name, values in rows_of_month(4).items()})
    assert ("rows", "2020-04") in subjects(found(many, before))
    near = summary(4, {name: values[:1010] for name, values in rows_of_month(4).items()})
    assert found(near, before).findings == ()


def test_a_handful_of_rows_is_no_drift():
    """30 rows say little: shares fluctuate by chance, and the gate allows for that."""
    before = months(1, 2)
    for seed in range(8):
        small = summary(3, rows_of_month(3, seed=seed, rows=30))
        assert found(small, before, gates={"rows": "ignore"}).findings == ()


def test_a_first_span_is_compared_with_nothing():
    verdict = found(summary(1, rows_of_month(1)))
    assert verdict.findings == () and verdict.compared == () and verdict.worst == ()
    assert verdict.notes == ("There is nothing to compare with: these are the first data that the gate checks.",)


def test_a_gap_is_noted_and_the_span_before_it_compared():
    verdict = found(summary(5, rows_of_month(5)), months(1, 2))
    assert "2 spans before 2020-05 missing or stopped; compared with 2020-02 instead." in verdict.notes
    assert verdict.previous == "2020-02"


def test_without_spans_the_data_of_the_run_before():
    before, now = summary(0, rows_of_month(1)), summary(0, changed(2, fare=lambda f: [99.0] * len(f)))
    before, now = replace(before, label=""), replace(now, label="")
    verdict = found(now, (), [before])
    assert (verdict.span, verdict.previous) == ("The data", "the data of the previous run")
    assert "fare: drifted from the data of the previous run" in verdict.findings[0].text


def without_rows(month):
    nothing = summary(month, {name: values[:0] for name, values in rows_of_month(month).items()})
    return SpanSummary(month, f"2020-{month:02d}", f"f{month}", 0, nothing.distributions)


def test_spans_without_rows_are_a_gap():
    verdict = found(summary(5, rows_of_month(5)), [*months(1, 2), without_rows(3), without_rows(4)])
    assert "2 spans before 2020-05 missing or stopped; compared with 2020-02 instead." in verdict.notes
    assert verdict.previous == "2020-02" and verdict.window == "the window (2020-01 to 2020-02)"


def test_a_span_without_rows():
    empty = without_rows(3)
    verdict = found(empty, months(1, 2))
    assert subjects(verdict) == {("rows", "2020-03")} and "2020-03 has no rows" in verdict.notes[-1]


def test_a_lasting_change_is_reported_once_and_stops_each_run():
    shifted = [summary(n, changed(n, fare=tripled)) for n in (4, 5)]
    window = [*months(1, 2, 3), shifted[0]]
    assert ("drift", "fare") in subjects(found(shifted[0], window[:3]))
    verdict = found(shifted[1], window)
    assert verdict.findings == () and "Already reported for 2020-04: fare: drifted" in verdict.notes[-1]
    assert found(shifted[1], window, gates={"drift": "stop"}).stopped
    assert found(shifted[1], window, gates={"drift": "retrain"}).retrain


@pytest.mark.integration
def test_weekdays_are_compared_with_the_week_before():
    def day(n, zone=None):
        weekend = n % 7 in (5, 6)
        table = rows_of_month(1, seed=n, rows=500)
        table["zone"] = zone or [f"{'park' if weekend and i % 2 else 'office'}{i % 3}" for i in range(500)]
        return summary(n, table)

    days = [day(n) for n in range(1, 21)]
    for i in range(8, 20):
        assert found(days[i], days[:i], unit="day").findings == (), i
    alternating = [bool(found(days[i], days[:i]).findings) for i in range(8, 20)]
    assert any(alternating), "without a week they are reported"
    verdict = found(day(21, zone=["sea"] * 500), days, unit="day")
    assert ("drift", "zone") in subjects(verdict)


def test_a_slow_drift_is_found_against_the_window():
    def month(n):
        return summary(n, changed(n, fare=lambda f: [v * 1.3**n for v in f]))

    every = [month(n) for n in range(1, 10)]
    against_previous = [found(every[i], every[i - 1 : i]).findings for i in range(1, 9)]
    assert not any(against_previous)
    assert any(found(every[i], every[:i]).findings for i in range(4, 9))


@pytest.mark.integration
def test_a_column_may_have_limits_of_its_own():
    now = summary(4, changed(4, fare=tripled))
    for gates in ({"features": {"fare": "ignore"}}, {"features": {"fare": {"js": 0.9, "linf": 0.9}}}):
        assert found(now, months(1, 2, 3), gates={"drift": gates}).findings == ()
    tight = {"drift": {"features": {"zone": {"js": 0.001, "linf": 0.001}}}}
    slightly = summary(4, changed(4, zone=lambda z: ["z1" if i % 12 == 0 else v for i, v in enumerate(z)]))
    assert subjects(found(slightly, months(1, 2, 3), gates=tight)) == {("drift", "zone")}


def test_anomalies_are_findings():
    verdict = found(summary(2, rows_of_month(2)), months(1), anomalies=("fare: too many values (train)",))
    assert [(f.check, f.subject, f.text) for f in verdict.findings] == [
        ("anomalies", "fare", "fare: too many values (train)")
    ]


def test_a_verdict_survives_as_json():
    now = summary(4, changed(4, fare=tripled))
    verdict = found(now, months(1, 2))
    assert parse_verdict(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_merged_spans_have_all_rows():
    both = merge_spans(months(1, 2))
    tables = [rows_of_month(n) for n in (1, 2)]
    zones = counted(both.distributions["zone"])
    assert both.rows == 2 * ROWS and zones["z7"] == sum(table["zone"].count("z7") for table in tables)


def test_the_store_keeps_the_newest_versions_and_finds_what_came_before(tmp_path):
    config = preprocessing()
    store = SummaryStore(str(tmp_path), SeriesSource.of(config, "month"))
    assert store.read(1, "f1") is None and store.before(5, most=9) == []
    every = months(1, 2, 3)
    for one in every:
        store.write(one)
    assert store.read(2, "f2") == every[1] and store.read(2, "other") is None
    assert [s.label for s in store.before(3, most=9)] == ["2020-01", "2020-02"]
    assert [s.label for s in store.before(9, most=1)] == ["2020-03"]
    other = SummaryStore(str(tmp_path), SeriesSource.of(config, "day"))
    assert other.read(2, "f2") is None, "other series are no help"
    store.keep(2)
    assert store.read(1, "f1") is None and store.read(3, "f3") is not None
    (path,) = [p for p in tmp_path.iterdir() if p.name.startswith("3_")]
    path.write_bytes(path.read_bytes()[:100])
    assert store.read(3, "f3") is None, "a damaged file counts for nothing"


def test_without_spans_the_store_returns_the_data_of_the_run_before(tmp_path):
    config = preprocessing()
    store = SummaryStore(str(tmp_path), SeriesSource.of(config, None))
    for version in (1, 2, 3):
        store.write(SpanSummary(0, "0", f"v{version}", version, {}, time=float(version)))
    assert [s.fingerprint for s in store.other_version(0, {"v3"})] == ["v2"]
    assert store.other_version(1, {"v3"}) == [] == store.before(0, most=9)
