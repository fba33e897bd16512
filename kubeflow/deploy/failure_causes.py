"""Finds out why a run failed: reads the logs of its failed pods through the API server.

No release puts the error of a container into the details of a task (2.4 to 2.17).
"""

import json
from collections.abc import Iterator
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.redact import redact
from fullpass.kubeflow.deploy.api_requests import Cluster
from fullpass.kubeflow.kfp_internals import pod_names
from fullpass.kubeflow.protocol import FAILURE

_MOST_PODS = 20
_MOST_LINES = 5


def failures(cluster: Cluster, run: Any, tasks: list[str]) -> list[str]:
    """Returns the causes of a failed run, without secrets; each is one or more lines that begin with a name.

    They are the nodes' own sentences, each once. Where a log has none, as of a container that was killed, they are the
    last lines of the log. Where there is no log, they are the failed tasks, and the reason for its absence.

    Args:
        tasks: Names of the tasks of the package; the backend also lists internal tasks.
    """
    details = run.run_details.task_details if run.run_details else None
    failed = [task for task in details or () if task.state == "FAILED"]
    names = sorted({task.display_name for task in failed} & set(tasks))
    said, ends, reasons = dict[str, None](), dict[str, str](), dict[str, None]()
    for pod in list(_pods(failed, names))[:_MOST_PODS]:
        log = _log(cluster, run.run_id, pod, reasons)
        cause = _sentence(log)
        if cause:
            said[cause] = None
        elif log.strip():
            ends[pod[-1]] = "\n  ".join(line.strip() for line in log.strip().splitlines()[-_MOST_LINES:])
    if said:
        return list(said)
    if ends:
        return [f"node {pod}: its log ends with\n  {redact(text)}" for pod, text in ends.items()]
    why = next(iter(reasons), "the API lists no pod of a failed task")
    return [f"{name}: failed, and its log cannot be read ({redact(why)})." for name in names]


def _pods(failed: list[Any], tasks: list[str]) -> Iterator[tuple[str, ...]]:
    """Yields the possible names of each pod. The details name pods only as children, with the ids of Argo's nodes."""
    seen = set[str]()
    # Argo's node `executor` is the parent of a container's attempts; other children may be DAGs, which have no pods.
    for task in sorted(failed, key=lambda task: task.display_name != "executor"):
        for child in task.child_tasks or ():
            if child.pod_name and child.pod_name not in seen:
                seen.add(child.pod_name)
                yield pod_names(child.pod_name, tasks)


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
