"""`fullpass schedule trigger`: a run by hand, through the scheduler."""

from pathlib import Path

from components.ingest.span_pattern import parse_span
from pipeline.execution.locks import RUN_LOCK_FILE
from pipeline.history import History
from pipeline.loading.load import Loaded
from pipeline.run import pipeline_root
from pipeline.schedule.local import FOLDER, schedule_of
from pipeline.schedule.look import span_unit
from preprocessing.errors import UserError


def ask(loaded: Loaded, *, root: Path | None = None, span: str | None = None) -> str:
    """Asks the scheduler for a run; it goes before all that waits, whether its span was trained on before or not.

    Returns:
        What to tell the user.

    Raises:
        UserError: The YAML has no schedule, or no such spans.
    """
    schedule_of(loaded)
    unit = span_unit(loaded)
    if span is not None and unit is None:
        raise UserError(f"--span {span}: data.source has no spans.")
    number = parse_span(unit, span) if span is not None and unit is not None else None
    folder = root.absolute() if root else pipeline_root(loaded)
    asked = History(folder).ask(number)
    lock = folder / FOLDER / RUN_LOCK_FILE
    # The lock file of a scheduler that runs is signed.
    running = lock.exists() and lock.stat().st_size
    then = "" if running else " No scheduler is running; the next one, or `fullpass schedule run --once`, takes it."
    return f"by hand {asked}: asked for.{then}"
