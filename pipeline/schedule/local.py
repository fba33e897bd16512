"""`fullpass schedule run`: the scheduler of one pipeline on this machine."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import typer

from components.ingest.span_pattern import label_of
from pipeline.execution.locks import run_lock
from pipeline.history import History
from pipeline.loading.load import Loaded
from pipeline.notify.payload import Payload
from pipeline.notify.send import notify
from pipeline.run import pipeline_root
from pipeline.schedule import process
from pipeline.schedule.config import ScheduleConfig
from pipeline.schedule.due import Ended, Occasion, Start, State
from pipeline.schedule.look import Source, span_unit
from pipeline.schedule.scheduler import Scheduler, World, next_times
from pipeline.schedule.stopping import stop_signals
from preprocessing.errors import UserError

FOLDER = "schedule"
"""Beside a pipeline's artifacts: what scheduled runs print, and the locks."""
ONCE = "once"
EXIT_CODES = {"success": 0, "failure": 1, "not_blessed": 3, "late": 4, "gate_stop": 5, "skipped": 6, "missed": 6}
_BEAT_SECONDS = 1.0


def run(loaded: Loaded, *, root: Path | None = None) -> None:
    """Runs the pipeline by its schedule until SIGTERM or SIGINT, which interrupt the run that goes on.

    Raises:
        UserError: The YAML has no schedule, or another scheduler is at work.
    """
    config = schedule_of(loaded)
    folder = (root.absolute() if root else pipeline_root(loaded)) / FOLDER
    with run_lock(folder, what="a scheduler"), stop_signals() as stop:
        scheduler = Scheduler(config, History(folder.parent), _world(loaded, root, folder, stop))
        _say(f"scheduler of {loaded.config.name} started{_next(config)}")
        while not stop.is_set():
            scheduler.beat()
            stop.wait(_BEAT_SECONDS)
        scheduler.stop()
        _say("stopped")


def run_once(loaded: Loaded, *, root: Path | None = None, poll: float = _BEAT_SECONDS) -> int:
    """Does what is due now, as a time of the cron line would: waits for its span, runs or skips.

    Returns:
        The exit code: that of the run, 4 for a span that is late, 6 for nothing to train.

    Raises:
        UserError: The YAML has no schedule, or another scheduler is at work.
    """
    config = schedule_of(loaded).model_copy(update={"cron": None, "new_span": False, "drift": False})
    folder = (root.absolute() if root else pipeline_root(loaded)) / FOLDER
    with run_lock(folder, what="a scheduler"), stop_signals() as stop:
        now = datetime.now(UTC)
        occasion = Occasion(f"once {now.isoformat(timespec='seconds')}", "cron", now)
        scheduler = Scheduler(config, History(folder.parent), _world(loaded, root, folder, stop), name=ONCE)
        scheduler.state = State(seen_until=now, queue=(occasion,))
        while (scheduler.state.queue or scheduler.state.running) and not stop.is_set():
            scheduler.beat()
            if scheduler.state.queue or scheduler.state.running:
                stop.wait(poll)
        scheduler.stop()
    if scheduler.last is None:
        return EXIT_CODES["failure"]
    ended, status = scheduler.last
    return status if status is not None and status > 0 else EXIT_CODES[ended.outcome]


def schedule_of(loaded: Loaded) -> ScheduleConfig:
    """Returns the section `schedule:`.

    Raises:
        UserError: The YAML has none.
    """
    if loaded.config.schedule is None:
        raise UserError(f'{loaded.file}: schedule is missing. For every day at three: schedule: {{cron: "0 3 * * *"}}.')
    return loaded.config.schedule


def span_label(loaded: Loaded) -> Callable[[int], str]:
    """Returns how people write a span of the source."""
    unit = span_unit(loaded) or "number"
    return lambda number: label_of(unit, number)


def _world(loaded: Loaded, root: Path | None, folder: Path, stop: threading.Event) -> World:
    label = span_label(loaded)

    def launch(start: Start, log: str) -> process.RunProcess:
        span = [] if start.span is None else ["--span", label(start.span)]
        command = process.run_command(loaded.file.absolute(), root.absolute() if root else None, *span)
        variables = {process.OCCASION_VARIABLE: start.occasion.key}
        return process.start(command, folder=folder, log=Path(log), environment=variables)

    def tell(ended: Ended, status: int | None, told: bool) -> None:
        if not told:
            payload = _payload(loaded, ended, label)
            notify(loaded.config.notify, payload, folder=loaded.folder, say=_say, wait=stop.wait)

    return World(
        clock=lambda: datetime.now(UTC),
        look=Source(loaded, folder.parent).look,
        launch=launch,
        label=label,
        in_flight=lambda: process.in_flight(folder),
        log=lambda at: str(folder / f"{at:%Y%m%d-%H%M%S-%f}.log"),
        tell=tell,
        say=_say,
    )


def _payload(loaded: Loaded, ended: Ended, label: Callable[[int], str]) -> Payload:
    outcome = "skipped" if ended.outcome in ("skipped", "missed") else "failure"
    return Payload(
        event="skipped" if outcome == "skipped" else "failure",
        text=f"{loaded.config.name}: {ended.message}",
        pipeline=loaded.config.name,
        file=str(loaded.file.absolute()),
        exit_code=EXIT_CODES[ended.outcome],
        span=None if ended.span is None else label(ended.span),
        occasion=ended.occasion.key,
    )


def _next(config: ScheduleConfig) -> str:
    times = next_times(config, datetime.now(UTC), 1)
    parts = [f"next time {times[0]:%Y-%m-%d %H:%M:%S %Z}"] if times else []
    parts += [f"looks for spans every {config.poll}"] if config.new_span or config.drift else []
    return f": {', '.join(parts)}" if parts else ": runs are started by `fullpass schedule trigger`"


def _say(line: str) -> None:
    typer.echo(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {line}")
