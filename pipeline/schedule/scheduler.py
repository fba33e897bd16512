"""The scheduler: looks, decides by `due`, writes down what it is about to do, and does it."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pipeline.cron import Cron
from pipeline.duration import length
from pipeline.history import Entry, History
from pipeline.schedule import due, memory
from pipeline.schedule.config import ScheduleConfig
from pipeline.schedule.due import Ended, Occasion, Outcome, Sight, Start, State, Wait

STATE = "scheduler"
_STOPPING_SECONDS = 60.0
_OUTCOMES: Mapping[int, Outcome] = {0: "success", 3: "not_blessed", 4: "late", 5: "gate_stop"}


class Process(Protocol):
    """A run that was started; see `process.RunProcess`."""

    def poll(self) -> int | None: ...
    def interrupt(self) -> None: ...
    def kill(self) -> None: ...
    def wait(self, seconds: float) -> int | None: ...


@dataclass(frozen=True)
class World:
    """What a scheduler touches.

    clock: the time in UTC. look: what the source shows now. launch: starts a run that prints to a file. label: a span
    as people write it. in_flight: whether a run is alive that this scheduler or one before it started. log: the file
    of a run that starts at a time. tell: hears of every occasion that ended, of its exit status, and whether its run
    has told already. say: prints a line.
    """

    clock: Callable[[], datetime]
    look: Callable[[], Sight]
    launch: Callable[[Start, str], Process]
    label: Callable[[int], str]
    in_flight: Callable[[], bool]
    log: Callable[[datetime], str]
    tell: Callable[[Ended, int | None, bool], None]
    say: Callable[[str], None]


class Scheduler:
    """One pipeline's scheduler. All that must outlive it stands in the history before it happens."""

    def __init__(self, config: ScheduleConfig, history: History, world: World, *, name: str = STATE) -> None:
        """Takes up what an earlier one of this name left.

        Args:
            config: the section of the YAML.
            history: of the pipeline.
            world: what it touches.
            name: under which it remembers.
        """
        self._config = config
        self._watches = config.new_span or config.drift
        self._history = history
        self._world = world
        self._name = name
        self._process: Process | None = None
        self._log = ""
        self._said = ""
        self._looked: datetime | None = None
        self._sight = Sight()
        kept = history.state(name)
        self.state = memory.loaded(kept) if kept else State(seen_until=world.clock())
        self.last: tuple[Ended, int | None] | None = None
        """What ended last, and the exit status of its run, if it had one."""
        if not kept:
            self._keep(self.state)

    def beat(self) -> None:
        """Does all that is to be done now. Meant to be called every second or so.

        What the machine refuses for now, such as a disk that is full, is said and tried again at the next beat; a run
        that could not be started counts as one whose process died.
        """
        try:
            self._beat()
        except (OSError, sqlite3.Error) as error:
            self._say_once(f"trouble, tried again: {error}")

    def _beat(self) -> None:
        if self.state.running is not None:
            self._see_to_running(self.state.running)
        self._note()
        while self.state.running is None:
            match due.decide(self._config, self.state, self._world.clock(), self._sight_now()):
                case Start() if self._world.in_flight():
                    self._say_once("waiting for a run that an earlier scheduler or a backfill started")
                    return
                case Start() as start:
                    self._start(start)
                case Ended() as ended:
                    self._end(ended, None)
                case Wait(message=message):
                    self._say_once(message)
                    return

    def stop(self) -> None:
        """Interrupts the run that goes on, if one does; it is taken up by the next scheduler."""
        running = self.state.running
        if self._process is None or running is None:
            return
        self._world.say(f"stopping: {running.key} is interrupted, and taken up at the next start")
        self._process.interrupt()
        if self._process.wait(_STOPPING_SECONDS) is None:
            self._process.kill()
            self._process.wait(_STOPPING_SECONDS)
        self._see_to_running(running, stopping=True)

    def _note(self) -> None:
        look = self._watches and self.state.running is None
        sight = self._sight_now() if look else Sight()
        state, passed = due.note(self._config, self.state, self._world.clock(), sight)
        asked = self._history.requests()
        for number, at, span in asked:
            state = due.request(state, number, at, span)
        before = self.state.queue
        changed = (state.queue, state.seen_span) != (self.state.queue, self.state.seen_span)
        if changed or passed or asked:
            self._looked = None if state.queue != self.state.queue else self._looked
            self._keep(state, ended=passed, requests=[number for number, *_ in asked])
            for new in (occasion for occasion in state.queue if occasion not in before):
                if new.span is not None and new.kind == "drift" and new.span in sight.moved:
                    self._world.say(f"{new.key}: {sight.moved[new.span].why}")
            for quiet in (each for each in passed if each.outcome != "missed"):
                self._world.say(f"{quiet.occasion.key}: {quiet.outcome}. {quiet.message}")
                self._world.tell(quiet, None, False)
        self.state = state

    def _sight_now(self) -> Sight:
        """Returns what the source shows, looked at again as often as `poll` says, and only if it matters."""
        now = self._world.clock()
        if not self.state.queue and not self._watches:
            return Sight()
        if self._looked is None or now - self._looked >= length(self._config.poll):
            self._looked, self._sight = now, self._world.look()
        return self._sight

    def _start(self, start: Start) -> None:
        now = self._world.clock()
        self._log = self._world.log(now)
        self._keep(due.started(self.state, start.occasion))
        known = start.span is None or start.occasion.kind == "new span"
        span = "" if known else f", span {self._world.label(start.span or 0)}"
        self._world.say(f"{start.occasion.key}{span}: started, prints to {self._log}")
        self._process = self._world.launch(start, self._log)

    def _see_to_running(self, running: Occasion, *, stopping: bool = False) -> None:
        """Ends the run's occasion if the run has ended, also if another scheduler had started it."""
        status = self._process.poll() if self._process else None
        if self._process is not None and status is None:
            return
        if self._process is None and self._world.in_flight():
            self._say_once(f"{running.key}: goes on, started by an earlier scheduler")
            return
        watched, self._process, self._looked = self._process is not None, None, None
        run = self._history.run_for(running.key)
        if run is not None and run.outcome != "interrupted":
            self._end(Ended(running, _outcome(run.exit_code, self._config), run.message, run.last), run.exit_code)
        elif stopping:
            # An interruption that was asked for is no attempt that failed.
            again = Occasion(running.key, running.kind, running.due, running.span, running.attempts - 1)
            self._keep(State(self.state.seen_until, self.state.seen_span, (again, *self.state.queue)))
        elif watched and status is not None:
            message = f"killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
            ended = Ended(running, _outcome(status, self._config), f"{message}; see {self._log}", running.span)
            self._end(ended, status)
        else:
            state, given_up = due.taken_up(self.state)
            self._keep(state)
            for ended in given_up:
                self._end(ended, None)
            if not given_up:
                self._world.say(f"{running.key}: its process is gone without a result; taken up again")

    def _end(self, ended: Ended, status: int | None) -> None:
        run = self._history.run_for(ended.occasion.key)
        self._keep(due.without(self.state, ended.occasion), ended=(ended,))
        self.last = (ended, status)
        self._looked = None
        words = (f"{ended.occasion.key}: {ended.outcome.replace('_', ' ')}", ended.message)
        self._world.say(". ".join(part for part in words if part))
        self._world.tell(ended, status, run is not None and run.outcome != "interrupted")

    def _keep(self, state: State, *, ended: tuple[Ended, ...] = (), requests: list[int] | None = None) -> None:
        entries = [self._entry(each) for each in ended]
        self._history.keep(self._name, memory.dumped(state), ended=entries, requests=requests or ())
        self.state = state

    def _entry(self, ended: Ended) -> Entry:
        occasion = ended.occasion
        return Entry(
            key=occasion.key,
            kind=occasion.kind,
            due=occasion.due.isoformat(),
            ended=self._world.clock().isoformat(),
            span="" if ended.span is None else self._world.label(ended.span),
            outcome=ended.outcome,
            message=ended.message,
            log=self._log if self.state.running and self.state.running.key == occasion.key else "",
        )

    def _say_once(self, message: str) -> None:
        if message and message != self._said:
            self._world.say(message)
        self._said = message


def _outcome(status: int, config: ScheduleConfig) -> Outcome:
    outcome = _OUTCOMES.get(status, "failure")
    return "skipped" if outcome == "late" and config.on_late == "skip" else outcome


def next_times(config: ScheduleConfig, after: datetime, number: int) -> list[datetime]:
    """Returns the next times of the cron line, in the schedule's time zone."""
    found: list[datetime] = []
    while config.cron is not None and len(found) < number:
        after = Cron.parse(config.cron).next_after(after, config.zone)
        found.append(after.astimezone(config.zone))
    return found
