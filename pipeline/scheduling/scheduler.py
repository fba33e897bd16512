"""The scheduler: reads the state of the source, calls `due` for a decision, saves the new state, and acts on it."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fullpass.pipeline.exit_codes import Outcome, outcome_of
from fullpass.pipeline.record.history import OccasionRecord, RunHistory
from fullpass.pipeline.schedule_config import Cron, ScheduleConfig
from fullpass.pipeline.scheduling import due
from fullpass.pipeline.scheduling.due import Ended, Occasion, SchedulerState, SourceState, Start, Wait
from fullpass.pipeline.scheduling.run_process import RunProcess
from fullpass.preprocessing.spec import length

STATE = "scheduler"
_LOOKS = 2
"""Number of looks at the source after which a span without a marker is known to be complete or still changing."""


@dataclass(frozen=True)
class SchedulerDeps:
    """The functions through which a scheduler uses the clock, the source, its runs, notifications and output.

    Attributes:
        in_flight: Returns whether a run that this scheduler or an earlier one started is alive.
        notify: Called for every occasion that ended, with the exit status of its run and whether the run has sent its
            notifications.
    """

    clock: Callable[[], datetime]
    look: Callable[[], SourceState]
    launch: Callable[[Start, str], RunProcess]
    label: Callable[[int], str]
    in_flight: Callable[[], bool]
    log: Callable[[datetime], str]
    notify: Callable[[Ended, int | None, bool], None]
    say: Callable[[str], None]


class Scheduler:
    """One pipeline's scheduler. It writes its state into the history before it acts."""

    def __init__(self, config: ScheduleConfig, history: RunHistory, deps: SchedulerDeps, *, name: str = STATE) -> None:
        """Continues from the state that an earlier scheduler has saved in the history under this name."""
        self._config = config
        self._watches = config.new_span or config.drift
        self._history = history
        self._deps = deps
        self._name = name
        self._process: RunProcess | None = None
        self._log = ""
        self._said = ""
        self._looked: datetime | None = None
        self._looks = 0
        self._source = SourceState()
        kept = history.state(name)
        self.state = SchedulerState.from_json(kept) if kept else SchedulerState(seen_until=deps.clock())
        self.last: tuple[Ended, int | None] | None = None
        """The occasion that ended last, and the exit status of its run, if it had one."""
        if not kept:
            self._keep(self.state)

    def tick(self) -> None:
        """Handles everything that is due. Call it about once a second.

        An error of the machine, such as a full disk, is printed, and the next tick tries again. A run that could not be
        started counts as a run whose process died.
        """
        try:
            self._tick()
        except (OSError, sqlite3.Error) as error:
            self._say_once(f"error, will be tried again: {error}")

    def _tick(self) -> None:
        if self.state.running is not None:
            self._check_running(self.state.running)
        self._note()
        while self.state.running is None:
            match due.decide(self._config, self.state, self._deps.clock(), self._source_now()):
                case Start() if self._deps.in_flight():
                    self._say_once("waiting for a run that an earlier scheduler or a backfill started")
                    return
                case Start() as start:
                    self._start(start)
                case Ended() as ended:
                    self._end(ended, None)
                case Wait(message=message):
                    self._say_once(message)
                    return

    @property
    def is_undecided(self) -> bool:
        """Whether a waiting or running occasion has not ended, or newer spans may still become occasions.

        Without a marker a span counts as complete after two looks, so one that still changes then is not waited for.
        """
        if self.state.queue or self.state.running or self._history.requests():
            return True
        arriving = due.arriving(self.state, self._source) if self._watches else []
        unknown = any(number in self._source.steady or self._looks < _LOOKS for number in arriving)
        return unknown or (self._watches and not self._looks)

    def nothing_due(self) -> str:
        """Returns why no occasion came from the source, after it was looked at."""
        return due.nothing_due(self.state, self._source)

    def stop(self) -> None:
        """Interrupts the current run, if there is one. The next scheduler starts its occasion again."""
        running = self.state.running
        if self._process is None or running is None:
            return
        self._deps.say(f"stopping: {running.key} is interrupted, and run again at the next start")
        self._process.stop()
        self._check_running(running, stopping=True)

    def _note(self) -> None:
        source = self._source_now() if self._watches and self.state.running is None else SourceState()
        state, passed = due.note(self._config, self.state, self._deps.clock(), source)
        asked = self._history.requests()
        for number, at, span, why in asked:
            state = due.request(state, number, at, span, why)
        before = self.state.queue
        changed = (state.queue, state.seen_span) != (self.state.queue, self.state.seen_span)
        if changed or passed or asked:
            self._looked = None if state.queue != self.state.queue else self._looked
            self._keep(state, ended=passed, requests=[number for number, *_ in asked])
            for new in (occasion for occasion in state.queue if occasion not in before):
                if new.span is not None and new.kind == "drift" and new.span in source.drift_by_span:
                    self._deps.say(f"{new.key}: {source.drift_by_span[new.span].why}")
            for quiet in (each for each in passed if each.outcome != "missed"):
                self.last = (quiet, None)
                self._deps.say(f"{quiet.occasion.key}: {quiet.outcome}. {quiet.message}")
                self._deps.notify(quiet, None, False)
        self.state = state

    def _source_now(self) -> SourceState:
        """Returns the state of the source, at most `poll` old; an empty state if nothing depends on it."""
        now = self._deps.clock()
        if not self.state.queue and not self._watches:
            return SourceState()
        if self._looked is None or now - self._looked >= length(self._config.poll):
            self._looked, self._looks, self._source = now, self._looks + 1, self._deps.look()
        return self._source

    def _start(self, start: Start) -> None:
        self._log = self._deps.log(self._deps.clock())
        self._keep(due.started(self.state, start.occasion))
        known = start.span is None or start.occasion.kind == "new span"
        span = "" if known else f", span {self._deps.label(start.span or 0)}"
        self._deps.say(f"{start.occasion.key}{span}: started, prints to {self._log}")
        self._process = self._deps.launch(start, self._log)

    def _check_running(self, running: Occasion, *, stopping: bool = False) -> None:
        """Ends the occasion of the current run after the run has ended, even if an earlier scheduler started it."""
        status = self._process.poll() if self._process else None
        if self._process is not None and status is None:
            return
        if self._process is None and self._deps.in_flight():
            self._say_once(f"{running.key}: still running, started by an earlier scheduler")
            return
        watched, self._process, self._looked = self._process is not None, None, None
        run = self._history.run_for(running.key)
        if run is not None and run.outcome != "interrupted":
            code = run.exit_code or 0
            self._end(Ended(running, _outcome(code, self._config), run.message, run.last), code)
        elif stopping:
            # A requested interruption does not count as a failed attempt.
            again = Occasion(running.key, running.kind, running.due, running.span, running.attempts - 1)
            self._keep(SchedulerState(self.state.seen_until, self.state.seen_span, (again, *self.state.queue)))
        elif watched and status is not None:
            message = f"killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
            ended = Ended(running, _outcome(status, self._config), f"{message}; see {self._log}", running.span)
            self._end(ended, status)
        else:
            state, given_up = due.requeued(self.state)
            self._keep(state)
            for ended in given_up:
                self._end(ended, None)
            if not given_up:
                self._deps.say(f"{running.key}: its process died without a result; it is run again")

    def _end(self, ended: Ended, status: int | None) -> None:
        run = self._history.run_for(ended.occasion.key)
        self._keep(due.without(self.state, ended.occasion), ended=(ended,))
        self.last = (ended, status)
        self._looked = None
        words = (f"{ended.occasion.key}: {ended.outcome.replace('_', ' ')}", ended.message)
        self._deps.say(". ".join(part for part in words if part))
        self._deps.notify(ended, status, run is not None and run.outcome != "interrupted")

    def _keep(self, state: SchedulerState, *, ended: tuple[Ended, ...] = (), requests: list[int] | None = None) -> None:
        entries = [self._entry(each) for each in ended]
        self._history.save_state(self._name, state.to_json(), ended=entries, requests=requests or ())
        self.state = state

    def _entry(self, ended: Ended) -> OccasionRecord:
        occasion = ended.occasion
        return OccasionRecord(
            key=occasion.key,
            kind=occasion.kind,
            due=occasion.due.isoformat(),
            ended=self._deps.clock().isoformat(),
            span="" if ended.span is None else self._deps.label(ended.span),
            outcome=ended.outcome,
            message=ended.message,
            log=self._log if self.state.running and self.state.running.key == occasion.key else "",
        )

    def _say_once(self, message: str) -> None:
        if message and message != self._said:
            self._deps.say(message)
        self._said = message


def _outcome(status: int, config: ScheduleConfig) -> Outcome:
    outcome = outcome_of(status)
    return "skipped" if outcome == "late" and config.on_late == "skip" else outcome


def next_times(config: ScheduleConfig, after: datetime, number: int) -> list[datetime]:
    """Returns the next times of the cron line, in the schedule's time zone."""
    found: list[datetime] = []
    while config.cron is not None and len(found) < number:
        after = Cron.parse(config.cron).next_after(after, config.zone)
        found.append(after.astimezone(config.zone))
    return found
