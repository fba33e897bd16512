"""Why a run on Kubeflow Pipelines failed: the failed pods, and the words of each.

The run's Argo Workflow has the messages of its nodes, such as why a pod was refused. Only the older API shows it; an
installation without it leaves the task details, which name states and children. No release puts the error of a
container into either (2.4 to 2.17), so logs are read through the API server too.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.redact import redact
from fullpass.kubeflow.deploy.api_requests import Cluster, task_details
from fullpass.kubeflow.kfp_internals import argo_paths, pod_names, templates
from fullpass.kubeflow.protocol import FAILURE, Json

_MOST_PODS = 20
"""Containers whose logs are read at most."""
_MOST_LINES = 5
"""Lines of the end of a log that are shown."""

_ATTEMPT = re.compile(r"\((\d+)\)$")
_OF_PROGRAM = re.compile(r"(?:\w+: )?Error \(exit code \d+\)(?:: )?(\w+: )?")
"""Before the termination message of a container (workflow/controller/operator.go, inferFailedReason, in Argo 4.0.5),
and the node that the message of a program of Fullpass begins with: a task may run several."""
_KILLED = {
    "OOMKilled": "was killed for memory above its limit (OOMKilled)",
    "signal: killed": "was killed, as for memory above its limit",
    "exit status 137": "was killed, as for memory above its limit",
}
"""What Argo's message, or the last line of the launcher, whose child got SIGKILL, contains -> what it means."""

_PAGE_READS_LOGS = "Kubeflow's page (service ml-pipeline-ui) reads logs by itself: give its address as --host"
"""Because the API server of a single-user installation looks for pods in a namespace without a name: 2.17.0 says
so, and the answer of 2.4.1, 2.5.0 and 2.14.4 is empty."""


@dataclass(frozen=True)
class _Pod:
    """A pod that failed, of a task that failed.

    Attributes:
        path: Of its Argo node, such as w(0).root(0).ingest(0).executor(0).
        names: Those that the pod may have.
        ended: For the order; equal kinds of one run compare.
        message: Of Argo; empty if unknown.
    """

    path: str
    names: tuple[str, ...]
    ended: str
    message: str = ""

    @property
    def task(self) -> str:
        """The task, or the driver of a task."""
        *_, above, last = self.path.split(".")
        return _base(above if _base(last) == "executor" else last)

    @property
    def shown(self) -> str:
        """The name on Kubeflow's page, with the number of the attempt of a driver."""
        last = self.path.rpartition(".")[2]
        return last if last.startswith(self.task) else self.task

    @property
    def attempt(self) -> int:
        """The number of the attempt of this container."""
        found = _ATTEMPT.search(self.path)
        return int(found[1]) if found else 0

    @property
    def pass_(self) -> str:
        """The attempt of the whole pipeline: a later one fails over what the first left behind."""
        return ".".join(self.path.split(".")[:2])


def failures(cluster: Cluster, run: Any, tasks: Sequence[str]) -> list[str]:
    """Returns the causes of a failed run, without secrets; each is one or more lines that begin with a name.

    The first is the cause: of the containers that failed in the first attempt of the pipeline, the one that ended
    first, by its last attempt. A cause is the node's own sentence, else Argo's message, else the end of the log. Where
    there is none, it is the failed task, and why its log cannot be read.

    Args:
        tasks: Names of the tasks of the package; the backend also lists internal tasks.
    """
    details, status = task_details(run), cluster.workflow_status(run.run_id)
    pods = list(_of_workflow(status)) or list(_of_details(details, tasks))
    reasons, causes = dict[str, None](), list[tuple[str, bool, str, int, str]]()
    for container in _containers(pods)[:_MOST_PODS]:
        for pod in container:
            cause = _cause(pod, _log(cluster, run.run_id, pod.names, reasons))
            why = next(iter(reasons), "the API lists no pod of a failed task")
            causes.append((pod.pass_, not cause, container[0].ended, -pod.attempt, cause or _lost(pod.task, why)))
    found = dict.fromkeys(redact(cause) for *_, cause in sorted(causes))
    return list(found) or [redact(text) for text in _without_pods(details, status, tasks)]


def pending_messages(cluster: Cluster, run_id: str) -> list[str]:
    """Returns why pods of a run wait, in the words of Kubernetes, such as an image that cannot be pulled."""
    nodes = cluster.workflow_status(run_id).get("nodes", {}).values()
    waiting = [node for node in nodes if node.get("phase") == "Pending" and node.get("message")]
    return [redact(f"{_Pod(node['name'], (), '').task}: {node['message']}") for node in waiting]


def _without_pods(details: Sequence[Any], status: Json, tasks: Sequence[str]) -> list[str]:
    failed = [_base(task.display_name).removesuffix("-driver") for task in details if task.state == "FAILED"]
    if not failed:
        return [str(status["message"])] if status.get("message") else []
    why = "the API lists no pod of a failed task"
    return [_lost(name, why) for name in sorted({*failed} & {*tasks}) or ["root"]]


def _lost(task: str, why: str) -> str:
    name = task.removesuffix("-driver")
    return f"{name}: failed, and its log cannot be read, as when its pod was deleted or never started ({why})."


def _containers(pods: Sequence[_Pod]) -> list[list[_Pod]]:
    """Returns the attempts of each container, the last first, in the order in which the containers failed."""
    attempts: dict[str, list[_Pod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.ended, pod.attempt), reverse=True):
        attempts.setdefault(_base(pod.path), []).append(pod)
    return sorted(attempts.values(), key=lambda container: (container[0].pass_, container[0].ended))


def _of_workflow(status: Json) -> Iterator[_Pod]:
    nodes = {node["name"]: node for node in status.get("nodes", {}).values()}
    for path, node in nodes.items():
        around = [nodes[name] for name in _enclosing(path) if name in nodes]
        # A failed attempt of a task that succeeded in the end is no cause.
        if node["type"] == "Pod" and all(one.get("phase") in ("Failed", "Error") for one in around):
            names = pod_names(node["id"], [node.get("templateName", "")])
            yield _Pod(path, names, node.get("finishedAt") or "", node.get("message", ""))


def _enclosing(path: str) -> Iterator[str]:
    parts = path.split(".")
    for size in range(1, len(parts) + 1):
        name = ".".join(parts[:size])
        yield from (name, _base(name))


def _of_details(details: Sequence[Any], tasks: Sequence[str]) -> Iterator[_Pod]:
    """Yields the failed pods that the task details list as children of others: only there do these have ids."""
    ends = {task.display_name: str(task.end_time) for task in details if task.state == "FAILED"}
    listed = {child.pod_name: None for task in details for child in task.child_tasks or () if child.pod_name}
    if not listed:
        return
    numbers = [int(found[1]) for task in details if (found := _ATTEMPT.search(task.display_name))]
    paths = argo_paths(next(iter(listed)).rpartition("-")[0], tasks, 1 + max(numbers, default=0), listed)
    inner = {_parent(path) for path in paths.values()}
    for node, path in paths.items():
        *_, above, last = ("", *path.split("."))
        # Every container is shown as `executor`, so the state of its task tells whether it failed.
        state = above if _base(last) == "executor" else last
        if node in listed and path not in inner and state in ends:
            yield _Pod(path, pod_names(node, templates(_base(last), _base(state))), ends[state])


def _parent(path: str) -> str:
    return _base(path) if _ATTEMPT.search(path) else path.rpartition(".")[0]


def _base(name: str) -> str:
    return _ATTEMPT.sub("", name)


def _cause(pod: _Pod, log: str) -> str | None:
    if said := _sentence(log):
        return said
    lines = [line.strip() for line in log.strip().splitlines()[-_MOST_LINES:]]
    ended = " ".join([pod.message, *lines[-1:]])
    killed = next((meaning for text, meaning in _KILLED.items() if text in ended), "")
    message = _OF_PROGRAM.sub(r"\1", pod.message, count=1)
    if message and not killed:
        found = _OF_PROGRAM.match(pod.message)
        return message if found and found[1] else f"{pod.shown}: {message}"
    if not lines:
        return f"{pod.shown}: {killed}." if killed else None
    return "\n  ".join([f"{pod.shown}: {killed}{'; ' if killed else ''}its log ends with", *lines])


def _log(cluster: Cluster, run_id: str, names: tuple[str, ...], reasons: dict[str, None]) -> str:
    """Returns the end of a pod's log, or an empty text, and adds the reason to `reasons`."""
    for name in names:
        try:
            log = cluster.log(run_id, name)
        except UserError as error:
            reasons[str(error)] = None
            continue
        refused = _refusal(log) if log else "the API server gives an empty log"
        if refused is None:
            return log
        reasons[f"{refused.rstrip('.')}. {_PAGE_READS_LOGS}"] = None
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
                return str(json.loads(line[begin + len(FAILURE) :]))
            except ValueError:
                return None
    return None
