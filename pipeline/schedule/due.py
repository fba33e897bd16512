"""What is due: pure functions of what is known, of the time, and of what the source shows.

An *occasion* is a reason to run: a time of the cron line, a span that arrived, a request by hand. It is noted, waits in
the queue, is run or ends without a run, and ends exactly once. Whoever carries a decision out writes the state first;
so a scheduler that dies at any point goes on from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

from components.ingest.span_pattern import Unit, described, label_of, number_of
from pipeline.cron import Cron
from pipeline.duration import length
from pipeline.schedule.config import ScheduleConfig

Kind = Literal["cron", "new span", "drift", "by hand"]
Outcome = Literal["success", "not_blessed", "gate_stop", "failure", "late", "skipped", "missed"]
"""late: the span did not come in time, and that is a failure. missed: another time or nobody was there to run it."""
MOST_ATTEMPTS = 3
"""Starts of one occasion whose processes died with the scheduler, before it counts as failed."""
_UNSEEN = timedelta(minutes=1)
"""Age of a time that nobody can have been there to see."""
_DATED = ("year", "month", "day", "hour")


@dataclass(frozen=True)
class Occasion:
    """A reason to run.

    key: tells it from every other one. due: when it was to start, UTC. span: the one that arrived or was asked for by
    number; None leaves it to the clock, or to what is newest. attempts: how often it was started.
    """

    key: str
    kind: Kind
    due: datetime
    span: int | None = None
    attempts: int = 0


@dataclass(frozen=True)
class State:
    """All that a scheduler has to remember.

    seen_until: times of the cron line up to here were noted, UTC. seen_span: newest span that was noted as new.
    queue: occasions to come, the oldest first. running: the one that was started and has not ended.
    """

    seen_until: datetime
    seen_span: int | None = None
    queue: tuple[Occasion, ...] = ()
    running: Occasion | None = None


@dataclass(frozen=True)
class Moved:
    """Whether a span has moved away from those before it. why: in words."""

    moved: bool
    why: str


@dataclass(frozen=True)
class Sight:
    """What the source shows, and what was made of it.

    unit: of spans, or of the marker files where the source has none; None if nothing is dated or numbered.
    there: spans that are there, and marked where `wait_for` asks for it. steady: those of them that have not changed
    since the last look, so that nobody is writing them. spans: whether the source has spans. ready: whether what
    `wait_for` names is there, where it names one path. trained: newest span of a completed run. fresh: of a source
    without spans, whether it has changed since a completed run. run: that run. moved: of a span that
    is new and steady, what the gate says of it, once it has looked. problem: why nothing can be seen.
    """

    unit: Unit | None = None
    there: frozenset[int] = frozenset()
    steady: frozenset[int] = frozenset()
    spans: bool = True
    ready: bool = True
    trained: int | None = None
    fresh: bool = True
    run: str = ""
    moved: Mapping[int, Moved] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class Start:
    """Run it. span: its newest span; None leaves that to the run."""

    occasion: Occasion
    span: int | None


@dataclass(frozen=True)
class Ended:
    """An occasion that has come to its end, by a run or without."""

    occasion: Occasion
    outcome: Outcome
    message: str
    span: int | None = None


@dataclass(frozen=True)
class Wait:
    """Nothing is to be done now. message: what is waited for, if something is. until: when that ends."""

    message: str = ""
    until: datetime | None = None


def expected_span(unit: Unit, due: datetime, config: ScheduleConfig) -> int | None:
    """Returns the span that a time asks for; None where spans are numbers, of which the clock knows nothing.

    Example:
        Day 15709, 2013-01-04, for 2013-01-05 03:00, by the calendar of `config.timezone` and a lag of 1.
    """
    if unit not in _DATED:
        return None
    wall = due.astimezone(config.zone)
    parts = (wall.year, wall.month, wall.day, wall.hour)[: _DATED.index(unit) + 1]
    return number_of(unit, parts) - config.lag


def note(config: ScheduleConfig, state: State, now: datetime, sight: Sight) -> tuple[State, tuple[Ended, ...]]:
    """Returns the state with all occasions that have come up to `now`, and those that `missed` says not to run."""
    state, passed = _note_times(config, state, now)
    if config.new_span:
        state, overtaken = _note_spans(config, state, now, sight)
        return state, (*passed, *overtaken)
    if config.drift:
        state, quiet = _note_drift(state, now, sight)
        return state, (*passed, *quiet)
    return state, passed


def request(state: State, number: int, at: datetime, span: int | None) -> State:
    """Returns the state with a run that was asked for by hand; it goes before all that waits."""
    asked = Occasion(f"by hand {number}", "by hand", at, span)
    first = [other for other in state.queue if other.kind == "by hand"]
    return replace(state, queue=(*first, asked, *state.queue[len(first) :]))


def decide(config: ScheduleConfig, state: State, now: datetime, sight: Sight) -> Start | Ended | Wait:
    """Returns what is to be done now with the first occasion of the queue, while none is running."""
    if state.running is not None or not state.queue:
        return Wait()
    occasion = state.queue[0]
    if occasion.kind == "by hand":
        return Start(occasion, occasion.span)
    wanted = occasion.span
    if wanted is None and sight.unit is not None:
        wanted = expected_span(sight.unit, occasion.due, config)
    if not sight.spans:
        return _without_spans(config, occasion, wanted, now, sight)
    newest = max(sight.there, default=None)
    target = newest if wanted is None else wanted
    if target is None or (wanted is None and target == sight.trained):
        return _late(config, sight, occasion, f"a span newer than {_name(sight, sight.trained)}", now)
    if sight.trained is not None and sight.trained >= target:
        message = f"{_name(sight, sight.trained)} was trained already, by run {sight.run}"
        if sight.trained > target:
            message = f"{_name(sight, target)} is older than what was trained: {message}"
        return Ended(occasion, "skipped", message, target)
    if target in sight.there:
        return Start(occasion, target)
    return _late(config, sight, occasion, f"span {_name(sight, target)}", now, target)


def started(state: State, occasion: Occasion) -> State:
    """Returns the state in which `occasion` runs."""
    return replace(without(state, occasion), running=replace(occasion, attempts=occasion.attempts + 1))


def without(state: State, occasion: Occasion) -> State:
    """Returns the state in which `occasion` has ended."""
    running = None if state.running and state.running.key == occasion.key else state.running
    return replace(state, running=running, queue=tuple(o for o in state.queue if o.key != occasion.key))


def taken_up(state: State) -> tuple[State, tuple[Ended, ...]]:
    """Returns the state after a run whose end nobody saw, and whose process is gone: it is to be run again."""
    lost = state.running
    if lost is None:
        return state, ()
    if lost.attempts >= MOST_ATTEMPTS:
        message = f"its process died {lost.attempts} times without a word, as one does that is out of memory"
        return without(state, lost), (Ended(lost, "failure", message, lost.span),)
    return replace(state, running=None, queue=(lost, *state.queue)), ()


def _note_times(config: ScheduleConfig, state: State, now: datetime) -> tuple[State, tuple[Ended, ...]]:
    if config.cron is None:
        return replace(state, seen_until=now), ()
    times = list(Cron.parse(config.cron).between(state.seen_until, now, config.zone))
    state = replace(state, seen_until=max(now, state.seen_until))
    if not times:
        return state, ()
    new = [Occasion(f"cron {time.isoformat()}", "cron", time) for time in times]
    if config.missed == "each":
        return replace(state, queue=(*state.queue, *new)), ()
    if config.missed == "none":
        late = [o for o in new if state.running is not None or now - o.due > _UNSEEN]
        why = "another run was going on" if state.running is not None else "no scheduler was running"
        kept = tuple(o for o in new if o not in late)
        return replace(state, queue=(*state.queue, *kept)), tuple(Ended(o, "missed", why) for o in late)
    waiting = [o for o in state.queue if o.kind == "cron"]
    *dropped, newest = [*waiting, *new]
    others = tuple(o for o in state.queue if o.kind != "cron")
    why = f"one run for it and that of {newest.due.astimezone(config.zone):%Y-%m-%d %H:%M}"
    return replace(state, queue=(*others, newest)), tuple(Ended(o, "missed", why) for o in dropped)


def _newer(state: State, sight: Sight) -> list[int]:
    """Returns the steady spans that are newer than all that were noted or trained on."""
    known = [number for number in (state.seen_span, sight.trained) if number is not None]
    return sorted(number for number in sight.steady if number > max(known, default=-1))


def _note_drift(state: State, now: datetime, sight: Sight) -> tuple[State, tuple[Ended, ...]]:
    new = _newer(state, sight)
    found = sight.moved.get(new[-1]) if new else None
    if found is None:
        return state, ()
    occasion = Occasion(f"drift {_label(sight, new[-1])}", "drift", now, new[-1])
    state = replace(state, seen_span=new[-1])
    if not found.moved:
        return state, (Ended(occasion, "skipped", found.why, new[-1]),)
    return replace(state, queue=(*state.queue, occasion)), ()


def _note_spans(config: ScheduleConfig, state: State, now: datetime, sight: Sight) -> tuple[State, tuple[Ended, ...]]:
    new = _newer(state, sight)
    if not new:
        return state, ()
    # Of a source that was never trained on, the newest span is the news.
    first = state.seen_span is None and sight.trained is None
    taken = new if config.missed == "each" and not first else new[-1:]
    arrived = [Occasion(f"new span {_label(sight, number)}", "new span", now, number) for number in taken]
    overtaken = () if config.missed == "each" else tuple(o for o in state.queue if o.kind == "new span")
    kept = tuple(o for o in state.queue if o not in overtaken)
    why = f"one run for it and the newer {_label(sight, new[-1])}"
    state = replace(state, seen_span=new[-1], queue=(*kept, *arrived))
    return state, tuple(Ended(o, "missed", why, o.span) for o in overtaken)


def _without_spans(
    config: ScheduleConfig, occasion: Occasion, wanted: int | None, now: datetime, sight: Sight
) -> Start | Ended | Wait:
    if not sight.ready or (wanted is not None and wanted not in sight.there):
        what = f"what schedule.wait_for names{'' if wanted is None else f' of {_name(sight, wanted)}'}"
        return _late(config, sight, occasion, what, now)
    if not sight.fresh:
        return _late(config, sight, occasion, f"data other than that of run {sight.run}", now)
    return Start(occasion, None)


def _late(
    config: ScheduleConfig, sight: Sight, occasion: Occasion, what: str, now: datetime, span: int | None = None
) -> Ended | Wait:
    until = occasion.due + length(config.timeout)
    if now < until:
        return Wait(f"waiting for {what}, until {until.astimezone(config.zone):%Y-%m-%d %H:%M %Z}", until)
    waited = f" It was waited for {config.timeout}." if length(config.timeout) else ""
    outcome: Outcome = "skipped" if config.on_late == "skip" else "late"
    problem = f" {sight.problem}" if sight.problem else ""
    return Ended(occasion, outcome, f"{what} is not there, and nothing was trained.{waited}{problem}", span)


def _label(sight: Sight, number: int) -> str:
    return label_of(sight.unit or "number", number)


def _name(sight: Sight, number: int | None) -> str:
    return "any" if number is None else described(sight.unit or "number", number)
