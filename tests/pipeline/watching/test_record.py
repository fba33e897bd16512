"""What follows from a watch: its record and page, a run once, a notification once, and the exit code."""

import json
from dataclasses import replace

import pytest

from fullpass.base.state_file import DamagedState
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.exit_codes import ExitCode
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.watching.record import act
from tests.pipeline.watching.reports import live_finding, report_of

MORE = """\
schedule: {}
serving_log: {source: {format: jsonl, path: "log/*.jsonl"}}
watch: {live: {auc: {min: 0.7}}}
notify: [{on: [watch], command: [sh, -c, "cat >> told.jsonl; echo >> told.jsonl"]}]
evaluation:"""


@pytest.fixture
def loaded(edited):
    return load(edited({18: MORE}))


def layout_of(loaded):
    return RootLayout(loaded.folder / "runs" / loaded.config.name)


def requests(loaded):
    return [why for *_, why in RunHistory(layout_of(loaded).root).requests()]


def told(loaded):
    file = loaded.folder / "told.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines() if line] if file.exists() else []


def test_a_run_is_requested_once_for_a_finding_also_if_its_first_day_moves(loaded, capsys):
    act(loaded, report_of(8, first=6))
    assert requests(loaded) == [] and "requested" not in capsys.readouterr().out
    for first, last in (("2026-01-09", "2026-01-09"), ("2026-01-08", "2026-01-10"), ("2026-01-10", "2026-01-11")):
        assert act(loaded, report_of(11, live_finding(first, last))) == ExitCode.DONE
    assert requests(loaded) == ["live since 2026-01-09: auc is 0.6"]
    assert capsys.readouterr().out.count("watch 1: a run is requested from the scheduler.") == 1
    act(loaded, report_of(14, live_finding("2026-01-13", "2026-01-14"), first=11))
    assert len(requests(loaded)) == 2, "another one, later"


def test_a_stop_ends_with_5_and_requests_a_run_only_when_it_is_over(loaded):
    missed = live_finding("2026-01-08", "2026-01-09")
    assert act(loaded, report_of(9, missed, policy="stop")) == ExitCode.GATE_STOP
    assert requests(loaded) == []
    assert act(loaded, report_of(10, replace(missed, last="2026-01-10"), policy="stop")) == ExitCode.DONE
    assert len(requests(loaded)) == 1


def test_without_a_schedule_the_command_is_named(edited, capsys):
    loaded = load(edited({18: MORE.replace("schedule: {}\n", "")}))
    act(loaded, report_of(11, live_finding("2026-01-11", "2026-01-11")))
    assert f"A reason to train, and no schedule that could: fullpass run {loaded.file}" in capsys.readouterr().out


def test_a_finding_is_told_once_with_its_page(loaded):
    for last in (8, 9, 10):
        act(loaded, report_of(last))
    (event,) = told(loaded)
    assert event["event"] == "watch" and event["report"] == str(layout_of(loaded).watch_page)
    assert [reason.partition(": since")[0] for reason in event["reasons"]] == ["warn: drift"]
    assert "2026-01-08T07" in event["reasons"][0] and event["exit_code"] == 0


def test_the_record_has_hours_days_and_findings_and_the_index_links_the_page(loaded):
    act(loaded, report_of(12))
    layout = layout_of(loaded)
    record = json.loads(layout.watch_file.read_text())
    assert {(one["check"], one["subject"]): (one["first"], one["last"], one["open"]) for one in record["findings"]} == {
        ("drift", "distance_km"): ("2026-01-08T07", "2026-01-09", False),
        ("columns", "weight_kg"): ("2026-01-12T13", "2026-01-12", True),
    }
    (version,) = record["versions"]
    assert [day["day"] for day in version["days"]] == [f"2026-01-{day:02d}" for day in range(7, 13)]
    lost = [hour["hour"] for hour in version["hours"] if hour["missing"].get("weight_kg") == 1]
    assert lost == [f"2026-01-12T{hour}" for hour in range(13, 18)]
    assert version["live"]["slices"] == [["shop north", 40, {"auc": 0.7}]]
    assert 'href="watch/watch.html"' in layout.index.read_text()


def test_a_damaged_record_is_not_taken_for_an_empty_one(loaded):
    act(loaded, report_of(8))
    file = layout_of(loaded).watch_file
    file.write_text(file.read_text().replace("distance_km", "distance"))
    with pytest.raises(DamagedState, match="the next watch writes it anew"):
        act(loaded, report_of(8))
