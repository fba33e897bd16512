"""`fullpass schedule trigger`: requests a run by hand from the scheduler."""

from pathlib import Path

from fullpass.base.errors import UsageError
from fullpass.components.ingest.spans.span_pattern import parse_span
from fullpass.components.ingest.spans.spans import span_unit
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.root.layout import RUN_LOCK, RootLayout, pipeline_root
from fullpass.pipeline.running.history import History
from fullpass.pipeline.scheduling.local_scheduler import schedule_of


def ask(loaded: Loaded, *, root: Path | None = None, span: str | None = None) -> str:
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
    asked = History(layout.root).add_request(number)
    lock = layout.schedule / RUN_LOCK
    # The lock file of a running scheduler contains its holder.
    running = lock.exists() and lock.stat().st_size
    then = "" if running else " No scheduler is running; the next one, or `fullpass schedule run --once`, handles it."
    return f"by hand {asked}: requested.{then}"
