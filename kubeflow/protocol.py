"""What the compiler and the programs in the containers of a package agree on.

Commands of the containers, names of their parameters, variables and files, and constants packed into one argument.
"""

import base64
import json
import zlib
from typing import Any

from fullpass.base.errors import UserError

Json = dict[str, Any]
"""A JSON object."""

NODE_COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.entrypoint")
LOOKUP_COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.lookup")
PREDICT_COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.predict_rows")
WATCH_COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.watch_log")
WORKER_LAUNCHER_COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.worker_launcher")

WITHOUT_TENSORFLOW = frozenset(
    {
        "fullpass.components.data_gate.gate_component.DataGate_Executor",
        "fullpass.components.push.component.Pusher_Executor",
        "fullpass.components.report.component.Report_Executor",
        "fullpass.components.declared_schema.DeclaredSchema_Executor",
        "fullpass.components.serving_check.component.ServingCheck_Executor",
    }
)
"""Executors that need neither TensorFlow nor Beam: they read and write small files, or load the model in a separate
process (ServingCheck)."""
IN_SMALL_IMAGE = WITHOUT_TENSORFLOW - {"fullpass.components.serving_check.component.ServingCheck_Executor"}
"""Executors for which TensorFlow and Beam need not be installed."""

DATA_PATH = "data_path"
"""Pipeline parameter: files to read instead of those in the YAML."""
SPAN = "span"
"""Pipeline parameter: the spans of a run, as in `fullpass run --span`, or NEW or SCHEDULED."""
NEW = "new"
"""Value of SPAN: the newest span, which must not have been trained on before."""
SCHEDULED = "scheduled"
"""Value of SPAN: the span of the scheduled time, which must not have been trained on before either."""
SCHEDULE_TIME = "schedule_time"
"""Scheduled time of a run, in UTC; for a manual run, its creation time."""
SCHEDULE = "schedule"
"""JSON: lag and timezone of the YAML's schedule."""
REQUEST = "request"
"""JSON with the name of a request in the registry and a readable summary of the request."""
SPANS = "spans"
"""Widest window: a number, or `all`."""
ENTRIES = "entries"
"""The folder with the entry of each span, which names the span's records."""
WINDOW = "window"
"""JSON: the newest span of a window, and a digest of all its spans."""
GATES = "gates"
"""JSON: section `gates` of the YAML."""
GATE = "gate"
"""Pipeline parameter: STOP, or WARN, which releases all stopped spans of the window, as `fullpass run --gate warn`."""
STOP, WARN = "stop", "warn"
KNOWN = "known"
"""JSON: the data gate's decisions that concern the spans of a run."""
MADE_FROM = "made_from"
"""Digest of the parameters of a model; as an output of a look-up, with those of its data."""
ROWS, OUTPUT, MODEL = "rows", "output", "model"
"""Pipeline parameters of a batch prediction: what it reads, what it writes, and the folder or address of the model."""
DATE = "date"
"""Pipeline parameter: the date of a batch prediction, such as 2026-01-02; empty for that of its planned time. Of a
watch: the time as of which it looks; empty for now."""
MODEL_URI = "model_uri"
EMPTY_ARTIFACT = "nothing"
"""An artifact without files, and the last part of the URI that is imported if a look-up found no model."""
PUSH_TO = "push_to"
"""The folder of pushed models, which records rollbacks."""
SENT = "sent"
"""Artifact of the notifying task: the payload that receivers got."""

OUTCOMES_VARIABLE = "FULLPASS_OUTCOMES"
"""Environment variable of a container: folder of the records of all runs, REGISTRY/PIPELINE/outcomes."""
FACTS_VARIABLE = "FULLPASS_PACKAGE_FACTS"
"""Environment variable of the Trainer's container: what is the same for all runs of a package, packed."""

FAILURE = "fullpass-failure: "
"""Begin of the line of a container's log that says why it failed; the rest is a text as JSON."""

PACK_ABOVE = 1_000
"""Texts of more characters are packed. Shorter texts stay parameters, which Kubeflow's page of a run shows."""


def name_of_prediction(pipeline: str) -> str:
    """Returns the name of the package, runs and schedule of a batch prediction with models of a pipeline."""
    return f"{pipeline}-predict"


def name_of_watch(pipeline: str) -> str:
    """Returns the name of the package, runs and schedule of a watch of the served model of a pipeline."""
    return f"{pipeline}-watch"


def pack(value: Any) -> str:
    """Returns JSON data as letters, digits, `-`, `_` and `=`, which neither Argo nor Kubernetes replaces.

    Constants that are parameters are part of the specification of the DAG, of that of the task, and of the message to
    the container, and Linux limits the size of each. The backend's cache key includes arguments as well as parameters.

    Example:
        >>> unpack(pack({"text": "{{$}}"}))
        {'text': '{{$}}'}
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> Any:
    """Returns the data that was packed by `pack`.

    Raises:
        UserError: The text was not written by `pack`.
    """
    try:
        return json.loads(zlib.decompress(base64.urlsafe_b64decode(text)))
    except (ValueError, zlib.error) as error:
        raise UserError(
            f"not data that `fullpass compile` packed ({error}). Compile the package again. Received: {text[:80]!r}"
        ) from error
