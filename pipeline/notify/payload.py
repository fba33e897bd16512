"""What receivers are told: one flat JSON object, the same for every event."""

import socket
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.notify.config import Event

VARIABLE = "FULLPASS_"


@dataclass(frozen=True)
class Payload:
    """An event. What does not apply is null.

    event: what happened. text: that in a sentence. pipeline, file: name and YAML. span: newest span of the window, as
    people write it. first_span: its oldest. occasion: what of the schedule started the run; null by hand. run_id,
    logs, report, model, pushed_to: where things are. exit_code: of the run. seconds: it took. metrics: of the
    evaluation. reasons: why not. host, time: where and when, UTC.
    """

    event: Event
    text: str
    pipeline: str
    file: str
    exit_code: int
    span: str | None = None
    first_span: str | None = None
    occasion: str | None = None
    run_id: str | None = None
    seconds: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    model: str | None = None
    pushed_to: str | None = None
    report: str | None = None
    logs: str | None = None
    host: str = field(default_factory=socket.gethostname)
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def facts(self) -> dict[str, Any]:
        """Returns the object that is sent."""
        return asdict(self)

    def variables(self) -> dict[str, str]:
        """Returns the texts and numbers of it as environment variables of a command, FULLPASS_EVENT and so on."""
        facts = {name: value for name, value in self.facts().items() if isinstance(value, str | int | float)}
        return {VARIABLE + name.upper(): str(value) for name, value in facts.items()}


def sentence(pipeline: str, event: str, span: str | None, message: str) -> str:
    """Returns an event in words.

    Example:
        >>> sentence("taxi", "gate_stop", "2013-01-05", "fare moved")
        'taxi: gate stop on data up to 2013-01-05: fare moved'
    """
    of_span = f" on data up to {span}" if span else ""
    return f"{pipeline}: {event.replace('_', ' ')}{of_span}{': ' if message else '.'}{message}"
