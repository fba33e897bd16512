"""`fullpass submit`: starts a run on Kubeflow Pipelines, waits for its end, and finds out why it failed.

No release puts the error of a container into the details of a task (2.4 to 2.17), so the logs of its failed pods are
read through the API server.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fullpass.base.errors import UsageError, UserError, did_you_mean
from fullpass.base.redact import redact
from fullpass.base.secret_formats import find_shape
from fullpass.kubeflow.compile.package import Package, to_yaml
from fullpass.kubeflow.deploy.api_requests import Cluster, PipelineVersion, task_details
from fullpass.kubeflow.deploy.connection import Unreachable
from fullpass.kubeflow.kfp_internals import ArgoNode, argo_nodes, pod_names
from fullpass.kubeflow.protocol import FAILURE, Json

Say = Callable[[str], None]

ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
_POLL_SECONDS = 5.0
_PATIENCE_SECONDS = 600
_STUCK_SECONDS = 300


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
                running = [name for name, state in reported.items() if state == "RUNNING"]
                say(
                    f"{', '.join(running) or run_id}: a pod has been pending for {stuck:g} s. It may lack its image, a "
                    "volume, a secret, or a machine with what it requests: kubectl describe pod says which."
                )
                changed = math.inf
        if timeout is not None and time.monotonic() - begin >= timeout:
            raise UserError(
                f"run {run_id} has not ended after {timeout:g} s. It continues; see {link(cluster, run_id)}."
            )
        time.sleep(poll)


def link(cluster: Cluster, run_id: str) -> str:
    """Returns the URL of the page of a run."""
    return f"{cluster.host}/#/runs/details/{run_id}"


def _state_changes(run: Any, tasks: list[str], reported: dict[str, str]) -> list[str]:
    lines = []
    for task in task_details(run):
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


_MOST_PODS = 20
_MOST_LINES = 5
_KILLED = re.compile(r"signal: killed|exit status 137")
"""In the last line of the launcher, whose child got SIGKILL."""


def failures(cluster: Cluster, run: Any, tasks: list[str]) -> list[str]:
    """Returns the causes of a failed run, without secrets; each is one or more lines that begin with a name.

    They are the nodes' own sentences, each once. Where a log has none, as of a container that was killed, they are the
    last lines of the log. Where there is no log, they are the failed tasks, and the reason for its absence.

    Args:
        tasks: Names of the tasks of the package; the backend also lists internal tasks.
    """
    details = task_details(run)
    failed = [task for task in details if task.state == "FAILED"]
    said, ends, reasons = dict[str, None](), dict[str, str](), dict[str, None]()
    for name, pod in list(_pods(details, failed, tasks))[:_MOST_PODS]:
        log = _log(cluster, run.run_id, pod, reasons)
        if cause := _sentence(log):
            said[cause] = None
        elif log.strip():
            last = [line.strip() for line in log.strip().splitlines()[-_MOST_LINES:]]
            killed = "was killed, as for memory above its limit; " if _KILLED.search(last[-1]) else ""
            ends[name] = "\n  ".join([f"{name}: {killed}its log ends with", *last])
    if said:
        return list(said)
    if ends:
        return [redact(text) for text in ends.values()]
    why = redact(next(iter(reasons), "the API lists no pod of a failed task"))
    lost = "failed, and its log cannot be read, as when its pod was deleted or never started"
    shown = sorted({task.display_name.removesuffix("-driver") for task in failed} & set(tasks))
    return [f"{name}: {lost} ({why})." for name in shown or ["root"] if failed]


def _pods(details: Sequence[Any], failed: Sequence[Any], tasks: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields each failed pod: the name of its node on the page, and the names that the pod may have."""
    names = {task.display_name for task in failed}
    # Argo's node `executor` is the parent of a container's attempts.
    parents = sorted(failed, key=lambda task: task.display_name != "executor")
    children = {node: None for task in parents for node in _children(task)}
    listed = {node: None for task in details for node in _children(task)}
    if not listed:
        return
    attempts = [name[name.rindex("(") + 1 : -1] for task in details if (name := task.display_name).endswith(")")]
    known = argo_nodes(next(iter(listed)).rpartition("-")[0], tasks, 1 + max(map(int, attempts), default=0))
    for node in {**children, **listed}:
        found = known.get(node)
        if found is None and node in children:
            # Perhaps the node of an exit task, or a DAG, which has no pod.
            yield f"node {node}", pod_names(node, names & set(tasks), ArgoNode.templates)
        elif found is not None and found.name in names:
            name = found.name if found.name.startswith(found.task) else found.task
            yield name, pod_names(node, [found.task], found.templates)


def _children(task: Any) -> list[str]:
    return [child.pod_name for child in task.child_tasks or () if child.pod_name]


def _log(cluster: Cluster, run_id: str, names: tuple[str, ...], reasons: dict[str, None]) -> str:
    """Returns the end of a pod's log, or an empty text, and adds the reason to `reasons`."""
    for name in names:
        try:
            log = cluster.log(run_id, name)
        except UserError as error:
            reasons[str(error)] = None
            continue
        refused = _refusal(log)
        if refused is None:
            return log
        reasons[refused] = None
    return ""


def _refusal(log: str) -> str | None:
    """Returns the server's error: it answers with status 200 before it looks for the log, and then writes the error."""
    last = log.strip().rpartition("\n")[2]
    begin = last.find('{"error_message":')
    if begin < 0:
        return None
    try:
        fields = json.loads(last[begin:])
    except ValueError:
        return None
    # A log that broke off is still a log.
    return None if begin or "\n" in log.strip() else str(fields["error_message"])


def _sentence(log: str) -> str | None:
    """Returns the cause that a program of Fullpass wrote to its log (`runtime/termination.py`)."""
    for line in reversed(log.splitlines()):
        begin = line.find(FAILURE)
        if begin >= 0:
            try:
                return redact(str(json.loads(line[begin + len(FAILURE) :])))
            except ValueError:
                return None
    return None
