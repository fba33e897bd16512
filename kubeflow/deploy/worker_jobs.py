"""Manifests of a node with several pods: an Indexed Job, and a headless Service through which its pods find each other.

They are plain data in the form of core/v1 and batch/v1. An Indexed Job names its pods JOB-INDEX, and a Service with the
Job's name gives them host names. Every pod can therefore derive the addresses of all pods.
"""

from collections.abc import Sequence

from fullpass.kubeflow.config import NodeConfig, Workers, seconds
from fullpass.kubeflow.protocol import Json
from fullpass.kubeflow.runtime.worker_entrypoint import JOB, PORT, WORKERS

COMMAND = ("python", "-P", "-m", "fullpass.kubeflow.runtime.worker_entrypoint")
QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a Job with the queue that admits it."""
_NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
"""Annotation that Kubeflow sets on every pod of a run: profiles inject a proxy, which outlives the work and separates
the workers."""
_TTL_SECONDS = 3600


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
        args: Arguments of each pod's container.
        pull_secrets: As in the environment file.
        pull_policy: As in the environment file.
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
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in _mounts(node).items()],
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
        "volumes": _volumes(node),
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


def _mounts(node: NodeConfig) -> dict[str, str]:
    claims = {f"claim-{volume.claim}": volume.mount for volume in node.volumes}
    return claims | {f"secret-{secret.name}": secret.mount for secret in node.secrets if secret.mount}


def _volumes(node: NodeConfig) -> list[Json]:
    claims = [
        {"name": f"claim-{claim}", "persistentVolumeClaim": {"claimName": claim}}
        for claim in dict.fromkeys(volume.claim for volume in node.volumes)
    ]
    named = dict.fromkeys(secret.name for secret in node.secrets if secret.mount)
    return claims + [{"name": f"secret-{secret}", "secret": {"secretName": secret}} for secret in named]


def _without_empty(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}
