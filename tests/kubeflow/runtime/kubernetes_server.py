"""A fake Kubernetes API server that runs the pods of Indexed Jobs as processes of this machine."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from kubernetes import client as k8s

from tests import warm_process
from tests.loopback import QuietHandler, serving

_PATHS = re.compile(
    r"/(?P<group>api/v1|apis/batch/v1)/namespaces/(?P<ns>[\w-]+)/(?P<kind>\w+)(?:/(?P<name>[\w-]+))?(?P<part>/\w+)?"
)
ALLOWED = ("jobs", "services", "pods", "pods/exec", "pods/log")
"""What the role pipeline-runner may do anything with, of the manifests 2.4 to 2.17
(manifests/kustomize/base/pipeline/pipeline-runner-role.yaml). A part of an object, such as its status, is another
resource."""
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
"""Names of Services."""
_KINDS = {"services": "V1Service", "jobs": "V1Job"}


def as_kubernetes_reads_it(manifest: dict, kind: str) -> dict:
    """Returns a manifest as the model classes of Kubernetes' client parse it.

    Unknown fields are dropped, and a missing required field is an error.
    """

    class Answer:
        data = json.dumps(manifest)

    client = k8s.ApiClient()
    return client.sanitize_for_serialization(client.deserialize(Answer, kind))


class KubernetesServer:
    """Objects by kind and name, and the processes of each Job's pods.

    forbidden: a kind whose creation is forbidden. accounts: the service accounts of the Jobs' pods.
    """

    def __init__(self, folder: Path, *, forbidden: str = "") -> None:
        self.folder, self.forbidden = folder, forbidden
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.pods: dict[str, list[warm_process.Process]] = {}
        self.created: list[str] = []
        self.accounts: list[str] = []

    def __enter__(self) -> "KubernetesServer":
        handler = type("Handler", (_Handler,), {"kubernetes": self})
        self._serving = serving(handler)
        self._address = self._serving.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for process in [process for pods in self.pods.values() for process in pods]:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=30)
        self._serving.__exit__(None, None, None)

    def client(self) -> k8s.ApiClient:
        configuration = k8s.Configuration(host=self._address)
        configuration.retries = False
        return k8s.ApiClient(configuration)

    def create(self, kind: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        as_kubernetes_reads_it(body, _KINDS[kind])
        name = body["metadata"]["name"]
        if kind == "services" and not _DNS_1035.fullmatch(name):
            return 422, {"kind": "Status", "message": f'Service "{name}" is invalid: a DNS-1035 label must consist of'}
        if (kind, name) in self.objects:
            return 409, {"kind": "Status", "message": "already exists"}
        self.objects[kind, name] = body
        self.created.append(kind)
        if kind == "jobs":
            spec = body["spec"]
            self.accounts.append(spec["template"]["spec"]["serviceAccountName"])
            self.pods[name] = [
                self._start(name, index, spec["template"]["spec"]) for index in range(spec["completions"])
            ]
        return 201, body

    def status(self, name: str) -> dict[str, Any]:
        job, codes = self.objects["jobs", name], [process.poll() for process in self.pods[name]]
        if any(codes):
            conditions = [
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "a pod failed"}
            ]
        elif all(code == 0 for code in codes):
            conditions = [{"type": "Complete", "status": "True"}]
        else:
            conditions = []
        return {**job, "status": {"conditions": conditions}}

    def list_pods(self, name: str) -> dict[str, Any]:
        items = []
        for index, process in enumerate(self.pods[name]):
            code, log = process.poll(), self.folder / f"{name}-{index}.end"
            state = {} if code is None else {"terminated": {"exitCode": code, "message": log.read_text()}}
            status = {"name": "worker", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, "state": state}
            items.append({"metadata": {"name": f"{name}-{index}"}, "status": {"containerStatuses": [status]}})
        return {"items": items}

    def _start(self, name: str, index: int, pod: dict[str, Any]) -> warm_process.Process:
        [container] = pod["containers"]
        self.folder.mkdir(exist_ok=True)
        end = self.folder / f"{name}-{index}.end"
        end.touch()
        given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        environment = {**os.environ, **given, "JOB_COMPLETION_INDEX": str(index), "FULLPASS_TERMINATION_LOG": str(end)}
        # Pods have separate file systems, so each pod gets its own output path.
        args = [argument.replace("/outputs/", f"/outputs-{index}/") for argument in container["args"]]
        command = [sys.executable, *container["command"][1:], *args]
        with open(self.folder / f"{name}-{index}.log", "w") as log:
            return warm_process.Process(command, env=environment, stdout=log, stderr=log)


class _Handler(QuietHandler):
    kubernetes: KubernetesServer

    def do_POST(self) -> None:
        if place := self._allowed("create"):
            status, body = self.kubernetes.create(place["kind"], json.loads(self.content()))
            self.reply(body, status)

    def do_GET(self) -> None:
        place = self._allowed("get")
        if place and place["kind"] == "pods":
            name = self.path.split("job-name%3D")[1].split("&")[0]
            self.reply(self.kubernetes.list_pods(name))
        elif place:
            self.reply(self.kubernetes.status(place["name"]))

    def do_DELETE(self) -> None:
        place = self._place()
        found = self.kubernetes.objects.pop((place["kind"], place["name"]), None)
        self.reply({"kind": "Status"}, 200 if found else 404)

    def _place(self) -> dict[str, str]:
        found = _PATHS.fullmatch(self.path.partition("?")[0])
        assert found, self.path
        return found.groupdict()

    def _allowed(self, verb: str) -> dict[str, str] | None:
        """Returns the place of a request, or answers as Kubernetes if the account may not do it."""
        place = self._place()
        resource = place["kind"] + (place["part"] or "")
        if resource in ALLOWED and resource != self.kubernetes.forbidden:
            return place
        account = 'User "system:serviceaccount:ns:pipeline-runner"'
        group = "batch" if "batch" in place["group"] else ""
        message = (
            f'{resource} is forbidden: {account} cannot {verb} resource "{resource}" in API group "{group}" in the '
        )
        self.reply({"kind": "Status", "message": f'{message}namespace "ns"'}, 403)
        return None
