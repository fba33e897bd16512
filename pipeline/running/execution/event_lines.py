"""The events of a run as lines of text, which the process that started the run reads between the lines for people."""

import json
from dataclasses import asdict
from typing import get_args

from fullpass.base.json_text import parse_fields
from fullpass.pipeline.running.execution.events import Event

_MARK = "\x1e"
"""Begins the line of an event, as in JSON text sequences (RFC 7464). `printing` lets it into no other line."""
_KINDS = {kind.__name__: kind for kind in get_args(Event)}


def to_line(event: Event) -> str:
    """Returns an event as a line of ASCII that ends with a newline."""
    return f"{_MARK}{json.dumps([type(event).__name__, asdict(event)], default=str)}\n"


def from_line(line: str) -> Event | None:
    """Returns the event of a line; None for a line for people."""
    if not line.startswith(_MARK):
        return None
    kind, fields = json.loads(line[len(_MARK) :])
    event: Event = parse_fields(_KINDS[kind], fields)
    return event
