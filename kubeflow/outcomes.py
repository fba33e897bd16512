"""What became of a run, for the task that tells receivers of it (`notify:`).

Kubeflow lets a task run when all others have ended, and tells it no cause: of the run's state nothing before 2.14, and
from then on what metadata say, which lack what was killed (v2/driver/resolve.go:412 at 2.14.0; v2/metadata/client.go,
UpdateDAGExecutionsState). So containers leave a note in the registry: each that fails, and one at the end of a run
that came through. Without any note a run has failed, in a way that let no program speak.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.folder import Folder
from components.ingest.spans import SpanNotFoundError
from kubeflow.executor_input import run_id
from pipeline.execution import failure
from pipeline.notify.config import Event
from preprocessing.errors import UserError

VARIABLE = "FULLPASS_OUTCOMES"
"""Environment variable of a container: folder for notes of all runs, PLACE/PIPELINE/outcomes."""
GATE = "DataGate"
EXIT_CODES: dict[Event, int] = {"success": 0, "failure": 1, "not_blessed": 3, "gate_stop": 5, "skipped": 6}
"""Event -> what `fullpass run` or the scheduler ends with."""
_END, _WINDOW, _FAILED = "end.json", "window.json", "failed-"


class NothingNewError(SpanNotFoundError):
    """A run that must bring something new found nothing new."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. event, message: what is told of it. facts: what else is known, as the payload names it."""

    event: Event
    message: str
    facts: dict[str, Any] = field(default_factory=dict)


class Outcomes:
    """The notes of one run."""

    def __init__(self, place: str, run: str) -> None:
        """Takes the folder of all runs, and the run."""
        self._folder, self.run = Folder(place), run

    def failed(self, task: str, event: Event, message: str) -> None:
        """Notes the failure of a task; of several attempts the last counts."""
        self._write(f"{_FAILED}{task}.json", {"event": event, "message": f"{task}: {message}"})

    def took(self, window: dict[str, Any]) -> None:
        """Notes the data of a run: `span` and `first_span`, as people write them."""
        self._write(_WINDOW, window)

    def ended(self, outcome: Outcome) -> None:
        """Notes that a run came through."""
        self._write(_END, {"event": outcome.event, "message": outcome.message, "facts": outcome.facts})

    def read(self) -> Outcome:
        """Returns how the run ended, by the notes."""
        window = self._read(_WINDOW) or {}
        end = self._read(_END)
        if end is not None:  # failures are of attempts that were repeated
            return Outcome(end["event"], end["message"], window | end["facts"])
        found = [self._read(name) for name in self._folder.names(self.run) if name.startswith(_FAILED)]
        notes = [note for note in found if note is not None]
        if not notes:
            said = "a task ended without a word: killed, evicted, past its deadline, or it never began."
            return Outcome("failure", said, window)
        # What stops a run on purpose says more than what fails beside it.
        first = min(notes, key=lambda note: note["event"] == "failure")
        return Outcome(first["event"], first["message"], window)

    def _write(self, name: str, note: dict[str, Any]) -> None:
        self._folder.write(f"{self.run}/{name}", json.dumps(note).encode())

    def _read(self, name: str) -> Any:
        content = self._folder.read(f"{self.run}/{name}")
        return None if content is None else json.loads(content)


def of_container(variables: Mapping[str, str], message: str) -> Outcomes | None:
    """Returns the notes that a container may write; None where nobody is told of the run, or the run is not known.

    Args:
        variables: of the container.
        message: of the launcher, that stands for `{{$}}`.
    """
    place = variables.get(VARIABLE)
    if place is None:
        return None
    run = run_id(_output_addresses(message), place.rstrip("/").split("/")[-2])
    return None if run is None else Outcomes(place, run)


def note_failure(variables: Mapping[str, str], message: str, task: str, error: BaseException) -> None:
    """Notes why a container fails, where somebody is told of it; never fails itself."""
    try:
        notes = of_container(variables, message)
        if notes is not None:
            notes.failed(task, _event(task, error), failure.explain(error))
    except (UserError, OSError):
        return  # the failure itself is what counts


def _event(task: str, error: BaseException) -> Event:
    if isinstance(error, NothingNewError):
        return "skipped"
    return "gate_stop" if task == GATE else "failure"


def _output_addresses(message: str) -> list[str]:
    """Returns the addresses of all outputs, those of the backend's own (executor-logs) too."""
    try:
        outputs = json.loads(message)["outputs"]["artifacts"]
        return [listed["artifacts"][0]["uri"] for listed in outputs.values()]
    except (ValueError, KeyError, TypeError, IndexError):
        return []
