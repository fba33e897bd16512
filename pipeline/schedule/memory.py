"""What a scheduler remembers, as JSON in the history: read after a restart, written before anything is done."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pipeline.schedule.due import Occasion, State


def dumped(state: State) -> str:
    """Returns a state as text."""
    return json.dumps(asdict(state), default=datetime.isoformat)


def loaded(text: str) -> State:
    """Returns the state that was written as text."""
    facts = json.loads(text)
    return State(
        seen_until=datetime.fromisoformat(facts["seen_until"]),
        seen_span=facts["seen_span"],
        queue=tuple(_occasion(each) for each in facts["queue"]),
        running=_occasion(facts["running"]) if facts["running"] else None,
    )


def _occasion(facts: dict[str, Any]) -> Occasion:
    return Occasion(**{**facts, "due": datetime.fromisoformat(facts["due"])})
