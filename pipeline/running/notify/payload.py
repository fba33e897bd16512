"""The payload of a notification: one flat JSON object, the same for every event."""

import socket
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from fullpass.base.json_text import to_json_text
from fullpass.base.redact import redact_tree
from fullpass.pipeline.config import Event
from fullpass.pipeline.printing import plain, shortened

_PREFIX = "FULLPASS_"
_MOST_CHARACTERS = 10_000


@dataclass(frozen=True)
class Payload:
    """An event. Fields that do not apply are null.

    Attributes:
        event: The kind of event.
        text: The event as a sentence.
        pipeline, file: Name and YAML of the pipeline.
        exit_code, seconds: Exit code and wall time of the run.
        span, first_span: Labels of the newest and the oldest span of the window.
        occasion: The trigger of a scheduled run; null for a run by hand.
        run_id, logs, report, model, pushed_to: Id and paths of the run.
        metrics: The metrics of the evaluation.
        reasons: The reasons why no model was pushed.
        host, time: Machine and time (UTC) of the event.
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
        """Returns the JSON object to send; it holds no secret."""
        return redact_tree(asdict(self))

    def to_json(self) -> bytes:
        """Returns the JSON object as UTF-8."""
        return to_json_text(self.facts()).encode()

    def variables(self) -> dict[str, str]:
        """Returns the text and number fields as environment variables of a command, FULLPASS_EVENT and so on.

        A variable cannot hold NUL, and the system refuses long variables. So control characters are escaped, and a
        text is cut after 10,000 characters and ends in `...`.
        """
        fields = {name: value for name, value in self.facts().items() if isinstance(value, str | int | float)}
        return {
            _PREFIX + name.upper(): shortened(plain(str(value)), _MOST_CHARACTERS) for name, value in fields.items()
        }


def event_text(pipeline: str, event: str, span: str | None, message: str) -> str:
    """Returns an event as a sentence.

    Example:
        >>> event_text("taxi", "gate_stop", "2013-01-05", "fare moved")
        'taxi: gate stop on data up to 2013-01-05: fare moved'
    """
    of_span = f" on data up to {span}" if span else ""
    return f"{pipeline}: {event.replace('_', ' ')}{of_span}{': ' if message else '.'}{message}"
