"""What Fullpass relies on in Kubeflow Pipelines beyond its documented interface, in one place, with the reasons.

References without another name are to github.com/kubeflow/pipelines at tag 2.5.0, below backend/src. The tests of this
module compare it with the installed `kfp` and `kfp-server-api`, so a new version of these fails there first.
"""

import base64
import gzip
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, get_args

Release = Literal["2.4", "2.5", "2.14", "2.15", "2.16", "2.17"]
"""A supported release of the open-source backend."""
RELEASES: tuple[Release, ...] = get_args(Release)
"""The supported releases, oldest first."""
RETRIES_SINCE = "2.5"
"""First release that retries tasks (v2/compiler/argocompiler/container.go:280)."""
ON_ERROR_SINCE = "2.17"
"""First release whose manifests set the retry policy of all tasks to OnError, which `retries` does not change: lost
pods and drivers are retried, containers that fail are not
(manifests/kustomize/third-party/argo/base/workflow-controller-configmap-patch.yaml:53 at 2.17.0)."""
NOTIFY_SINCE = "2.5"
"""First release in which a task without outputs can identify its run."""
RESTRICTED_SINCE = "2.16"
"""First release whose pods meet the restricted pod security standard of Kubernetes."""
SCHEDULE_TIME_SINCE = "2.17"
"""First release that tells a recurring run its scheduled time. The driver of 2.16 has the name but no time, and no
release replaces [[ScheduledTime]] for v2 pipelines (github.com/kubeflow/pipelines/issues/12494)."""

SCHEMA_VERSION = "2.1.0"
"""The only version that the API server accepts (apiserver/template/v2_template.go:190)."""
MESSAGE = "{{$}}"
"""Placeholder that the launcher replaces by all inputs and outputs of a task, as JSON."""
SCHEDULE_TIME_PLACEHOLDER = "{{$.pipeline_job_schedule_time_utc}}"
"""Placeholder that the driver replaces by the scheduled time, where it is the whole constant of a parameter
(v2/cmd/driver/main.go at 2.17.0, resolvePipelineJobTimes)."""
UNRESOLVED = "{{$."
"""Start of a placeholder that the launcher did not replace."""
IMPORTER_URI, IMPORTER_ARTIFACT = "uri", "artifact"
"""Names of an importer's input and output in Kubeflow's SDK; its local runner supports no others."""
EXIT = {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
"""Trigger policy of an exit task: a lifecycle hook of the one task that it waits for, run whether that succeeded or not
(v2/compiler/argocompiler/dag.go:65). So all other tasks are in one separate DAG."""
BACKEND_PROPERTIES = ("display_name", "store_session_info")
"""Properties that the backend adds to every artifact."""

ARGUMENT_LIMIT = 131_071
"""Largest argument or variable of a process in bytes: Linux's MAX_ARG_STRLEN without the terminating zero."""
WITH_TEMPLATE_VARIABLE = ("2.4", "2.5")
"""Releases with Argo 3.4 and 3.5, which pass each pod its whole template in the variable ARGO_TEMPLATE. From 2.17 on
(Argo 4.0.5, workflow/controller/workflowpod.go:535) large templates can be offloaded to files."""
LOG_PATH = "/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log"
"""Path of the log of a pod of a run, in every release. kfp's client has no method for it."""
PAGE_LOG_PATH = "/k8s/pod/logs"
"""The same at the server of Kubeflow's page, which passes on v1beta1 and v2beta1 only (frontend/server/app.ts:254, 373
at 2.17.0). It needs the namespace in a multi-user installation (frontend/server/handlers/pod-logs.ts:93)."""
RECURRING_RUN_PATH = "/apis/v2beta1/recurringruns/{recurring_run_id}"
"""backend/api/v2beta1/recurring_run.proto: DELETE takes a propagation_policy, from 2.16 on."""
RUN_PATH = "/apis/v1beta1/runs/{run_id}"
"""Path of a run with its Argo Workflow, in every release. Only there does the API tell the messages of nodes: v2beta1
drops them (apiserver/server/api_converter.go, toApiRunDetailV1 and toModelTask, at 2.17.0)."""
MAX_LENGTH = {"pipeline": 128, "version": 127, "experiment": 128, "namespace": 63}
"""Largest number of characters that the API server stores (apiserver/validation/length.go, 2.14 and later)."""
MAX_PACKAGE_BYTES = 32 * 2**20
"""Largest package (apiserver/common/const.go)."""


def is_before(release: str, other: str) -> bool:
    """Returns whether a release of the backend is older than another release."""
    releases: tuple[str, ...] = RELEASES
    return releases.index(release) < releases.index(other)


def path_placeholder(side: Literal["inputs", "outputs"], name: str) -> str:
    """Returns the placeholder that the launcher replaces by the local path of an artifact."""
    return f"{{{{$.{side}.artifacts['{name}'].path}}}}"


def value_placeholder(name: str) -> str:
    """Returns the placeholder that the launcher replaces by the value of a parameter."""
    return f"{{{{$.inputs.parameters['{name}']}}}}"


def run_id(addresses: Iterable[str], pipeline: str) -> str | None:
    """Returns the id of the run from the URIs of its outputs, or None if they are not URIs of the backend.

    Every release stores outputs at ROOT/PIPELINE/RUN/TASK/SALT/OUTPUT (v2/metadata/client.go:316 and
    v2/driver/driver.go:2046). The placeholder `{{$.pipeline_job_uuid}}` exists only from 2.5 on, and as a parameter it
    would be part of the cache key.
    """
    for address in addresses:
        parts = address.split("/")
        if len(parts) >= 6 and parts[-5] == pipeline:
            return parts[-4]
    return None


def uri_of_all_runs(address: str, pipeline: str) -> str:
    """Returns ROOT/PIPELINE/OUTPUT for the URI of an output, or the URI itself if it is not one of the backend.

    An importer takes an artifact of an earlier run with the same URI, so nodes that read it come from the cache.
    """
    parts = address.split("/")
    return "/".join([*parts[:-4], parts[-1]]) if run_id([address], pipeline) else address


def workflow_status(answer: str) -> dict[str, Any]:
    """Returns the status of the Argo Workflow in an answer of `RUN_PATH`, or an empty one if the answer has none.

    Argo compresses the nodes of a Workflow above 1 MiB (workflow/packer/packer.go in Argo 4.0.5).
    """
    try:
        status = json.loads(json.loads(answer)["pipeline_runtime"]["workflow_manifest"])["status"]
        if packed := status.get("compressedNodes"):
            status["nodes"] = json.loads(gzip.decompress(base64.b64decode(packed)))
    except (KeyError, TypeError, ValueError, OSError):
        return {}
    return dict(status)


def argo_paths(workflow: str, tasks: Sequence[str], attempts: int, listed: Collection[str]) -> dict[str, str]:
    """Returns id -> path, such as w(0).root(0).ingest(0).executor(0), of those listed nodes whose path is known.

    The details of a run contain no ids but those of children. An id is WORKFLOW-HASH, of the path of the node (NodeID
    of pkg/apis/workflow/v1alpha1/workflow_types.go in Argo 4.0.5). With a retry strategy for all templates, as 2.17 is
    shipped, each node is the parent of its attempts, DAGs too.

    Args:
        tasks: Of all DAGs.
        attempts: Of a node, at most.
    """
    names = ("root", "root-driver", "pipeline", "executor", "onExit", *tasks, *(f"{task}-driver" for task in tasks))
    ends = [*(f".{name}" for name in dict.fromkeys(names)), *(f"({number})" for number in range(attempts))]
    found: dict[str, str] = {}
    waiting = [(workflow, _fnv(workflow))]
    while waiting:
        path, hashed = waiting.pop()
        for end in ends:
            longer = _fnv(end, hashed)
            node = f"{workflow}-{longer}"
            # The node of the whole Workflow is nobody's child; its DAG may be that of a task without a driver.
            if node not in found and (node in listed or path + end in (f"{workflow}(0)", f"{workflow}.root")):
                found[node] = path + end
                waiting.append((path + end, longer))
    return found


def _fnv(text: str, value: int = 2166136261) -> int:
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def templates(name: str, task: str) -> tuple[str, ...]:
    """Returns the templates that the pod of a node may have: a driver, a container, or an importer.

    They are in v2/compiler/argocompiler/container.go:279 (:365 at 2.17.0); 2.5 has one for each task with retries.
    """
    if name.endswith("-driver"):
        return ("system-container-driver", "system-dag-driver")
    if name == "executor":
        container = "system-container-impl"
        return (container, f"retry-{container}", f"{task}-{container}")
    return ("system-importer",)


def pod_names(node: str, templates: Sequence[str]) -> tuple[str, ...]:
    """Returns the names that the pod of a node of Argo may have, from its id WORKFLOW-HASH.

    Argo puts the name of the template between workflow and hash, unless the annotation pod-name-format is v1
    (common/util/workflow.go:391 at 2.17.0, RetrievePodName).
    """
    workflow, _, hashed = node.rpartition("-")
    return (*(f"{workflow}-{name}-{hashed}" for name in templates), node)


def is_page(text: str) -> bool:
    """Returns whether an answer is a page: the server of Kubeflow's page answers every unknown path with it."""
    return text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))


def has_json_answer(client: Any) -> bool:
    """Returns whether the last answer that kfp's client received is a JSON object.

    The client parses a page of another server as an answer with empty fields.
    """
    return isinstance(json.loads(client.last_response.data), dict)
