"""What is due, case by case."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fullpass.pipeline.schedule_config import ScheduleConfig
from fullpass.pipeline.scheduling.due import (
    Ended,
    Occasion,
    SchedulerState,
    SourceState,
    SpanDrift,
    Start,
    Wait,
    decide,
    expected_span,
    note,
    request,
    requeued,
    started,
)

DAILY = ScheduleConfig(cron="0 3 * * *")
NOW = datetime(2013, 1, 6, 3, 0, 1, tzinfo=UTC)
DAY = 15710  # 2013-01-05
OCCASION = Occasion("cron", "cron", datetime(2013, 1, 6, 3, tzinfo=UTC))
QUEUE = SchedulerState(NOW, queue=(OCCASION,))


def seen(*there: int, trained: int | None = None, unit="day") -> SourceState:
    return SourceState(unit, frozenset(there), frozenset(there), trained=trained, run="R")


def test_the_day_that_is_over_is_trained():
    assert decide(DAILY, QUEUE, NOW, seen(DAY - 1, DAY, DAY + 1)) == Start(OCCASION, DAY)


@pytest.mark.parametrize(
    ("unit", "zone", "lag", "label"),
    [
        ("day", "UTC", 1, 15710),
        ("day", "UTC", 0, 15711),
        ("day", "America/New_York", 1, 15709),  # there it is still the evening of the 5th
        ("month", "UTC", 1, 515),
        ("year", "UTC", 1, 2012),
        ("hour", "UTC", 1, 15711 * 24 + 2),
        ("number", "UTC", 1, None),
    ],
)
def test_the_clock_says_which_span_is_asked_for(unit, zone, lag, label):
    config = ScheduleConfig(cron="0 3 * * *", timezone=zone, lag=lag)
    assert expected_span(unit, OCCASION.due, config) == label


def test_a_day_that_is_not_there_is_skipped_or_fails_and_old_data_is_not_taken():
    shown = seen(DAY - 2, DAY - 1, trained=DAY - 2)
    ended = decide(DAILY, QUEUE, NOW, shown)
    assert isinstance(ended, Ended) and (ended.outcome, ended.span) == ("skipped", DAY)
    assert "2013-01-05 (span 15710) is not there, and nothing was trained" in ended.message
    failed = decide(DAILY.model_copy(update={"on_late": "fail"}), QUEUE, NOW, shown)
    assert isinstance(failed, Ended) and failed.outcome == "late"


def test_a_late_day_is_waited_for_from_its_time_on():
    config = DAILY.model_copy(update={"timeout": "2h"})
    waiting = decide(config, QUEUE, NOW, seen(DAY - 1))
    assert isinstance(waiting, Wait) and waiting.until == OCCASION.due + timedelta(hours=2)
    assert decide(config, QUEUE, NOW + timedelta(minutes=90), seen(DAY)) == Start(OCCASION, DAY)
    ended = decide(config, QUEUE, OCCASION.due + timedelta(hours=2), seen(DAY - 1))
    assert isinstance(ended, Ended) and "The scheduler waited 2h." in ended.message


@pytest.mark.parametrize(
    ("trained", "says"), [(DAY, "trained already, by run R"), (DAY + 3, "older than the newest trained span")]
)
def test_a_day_that_was_trained_or_overtaken_is_not_trained_again(trained, says):
    ended = decide(DAILY, QUEUE, NOW, seen(DAY, trained=trained))
    assert isinstance(ended, Ended) and ended.outcome == "skipped" and says in ended.message


def test_of_numbered_spans_a_newer_one_is_asked_for():
    assert decide(DAILY, QUEUE, NOW, seen(3, 4, trained=3, unit="number")) == Start(OCCASION, 4)
    ended = decide(DAILY, QUEUE, NOW, seen(3, 4, trained=4, unit="number"))
    assert isinstance(ended, Ended) and "a span newer than 4 is not there" in ended.message


def test_a_source_without_spans_is_trained_when_it_has_changed():
    assert decide(DAILY, QUEUE, NOW, SourceState(spans=False)) == Start(OCCASION, None)
    ended = decide(DAILY, QUEUE, NOW, SourceState(spans=False, fresh=False, run="R"))
    assert isinstance(ended, Ended) and "data other than that of run R" in ended.message
    assert isinstance(decide(DAILY, QUEUE, NOW, SourceState(spans=False, ready=False)), Ended)
    dated = SourceState("day", frozenset({DAY}), spans=False)
    assert decide(DAILY, QUEUE, NOW, dated) == Start(OCCASION, None)
    assert isinstance(decide(DAILY, QUEUE, NOW, replace(dated, available=frozenset({DAY - 1}))), Ended)


def test_by_hand_everything_is_run_and_first():
    state = request(request(QUEUE, 1, NOW, DAY), 2, NOW, None)
    assert [o.key for o in state.queue] == ["by hand 1", "by hand 2", "cron"]
    assert decide(DAILY, state, NOW, seen(trained=DAY)) == Start(state.queue[0], DAY)


@pytest.mark.parametrize(
    ("catch_up", "queued", "passed"),
    [("once", [8], [6, 7]), ("each", [6, 7, 8], []), ("none", [8], [6, 7])],
)
def test_times_that_passed_while_nobody_was_there(catch_up, queued, passed):
    config = DAILY.model_copy(update={"catch_up": catch_up})
    before = SchedulerState(datetime(2013, 1, 5, 12, tzinfo=UTC))
    state, ended = note(config, before, datetime(2013, 1, 8, 3, 0, 30, tzinfo=UTC), SourceState())
    assert [o.due.day for o in state.queue] == queued
    assert [(e.occasion.due.day, e.outcome) for e in ended] == [(day, "missed") for day in passed]
    assert note(config, state, state.seen_until, SourceState()) == (state, ())


def test_a_time_that_comes_while_a_run_goes_on_waits_for_it_unless_none_is_made_up_for():
    running = started(QUEUE, OCCASION)
    later = NOW + timedelta(days=1)
    state, _ = note(DAILY, running, later, SourceState())
    assert len(state.queue) == 1 and decide(DAILY, state, later, seen(DAY + 1)) == Wait()
    state, ended = note(DAILY.model_copy(update={"catch_up": "none"}), running, later, SourceState())
    assert state.queue == () and ended[0].message == "another run was in progress"


def test_a_new_span_is_noted_once_and_the_newest_alone_at_first():
    config = ScheduleConfig(new_span=True)
    state, _ = note(config, SchedulerState(NOW), NOW, seen(1, 2, 3))
    assert [o.span for o in state.queue] == [3]
    assert note(config, state, NOW, seen(1, 2, 3))[0].queue == state.queue
    state, ended = note(config, state, NOW, seen(3, 4, 5))
    assert [o.span for o in state.queue] == [5] and [(e.occasion.span, e.outcome) for e in ended] == [(3, "missed")]
    each = ScheduleConfig(new_span=True, catch_up="each")
    assert [o.span for o in note(each, SchedulerState(NOW), NOW, seen(3, 4, 5, trained=3))[0].queue] == [4, 5]
    unsteady = replace(seen(6), steady=frozenset())
    assert note(config, state, NOW, unsteady)[0].queue == state.queue


def test_a_new_span_is_trained_if_it_moved_and_listed_if_not():
    config, shown = ScheduleConfig(drift=True), seen(3, 4, trained=3)
    assert note(config, SchedulerState(NOW), NOW, shown) == (SchedulerState(NOW), ()), "the gate has not looked yet"
    moved = replace(shown, drift_by_span={4: SpanDrift(True, "fare: 0.3")})
    state, ended = note(config, SchedulerState(NOW), NOW, moved)
    assert [(o.kind, o.span) for o in state.queue] == [("drift", 4)] and not ended
    assert decide(config, state, NOW, moved) == Start(state.queue[0], 4)
    quiet = replace(shown, drift_by_span={4: SpanDrift(False, "nothing moved")})
    state, (ended,) = note(config, SchedulerState(NOW), NOW, quiet)
    assert (ended.outcome, ended.message, ended.span) == ("skipped", "nothing moved", 4) and not state.queue
    assert note(config, state, NOW, quiet) == (state, ())


def test_a_run_that_died_unseen_is_taken_up_three_times():
    state = started(QUEUE, OCCASION)
    for attempt in (1, 2):
        state, ended = requeued(state)
        assert not ended and state.queue[0].attempts == attempt
        state = started(state, state.queue[0])
    state, (ended,) = requeued(state)
    assert ended.outcome == "failure" and "died 3 times" in ended.message and state == SchedulerState(NOW)


def test_what_is_remembered_is_what_was_known():
    state = replace(started(request(QUEUE, 1, NOW, DAY), OCCASION), seen_span=5)
    assert SchedulerState.from_json(state.to_json()) == state
