"""The containers that record the outcome of a run and notify receivers (`notify:`)."""

import json
import logging
import os
from pathlib import Path

from fullpass.base.errors import UserError
from fullpass.base.json_text import to_json_text
from fullpass.components.evaluation.config import EvaluationConfig
from fullpass.components.evaluation.evaluation_verdict import read_verdict
from fullpass.kubeflow.protocol import SENT
from fullpass.kubeflow.runtime.executor_input import ExecutorInput, Outputs
from fullpass.kubeflow.runtime.outcomes import Outcome, OutcomeRecords, container_records
from fullpass.pipeline.config import Hook
from fullpass.pipeline.exit_codes import OUTCOME_CODES
from fullpass.pipeline.running.notify.payload import Payload, event_text
from fullpass.pipeline.running.notify.send import notify

_PAYLOAD_FILE = "payload.json"


def record_outcome(task: ExecutorInput) -> Outputs:
    """Records that all nodes have succeeded, and whether the model was blessed."""
    _records(task).record_end(_read_outcome(task))
    return {}, {}


def _read_outcome(task: ExecutorInput) -> Outcome:
    blessing, pushed = task.inputs["blessing"], task.inputs["pushed_model"]
    config = EvaluationConfig.model_validate_json(task.parameters["evaluated"])
    blessed = bool(blessing.metadata.get("blessed"))
    verdict = read_verdict(str(task.inputs["evaluation"].path), config, blessed=blessed)
    # A pushed model from the cache was pushed by another run.
    new = bool(pushed.metadata.get("created")) and f"/{_records(task).run}/" in pushed.uri
    pushed_to = pushed.metadata.get("pushed_destination") if new else None
    message = f"pushed to {pushed_to}" if pushed_to else "; ".join(verdict.reasons)
    facts = {
        "metrics": {m.metric: m.value for m in verdict.metrics},
        "reasons": list(verdict.reasons),
        "model": blessing.metadata.get("current_model"),
        "pushed_to": pushed_to,
        "report": task.inputs["report"].uri,
    }
    return Outcome("success" if blessed else "not_blessed", message, facts)


def notify_receivers(task: ExecutorInput) -> Outputs:
    """Notifies receivers of the end of a run; failed notifications are only logged."""
    records, parameters = _records(task), task.parameters
    ended = records.read()
    facts = {"reasons": [], **ended.facts}
    payload = Payload(
        event=ended.event,
        text=event_text(parameters["pipeline"], ended.event, facts.get("span"), ended.message),
        pipeline=parameters["pipeline"],
        file=parameters["file"],
        exit_code=OUTCOME_CODES[ended.event],
        run_id=records.run,
        **{**facts, "reasons": tuple(facts["reasons"])},
    )
    hooks = [Hook.model_validate(hook) for hook in json.loads(parameters["hooks"])]
    notify(hooks, payload, folder=Path(parameters["folder"]), say=logging.warning)
    logging.info("%s", payload.text)
    sent = task.outputs[SENT]
    sent.path.mkdir(parents=True, exist_ok=True)
    (sent.path / _PAYLOAD_FILE).write_text(to_json_text(payload.facts(), indent=1) + "\n")
    return {SENT: (sent, {"event": ended.event})}, {}


def _records(task: ExecutorInput) -> OutcomeRecords:
    records = container_records(os.environ, task.message)
    if records is None:
        raise UserError(
            "the URIs of this task's outputs do not identify its run. If the installation sets PUBLISH_LOGS to false, "
            "tasks without outputs have no URIs: set it to true, or remove `notify` from the YAML."
        )
    return records
