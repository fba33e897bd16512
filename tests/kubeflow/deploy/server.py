"""A fake API server of Kubeflow Pipelines on loopback, which keeps the objects that it receives.

`refusals.json` holds answers with which the real server refuses a request, as its sources write them; `recorded/*.json`
are whole answers of that of 2.17.0 with Argo 4.0.5 on kube-apiserver 1.35.4 (`replay.py` has more).
References are to github.com/kubeflow/pipelines, tag 2.5.0, below backend/src/apiserver.
"""

import email.parser
import email.policy
import json
import re
import threading
import uuid
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import kfp_server_api.models as models
import yaml

from tests.loopback import QuietHandler

NOW = "2026-01-02T03:04:05Z"
REFUSALS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("refusals.json").read_text())
"""Name of a refusal -> its status and its body."""
KINDS = {
    "pipelines": (models.V2beta1Pipeline, "pipeline_id", "pipelines"),
    "experiments": (models.V2beta1Experiment, "experiment_id", "experiments"),
    "runs": (models.V2beta1Run, "run_id", "runs"),
    "recurringruns": (models.V2beta1RecurringRun, "recurring_run_id", "recurringRuns"),
}
"""Kind -> the message of its body, its id, and the field of a list."""


class Refused(Exception):
    """An answer of `refusals.json`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.status, self.body = REFUSALS[name]["status"], json.dumps(REFUSALS[name]["body"])


RECORDED = Path(__file__).with_name("recorded")


def recorded(name: str) -> dict[str, Any]:
    """The whole answer of the real server for a failed run with a task for each node: `failed-ingest`, `oomkilled`."""
    return json.loads((RECORDED / f"{name}.json").read_text())


WORKFLOW = "toy-x7k2p"


def failed_run(*tasks: str, attempts: int = 1, retry_nodes: bool = False) -> dict[str, Any]:
    """The fields of a run in which these tasks failed, after `done`, as the sources write them; nothing is recorded.

    Argo's nodes become task details (server/api_converter.go:1811, 1902 at 2.17.0): their ids are sent only as children
    of other nodes, and no error is sent. A task is a DAG with the node `executor`, which is the pod itself, or has one
    child for each attempt if there is any retry strategy.
    """
    details = [detail("root", "FAILED", "done-driver"), detail("done-driver", "SUCCEEDED", "done")]
    details += [detail("done", "SUCCEEDED", "done.executor"), detail("executor", "SUCCEEDED")]
    for task in tasks:
        retried = retry_nodes or attempts > 1
        pods = [f"{task}.executor({number})" for number in range(attempts)] if retried else []
        details += [
            detail(f"{task}-driver", "SUCCEEDED", task),
            detail(task, "FAILED", f"{task}.executor"),
            detail("executor", "FAILED", *pods),
            *(detail(f"executor({number})", "FAILED") for number, _ in enumerate(pods)),
        ]
    return {"state": "FAILED", "run_details": {"task_details": details}}


def failed_driver(task: str, *dags: str, of_dags: str = "") -> dict[str, Any]:
    """The fields of a run in which the driver of a task failed, after the task `done` of its DAG.

    of_dags: `(0)` with a retry strategy for all templates (2.17's workflow-controller-configmap), which gives every
    node, DAGs too, a parent and attempts.
    """
    inside = f"{of_dags}.".join((*dags, ""))
    return nodes_of(
        {f"{inside}done{of_dags}.executor{of_dags}": "SUCCEEDED", f"{inside}{task}-driver{of_dags}": "FAILED"}
    )


def nodes_of(pods: dict[str, str], attempt: int = 0) -> dict[str, Any]:
    """The fields of a failed run with these pods (path below the root -> state), each a child of the node around it.

    The recordings show that every node but the first is a child of another.
    """
    of_dags = "(0)" if all(path.endswith(")") for path in pods) else ""
    children, states = dict[str, dict[str, None]](), dict[str, str]()
    for path, state in pods.items():
        parts = f"{WORKFLOW}{of_dags}.root{of_dags.replace('0', str(attempt))}.{path}".split(".")
        above = ""
        for size in range(1, len(parts) + 1):
            whole = ".".join(parts[:size])
            for node in dict.fromkeys((re.sub(r"\(\d+\)$", "", whole), whole)):
                children.setdefault(above, {})[node] = None
                states[node] = "FAILED" if state == "FAILED" else states.get(node, state)
                above = node
    details = [
        {"display_name": node.rpartition(".")[2], "state": state, "execution_id": "0"}
        | {"child_tasks": [{"pod_name": hashed(child)} for child in children.get(node, ())]}
        for node, state in states.items()
    ]
    return {"state": "FAILED", "run_details": {"task_details": details}}


def argo_status(nodes: dict[str, tuple[str, str, str]]) -> dict[str, Any]:
    """The status of a failed Argo Workflow with these nodes, and the nodes around them, which failed unless given.

    nodes: path -> phase, message (workflow/controller/operator.go, inferFailedReason and markNodeError, of Argo 4.0.5),
    and when it ended.
    """
    split = [path.split(".") for path in nodes]
    around = {".".join(parts[:size]) for parts in split for size in range(1, len(parts))}
    around |= {re.sub(r"\(\d+\)$", "", path) for path in {*nodes, *around}} - {*nodes}
    status = {
        hashed(path): {"name": path, "type": "DAG", "phase": "Failed", "message": "child failed"} for path in around
    }
    for path, (phase, message, ended) in nodes.items():
        kind = "DAG" if any(other.startswith((f"{path}.", f"{path}(")) for other in nodes) else "Pod"
        name = path.rpartition(".")[2]
        template = "system-container-driver" if "-driver" in name else "system-container-impl"
        status[hashed(path)] = {
            "id": hashed(path), "name": path, "displayName": name, "type": kind, "templateName": template,
            "phase": phase, "message": message, "finishedAt": f"2026-11-28T19:{ended}Z",
        }  # fmt: skip
    return {"phase": "Failed", "message": "child 'toy-x7k2p-1' failed", "nodes": status}


def detail(name: str, state: str, *children: str, of_dags: str = "") -> dict[str, Any]:
    nodes = [{"pod_name": node_id(child, of_dags)} for child in children]
    return {"display_name": name, "state": state, "execution_id": "0", "child_tasks": nodes}


def node_id(path: str, of_dags: str = "") -> str:
    return hashed(f"{WORKFLOW}{of_dags}.root{of_dags}.{path}")


def hashed(path: str) -> str:
    """Argo's id of a node: the name of the workflow, and the 32-bit FNV-1a hash of the node's path."""
    value = 0x811C9DC5
    for byte in path.encode():
        value = (value ^ byte) * 0x01000193 % 2**32
    return f"{WORKFLOW}-{value}"


def pod(path: str, template: str = "system-container-impl", of_dags: str = "") -> str:
    return node_id(path, of_dags).replace(WORKFLOW, f"{WORKFLOW}-{template}")


class KubeflowServer:
    """The state of one installation. Tests set its fields before they send requests."""

    def __init__(self, *, token: str = "", cookie: str = "", namespaces: tuple[str, ...] = ()) -> None:
        self.token, self.cookie, self.namespaces = token, cookie, namespaces
        self.things: dict[str, dict[str, dict]] = {kind: {} for kind in KINDS}
        self.versions: dict[str, dict] = {}
        self.packages: dict[str, list[dict]] = {}
        self.requests: list[tuple[str, str]] = []
        self.refusing: dict[str, str] = {}
        """End of a path -> the refusal of the next request that creates something there."""
        self.failing: list[tuple[int, str]] = []
        """Responses (status, text) to return instead of the usual ones, once each."""
        self.progress: list[dict] = []
        """The fields of a run at each successive poll; the last entry stays."""
        self.logs: dict[str, str] = {}
        """Name of a pod -> its log. Others are gone."""
        self.workflow: dict | None = None
        """The status of the Argo Workflow of every run, if the older API is there."""
        self.log_status = 200
        self.lost_log: str | None = None
        """The answer for the log of a pod that is not in `logs`; None for the error of 2.17."""
        self.is_page = False
        """Whether it is the server of Kubeflow's page, in front of the API server."""
        self.largest_page = 2
        server = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                server.handle(self)

            do_POST = do_DELETE = do_GET

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def handle(self, http: QuietHandler) -> None:
        parts = urlsplit(http.path)
        path, body = unquote(parts.path), http.content()
        self.requests.append((http.command, path))
        status, text, kind = 200, "", "application/json"
        try:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if path.endswith(("/log", "/logs")):
                self.check_identity(http)
                status, text = self.log(path, query)
                kind = "text/plain; charset=utf-8"
            elif path.startswith("/apis/v1beta1/runs/"):
                self.check_identity(http)
                status, text = (404, "not found") if self.workflow is None else (200, json.dumps(self.run_detail()))
            elif self.failing:
                status, text = self.failing.pop(0)
                kind = "text/html"
            else:
                text = json.dumps(self.answer(http, path.removeprefix("/apis/v2beta1/").split("/"), query, body))
        except Refused as refused:
            status, text = refused.status, refused.body
        http.reply(text, status, kind, **({"Location": "/dex/auth"} if status == 302 else {}))

    def run_detail(self) -> dict:
        """server/api_converter.go, toApiRunDetailV1, and RunDetail of backend/api/v1beta1/run.proto, at 2.17.0."""
        return {"run": {}, "pipeline_runtime": {"workflow_manifest": json.dumps({"status": self.workflow})}}

    def log(self, path: str, query: dict) -> tuple[int, str]:
        """Status and text: server/run_log_server.go, or frontend/server/handlers/pod-logs.ts, both at 2.17.0.

        The status of the API server is 200 before the log is looked for; an error follows as JSON. The page's server
        answers paths that it does not know with the page.
        """
        if self.log_status != 200:
            return self.log_status, "404 page not found"
        if self.is_page != path.endswith("/logs"):
            return (200, "<!doctype html><html></html>") if self.is_page else (404, "404 page not found")
        if self.is_page:
            pod = query["podname"]
            if self.namespaces and query.get("podnamespace") not in self.namespaces:
                return 422, "podnamespace argument is required"
            missing = f"Could not get main container logs: Error: Unable to retrieve logs of {pod}"
            return (200, self.logs[pod]) if pod in self.logs else (500, missing)
        run, _, pod = path.removeprefix("/apis/v1alpha1/runs/").removesuffix("/log").split("/")
        lost = f"InternalServerError: Failed to read logs from archive {pod}: The specified key does not exist."
        message = f"BadRequestError: Failed to read logs for run {run}: {lost}"
        told = json.dumps({"error_message": message, "error_details": message})
        return 200, self.logs.get(pod) or (told if self.lost_log is None else self.lost_log)

    def answer(self, http: QuietHandler, names: list[str], query: dict, body: bytes) -> dict:
        self.check_identity(http)
        for end in [end for end in self.refusing if http.command == "POST" and "/".join(names).endswith(end)]:
            raise Refused(self.refusing.pop(end))
        if names == ["healthz"]:
            return {"multi_user": bool(self.namespaces)}
        if names[1:2] in (["upload"], ["upload_version"]):
            return self.upload(http, names[1], query, body)
        if names[2:] == ["versions"]:
            versions = [version for version in self.versions.values() if version["pipeline_id"] == names[1]]
            return self.page(versions, "pipeline_versions", query)
        if len(names) == 1 and http.command == "GET":
            return self.page(list(self.things[names[0]].values()), KINDS[names[0]][2], query)
        if len(names) == 1:
            return self.create(names[0], json.loads(body))
        return self.one(http.command, names[0], *names[1].partition(":")[::2], query)

    def check_identity(self, http: QuietHandler) -> None:
        if self.token and http.headers.get("authorization") != f"Bearer {self.token}":
            raise Refused("no identity")
        if self.cookie and http.headers.get("Cookie") != self.cookie:
            raise Refused("no identity")

    def page(self, items: list[dict], field: str, query: dict) -> dict:
        """server/list_request_util.go: a filter by name, and one page of items."""
        if query.get("filter"):
            (predicate,) = json.loads(query["filter"])["predicates"]
            assert predicate["key"] == "display_name" and predicate["operation"] in (1, "EQUALS")
            name = predicate.get("stringValue", predicate.get("string_value"))
            items = [item for item in items if item["display_name"] == name]
        begin = int(query.get("page_token") or 0)
        end = begin + min(int(query.get("page_size") or 20), self.largest_page)
        return {field: items[begin:end], "total_size": len(items)} | (
            {"next_page_token": str(end)} if end < len(items) else {}
        )

    def create(self, kind: str, body: dict) -> dict:
        """The gateway parses strictly: a field that the message does not have is an error."""
        model, key, _ = KINDS[kind]
        assert body["display_name"] and not set(body) - set(model.attribute_map.values())
        experiment = self.things["experiments"].get(body.get("experiment_id", ""), {})
        namespace = body.get("namespace") or experiment.get("namespace")
        if self.namespaces and not namespace and kind != "pipelines":
            raise Refused("no namespace")
        if self.namespaces and namespace and namespace not in self.namespaces:
            raise Refused("another namespace")
        body |= {key: str(uuid.uuid4()), "created_at": NOW} | ({"namespace": namespace} if self.namespaces else {})
        if kind in ("runs", "recurringruns"):
            reference = body["pipeline_version_reference"]
            assert self.versions[reference["pipeline_version_id"]]["pipeline_id"] == reference["pipeline_id"]
            body |= {"state": "PENDING"} if kind == "runs" else {"status": f"{body['mode']}D"}
        self.things[kind][body[key]] = body
        return body

    def one(self, command: str, kind: str, key: str, verb: str, query: dict) -> dict:
        found = self.things[kind][key]
        if command == "DELETE":
            del self.things[kind][key]
            # resource/resource_manager.go, DeleteJob, at 2.17.0: Kubernetes deletes what belongs to a deleted object.
            if kind == "recurringruns" and query.get("propagation_policy") != "ORPHAN":
                runs = self.things["runs"].items()
                self.things["runs"] = {name: run for name, run in runs if run.get("recurring_run_id") != key}
            return {}
        if verb:
            found |= {"status": f"{verb.upper()}D", "mode": verb.upper()}
            return {}
        if kind == "runs" and self.progress:
            return found | (self.progress.pop(0) if len(self.progress) > 1 else self.progress[0])
        return found

    def upload(self, http: QuietHandler, verb: str, query: dict, body: bytes) -> dict:
        """server/pipeline_upload_server.go: a multipart body, and the name in the query."""
        head = f"Content-Type: {http.headers.get('Content-Type', '')}\r\n\r\n".encode()
        [file] = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts()
        assert file.get_param("name", header="content-disposition") == "uploadfile"
        assert str(file.get_filename()).endswith(".yaml")
        if verb == "upload":
            return self.create("pipelines", {"display_name": query["name"]})
        version = {"pipeline_id": query["pipelineid"], "display_name": query["name"], "created_at": NOW}
        assert version["pipeline_id"] in self.things["pipelines"]
        version["pipeline_version_id"] = str(uuid.uuid4())
        self.versions[version["pipeline_version_id"]] = version
        self.packages[version["pipeline_version_id"]] = list(yaml.safe_load_all(file.get_payload(decode=True).decode()))
        return version
