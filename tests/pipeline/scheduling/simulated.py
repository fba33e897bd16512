"""Days of a scheduler in a second: a clock that is told the time, runs that last as long as they are told to.

Everything that decides and remembers is the real thing, SQLite included. What is stood in for: the clock, the files
that arrive, and the processes, of which a list is kept that outlives schedulers, as processes do.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fullpass.components.ingest.spans.span_pattern import label_of, number_of
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import RunHistory
from fullpass.pipeline.schedule_config import ScheduleConfig
from fullpass.pipeline.scheduling.due import SourceState, Start
from fullpass.pipeline.scheduling.scheduler import Scheduler, SchedulerDeps


class Died(Exception):
    """The scheduler was killed."""


@dataclass
class SimulatedRun:
    """A run: from, to and how it will end; `killed` leaves no word behind."""

    key: str
    span: int | None
    start: datetime
    end: datetime
    fate: str = "success"
    stopped: bool = False

    def is_over(self, now: datetime) -> bool:
        return now >= self.end


@dataclass
class Simulation:
    """A pipeline with spans of an hour that arrive when `arrivals` says: number -> time."""

    folder: Path
    config: ScheduleConfig
    now: datetime
    arrivals: dict[int, datetime]
    duration: timedelta = timedelta(minutes=20)
    fates: list[str] = field(default_factory=list)
    runs: list[SimulatedRun] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    die_before: str = ""
    scheduler: Scheduler | None = None

    def __post_init__(self) -> None:
        self.history = RunHistory(self.folder)

    def up(self) -> None:
        """Starts a scheduler, after a crash or for the first time."""
        deps = SchedulerDeps(
            clock=lambda: self.now,
            look=self.look,
            launch=self.launch,
            label=lambda number: label_of("hour", number),
            in_flight=lambda: any(not run.is_over(self.now) for run in self.runs),
            log=lambda at: f"{at:%d-%H%M}.log",
            notify=lambda ended, status, told: self.told.append((ended.occasion.key, ended.outcome)),
            say=lambda line: None,
        )
        self.scheduler = Scheduler(self.config, self.history, deps)

    def tick(self) -> None:
        """One beat, if a scheduler is up; it may die in it."""
        self._finish()
        if self.scheduler is not None:
            try:
                self.scheduler.tick()
            except Died:
                self.scheduler = None

    def power_cut(self) -> None:
        """Ends the scheduler and whatever runs, without a word."""
        self.scheduler = None
        for run in self.runs:
            if not run.is_over(self.now):
                run.end, run.stopped = self.now, True

    def look(self) -> SourceState:
        there = frozenset(number for number, at in self.arrivals.items() if at <= self.now)
        run = self.history.newest_trained("hour")
        return SourceState("hour", there, there, trained=run.last if run else None, run=run.run_id if run else "")

    def launch(self, start: Start, log: str) -> "Handle":
        if self.die_before == "launch":
            self.die_before = ""
            raise Died
        fate = self.fates.pop(0) if self.fates else "success"
        run = SimulatedRun(start.occasion.key, start.span, self.now, self.now + self.duration, fate)
        self.runs.append(run)
        if self.die_before == "return":
            self.die_before = ""
            raise Died
        return Handle(self, run)

    def _finish(self) -> None:
        """Lets runs that are over write what a run writes at its end."""
        for number, run in enumerate(self.runs):
            if run.is_over(self.now) and not run.stopped:
                run.stopped = True
                if run.fate == "killed":
                    continue
                trained = run.fate in ("success", "not_blessed")
                code = {"success": 0, "not_blessed": 3, "failure": 1}[run.fate]
                ends = {"outcome": run.fate, "exit_code": code, "trained": trained, "message": ""}
                spans = {"unit": "hour", "first": run.span, "last": run.span}
                self.history.record(RunFacts(run_id=f"{number:04d}", occasion=run.key, **ends, **spans))


@dataclass
class Handle:
    """What the scheduler that started a run has of it."""

    simulation: Simulation
    run: SimulatedRun

    def poll(self) -> int | None:
        if not self.run.is_over(self.simulation.now):
            return None
        self.simulation._finish()
        return {"success": 0, "not_blessed": 3, "failure": 1, "killed": -9}[self.run.fate]

    def stop(self) -> None:
        self.run.end, self.run.fate = self.simulation.now, "killed"


def hour(instant: datetime, zone) -> int:
    """The number of the hour that a clock in `zone` shows."""
    wall = instant.astimezone(zone)
    return number_of("hour", [wall.year, wall.month, wall.day, wall.hour])


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
