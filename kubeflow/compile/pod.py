"""Converts a node's settings to Kubeflow's form: the container of its executor and its Kubernetes part."""

from collections.abc import Callable, Sequence
from typing import Any

from fullpass.kubeflow.config import Cpu, EnvironmentConfig, Memory, NodeConfig, Retries, byte_count, cores, seconds
from fullpass.kubeflow.kfp_internals import RESTRICTED_SINCE, is_before
from fullpass.kubeflow.protocol import Json

LOOKUP_MEMORY = "256Mi"
"""A look-up needs 97 MiB at start, and more with the driver of a store."""
LAUNCHER_MEMORY = "1Gi"
"""The container that waits for workers opens gs:// with TensorFlow."""
_WAITING_CORES = "100m"


def helper_pod_settings(node: NodeConfig, defaults: NodeConfig, memory: str = LOOKUP_MEMORY) -> NodeConfig:
    """Returns the settings of a pod that looks something up for a node, or waits for it.

    It opens the node's volumes with the node's secrets, but needs neither its devices nor the machines with these
    devices. Its limits are those of the defaults, because a namespace with quotas requires limits for every pod, but
    at least what it needs: Kubernetes refuses a request above the limit.
    """
    return node.model_copy(
        update={
            "cpu": Cpu(request=_WAITING_CORES, limit=_at_least(_WAITING_CORES, defaults.cpu.limit, cores)),
            "memory": Memory(request=memory, limit=_at_least(memory, defaults.memory.limit, byte_count)),
            "accelerator": None,
            "node_selector": defaults.node_selector,
            "tolerations": defaults.tolerations,
            "timeout": None,
        }
    )


def _at_least(needed: str, limit: str | None, count: Callable[[str], float]) -> str | None:
    """Returns a limit, raised to what is needed if it is lower; None if there is none."""
    return needed if limit is not None and count(limit) < count(needed) else limit


def container(node: NodeConfig, command: Sequence[str], args: Sequence[str]) -> Json:
    """Returns the container of an executor; its arguments may contain placeholders that Kubeflow replaces."""
    spec: Json = {"image": node.image, "command": list(command), "args": list(args)}
    if node.env:
        spec["env"] = [{"name": name, "value": value} for name, value in sorted(node.env.items())]
    if resources := _resources(node):
        spec["resources"] = resources
    return spec


def kubernetes(node: NodeConfig, environment: EnvironmentConfig) -> Json:
    """Returns the Kubernetes part of an executor; empty if it needs none."""
    spec: dict[str, Any] = {
        "nodeSelector": {"labels": dict(sorted(node.node_selector.items()))} if node.node_selector else None,
        "tolerations": [{key: value for key, value in one.model_dump().items() if value} for one in node.tolerations],
        "secretAsEnv": [
            {
                "secretName": secret.name,
                "keyToEnv": [{"secretKey": key, "envVar": name} for name, key in sorted(secret.env.items())],
            }
            for secret in node.secrets
            if secret.env
        ],
        "secretAsVolume": [{"secretName": one.name, "mountPath": one.mount} for one in node.secrets if one.mount],
        "pvcMount": [{"constant": volume.claim, "mountPath": volume.mount} for volume in node.volumes],
        "imagePullSecret": [{"secretName": name} for name in environment.image_pull_secrets],
        "imagePullPolicy": environment.image_pull_policy,
        # The backend adds the other fields of the restricted standard; the image sets the user.
        "securityContext": None if is_before(environment.kubeflow, RESTRICTED_SINCE) else {"runAsNonRoot": True},
        # A 64-bit number is text in the JSON form of protocol buffers.
        "activeDeadlineSeconds": str(seconds(node.timeout)) if node.timeout else None,
    }
    return {key: value for key, value in spec.items() if value}


def retry_policy(retries: Retries) -> Json:
    """Returns the retry policy of a task."""
    return {
        "maxRetryCount": retries.count,
        "backoffDuration": f"{seconds(retries.backoff)}s",
        "backoffFactor": retries.factor,
        "backoffMaxDuration": f"{seconds(retries.longest)}s",
    }


def _resources(node: NodeConfig) -> Json:
    """Returns cores and gigabytes (10^9) as numbers, the only form that every release accepts."""
    amounts = {
        "cpuRequest": node.cpu.request and cores(node.cpu.request),
        "cpuLimit": node.cpu.limit and cores(node.cpu.limit),
        "memoryRequest": node.memory.request and byte_count(node.memory.request) / 1e9,
        "memoryLimit": node.memory.limit and byte_count(node.memory.limit) / 1e9,
    }
    resources: Json = {name: amount for name, amount in amounts.items() if amount}
    if node.accelerator:
        resources["accelerator"] = {"type": node.accelerator.resource, "count": str(node.accelerator.count)}
    return resources
