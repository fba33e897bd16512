"""Reads and checks the workers in TF_CONFIG, and waits for them."""

import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from fullpass.base.errors import UserError

VARIABLE = "TF_CONFIG"
_EXAMPLE = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
_ROLES = ("chief", "worker")
_POLL_SECONDS = 0.2
"""Wait between two looks for the other workers."""


@dataclass(frozen=True)
class WorkerCluster:
    """The workers of a training.

    Attributes:
        addresses: The host:port of each worker; the first one writes the model.
        own: The index of this process among them.
    """

    addresses: tuple[str, ...]
    own: int


def read_cluster() -> WorkerCluster | None:
    """Returns the cluster in the environment variable TF_CONFIG; None if it is not set or names no workers.

    Raises:
        UserError: TF_CONFIG is not valid JSON, or does not define the addresses of the workers and this worker's index.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
    except ValueError as error:
        raise _invalid(f"is not JSON ({error})", text) from error
    if not isinstance(config, dict):
        raise _invalid("is not a JSON object", text)
    addresses = _addresses(config.get("cluster") or {}, text)
    if not addresses:
        return None
    if len(set(addresses.values())) < len(addresses):
        raise _invalid("names an address twice", text)
    tasks = list(addresses)
    task = config.get("task")
    if len(tasks) == 1 and task is None:
        return WorkerCluster(tuple(addresses.values()), 0)
    own = (task.get("type"), task.get("index")) if isinstance(task, dict) else None
    if own not in addresses:
        known = ", ".join(f"{role} {index}" for role, index in tasks)
        raise _invalid(f"has a task that is not one of its workers ({known}): task: {json.dumps(task)}", text)
    return WorkerCluster(tuple(addresses.values()), tasks.index(own))


def wait_for_workers(cluster: WorkerCluster, seconds: float) -> None:
    """Waits until every other worker has opened its port.

    This worker keeps its own port open meanwhile, so that the others find it.

    Raises:
        UserError: A worker has not started within `seconds`, or this worker's port is taken.
    """
    deadline = time.monotonic() + seconds
    missing = [number for number in range(len(cluster.addresses)) if number != cluster.own]
    with closing(_listen(cluster.addresses[cluster.own])):
        while missing:
            missing = [number for number in missing if not _answers(cluster.addresses[number])]
            if missing and time.monotonic() >= deadline:
                named = ", ".join(f"worker {number} at {cluster.addresses[number]}" for number in missing)
                raise UserError(
                    f"waited {seconds:g} seconds for {named}. Is it running, is its address in {VARIABLE} right, and "
                    "can it be reached from here? training.wait_for_workers sets how long to wait."
                )
            if missing:
                time.sleep(_POLL_SECONDS)


def _addresses(cluster: Any, text: str) -> dict[tuple[str, int], str]:
    if not isinstance(cluster, dict):
        raise _invalid("has a cluster that is not a mapping of role to addresses", text)
    unknown = sorted(set(cluster) - {*_ROLES, "ps", "evaluator"})
    if unknown:
        raise _invalid(f"names roles that do not exist: {', '.join(unknown)}; accepted: {', '.join(_ROLES)}", text)
    if cluster.get("ps"):
        raise _invalid("names parameter servers; training is synchronous, on workers alone", text)
    found = {}
    for role in _ROLES:
        listed: Sequence[Any] = cluster.get(role, [])
        if not isinstance(listed, list):
            raise _invalid(f"must list the addresses of {role}", text)
        for index, address in enumerate(listed):
            host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
            if not host or not port.isdigit() or not 0 < int(port) < 65536:
                raise _invalid(f"contains {address!r}, which is not host:port", text)
            found[role, index] = address
    return found


def _invalid(what: str, text: str) -> UserError:
    return UserError(
        f"the environment variable {VARIABLE} {what}. It should look like {_EXAMPLE}. Received: {text[:300]}"
    )


def _listen(address: str) -> socket.socket:
    port = int(address.rpartition(":")[2])
    listener = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port}, which {VARIABLE} gives this worker, cannot be opened: {error}. Does another process use it?"
        ) from error
    return listener


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except OSError:
        return False
