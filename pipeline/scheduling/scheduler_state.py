"""Saves and loads the state of a scheduler as JSON in the history."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from fullpass.pipeline.scheduling.due import Occasion, State


def dumped(state: State) -> str:
    """Returns a state as JSON."""
    return json.dumps(asdict(state), default=datetime.isoformat)


def loaded(text: str) -> State:
    """Returns the state of a JSON text."""
    facts = json.loads(text)
    return State(
        seen_until=datetime.fromisoformat(facts["seen_until"]),
        seen_span=facts["seen_span"],
        queue=tuple(_occasion(each) for each in facts["queue"]),
        running=_occasion(facts["running"]) if facts["running"] else None,
    )


def _occasion(facts: dict[str, Any]) -> Occasion:
    return Occasion(**{**facts, "due": datetime.fromisoformat(facts["due"])})
