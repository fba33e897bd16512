"""`fullpass schedule list`: the last, current and next runs of the schedule on this machine."""

from datetime import UTC, datetime
from pathlib import Path

from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.root.layout import pipeline_root
from fullpass.pipeline.running.history import History, OccasionRecord
from fullpass.pipeline.schedule_config import ScheduleConfig
from fullpass.pipeline.scheduling.due import State
from fullpass.pipeline.scheduling.local_scheduler import schedule_of
from fullpass.pipeline.scheduling.scheduler import STATE, next_times

_NEXT = 3


def table(loaded: Loaded, *, root: Path | None = None, runs: int = 10) -> str:
    """Returns the last runs (oldest first), the current and waiting ones, and the next times, as lines.

    Raises:
        UserError: The YAML has no schedule.
    """
    config = schedule_of(loaded)
    history = History(pipeline_root(loaded, root))
    rows = [("when", "started by", "span", "outcome", "")]
    kept = None
    if history.exists:
        rows += [_row(entry, config) for entry in reversed(history.entries(runs))]
        kept = history.state(STATE)
    if kept is not None:
        state = State.from_json(kept)
        if state.running is not None:
            rows.append((_time(state.running.due, config), state.running.kind, "", "running", ""))
        rows += [(_time(o.due, config), o.kind, "", "waiting", "") for o in state.queue]
    rows += [(_time(time, config), "cron", "", "next", "") for time in next_times(config, datetime.now(UTC), _NEXT)]
    triggers = {"new span": config.new_span, "drift": config.drift}
    rows += [("", kind, "", "next", f"checked every {config.poll}") for kind, is_set in triggers.items() if is_set]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in rows]
    return "\n".join([f"{loaded.config.name}: {_words(config)}", *lines])


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
