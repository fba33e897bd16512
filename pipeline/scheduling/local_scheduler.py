"""`fullpass schedule run`, `trigger` and `list`: the scheduler of one pipeline on this machine, and requests to it."""

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from fullpass.base.errors import UsageError, UserError
from fullpass.base.processes import StopSignals, stop_signals
from fullpass.components.ingest.spans.span_pattern import label_of, parse_span
from fullpass.components.ingest.spans.spans import span_unit
from fullpass.pipeline.authoring.checks.check import require
from fullpass.pipeline.authoring.checks.source_rules import still_arrives
from fullpass.pipeline.authoring.loading.load import Loaded, load
from fullpass.pipeline.authoring.loading.problems import ConfigError
from fullpass.pipeline.exit_codes import OUTCOME_CODES, ExitCode
from fullpass.pipeline.printing import aligned, print_text
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.history import OccasionRecord, RunHistory
from fullpass.pipeline.record.notifications import Payload, notify
from fullpass.pipeline.record.provenance import OCCASION_VARIABLE
from fullpass.pipeline.root.check import claim_root
from fullpass.pipeline.root.layout import RUN_LOCK, RootLayout, pipeline_root
from fullpass.pipeline.root.locks import run_lock
from fullpass.pipeline.running.request import RunRequest
from fullpass.pipeline.schedule_config import ScheduleConfig
from fullpass.pipeline.scheduling import run_process
from fullpass.pipeline.scheduling.due import Ended, Occasion, SchedulerState, Start
from fullpass.pipeline.scheduling.scheduler import STATE, Scheduler, SchedulerDeps, next_times
from fullpass.pipeline.scheduling.source_state import SourceReaderWithTimeout, WatchedSource, whole_span

ONCE = "once"
_TICK_SECONDS = 1.0
"""Seconds between the decisions of the scheduler: the unit of a cron line with seconds."""
_NEXT = 3
"""Times that `fullpass schedule list` shows: enough to see what a cron line means."""


def load_to_schedule(file: Path) -> Loaded:
    """Returns a pipeline file without errors; its warnings are printed to standard error.

    Errors that only the newest span has, or a file of which only the beginning is there, are warnings: the scheduler
    waits for the rest, and each run checks the span that it trains on.

    Raises:
        ConfigError: The file has errors; `problems` holds all problems of the file.
    """
    loaded = load(file)
    try:
        problems = require(loaded)
    except ConfigError as error:
        whole = whole_span(loaded)
        arriving = still_arrives(loaded) if whole is None else None
        if whole is None and arriving is None:
            raise
        problems = require(replace(loaded, span=whole, reads_data=whole is not None))
        if arriving is not None:
            problems = (*problems, arriving.problem(loaded))
        else:
            problems = tuple(replace(problem, severity="warning") for problem in error.problems)
    for problem in problems:
        print_text(problem.located(file), err=True)
    return loaded


def run(loaded: Loaded, *, root: Path | None = None) -> None:
    """Runs the pipeline by its schedule until SIGTERM or SIGINT, which also interrupt the current run.

    Raises:
        UserError: The YAML has no schedule, or another scheduler is running.
    """
    config = schedule_of(loaded)
    folder = RootLayout(pipeline_root(loaded, root)).schedule
    claim_root(folder.parent, loaded.config.name)
    with run_lock(folder, what="a scheduler"), stop_signals() as stop:
        scheduler = Scheduler(config, RunHistory(folder.parent), _deps(loaded, root, folder, stop))
        _say(f"scheduler of {loaded.config.name} started{_next(config)}")
        while not stop.is_set():
            scheduler.tick()
            stop.wait(_TICK_SECONDS)
        scheduler.stop()
        _say("stopped")


def run_once(loaded: Loaded, *, root: Path | None = None, poll: float = _TICK_SECONDS) -> int:
    """Handles what is due now, as the scheduler does, and ends.

    With a cron line that is an occasion like one of its times: it waits for its span, then runs or skips. With
    `new_span` and `drift` these are the spans newer than all that were trained on or noted.

    Returns:
        The exit code of the run, or of the outcome if no run was started.

    Raises:
        UserError: The YAML has no schedule, or another scheduler is running.
    """
    config = schedule_of(loaded)
    folder = RootLayout(pipeline_root(loaded, root)).schedule
    claim_root(folder.parent, loaded.config.name)
    with run_lock(folder, what="a scheduler"), stop_signals() as stop:
        history, deps = RunHistory(folder.parent), _deps(loaded, root, folder, stop)
        scheduler = Scheduler(config.model_copy(update={"cron": None}), history, deps, name=ONCE)
        reads = config.new_span or config.drift or loaded.config.serving_log is not None
        timed = config.cron is not None or not reads
        scheduler.state = _state_of_once(scheduler.state, history.state(STATE), timed=timed)
        while scheduler.is_undecided and not stop.is_set():
            scheduler.tick()
            if scheduler.is_undecided:
                stop.wait(poll)
        scheduler.stop()
    if scheduler.last is None and not stop.is_set():
        _say(f"{ONCE}: nothing to train, {scheduler.nothing_due()}")
        return ExitCode.NOTHING_TO_TRAIN
    if scheduler.last is None:
        return ExitCode.FAILED
    ended, status = scheduler.last
    return status if status is not None and status > 0 else OUTCOME_CODES[ended.outcome]


def _state_of_once(kept: SchedulerState, of_scheduler: str | None, *, timed: bool) -> SchedulerState:
    """Returns the state with which `--once` begins: what an earlier one has noted and not ended, and a time of now.

    Args:
        kept: The state that an earlier `--once` has left.
        of_scheduler: The saved state of the scheduler, whose spans are noted too.
        timed: Whether now is a time of the schedule.
    """
    now = datetime.now(UTC)
    noted = [kept.seen_span, SchedulerState.from_json(of_scheduler).seen_span if of_scheduler else None]
    occasion = Occasion(f"{ONCE} {now.isoformat(timespec='seconds')}", "cron", now)
    return SchedulerState(
        seen_until=now,
        seen_span=max((span for span in noted if span is not None), default=None),
        queue=(*(other for other in kept.queue if other.kind != "cron"), *((occasion,) if timed else ())),
        running=kept.running if kept.running is not None and kept.running.kind != "cron" else None,
    )


def request_run(loaded: Loaded, *, root: Path | None = None, span: str | None = None) -> str:
    """Requests a run from the scheduler, ahead of all waiting runs and even if its span was trained on before.

    Returns:
        The message for the user.

    Raises:
        UserError: The YAML has no schedule, or the source has no such spans.
    """
    schedule_of(loaded)
    unit = span_unit(loaded.config.data)
    if span is not None and unit is None:
        raise UsageError(f"--span {span}: data.source has no spans.")
    number = parse_span(unit, span) if span is not None and unit is not None else None
    layout = RootLayout(pipeline_root(loaded, root))
    claim_root(layout.root, loaded.config.name)
    asked = RunHistory(layout.root).add_request(number)
    lock = layout.schedule / RUN_LOCK
    # The lock file of a running scheduler contains its holder.
    running = lock.exists() and lock.stat().st_size
    then = "" if running else " No scheduler is running; the next one, or `fullpass schedule run --once`, handles it."
    return f"by hand {asked}: requested.{then}"


def schedule_of(loaded: Loaded) -> ScheduleConfig:
    """Returns the section `schedule:`.

    Raises:
        UserError: The YAML has no schedule.
    """
    if loaded.config.schedule is None:
        raise UserError(f'{loaded.file}: schedule is missing. For every day at three: schedule: {{cron: "0 3 * * *"}}.')
    return loaded.config.schedule


def _deps(loaded: Loaded, root: Path | None, folder: Path, stop: StopSignals) -> SchedulerDeps:
    label = functools.partial(label_of, span_unit(loaded.config.data) or "number")

    def launch(start: Start, log: str) -> run_process.RunProcess:
        span = None if start.span is None else label(start.span)
        request = RunRequest(root=root and root.absolute(), span=span, wait=True)
        command = request.command(loaded.file.absolute())
        variables = {OCCASION_VARIABLE: start.occasion.key}
        return run_process.start(command, folder=folder, log=Path(log), environment=variables)

    def notify_unless_sent(ended: Ended, status: int | None, told: bool) -> None:
        if not told:
            payload = _payload(loaded, ended, label)
            notify(loaded.config.notify, payload, folder=loaded.folder, say=_say, wait=stop.wait)

    return SchedulerDeps(
        clock=lambda: datetime.now(UTC),
        look=SourceReaderWithTimeout(WatchedSource(loaded, folder.parent)),
        launch=launch,
        label=label,
        in_flight=lambda: run_process.in_flight(folder),
        log=lambda at: str(folder / f"{at:%Y%m%d-%H%M%S-%f}.log"),
        notify=notify_unless_sent,
        say=_say,
    )


def _payload(loaded: Loaded, ended: Ended, label: Callable[[int], str]) -> Payload:
    outcome = "skipped" if ended.outcome in ("skipped", "missed") else "failure"
    facts = RunFacts(
        pipeline=loaded.config.name,
        file=str(loaded.file.absolute()),
        exit_code=OUTCOME_CODES[ended.outcome],
        span=None if ended.span is None else label(ended.span),
        occasion=ended.occasion.key,
    )
    return Payload(outcome, f"{facts.pipeline}: {ended.message}", facts)


def _next(config: ScheduleConfig) -> str:
    times = next_times(config, datetime.now(UTC), 1)
    parts = [f"next time {times[0]:%Y-%m-%d %H:%M:%S %Z}"] if times else []
    parts += [f"looks for spans every {config.poll}"] if config.new_span or config.drift else []
    return f": {', '.join(parts)}" if parts else ": runs are started by `fullpass schedule trigger`"


def _say(line: str) -> None:
    print_text(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {line}")


def schedule_lines(loaded: Loaded, *, root: Path | None = None, runs: int = 10) -> str:
    """Returns the last runs (oldest first), the current and waiting ones, and the next times, as lines.

    Raises:
        UserError: The YAML has no schedule.
    """
    config = schedule_of(loaded)
    history = RunHistory(pipeline_root(loaded, root))
    rows = [("when", "started by", "span", "outcome", "")]
    kept = None
    if history.exists:
        rows += [_row(entry, config) for entry in reversed(history.entries(runs))]
        kept = history.state(STATE)
    if kept is not None:
        state = SchedulerState.from_json(kept)
        if state.running is not None:
            rows.append((_time(state.running.due, config), state.running.kind, "", "running", ""))
        rows += [(_time(o.due, config), o.kind, "", "waiting", "") for o in state.queue]
    rows += [(_time(time, config), "cron", "", "next", "") for time in next_times(config, datetime.now(UTC), _NEXT)]
    triggers = {"new span": config.new_span, "drift": config.drift}
    rows += [("", kind, "", "next", f"checked every {config.poll}") for kind, is_set in triggers.items() if is_set]
    return "\n".join([f"{loaded.config.name}: {_words(config)}", *map(str.rstrip, aligned(rows))])


def _row(entry: OccasionRecord, config: ScheduleConfig) -> tuple[str, str, str, str, str]:
    when = _time(datetime.fromisoformat(entry.due), config)
    return (
        when,
        entry.kind,
        entry.span,
        entry.outcome.replace("_", " "),
        entry.message.splitlines()[0] if entry.message else "",
    )


def _time(instant: datetime, config: ScheduleConfig) -> str:
    return f"{instant.astimezone(config.zone):%Y-%m-%d %H:%M:%S}"


def _words(config: ScheduleConfig) -> str:
    parts = [f"{config.cron} ({config.timezone})"] if config.cron else []
    parts += ["on every new span"] if config.new_span else []
    parts += ["on drift"] if config.drift else []
    return ", ".join(parts) or "by hand only"
