"""A stopped span stays stopped: what the runs after it do, until somebody releases it."""

from dataclasses import replace

import pytest

from fullpass.base.errors import UserError
from fullpass.components.data_gate.gate_component import stop_message
from fullpass.components.data_gate.gate_verdict import SpanRelease
from fullpass.components.ingest.spans.span_pattern import label_of, parse_span
from tests.components.data_gate.days import Days

pytestmark = pytest.mark.integration

DAY = parse_span("day", "2026-10-14")
BY_ANN = SpanRelease("ann@host", "--gate warn")


@pytest.fixture
def days(tmp_path):
    """Two ordinary weeks, of which the second was judged day by day."""
    made = Days(tmp_path, shift=dict.fromkeys(range(DAY - 14, DAY), 0.0))
    for number in range(DAY - 7, DAY):
        assert not made.run(number).findings
    return made


@pytest.fixture
def stopped(days):
    """The day after is far off, and was stopped; the one after it is ordinary."""
    days.shift[DAY] = 3.0
    assert days.run(DAY).stopped
    days.shift[DAY + 1] = 0.0
    return days


def named(numbers):
    return [str(label_of("day", number)) for number in numbers]


def spans(window):
    return [span.number for span in window.spans]


def test_an_ordinary_day_is_stopped_while_its_window_holds_a_stopped_one_and_no_longer(stopped):
    for later in range(DAY + 1, DAY + 7):
        stopped.shift[later] = 0.0
        verdict = stopped.run(later)
        assert [finding.span for finding in verdict.stops] == ["2026-10-14"]
        said = stop_message(verdict, "serving")
        assert said.startswith("2026-10-14 has changed. Nothing was trained") and "not released: x: drifted" in said
    stopped.shift[DAY + 7] = 0.0
    assert not stopped.run(DAY + 7).findings


def test_a_stopped_day_is_no_reference_for_another_like_it(stopped):
    stopped.gates = {"drift": "stop", "stopped_spans": "gap"}
    assert not stopped.run().stopped, "the limits are the same, so the day stays out"
    stopped.shift[DAY + 2] = 3.0
    verdict = stopped.run()
    assert verdict.stopped and verdict.previous == "2026-10-15"
    stopped.shift[DAY + 7] = 3.0
    verdict = stopped.run()
    assert verdict.stopped, "a week later, as the season of the stopped day"


def test_by_gap_the_window_is_without_it_and_says_so(stopped):
    stopped.gates = {"drift": "stop", "stopped_spans": "gap"}
    window = stopped.window()
    assert spans(window) == [*range(DAY - 5, DAY), DAY + 1]
    assert window.lines()[-1] == "gap: without 2026-10-14, which the data gate has stopped (gates.stopped_spans)"
    verdict = stopped.run()
    assert not verdict.findings and [one.label for one in verdict.gaps] == ["2026-10-14"]
    assert any(note.startswith("gap: 2026-10-14 was stopped by run ") for note in verdict.notes)


@pytest.mark.parametrize("policy", ["stop", "gap"])
def test_the_same_day_unchanged_is_stopped_again(stopped, policy):
    stopped.gates = {"drift": "stop", "stopped_spans": policy}
    assert stopped.run(DAY).stopped and spans(stopped.window(DAY))[-1] == DAY
    assert stopped.run(DAY).stopped


@pytest.mark.parametrize("policy", ["stop", "gap"])
@pytest.mark.parametrize("last", [DAY, DAY + 1])
def test_a_person_releases_it_for_all_later_runs(stopped, policy, last):
    stopped.gates = {"drift": "stop", "stopped_spans": policy}
    verdict = stopped.run(last, BY_ANN)
    assert not verdict.stopped and DAY in spans(stopped.window(last, BY_ANN))
    [released] = verdict.released
    assert (released.label, released.release.by, released.release.how) == ("2026-10-14", "ann@host", "--gate warn")
    assert "x: drifted" in released.findings[0].text
    for again in (DAY, DAY + 1):
        verdict = stopped.run(again)
        assert not verdict.stopped and not verdict.gaps and verdict.released == (released,)
        assert any("released by ann@host (--gate warn)" in note for note in verdict.notes)


def test_a_day_that_is_released_at_once_was_stopped_and_released(days):
    days.shift[DAY] = 3.0
    [released] = days.run(DAY, BY_ANN).released
    assert released.release.by == "ann@host" and released.findings
    days.shift[DAY + 1] = 0.0
    assert not days.run().stopped


def test_a_release_lasts_when_the_settings_change(stopped):
    stopped.run(DAY, BY_ANN)
    stopped.gates = {"drift": {"policy": "stop", "js": 0.05}}
    assert not stopped.run().stopped


def test_new_limits_release_it_if_it_keeps_them(stopped):
    stopped.gates = {"drift": {"policy": "stop", "js": 0.2}}
    assert stopped.run().stopped, "it is judged again, and drifted by these limits too"
    stopped.gates = {"drift": {"policy": "stop", "js": 0.99, "linf": 0.99}}
    [released] = stopped.run().released
    assert released.release.how == "the settings have changed" and not released.release.by
    assert not stopped.run().stopped


@pytest.mark.parametrize("policy", ["stop", "gap"])
def test_a_repaired_file_releases_it_and_a_touched_one_does_not(stopped, policy):
    stopped.gates = {"drift": "stop", "stopped_spans": policy}
    stopped.versions[DAY] = "touched"
    verdict = stopped.run()
    assert [finding.span for finding in verdict.stops] == ["2026-10-14"], "it is judged again"
    stopped.versions[DAY], stopped.shift[DAY] = "repaired", 0.0
    [released] = stopped.run().released
    assert released.release.how == "its content has changed"
    assert not stopped.run().findings and not stopped.window().left_out


def test_the_bad_file_that_comes_back_is_stopped_again(stopped):
    stopped.versions[DAY], stopped.shift[DAY] = "repaired", 0.0
    assert not stopped.run().stopped
    del stopped.versions[DAY]
    stopped.shift |= {DAY: 3.0, DAY + 1: 3.0}
    stopped.versions[DAY + 1] = "like it"
    assert {finding.span for finding in stopped.run().stops} == {"2026-10-14", ""}, "and is no reference"


def test_several_stopped_days_are_each_named_and_released_together(stopped):
    stopped.shift[DAY + 1] = -3.0
    verdict = stopped.run()
    assert {finding.span or verdict.span for finding in verdict.stops} == set(named([DAY, DAY + 1]))
    stopped.shift[DAY + 2] = 0.0
    verdict = stopped.run()
    assert {finding.span for finding in verdict.stops} == set(named([DAY, DAY + 1]))
    both = ("2026-10-14, 2026-10-15 have changed.", "2026-10-15, 2026-10-14 have changed.")
    assert stop_message(verdict, "serving").startswith(both)
    assert {one.label for one in stopped.run(None, BY_ANN).released} == set(named([DAY, DAY + 1]))
    assert not stopped.run().stopped


def test_windows_of_other_days_are_judged_without_it(stopped):
    assert not stopped.run(DAY - 1).findings
    stopped.gates = {"drift": "stop", "stopped_spans": "gap"}
    assert spans(stopped.window(DAY - 1)) == list(range(DAY - 7, DAY))


def test_a_late_day_is_judged_though_it_is_never_the_newest(tmp_path):
    days = Days(tmp_path, shift=dict.fromkeys((*range(DAY - 14, DAY - 3), DAY - 2, DAY - 1), 0.0))
    for number in (DAY - 4, DAY - 2, DAY - 1):
        assert not days.run(number).findings
    days.shift[DAY - 3] = 3.0
    days.shift[DAY] = 0.0
    assert [finding.span for finding in days.run().stops] == named([DAY - 3])
    days.gates["stopped_spans"] = "gap"
    assert not days.run().findings and DAY - 3 not in spans(days.window())


def test_what_the_gate_began_with_is_not_judged(tmp_path):
    """The days before the first that was judged are the reference of the first run, whatever they are like."""
    days = Days(tmp_path, shift={DAY - 2: 0.0, DAY - 1: 3.0, DAY: 1.5})
    assert {finding.span for finding in days.run().stops} <= {""}


def test_after_a_release_neither_a_lasting_change_nor_its_end_stops_a_day(stopped):
    stopped.run(DAY, BY_ANN)
    assert not stopped.run().stopped
    stopped.shift[DAY + 2] = 3.0
    verdict = stopped.run()
    assert not verdict.stopped and any(note.startswith("As released for 2026-10-14: x:") for note in verdict.notes)
    stopped.shift[DAY + 3] = -3.0
    assert stopped.run().stopped, "unlike both"


def test_days_between_two_runs_are_judged_once(days):
    """A schedule that trains every third day: a warning about a day between is given by the run that first sees it."""
    days.gates = {"drift": "warn"}
    days.shift |= {DAY: 3.0, DAY + 1: 0.0, DAY + 2: 0.0}
    first, again = days.run(), days.run()
    assert [finding.span for finding in first.findings if finding.span] == named([DAY])
    assert first.findings[0].text.startswith("2026-10-14: x: drifted") or len(first.findings) > 1
    assert not [finding for finding in again.findings if finding.span]


def test_without_spans_stopped_data_is_no_reference(tmp_path):
    data = Days(tmp_path, unit=None, shift={0: 0.0})
    assert not data.run().findings
    data.versions[0], data.shift[0] = "b", 3.0
    assert data.run().stopped and data.run().stopped
    data.versions[0] = "bb"
    assert data.run().stopped, "compared with what was stopped it would be ordinary"
    assert not data.run(release=BY_ANN).stopped
    data.versions[0] = "bbb"
    verdict = data.run()
    assert not verdict.findings and not verdict.released, "compared with what was released, and other data"


@pytest.mark.parametrize("damage", [lambda text: text[:-1], lambda text: "", lambda text: text.replace("0740", "0744")])
def test_a_damaged_decision_is_an_error_because_it_may_have_stopped_a_span(stopped, damage):
    [file] = (stopped.folder / "span_verdicts").glob("*.json")
    file.write_text(damage(file.read_text()))
    with pytest.raises(
        UserError, match=r"(?s)not a decision of the data gate.*Delete it to have the span judged again"
    ):
        stopped.window()


def test_decisions_about_spans_that_passed_go_with_their_age_and_stops_stay(stopped):
    stopped.store.keep(3)
    kept = {number for number, _ in stopped.store.judged()}
    assert kept == {DAY - 3, DAY - 2, DAY - 1, DAY}
    assert [one.number for one in stopped.store.stops()] == [DAY]


def test_what_is_known_changes_only_when_a_stop_or_a_release_is_new(stopped):
    """It is part of the cache key of the comparison: a repeated run is unchanged."""
    before = stopped.window().gate
    stopped.run()
    assert stopped.window().gate == before
    assert replace(stopped.window(DAY + 1, BY_ANN), gate="") == replace(stopped.window(DAY + 1), gate="")
    stopped.run(DAY + 1, BY_ANN)
    assert stopped.window().gate != before
