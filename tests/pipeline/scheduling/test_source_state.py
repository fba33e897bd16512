"""What a source shows: spans that are there, marked, and left alone by those who write them."""

import threading

import pytest

from fullpass.components.ingest.spans.spans import find_window
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.record.provenance import data_digest
from fullpass.pipeline.scheduling.source_state import SourceReaderWithTimeout, WatchedSource, coarser, whole_span


@pytest.fixture
def source(edited, folder):
    """Returns `source(path, section)`: a source of files, and the history beside it."""

    def make(path, section="{new_span: true}"):
        loaded = load(edited({5: f'    path: "{path}"', 18: f"schedule: {section}\nevaluation:"}))
        return WatchedSource(loaded, folder / "runs" / "taxi")

    return make


@pytest.fixture
def arrive(folder):
    def write(*names, rows=2):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("fare,tips,company,started\n" + "1,2,a,2024-01-01\n" * rows)

    return write


def test_nothing_there_yet_is_no_error(source):
    seen = source("days/{YYYY}-{MM}-{DD}.csv").look()
    assert (seen.unit, seen.spans, seen.available) == ("day", True, frozenset()) and "matches no file" in seen.problem


def test_a_span_is_steady_when_two_looks_see_the_same(source, arrive):
    look = source("days/{YYYY}-{MM}-{DD}.csv").look
    arrive("days/2013-01-04.csv", "days/2013-01-05.csv")
    assert (look().available, look().steady) == (frozenset({15709, 15710}), frozenset({15709, 15710}))
    arrive("days/2013-01-05.csv", rows=3)
    assert look().steady == frozenset({15709})
    assert look().steady == frozenset({15709, 15710})


def test_of_the_first_look_no_span_of_the_window_is_steady(source, arrive):
    arrive("days/2013-01-04.csv", "days/2013-01-05.csv")
    assert source("days/{YYYY}-{MM}-{DD}.csv").look().steady == frozenset({15709})


def test_a_marker_makes_a_span_whole(source, arrive, folder):
    look = source("days/{YYYY}-{MM}-{DD}.csv", '{new_span: true, wait_for: "days/{YYYY}-{MM}-{DD}.done"}').look
    arrive("days/2013-01-04.csv", "days/2013-01-05.csv", "days/2013-01-04.done", "days/2013-01-06.done")
    assert look().available == look().steady == frozenset({15709})


def test_the_newest_whole_span_is_the_newest_marked_one_or_the_one_before_the_newest(source, arrive):
    path = "days/{YYYY}-{MM}-{DD}.csv"
    arrive("days/2013-01-03.csv", "days/2013-01-04.csv", "days/2013-01-05.csv")
    marked = source(path, '{new_span: true, wait_for: "days/{YYYY}-{MM}-{DD}.done"}')._loaded
    assert whole_span(marked) == "2013-01-04", "no mark has been written yet"
    arrive("days/2013-01-03.done")
    assert whole_span(marked) == "2013-01-03"
    assert whole_span(source(path)._loaded) == "2013-01-04"
    arrive("days/2013-01-05.done")
    assert whole_span(marked) is None, "the newest is whole"
    assert whole_span(source("trips.csv")._loaded) is whole_span(source("none/{SPAN}.csv")._loaded) is None


def test_a_marker_of_a_day_makes_its_hours_whole(source, arrive):
    look = source("h/{YYYY}-{MM}-{DD}T{HH}.csv", '{new_span: true, wait_for: "h/{YYYY}-{MM}-{DD}.done"}').look
    arrive("h/2013-01-05T07.csv", "h/2013-01-06T00.csv", "h/2013-01-05.done")
    assert look().available == frozenset({377047})
    assert coarser("hour", 377047, "month") == 516


def test_what_was_trained_is_what_completed_runs_say(source, arrive, folder):
    look = source("days/{YYYY}-{MM}-{DD}.csv").look
    arrive("days/2013-01-04.csv")
    history = RunHistory(folder / "runs" / "taxi")
    history.record(
        RunFacts(run_id="1", outcome="failure", trained=False, unit="day", last=15711),
        RunFacts(run_id="2", outcome="success", trained=True, unit="day", last=15709),
        RunFacts(run_id="3", outcome="not_blessed", trained=True, unit="day", last=15708),
        RunFacts(run_id="4", outcome="success", trained=True, unit="hour", last=377047),
    )
    assert (look().trained, look().run) == (15709, "2")


def test_without_spans_the_files_say_whether_there_is_anything_new(source, folder):
    source_ = source("trips.csv", '{cron: "0 3 * * *", wait_for: "{YYYY}-{MM}-{DD}.done"}')
    (folder / "2013-01-05.done").touch()
    seen = source_.look()
    assert (seen.spans, seen.fresh, seen.unit, seen.available) == (False, True, "day", frozenset({15710}))
    loaded = source_._loaded
    digest = data_digest(loaded.config, find_window(loaded.config.data, loaded.resolve))
    RunHistory(folder / "runs" / "taxi").record(RunFacts(run_id="1", data_digest=digest, trained=True))
    assert not source_.look().fresh
    (folder / "trips.csv").write_text((folder / "trips.csv").read_text() + "1,2,a,2024-01-01,3,4\n")
    assert source_.look().fresh


def test_a_changed_table_is_something_new(source, folder, arrive):
    arrive("planes.csv")
    joins = "trips.csv\n  joins: {planes: {source: {format: csv, path: planes.csv}, on: company}}"
    seen = source(joins.replace("trips.csv", 'trips.csv"', 1) + '  # "')
    loaded = seen._loaded
    digest = data_digest(loaded.config, find_window(loaded.config.data, loaded.resolve))
    RunHistory(folder / "runs" / "taxi").record(RunFacts(run_id="1", data_digest=digest, trained=True))
    assert not seen.look().fresh
    arrive("planes.csv", rows=3)
    assert seen.look().fresh


def test_a_span_waits_for_its_table(source, arrive):
    path = '"days/{SPAN}.csv"'
    joins = f"{path}\n  joins: {{t: {{source: {{format: csv, path: {path.replace('days', 'tables')}}}, on: company}}}}"
    look = source(joins[1:] + '  # "').look
    arrive("days/1.csv", "tables/1.csv", "days/2.csv")
    seen = look()
    assert seen.available == frozenset() and "data.joins.t.source.path: no table of span 2" in seen.problem
    arrive("tables/2.csv")
    look()
    arrive("tables/2.csv", rows=3)
    assert look().steady == frozenset({1}), "the table of span 2 is still being written"
    assert look().steady == frozenset({1, 2})


def test_a_plain_marker_is_there_or_not(source, arrive, folder):
    look = source("days/{SPAN}.csv", "{new_span: true, wait_for: days/all.done}").look
    arrive("days/7.csv")
    assert look().available == frozenset()
    (folder / "days" / "all.done").touch()
    assert look().available == frozenset({7})


def test_a_source_that_does_not_answer_holds_nobody_up_and_is_seen_when_it_does(source, arrive, monkeypatch):
    arrive("days/2013-01-04.csv", "days/2013-01-05.csv")
    seen = source("days/{YYYY}-{MM}-{DD}.csv")
    answers, looks, look = threading.Event(), [], seen.look

    def hang():
        looks.append(1)
        assert answers.wait(60)
        return look()

    monkeypatch.setattr(seen, "look", hang)
    bounded = SourceReaderWithTimeout(seen, seconds=0.05)
    for _ in range(3):
        state = bounded()
        assert (state.unit, state.available) == ("day", frozenset())
        assert state.problem == "reading the source takes longer than 0.05 s"
    answers.set()
    assert SourceReaderWithTimeout(seen, seconds=60)().available == frozenset({15709, 15710})
    bounded._seconds = 60
    assert bounded().available == frozenset({15709, 15710}) and len(looks) == 2
