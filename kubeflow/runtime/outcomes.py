"""Records the outcome of a run, and notifies receivers of it (`notify:`).

An exit task receives no cause. Before 2.14 it receives no state of the run; from 2.14 on it receives the state in the
metadata, which lacks killed tasks (v2/driver/resolve.go:412 at 2.14.0; v2/metadata/client.go,
UpdateDAGExecutionsState). Containers therefore write records to the registry: each failing container, and one container
at the end of a successful run. A run without records was killed.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.folders import Folder
from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.judge.verdict import read_verdict
from fullpass.components.ingest.spans.spans import SpanNotFoundError
from fullpass.kubeflow.kfp_internals import run_id
from fullpass.kubeflow.protocol import OUTCOMES_VARIABLE, SENT
from fullpass.kubeflow.runtime.executor_input import ExecutorInput, Outputs
from fullpass.pipeline.config import Event, Hook
from fullpass.pipeline.exit_codes import OUTCOME_CODES
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.gather_facts import of_verdict
from fullpass.pipeline.record.notifications import notify, payload_of
from fullpass.pipeline.running.execution import failure

_GATE = "DataGate"
_END, _WINDOW, _FAILED = "end.json", "window.json", "failed-"
_PAYLOAD_FILE = "payload.json"
_NO_RECORD = "a task left no record of its failure: it was killed, evicted, ran past its deadline, or never started."


class NoNewSpanError(SpanNotFoundError):
    """A run that needs a new span found no new span."""


class OutcomeRecords:
    """The records of one run in the registry."""

    def __init__(self, folder: str, run: str) -> None:
        """Initializes with the folder of the records of all runs, and the id of the run."""
        self._folder, self.run = Folder(folder), run

    def record_task_failure(self, task: str, event: Event, message: str) -> None:
        """Records the failure of a task; a later attempt overwrites the record."""
        self._write(f"{_FAILED}{task}.json", {"outcome": event, "message": f"{task}: {message}"})

    def record_window_data(self, window: dict[str, Any]) -> None:
        """Records the spans of a run: the labels `span` and `first_span`."""
        self._write(_WINDOW, window)

    def record_end(self, facts: dict[str, Any]) -> None:
        """Records the end of a run whose tasks all succeeded, with its outcome and other facts."""
        self._write(_END, facts)

    def read(self) -> RunFacts:
        """Returns the facts of the run that has ended, from its records."""
        end = self._read(_END)
        if end is None:  # If there is an end, any failures are from attempts that were retried.
            found = [self._read(name) for name in self._folder.names(self.run) if name.startswith(_FAILED)]
            # A deliberate stop of a run is more informative than other failures.
            failed = sorted(filter(None, found), key=lambda record: record["outcome"] == "failure")
            end = failed[0] if failed else {"outcome": "failure", "message": _NO_RECORD}
        return RunFacts(run_id=self.run).plus({**(self._read(_WINDOW) or {}), **end})

    def _write(self, name: str, record: dict[str, Any]) -> None:
        self._folder.write(f"{self.run}/{name}", to_json_text(record).encode())

    def _read(self, name: str) -> Any:
        content = self._folder.read(f"{self.run}/{name}")
        return None if content is None else json.loads(content)


def container_records(variables: Mapping[str, str], message: str) -> OutcomeRecords | None:
    """Returns the records of a container's run; None without `notify:`, or if the run is unknown."""
    folder = variables.get(OUTCOMES_VARIABLE)
    if folder is None:
        return None
    run = run_id(_output_addresses(message), folder.rstrip("/").split("/")[-2])
    return None if run is None else OutcomeRecords(folder, run)


def record_failure(variables: Mapping[str, str], message: str, task: str, error: BaseException) -> None:
    """Records the failure of a container if the pipeline has `notify:`; never fails itself."""
    try:
        if (records := container_records(variables, message)) is not None:
            event: Event = "gate_stop" if task == _GATE else "failure"
            event = "skipped" if isinstance(error, NoNewSpanError) else event
            records.record_task_failure(task, event, failure.explain(error))
    except (UserError, OSError):
        return  # The original failure must not be hidden.


def _output_addresses(message: str) -> list[str]:
    """Returns the URIs of all outputs, including those of the backend (executor-logs)."""
    try:
        outputs = json.loads(message)["outputs"]["artifacts"]
        return [listed["artifacts"][0]["uri"] for listed in outputs.values()]
    except (ValueError, KeyError, TypeError, IndexError):
        return []


def record_outcome(task: ExecutorInput) -> Outputs:
    """Records that all nodes have succeeded, and whether the model was blessed."""
    records, blessing, pushed = _records(task), task.inputs["blessing"], task.inputs["pushed_model"]
    verdict = read_verdict(str(task.inputs["evaluation"].path))
    # A pushed model from the cache was pushed by another run.
    new = bool(pushed.metadata.get("created")) and f"/{records.run}/" in pushed.uri
    pushed_to = pushed.metadata.get("pushed_destination") if new else None
    facts = {
        "outcome": "success" if verdict.blessed else "not_blessed",
        "message": f"pushed to {pushed_to}" if pushed_to else "; ".join(verdict.reasons),
        **of_verdict(task.inputs["evaluation"].uri, verdict),
        "blessed": verdict.blessed,
        "model": blessing.metadata.get("current_model"),
        "pushed_to": pushed_to,
        "newly_pushed": new,
        "report": task.inputs["report"].uri,
    }
    records.record_end(facts)
    return {}, {}


def notify_receivers(task: ExecutorInput) -> Outputs:
    """Notifies receivers of the end of a run; failed notifications are only logged."""
    records, parameters = _records(task), task.parameters
    ended = records.read()
    known = {"pipeline": parameters["pipeline"], "file": parameters["file"], "exit_code": OUTCOME_CODES[ended.outcome]}
    payload = payload_of(ended.plus(known))
    hooks = [Hook.model_validate(hook) for hook in json.loads(parameters["hooks"])]
    notify(hooks, payload, folder=Path(parameters["folder"]), say=logging.warning)
    logging.info("%s", payload.text)
    sent = task.outputs[SENT]
    sent.path.mkdir(parents=True, exist_ok=True)
    (sent.path / _PAYLOAD_FILE).write_text(to_json_text(payload.fields, indent=1) + "\n")
    return {SENT: (sent, {"event": payload.event})}, {}


def _records(task: ExecutorInput) -> OutcomeRecords:
    records = container_records(os.environ, task.message)
    if records is None:
        raise UserError(
            "the URIs of this task's outputs do not identify its run. If the installation sets PUBLISH_LOGS to false, "
            "tasks without outputs have no URIs: set it to true, or remove `notify` from the YAML."
        )
    return records
