"""`fullpass submit`: starts a run on Kubeflow Pipelines, and waits for its end."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fullpass.base.errors import UsageError, UserError, did_you_mean
from fullpass.base.secret_formats import find_shape
from fullpass.kubeflow.compile.package import Package, to_yaml
from fullpass.kubeflow.deploy.api_requests import Cluster, PipelineVersion, task_details
from fullpass.kubeflow.deploy.causes import pending_messages
from fullpass.kubeflow.deploy.connection import Unreachable
from fullpass.kubeflow.protocol import Json

Say = Callable[[str], None]

ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
_POLL_SECONDS = 5.0
"""Wait between two looks at a run."""
_PATIENCE_SECONDS = 600
"""Time for which the API may be away: a restart of its pod takes less."""
_STUCK_SECONDS = 300
"""Time after which a pending pod is named: an image is pulled in less."""


@dataclass(frozen=True)
class RunSettings:
    """RunSettings of a run, in addition to its package."""

    experiment: str
    service_account: str | None = None
    parameters: Mapping[str, str] | None = None

    def body(self, cluster: Cluster, version: PipelineVersion, name: str) -> Json:
        """Returns the common request body of runs and recurring runs."""
        body: Json = {
            "display_name": name,
            "experiment_id": cluster.experiment(self.experiment),
            "pipeline_version_reference": version.reference,
            "runtime_config": {"parameters": dict(self.parameters or {})},
        }
        return body | ({"service_account": self.service_account} if self.service_account else {})


def run_parameters(package: Package, given: list[str]) -> dict[str, str]:
    """Returns the parameters of a run, which are texts, from NAME=VALUE arguments.

    Raises:
        UsageError: The package has no such parameter, or the value looks like a secret.
    """
    declared, values = package.parameters, dict[str, str]()
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or name not in declared:
            raise UsageError(
                f"--param {item}: give NAME=VALUE, with a parameter of the pipeline.{did_you_mean(name, declared)} "
                f"Accepted: {', '.join(declared) or 'none'}."
            )
        if (shape := find_shape(text)) is not None:
            raise UsageError(
                f"--param {name}: everyone can read the parameters of runs in the backend, and this value contains "
                f"{shape.name}. Use `secrets:` of the environment file instead."
            )
        values[name] = text
    return values


def start(cluster: Cluster, package: Package, settings: RunSettings) -> Any:
    """Uploads a package unless it was uploaded before; starts a run of it and returns the run (kfp's V2beta1Run)."""
    version = cluster.upload(package.name, to_yaml(package))
    now = datetime.now(UTC)
    return cluster.start(settings.body(cluster, version, f"{package.name} {now:%Y-%m-%d %H:%M:%S}"))


def wait(
    cluster: Cluster,
    run_id: str,
    tasks: list[str],
    say: Say,
    *,
    timeout: float | None = None,
    poll: float = _POLL_SECONDS,
    patience: float = _PATIENCE_SECONDS,
    stuck: float = _STUCK_SECONDS,
) -> Any:
    """Waits for the end of a run, prints the states of its tasks, and returns it (kfp's V2beta1Run).

    Args:
        tasks: Names of the tasks to print; the backend also lists internal tasks.
        timeout: Seconds after which waiting ends; the run continues.
        patience: Seconds for which the API may be unreachable.
        stuck: Seconds after which a pending pod is named, if nothing else changes.

    Raises:
        UserError: The timeout expired, the API rejected a request, or it stayed unreachable.
    """
    reported: dict[str, str] = {}
    begin = answered = changed = time.monotonic()
    seen: list[tuple[str, str]] = []
    while True:
        try:
            run = cluster.run(run_id)
            answered = time.monotonic()
        except Unreachable as error:
            if time.monotonic() - answered >= patience:
                raise
            say(f"still waiting: {error}")
        else:
            for line in _state_changes(run, tasks, reported):
                say(line)
            if run.state in ENDED:
                return run
            before, seen = seen, sorted((task.display_name, task.state or "") for task in task_details(run))
            if seen != before:
                changed = time.monotonic()
            elif time.monotonic() - changed >= stuck and any(state == "PENDING" for _, state in seen):
                say(_stuck(cluster, run_id, [name for name, state in reported.items() if state == "RUNNING"], stuck))
                changed = math.inf
        if timeout is not None and time.monotonic() - begin >= timeout:
            raise UserError(
                f"run {run_id} has not ended after {timeout:g} s. It continues; see {link(cluster, run_id)}."
            )
        time.sleep(poll)


def _stuck(cluster: Cluster, run_id: str, running: list[str], stuck: float) -> str:
    pending = f"{', '.join(running) or run_id}: a pod has been pending for {stuck:g} s."
    if messages := pending_messages(cluster, run_id):
        return "\n  ".join([pending, *messages])
    return (
        f"{pending} It may lack its image, a volume, a secret, or a machine with what it requests: kubectl describe "
        "pod says which."
    )


def end_state(run: Any) -> str:
    """Returns the state of a run at its end: one that was terminated is FAILED in 2.17, with CANCELING before."""
    canceled = any(status.state == "CANCELING" for status in run.state_history or ())
    return "CANCELED" if canceled and run.state == "FAILED" else run.state


def link(cluster: Cluster, run_id: str) -> str:
    """Returns the URL of the page of a run."""
    return f"{cluster.host}/#/runs/details/{run_id}"


def _state_changes(run: Any, tasks: list[str], reported: dict[str, str]) -> list[str]:
    lines = []
    for task in sorted(task_details(run), key=lambda task: str(task.start_time)):
        # A sub-DAG and a task in it may share a name; a reported end state is never replaced.
        if task.display_name not in tasks or not task.state or reported.get(task.display_name) in (*ENDED, task.state):
            continue
        reported[task.display_name] = task.state
        if task.state != "PENDING":
            lines.append(f"{task.display_name}: {task.state.lower()}{_duration(task)}")
    return lines


def _duration(task: Any) -> str:
    if task.state not in ENDED or not task.start_time or not task.end_time or task.end_time < task.start_time:
        return ""
    return f" after {(task.end_time - task.start_time).total_seconds():.0f} s"
