"""Finds out why a run failed: reads the logs of its failed pods through the API server.

No release puts the error of a container into the details of a task (2.4 to 2.17).
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.redact import redact
from fullpass.kubeflow.deploy.api_requests import Cluster, task_details
from fullpass.kubeflow.kfp_internals import ArgoNode, argo_nodes, pod_names
from fullpass.kubeflow.protocol import FAILURE

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
        cause = _sentence(log)
        if cause:
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
