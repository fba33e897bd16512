"""A node's resources in Kubeflow's form: the container of its executor and its Kubernetes part."""

from collections.abc import Sequence
from typing import Any

from fullpass.kubeflow.compile.parts import Json
from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig, Retries, byte_count, cores, seconds


def container(node: NodeConfig, command: Sequence[str], args: Sequence[str]) -> Json:
    """Returns the container of an executor.

    Args:
        node: what it runs on.
        command: program and first arguments.
        args: further arguments; they may hold placeholders that Kubeflow fills in.
    """
    spec: Json = {"image": node.image, "command": list(command), "args": list(args)}
    if node.env:
        spec["env"] = [{"name": name, "value": value} for name, value in sorted(node.env.items())]
    resources = _resources(node)
    if resources:
        spec["resources"] = resources
    return spec


def kubernetes(node: NodeConfig, environment: EnvironmentConfig) -> Json:
    """Returns the Kubernetes part of an executor; empty if nothing is asked for."""
    spec: dict[str, Any] = {
        "nodeSelector": {"labels": dict(sorted(node.node_selector.items()))} if node.node_selector else None,
        "tolerations": [
            {key: value for key, value in toleration.model_dump().items() if value} for toleration in node.tolerations
        ],
        "secretAsEnv": [
            {
                "secretName": secret.name,
                "keyToEnv": [{"secretKey": key, "envVar": name} for name, key in sorted(secret.env.items())],
            }
            for secret in node.secrets
            if secret.env
        ],
        "secretAsVolume": [
            {"secretName": secret.name, "mountPath": secret.mount} for secret in node.secrets if secret.mount
        ],
        "pvcMount": [{"constant": volume.claim, "mountPath": volume.mount} for volume in node.volumes],
        "imagePullSecret": [{"secretName": name} for name in environment.image_pull_secrets],
        "imagePullPolicy": environment.image_pull_policy,
        # A 64-bit number is text in the JSON form of protocol buffers.
        "activeDeadlineSeconds": str(seconds(node.timeout)) if node.timeout else None,
    }
    return {key: value for key, value in spec.items() if value}


def retry_policy(retries: Retries) -> Json:
    """Returns how often a task is tried again."""
    return {
        "maxRetryCount": retries.count,
        "backoffDuration": f"{seconds(retries.backoff)}s",
        "backoffFactor": retries.factor,
        "backoffMaxDuration": f"{seconds(retries.longest)}s",
    }


def _resources(node: NodeConfig) -> Json:
    """Returns cores and gigabytes (10^9) as numbers, the only form that every release reads."""
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
