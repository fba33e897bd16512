"""A fake API server of Kubeflow Pipelines on loopback, which keeps the objects that it receives.

`refusals.json` holds answers with which the real server refuses a request, as its sources write them. References are to
github.com/kubeflow/pipelines, tag 2.5.0, below backend/src/apiserver.
"""

import email.parser
import email.policy
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import kfp_server_api.models as models
import yaml

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


def failed_run(*tasks: str) -> dict[str, Any]:
    """The fields of a run in which these tasks failed, after `done`: a task is a DAG with the node `executor`."""
    details = [("root", "FAILED"), ("done", "SUCCEEDED")]
    details += [(name, "FAILED") for task in tasks for name in (task, "executor")]
    return {"state": "FAILED", "run_details": {"task_details": [{"display_name": n, "state": s} for n, s in details]}}


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
        self.largest_page = 2
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                server.handle(self)

            do_GET = do_POST = do_DELETE = _any

            def log_message(self, *_: Any) -> None:
                """Prints nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def handle(self, http: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(http.path)
        path, body = unquote(parts.path), http.rfile.read(int(http.headers.get("Content-Length") or 0))
        self.requests.append((http.command, path))
        status, text, kind = 200, "", "application/json"
        try:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if self.failing:
                status, text = self.failing.pop(0)
                kind = "text/html"
            else:
                text = json.dumps(self.answer(http, path.removeprefix("/apis/v2beta1/").split("/"), query, body))
        except Refused as refused:
            status, text = refused.status, refused.body
        http.send_response(status)
        http.send_header("Content-Type", kind)
        if status == 302:
            http.send_header("Location", "/dex/auth")
        http.send_header("Content-Length", str(len(text.encode())))
        http.end_headers()
        http.wfile.write(text.encode())

    def answer(self, http: BaseHTTPRequestHandler, names: list[str], query: dict, body: bytes) -> dict:
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
        return self.one(http.command, names[0], *names[1].partition(":")[::2])

    def check_identity(self, http: BaseHTTPRequestHandler) -> None:
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

    def one(self, command: str, kind: str, key: str, verb: str) -> dict:
        found = self.things[kind][key]
        if command == "DELETE":
            del self.things[kind][key]
            return {}
        if verb:
            found |= {"status": f"{verb.upper()}D", "mode": verb.upper()}
            return {}
        if kind == "runs" and self.progress:
            return found | (self.progress.pop(0) if len(self.progress) > 1 else self.progress[0])
        return found

    def upload(self, http: BaseHTTPRequestHandler, verb: str, query: dict, body: bytes) -> dict:
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
