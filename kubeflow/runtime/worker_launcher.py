"""Entry point of the container of a node with several workers: starts a Job that runs the node, and waits for it.

`python -m fullpass.kubeflow.runtime.worker_launcher --workers JSON`, with the arguments of
`fullpass.kubeflow.runtime.entrypoint`, which each worker receives.

An Indexed Job names its pods JOB-INDEX, and a headless Service with the Job's name gives them host names. Every pod can
therefore derive the addresses of all pods.
"""

import base64
import json
import logging
import os
import re
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, ApiException, BatchV1Api, CoreV1Api
from kubernetes.config import load_incluster_config
from urllib3.exceptions import HTTPError

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.kubeflow.config import NodeConfig, Workers, seconds
from fullpass.kubeflow.protocol import FACTS_VARIABLE, OUTCOMES_VARIABLE, Json
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.executor_input import ExecutorInput, clear_addresses, container_arguments, from_arguments
from fullpass.kubeflow.runtime.worker_entrypoint import JOB, PORT, WORKERS, output_address

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_POLL_SECONDS = 5.0
"""Wait between two looks at the Job."""
_TIMEOUT = (10, 60)
"""Timeouts in seconds: for connecting, and between two parts of a response."""
COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.worker_entrypoint")
QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a Job with the queue that admits it."""
_NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""Annotation that Kubeflow sets on every pod of a run: profiles inject a proxy, which outlives the work and separates
the workers."""
_TTL_SECONDS = 3600
"""Time for which Kubernetes keeps an ended Job that its launcher could not delete."""


def main() -> None:
    """Runs one node with several workers, then exits the process."""
    arguments = container_arguments("fullpass.kubeflow.runtime.worker_launcher", __doc__, workers=None, plan=None)
    settings, args = json.loads(arguments.workers), sys.argv[3:]  # The compiler puts --workers first.

    def work() -> None:
        load_incluster_config()
        account = service_account((_ACCOUNT / "token").read_text())
        namespace = (_ACCOUNT / "namespace").read_text().strip()
        run_as_job(ApiClient(), namespace, settings, args, from_arguments(arguments), account=account)

    termination.run_to_end(lambda: settings["node_id"], work)


def run_as_job(
    client: ApiClient,
    namespace: str,
    settings: Json,
    args: Sequence[str],
    task: ExecutorInput,
    *,
    account: str | None = None,
    poll: float = _POLL_SECONDS,
) -> None:
    """Runs a node as a Job, copies its output message, and deletes the Job.

    Args:
        settings: From the compiler: `pipeline`, `node_id`, `node` (its NodeConfig), `pull_secrets`, `pull_policy`.
        args: Of each worker.
        account: The service account of each worker; by default the namespace's.

    Raises:
        UserError: The cluster rejects the Job, or a worker failed; the message includes the worker's message.
    """
    import tensorflow as tf

    node = NodeConfig.model_validate(settings["node"])
    env = {name: os.environ[name] for name in (FACTS_VARIABLE, OUTCOMES_VARIABLE) if name in os.environ}
    node = node.model_copy(update={"env": node.env | env})
    name = job_name(settings["pipeline"], settings["node_id"])
    service, job = manifests(
        name,
        node,
        args,
        pull_secrets=settings["pull_secrets"],
        pull_policy=settings["pull_policy"],
        service_account=account,
    )
    clear_addresses(task.outputs.values())
    with Job(client, namespace, name).started(service, job) as started:
        logging.info("job %s: %d workers", name, job["spec"]["completions"])
        started.wait(poll)
    with tf.io.gfile.GFile(output_address(task), "r") as file:
        output = file.read()
    task.output_file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(task.output_file, output)


def job_name(pipeline: str, node: str) -> str:
    """Returns a unique name of a Job and its Service, short enough for pod names of at most 63 characters.

    Names of Services begin with a letter, unlike those of pipelines.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", f"{pipeline[:26]}-{node[:12]}".lower()).strip("-")
    stem = f"p-{stem}" if stem[:1].isdigit() else stem
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def service_account(token: str) -> str | None:
    """Returns the service account of a pod's token (a JSON Web Token), or None if it belongs to no service account.

    Its signature is not checked, because the pod has it from Kubernetes.
    """
    payload = token.strip().split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    found = re.fullmatch(r"system:serviceaccount:[^:]+:([^:]+)", claims.get("sub", ""))
    return found[1] if found else None


@dataclass(frozen=True)
class Job:
    """One Job and its Service in a cluster."""

    client: ApiClient
    namespace: str
    name: str

    @contextmanager
    def started(self, service: Json, job: Json) -> Iterator["Job"]:
        """Creates the Service and the Job, and deletes them at the end."""
        core, batch = CoreV1Api(self.client), BatchV1Api(self.client)
        for manifest in (service, job):
            manifest["metadata"] |= _owner(os.environ)
        try:
            self._call("creating the service", core.create_namespaced_service, self.namespace, service)
            self._call("creating the job", batch.create_namespaced_job, self.namespace, job)
            yield self
        finally:
            # Deleting the Job also deletes its pods.
            self._delete(batch.delete_namespaced_job, propagation_policy="Background")
            self._delete(core.delete_namespaced_service)

    def wait(self, poll: float) -> None:
        """Waits until every worker is done.

        Raises:
            UserError: A worker failed.
        """
        batch = BatchV1Api(self.client)
        while True:
            # The status is a resource of its own for permissions; the service account of runs may read jobs only.
            found = self._call("looking at the job", batch.read_namespaced_job, self.name, self.namespace)
            conditions = {c.type: c for c in found.status.conditions or () if c.status == "True"}
            if "Complete" in conditions:
                return
            if "Failed" in conditions:
                raise UserError(self._cause(conditions["Failed"]))
            time.sleep(poll)

    def _cause(self, condition: Any) -> str:
        """Returns the cause of a failed Job: the termination messages of its workers, or Kubernetes' message."""
        method = CoreV1Api(self.client).list_namespaced_pod
        pods = self._call("looking at the workers", method, self.namespace, label_selector=f"job-name={self.name}")
        errors = []
        for pod in sorted(pods.items, key=lambda pod: pod.metadata.name):
            for status in pod.status.container_statuses or ():
                ended = status.state.terminated if status.state else None
                if ended and ended.exit_code:
                    errors.append(f"worker {pod.metadata.name}: exit status {ended.exit_code}: {ended.message or ''}")
        return "\n".join(errors) or f"job {self.name}: {condition.reason}: {condition.message}"

    def _call(self, action: str, method: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return method(*arguments, **more, _request_timeout=_TIMEOUT)
        except ApiException as error:
            if error.status == 403:
                raise UserError(
                    f"{action} {self.name}: the run's service account may not do this in {self.namespace}. Grant it "
                    "create, get and delete of jobs (batch) and services, and list of pods (docs/kubeflow.md, "
                    f"Permissions), or use pipeline-runner, which may. Kubernetes says: {_message(error)}"
                ) from error
            raise UserError(f"{action} {self.name}: rejected (status {error.status}): {_message(error)}") from error
        except HTTPError as error:
            raise UserError(f"{action} {self.name}: the cluster's API does not answer: {error}") from error

    def _delete(self, method: Any, **more: Any) -> None:
        try:
            self._call("deleting", method, self.name, self.namespace, **more)
        except UserError as error:
            logging.warning("%s", error)  # This pod owns it, so Kubernetes deletes it with the pod.


def _message(error: ApiException) -> str:
    """Returns the sentence of Kubernetes in a refusal, whose body is a Status object."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, TypeError, KeyError):
        return str(error.body)


def _owner(variables: Any) -> Json:
    """Returns metadata that names this pod as the owner; Kubernetes then deletes the Job with the pod."""
    name, uid = variables.get("KFP_POD_NAME"), variables.get("KFP_POD_UID")
    if not name or not uid:
        return {}
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]}


def manifests(
    name: str,
    node: NodeConfig,
    args: Sequence[str],
    *,
    pull_secrets: Sequence[str] = (),
    pull_policy: str | None = None,
    service_account: str | None = None,
) -> tuple[Json, Json]:
    """Returns the Service and the Job.

    A failed pod fails the Job at once. Its peers wait for it in every update, so all pods must restart, which `retries`
    of the node does. They resume from the last checkpoint if the node has one.

    Args:
        name: Name of both, at most 50 letters, digits and dashes.
        node: The settings of each pod, with `workers`.
        service_account: Service account of the pods, which is that of the run because it may grant access to the store.
            By default the namespace's.

    Raises:
        ValueError: The node has no workers.
    """
    workers = node.workers
    if workers is None:
        raise ValueError("the node has no workers")
    labels = {"app.kubernetes.io/managed-by": "fullpass", "app.kubernetes.io/instance": name}
    service: Json = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "selector": {"job-name": name},
            "ports": [{"name": "grpc", "port": workers.port, "targetPort": workers.port}],
            # Workers connect to each other before they are ready.
            "publishNotReadyAddresses": True,
        },
    }
    container: Json = {
        "name": "worker",
        "image": node.image,
        "command": list(COMMAND),
        "args": list(args),
        "env": [*_environment(name, node, workers), *_secret_environment(node)],
        "ports": [{"containerPort": workers.port}],
        "resources": _resources(node),
        "volumeMounts": [{"name": volume["name"], "mountPath": mount} for mount, volume in _volumes(node)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "imagePullPolicy": pull_policy,
    }
    pod: Json = {
        "restartPolicy": "Never",
        "serviceAccountName": service_account,
        "subdomain": name,
        # With the container's context, this meets the restricted pod security standard; the image sets the user.
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_without_empty(container)],
        "volumes": [volume for _, volume in _volumes(node)],
        "nodeSelector": dict(sorted(node.node_selector.items())),
        "tolerations": [_without_empty(toleration.model_dump()) for toleration in node.tolerations],
        "imagePullSecrets": [{"name": secret} for secret in pull_secrets],
    }
    job: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels | ({QUEUE: workers.queue} if workers.queue else {})},
        "spec": {
            "completionMode": "Indexed",
            "completions": workers.count,
            "parallelism": workers.count,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _TTL_SECONDS,
            **({"activeDeadlineSeconds": seconds(node.timeout)} if node.timeout else {}),
            "template": {
                "metadata": {"labels": labels, "annotations": _NO_SIDECAR.copy()},
                "spec": _without_empty(pod),
            },
        },
    }
    return service, job


def _environment(name: str, node: NodeConfig, workers: Workers) -> list[Json]:
    own = {JOB: name, WORKERS: str(workers.count), PORT: str(workers.port)}
    return [{"name": key, "value": value} for key, value in sorted({**node.env, **own}.items())]


def _secret_environment(node: NodeConfig) -> list[Json]:
    return [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": key}}}
        for secret in node.secrets
        for variable, key in sorted(secret.env.items())
    ]


def _resources(node: NodeConfig) -> Json:
    resources: Json = {}
    for kind in ("request", "limit"):
        amounts = {"cpu": getattr(node.cpu, kind), "memory": getattr(node.memory, kind)}
        if node.accelerator:
            amounts[node.accelerator.resource] = str(node.accelerator.count)
        resources[f"{kind}s"] = _without_empty(amounts)
    return _without_empty(resources)


def _volumes(node: NodeConfig) -> list[tuple[str, Json]]:
    """Returns the folder and the volume of each mount; the name of a claim may be too long for that of a volume."""
    sources = [(volume.mount, {"persistentVolumeClaim": {"claimName": volume.claim}}) for volume in node.volumes]
    sources += [(secret.mount, {"secret": {"secretName": secret.name}}) for secret in node.secrets if secret.mount]
    return [(mount, {"name": f"mount-{number}", **source}) for number, (mount, source) in enumerate(sources)]


def _without_empty(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}


if __name__ == "__main__":
    main()
