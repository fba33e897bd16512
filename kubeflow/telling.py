"""What the containers run that note how a run ended, and tell receivers of it (`notify:`)."""

import json
import logging
import os
from pathlib import Path

from components.evaluation.config import EvaluationConfig
from components.evaluation.verdict import read_verdict
from kubeflow.executor_input import ExecutorInput, Outputs
from kubeflow.outcomes import EXIT_CODES, Outcome, Outcomes, of_container
from pipeline.notify.config import Hook
from pipeline.notify.payload import Payload, sentence
from pipeline.notify.send import notify
from preprocessing.errors import UserError

SENT = "sent"
PAYLOAD_FILE = "payload.json"


def outcome(told: ExecutorInput) -> Outputs:
    """Notes how a run ended whose nodes are all done: with a model that was blessed, or not."""
    _notes(told).ended(_outcome(told))
    return {}, {}


def _outcome(told: ExecutorInput) -> Outcome:
    blessing, pushed = told.inputs["blessing"], told.inputs["pushed_model"]
    config = EvaluationConfig.model_validate_json(told.parameters["evaluated"])
    blessed = bool(blessing.metadata.get("blessed"))
    verdict = read_verdict(str(told.inputs["evaluation"].path), config, blessed=blessed)
    # What comes from the cache was pushed by another run.
    new = bool(pushed.metadata.get("created")) and f"/{_notes(told).run}/" in pushed.uri
    pushed_to = pushed.metadata.get("pushed_destination") if new else None
    message = f"pushed to {pushed_to}" if pushed_to else "; ".join(verdict.reasons)
    facts = {
        "metrics": {m.metric: m.value for m in verdict.metrics},
        "reasons": list(verdict.reasons),
        "model": blessing.metadata.get("current_model"),
        "pushed_to": pushed_to,
        "report": told.inputs["report"].uri,
    }
    return Outcome("success" if blessed else "not_blessed", message, facts)


def tell(told: ExecutorInput) -> Outputs:
    """Tells the receivers how a run ended; one that cannot be told is named in the log, and that is all."""
    notes, given = _notes(told), told.parameters
    found = notes.read()
    facts = {"reasons": [], **found.facts}
    payload = Payload(
        event=found.event,
        text=sentence(given["pipeline"], found.event, facts.get("span"), found.message),
        pipeline=given["pipeline"],
        file=given["file"],
        exit_code=EXIT_CODES[found.event],
        run_id=notes.run,
        **{**facts, "reasons": tuple(facts["reasons"])},
    )
    hooks = [Hook.model_validate(hook) for hook in json.loads(given["hooks"])]
    notify(hooks, payload, folder=Path(given["folder"]), say=logging.warning)
    logging.info("%s", payload.text)
    sent = told.outputs[SENT]
    sent.path.mkdir(parents=True, exist_ok=True)
    (sent.path / PAYLOAD_FILE).write_text(json.dumps(payload.facts(), indent=1) + "\n")
    return {SENT: (sent, {"event": found.event})}, {}


def _notes(told: ExecutorInput) -> Outcomes:
    notes = of_container(os.environ, told.message)
    if notes is None:
        raise UserError(
            "which run this is cannot be told from the addresses of its outputs. Where the installation has "
            "PUBLISH_LOGS false, tasks without outputs have none: set it to true, or remove `notify` from the YAML."
        )
    return notes
