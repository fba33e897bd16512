"""Decides which runs to start, with pure functions of the scheduler's state, the time, and the state of the source.

An *occasion* is a reason to run: a time of the cron line, a span that arrived, a request by hand. It is queued, then it
is run or ends without a run; it ends exactly once. The scheduler writes the new state before it acts on a decision, so
after a crash the next scheduler continues from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, cast

from pydantic import TypeAdapter

from fullpass.components.ingest.spans.span_pattern import Unit, described, label_of, number_of
from fullpass.pipeline.exit_codes import Outcome
from fullpass.pipeline.schedule_config import Cron, ScheduleConfig
from fullpass.preprocessing.spec import length

Kind = Literal["cron", "new span", "drift", "watch", "by hand"]
_ASKED: tuple[Kind, ...] = ("watch", "by hand")
"""Kinds that are started whatever was trained on before."""
MOST_ATTEMPTS = 3
"""Number of attempts at one occasion that may die without a result, before the occasion counts as failed."""
_UNSEEN = timedelta(minutes=1)
"""A time of the cron line that is older than this passed while no scheduler was running."""
_DATED = ("year", "month", "day", "hour")


@dataclass(frozen=True)
class Occasion:
    """A reason to run.

    Attributes:
        due: The time when it should start, in UTC.
        span: Number of the span that arrived or was requested; None means the span of its time, or the newest.
    """

    key: str
    kind: Kind
    due: datetime
    span: int | None = None
    attempts: int = 0


@dataclass(frozen=True)
class SchedulerState:
    """The state of a scheduler that survives restarts.

    Attributes:
        seen_until: Times of the cron line up to this one were queued, in UTC.
        seen_span: The newest span that was queued as new.
        queue: The waiting occasions, oldest first.
        running: The occasion that was started and has not ended.
    """

    seen_until: datetime
    seen_span: int | None = None
    queue: tuple[Occasion, ...] = ()
    running: Occasion | None = None

    def to_json(self) -> str:
        """Returns the state as JSON."""
        return _STATE.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "SchedulerState":
        """Returns the state of a JSON text."""
        return _STATE.validate_json(text)


_STATE = TypeAdapter(SchedulerState)


@dataclass(frozen=True)
class SpanDrift:
    """Whether a span has drifted from the spans before it, and the reason of the decision."""

    moved: bool
    why: str


@dataclass(frozen=True)
class SourceState:
    """The spans of the source, and the newest span that was trained on.

    Attributes:
        unit: Unit of the spans, or of the marker files if the source has no spans; None if nothing is dated or
            numbered.
        available: Spans that exist, and that are marked if `wait_for` is set.
        steady: Those of them that have not changed since the last look.
        ready: Whether the path of `wait_for` exists.
        trained: The newest span of a completed run.
        fresh: Whether a source without spans has changed since a completed run.
        drift_by_span: The data gate's decisions about new, steady spans, as far as known.
    """

    unit: Unit | None = None
    available: frozenset[int] = frozenset()
    steady: frozenset[int] = frozenset()
    spans: bool = True
    ready: bool = True
    trained: int | None = None
    fresh: bool = True
    run: str = ""
    drift_by_span: Mapping[int, SpanDrift] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class Start:
    """Start a run for the occasion.

    Attributes:
        span: Newest span of the run; None lets the run take the newest existing one.
    """

    occasion: Occasion
    span: int | None


@dataclass(frozen=True)
class Ended:
    """An occasion that has ended, with or without a run."""

    occasion: Occasion
    outcome: Outcome
    message: str
    span: int | None = None


@dataclass(frozen=True)
class Wait:
    """Do nothing now."""

    message: str = ""
    until: datetime | None = None


def expected_span(unit: Unit, due: datetime, config: ScheduleConfig) -> int | None:
    """Returns the span that a time requests; None if spans are numbers, which have no relation to time.

    Example:
        Day 15709, 2013-01-04, for 2013-01-05 03:00, by the calendar of `config.timezone` and a lag of 1.
    """
    if unit not in _DATED:
        return None
    wall = due.astimezone(config.zone)
    parts = (wall.year, wall.month, wall.day, wall.hour)[: _DATED.index(unit) + 1]
    return number_of(unit, parts) - config.lag


def note(
    config: ScheduleConfig, state: SchedulerState, now: datetime, source: SourceState
) -> tuple[SchedulerState, tuple[Ended, ...]]:
    """Returns the state with all occasions up to `now` queued, and the occasions that end without a run."""
    state, passed = _note_times(config, state, now)
    if config.new_span:
        state, overtaken = _note_spans(config, state, now, source)
        return state, (*passed, *overtaken)
    if config.drift:
        state, quiet = _note_drift(state, now, source)
        return state, (*passed, *quiet)
    return state, passed


def request(state: SchedulerState, number: int, at: datetime, span: int | None, why: str = "") -> SchedulerState:
    """Returns the state with a request queued, before every other occasion.

    Args:
        why: What a watch of the served model found; empty for a request by hand.
    """
    kind, key = ("watch", f"watch {number}: {why}") if why else ("by hand", f"by hand {number}")
    asked = Occasion(key, cast(Kind, kind), at, span)
    first = [other for other in state.queue if other.kind in _ASKED]
    return replace(state, queue=(*first, asked, *state.queue[len(first) :]))


def decide(config: ScheduleConfig, state: SchedulerState, now: datetime, source: SourceState) -> Start | Ended | Wait:
    """Returns the action for the first occasion of the queue; `Wait` while another one is running."""
    if state.running is not None or not state.queue:
        return Wait()
    occasion = state.queue[0]
    if occasion.kind in _ASKED:
        return Start(occasion, occasion.span)
    wanted = occasion.span
    if wanted is None and source.unit is not None:
        wanted = expected_span(source.unit, occasion.due, config)
    if not source.spans:
        return _without_spans(config, occasion, wanted, now, source)
    target = max(source.available, default=None) if wanted is None else wanted
    if target is None or (wanted is None and target == source.trained):
        return _late(config, source, occasion, f"a span newer than {_name(source, source.trained)}", now)
    if source.trained is not None and source.trained >= target:
        message = f"{_name(source, source.trained)} was trained already, by run {source.run}"
        if source.trained > target:
            message = f"{_name(source, target)} is older than the newest trained span: {message}"
        return Ended(occasion, "skipped", message, target)
    if target in source.available:
        return Start(occasion, target)
    return _late(config, source, occasion, f"span {_name(source, target)}", now, target)


def started(state: SchedulerState, occasion: Occasion) -> SchedulerState:
    """Returns the state in which `occasion` runs."""
    return replace(without(state, occasion), running=replace(occasion, attempts=occasion.attempts + 1))


def without(state: SchedulerState, occasion: Occasion) -> SchedulerState:
    """Returns the state in which `occasion` has ended."""
    running = None if state.running and state.running.key == occasion.key else state.running
    return replace(state, running=running, queue=tuple(o for o in state.queue if o.key != occasion.key))


def requeued(state: SchedulerState) -> tuple[SchedulerState, tuple[Ended, ...]]:
    """Returns the state after a run whose process died without a result: its occasion is queued again or failed."""
    lost = state.running
    if lost is None:
        return state, ()
    if lost.attempts >= MOST_ATTEMPTS:
        message = f"its process died {lost.attempts} times without a result, as happens when memory runs out"
        return without(state, lost), (Ended(lost, "failure", message, lost.span),)
    return replace(state, running=None, queue=(lost, *state.queue)), ()


def _note_times(
    config: ScheduleConfig, state: SchedulerState, now: datetime
) -> tuple[SchedulerState, tuple[Ended, ...]]:
    if config.cron is None:
        return replace(state, seen_until=now), ()
    times = list(Cron.parse(config.cron).between(state.seen_until, now, config.zone))
    state = replace(state, seen_until=max(now, state.seen_until))
    if not times:
        return state, ()
    new = [Occasion(f"cron {time.isoformat()}", "cron", time) for time in times]
    if config.catch_up == "each":
        return replace(state, queue=(*state.queue, *new)), ()
    if config.catch_up == "none":
        late = [o for o in new if state.running is not None or now - o.due > _UNSEEN]
        why = "another run was in progress" if state.running is not None else "no scheduler was running"
        kept = tuple(o for o in new if o not in late)
        return replace(state, queue=(*state.queue, *kept)), tuple(Ended(o, "missed", why) for o in late)
    waiting = [o for o in state.queue if o.kind == "cron"]
    *dropped, newest = [*waiting, *new]
    others = tuple(o for o in state.queue if o.kind != "cron")
    why = f"one run covers it and {newest.due.astimezone(config.zone):%Y-%m-%d %H:%M}"
    return replace(state, queue=(*others, newest)), tuple(Ended(o, "missed", why) for o in dropped)


def arriving(state: SchedulerState, source: SourceState) -> list[int]:
    """Returns the available spans that are newer than all spans that were noted or trained on, the oldest first."""
    known = _newest_known(state, source)
    return sorted(number for number in source.available if known is None or number > known)


def nothing_due(state: SchedulerState, source: SourceState) -> str:
    """Returns why no span of the source is a reason to run, for people."""
    if source.problem:
        return source.problem
    if open_ones := arriving(state, source):
        return f"{_label(source, open_ones[-1])} still changes"
    return f"there is no span newer than {_name(source, _newest_known(state, source))}"


def _newest_known(state: SchedulerState, source: SourceState) -> int | None:
    return max((number for number in (state.seen_span, source.trained) if number is not None), default=None)


def _newer(state: SchedulerState, source: SourceState) -> list[int]:
    """Returns those of the arriving spans that are steady."""
    return [number for number in arriving(state, source) if number in source.steady]


def _note_drift(state: SchedulerState, now: datetime, source: SourceState) -> tuple[SchedulerState, tuple[Ended, ...]]:
    new = _newer(state, source)
    found = source.drift_by_span.get(new[-1]) if new else None
    if found is None:
        return state, ()
    occasion = Occasion(f"drift {_label(source, new[-1])}", "drift", now, new[-1])
    state = replace(state, seen_span=new[-1])
    if not found.moved:
        return state, (Ended(occasion, "skipped", found.why, new[-1]),)
    return replace(state, queue=(*state.queue, occasion)), ()


def _note_spans(
    config: ScheduleConfig, state: SchedulerState, now: datetime, source: SourceState
) -> tuple[SchedulerState, tuple[Ended, ...]]:
    new = _newer(state, source)
    if not new:
        return state, ()
    # For a source that was never trained on, only the newest span counts as new.
    first = state.seen_span is None and source.trained is None
    taken = new if config.catch_up == "each" and not first else new[-1:]
    arrived = [Occasion(f"new span {_label(source, number)}", "new span", now, number) for number in taken]
    overtaken = () if config.catch_up == "each" else tuple(o for o in state.queue if o.kind == "new span")
    kept = tuple(o for o in state.queue if o not in overtaken)
    why = f"one run covers it and the newer {_label(source, new[-1])}"
    state = replace(state, seen_span=new[-1], queue=(*kept, *arrived))
    return state, tuple(Ended(o, "missed", why, o.span) for o in overtaken)


def _without_spans(
    config: ScheduleConfig, occasion: Occasion, wanted: int | None, now: datetime, source: SourceState
) -> Start | Ended | Wait:
    if not source.ready or (wanted is not None and wanted not in source.available):
        what = f"the path of schedule.wait_for{'' if wanted is None else f' of {_name(source, wanted)}'}"
        return _late(config, source, occasion, what, now)
    if not source.fresh:
        return _late(config, source, occasion, f"data other than that of run {source.run}", now)
    return Start(occasion, None)


def _late(
    config: ScheduleConfig, source: SourceState, occasion: Occasion, what: str, now: datetime, span: int | None = None
) -> Ended | Wait:
    until = occasion.due + length(config.timeout)
    if now < until:
        return Wait(f"waiting for {what}, until {until.astimezone(config.zone):%Y-%m-%d %H:%M %Z}", until)
    waited = f" The scheduler waited {config.timeout}." if length(config.timeout) else ""
    outcome: Outcome = "skipped" if config.on_late == "skip" else "late"
    problem = f" {source.problem}" if source.problem else ""
    return Ended(occasion, outcome, f"{what} is not there, and nothing was trained.{waited}{problem}", span)


def _label(source: SourceState, number: int) -> str:
    return label_of(source.unit or "number", number)


def _name(source: SourceState, number: int | None) -> str:
    return "any" if number is None else described(source.unit or "number", number)
