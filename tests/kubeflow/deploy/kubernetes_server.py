"""A fake Kubernetes API server that runs the pods of Indexed Jobs as processes of this machine."""

import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import client as k8s

from tests import warm_process

_PATHS = re.compile(
    r"/(?:api/v1|apis/batch/v1)/namespaces/(?P<ns>[\w-]+)/(?P<kind>\w+)(?:/(?P<name>[\w-]+))?(/status)?"
)
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
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for process in [process for pods in self.pods.values() for process in pods]:
            if process.poll() is None:
                process.kill()
            process.wait(timeout=30)
        self._http.shutdown()
        self._http.server_close()

    def client(self) -> k8s.ApiClient:
        configuration = k8s.Configuration(host=f"http://127.0.0.1:{self._http.server_port}")
        configuration.retries = False
        return k8s.ApiClient(configuration)

    def create(self, kind: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if kind == self.forbidden:
            return 403, {"kind": "Status", "message": f"{kind} is forbidden"}

        as_kubernetes_reads_it(body, _KINDS[kind])
        name = body["metadata"]["name"]
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


class _Handler(BaseHTTPRequestHandler):
    kubernetes: KubernetesServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(*self.kubernetes.create(self._place()["kind"], body))

    def do_GET(self) -> None:
        place = self._place()
        if place["kind"] == "pods":
            name = self.path.split("job-name%3D")[1].split("&")[0]
            self._answer(200, self.kubernetes.list_pods(name))
        else:
            self._answer(200, self.kubernetes.status(place["name"]))

    def do_DELETE(self) -> None:
        place = self._place()
        found = self.kubernetes.objects.pop((place["kind"], place["name"]), None)
        self._answer(200 if found else 404, {"kind": "Status"})

    def log_message(self, *arguments: object) -> None:
        pass

    def _place(self) -> dict[str, str]:
        found = _PATHS.fullmatch(self.path.partition("?")[0])
        assert found, self.path
        return found.groupdict()

    def _answer(self, code: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
