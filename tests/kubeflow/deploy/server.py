"""A fake Kubeflow Pipelines API server on loopback that makes the checks of the real one and keeps received objects.

References are to github.com/kubeflow/pipelines, tag 2.5.0, below backend/src/apiserver, or to the named tag.
"""

import email.parser
import email.policy
import json
import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import kfp_server_api.models as models
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

NOW = "2026-01-02T03:04:05Z"
TYPES = {"STRING": str, "BOOLEAN": bool, "NUMBER_INTEGER": (int, float), "NUMBER_DOUBLE": (int, float)}
CODES = {400: 3, 404: 5, 409: 6, 403: 7, 401: 16, 500: 13, 503: 14}
BODIES = {
    "pipelines": models.V2beta1Pipeline,
    "experiments": models.V2beta1Experiment,
    "runs": models.V2beta1Run,
    "recurringruns": models.V2beta1RecurringRun,
}
LISTS = {"pipelines": "pipelines", "experiments": "experiments", "runs": "runs", "recurringruns": "recurringRuns"}
IDS = {
    "pipelines": "pipeline_id", "experiments": "experiment_id", "runs": "run_id", "recurringruns": "recurring_run_id",
}  # fmt: skip


class Refused(Exception):
    """A response with a status other than 200. upload: whether it has the format of the upload server."""

    def __init__(self, status: int, message: str, *, upload: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.upload = status, message, upload


class KubeflowServer:
    """The state of one installation. Tests set its fields before they send requests."""

    def __init__(self, *, token: str = "", cookie: str = "", namespaces: tuple[str, ...] = ()) -> None:
        self.token, self.cookie, self.namespaces = token, cookie, namespaces
        self.things: dict[str, dict[str, dict]] = {kind: {} for kind in BODIES}
        self.versions: dict[str, dict] = {}
        self.packages: dict[str, list[dict]] = {}
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[dict] = []
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
        body = http.rfile.read(int(http.headers.get("Content-Length") or 0))
        self.requests.append((http.command, unquote(parts.path)))
        try:
            if self.failing:
                status, text = self.failing.pop(0)
                self.answer(http, status, text.encode(), "text/html")
                return
            self.authenticate(http)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            answer = self.route(http, unquote(parts.path), query, body)
            self.answer(http, 200, json.dumps(answer).encode())
        except Refused as refused:
            if refused.upload:  # server/pipeline_upload_server.go, writeErrorToResponse
                body = {"error_message": refused.message, "error_details": f"details: {refused.message}"}
            else:
                body = {"error": refused.message, "code": CODES[refused.status], "message": refused.message}
            self.answer(http, refused.status, json.dumps(body).encode())

    def answer(self, http: BaseHTTPRequestHandler, status: int, data: bytes, kind: str = "application/json") -> None:
        http.send_response(status)
        http.send_header("Content-Type", kind)
        if status == 302:
            http.send_header("Location", "/dex/auth")
        http.send_header("Content-Length", str(len(data)))
        http.end_headers()
        http.wfile.write(data)

    def authenticate(self, http: BaseHTTPRequestHandler) -> None:
        if self.token and http.headers.get("authorization") != f"Bearer {self.token}":
            raise Refused(401, "Request header error: there is no user identity header.")
        if self.cookie and http.headers.get("Cookie") != self.cookie:
            raise Refused(401, "Request header error: there is no user identity header.")

    def route(self, http: BaseHTTPRequestHandler, path: str, query: dict, body: bytes) -> dict:
        if not path.startswith("/apis/v2beta1/"):
            raise Refused(404, "Not Found")
        names = path.removeprefix("/apis/v2beta1/").split("/")
        if names == ["healthz"]:
            return {"multi_user": bool(self.namespaces)}
        if names[:2] in (["pipelines", "upload"], ["pipelines", "upload_version"]) and http.command == "POST":
            return self.upload(http, names[1], query, body)
        kind = names[0]
        if kind not in BODIES:
            raise Refused(404, "Not Found")
        if len(names) == 3 and names[2] == "versions":
            return self.list(self.versions.values(), "pipeline_versions", query, pipeline_id=names[1])
        if len(names) == 1 and http.command == "GET":
            self.authorize(query.get("namespace"), needed=kind in ("experiments", "runs", "recurringruns"))
            scope = {"namespace": query["namespace"]} if query.get("namespace") and self.namespaces else {}
            return self.list(self.things[kind].values(), LISTS[kind], query, **scope)
        if len(names) == 1:
            return self.create(kind, strict(json.loads(body), BODIES[kind]))
        return self.one(http.command, kind, *names[1].partition(":")[::2])

    def authorize(self, namespace: str | None, *, needed: bool) -> None:
        if len(namespace or "") > 63:
            raise Refused(400, "Namespace length cannot exceed 63")
        if not self.namespaces:
            return  # single-user mode: ReplaceNamespace drops the namespace
        if not namespace and needed:
            raise Refused(400, "Invalid input error: A run cannot have an empty namespace in multi-user mode")
        if namespace and namespace not in self.namespaces:
            raise Refused(403, f"User 'a@example' is not authorized with reason: (namespace: {namespace}, verb: list)")

    def list(self, items: Any, field: str, query: dict, **scope: str) -> dict:
        """server/list_request_util.go, validatedListOptions: a page token contains the filter of its first request."""
        found = [item for item in items if all(item.get(key) == value for key, value in scope.items())]
        text = query.get("filter", "")
        if text:
            (predicate,) = json.loads(text)["predicates"]
            value = predicate.get("stringValue", predicate.get("string_value"))
            if predicate["key"] != "display_name" or predicate["operation"] not in (1, "EQUALS") or value is None:
                raise Refused(400, f"Invalid input error: Invalid filter: {text}")
            found = [item for item in found if item["display_name"] == value]
        size = min(int(query.get("page_size") or 20), self.largest_page)
        if not 0 < int(query.get("page_size") or 20) <= 200:
            raise Refused(400, "Invalid input error: The page size should be greater than 0 and at most 200")
        begin = 0
        if query.get("page_token"):
            held, _, position = query["page_token"].rpartition("|")
            if held != text:
                raise Refused(400, "page token does not match the supplied sort by and/or filtering criteria")
            begin = int(position)
        answer: dict = {field if field != "recurringRuns" else "recurringRuns": found[begin : begin + size]}
        answer["total_size"] = len(found)
        if begin + size < len(found):
            answer["next_page_token"] = f"{text}|{begin + size}"
        return answer

    def create(self, kind: str, body: dict) -> dict:
        name = body.get("display_name")
        if not name:
            raise Refused(400, f"Invalid input error: The {kind} name is empty. Please specify a valid name")
        experiment = self.things["experiments"].get(body.get("experiment_id", ""), {})
        namespace = body.get("namespace") or experiment.get("namespace")
        self.authorize(namespace, needed=kind != "pipelines")
        if kind == "pipelines":
            self.check_pipeline_name(name, namespace, upload=False)
        if kind == "experiments" and len(name) > 128:
            raise Refused(400, "Experiment.Name length cannot exceed 128")
        body |= {IDS[kind]: str(uuid.uuid4()), "created_at": NOW}
        if self.namespaces:
            body["namespace"] = namespace
        if kind in ("runs", "recurringruns"):
            if not experiment:
                raise Refused(404, f"Experiment {body.get('experiment_id')} not found")
            self.check_run(body)
        if kind == "recurringruns":
            self.check_recurring_run(body)
            body["status"] = "ENABLED" if body["mode"] == "ENABLE" else "DISABLED"
        if kind == "runs":
            body["state"] = "PENDING"
        self.things[kind][body[IDS[kind]]] = body
        self.bodies.append(dict(body))
        return body

    def check_run(self, body: dict) -> None:
        """resource/resource_manager.go, CreateRun; template/v2_template.go, validatePipelineJobInputs."""
        reference = strict(body.get("pipeline_version_reference") or {}, models.V2beta1PipelineVersionReference)
        version = self.versions.get(reference.get("pipeline_version_id", ""))
        if version is None or version["pipeline_id"] != reference.get("pipeline_id"):
            raise Refused(404, f"PipelineVersion {reference.get('pipeline_version_id')} not found")
        runtime = strict(body.get("runtime_config") or {}, models.V2beta1RuntimeConfig)
        given = runtime.get("parameters") or {}
        pipeline = self.packages[version["pipeline_version_id"]][0]
        declared = pipeline["root"].get("inputDefinitions", {}).get("parameters", {})
        for name, parameter in declared.items():
            if name not in given and not parameter.get("isOptional") and "defaultValue" not in parameter:
                raise Refused(400, f"parameter {name} is not optional, yet has neither default value nor value")
            wanted = TYPES[parameter["parameterType"]]
            if name in given and (
                not isinstance(given[name], wanted) or isinstance(given[name], bool) != (wanted is bool)
            ):
                raise Refused(400, f"input parameter {name} requires type {parameter['parameterType'].lower()}")
        if set(given) - set(declared):
            raise Refused(
                400, f"parameter(s) provided are not required by pipeline: {sorted(set(given) - set(declared))}"
            )

    def check_recurring_run(self, body: dict) -> None:
        """server/api_converter.go, toModelJob and toModelTrigger."""
        trigger = strict(body.get("trigger") or {}, models.V2beta1Trigger)
        cron = strict(trigger.get("cron_schedule") or {}, models.V2beta1CronSchedule).get("cron")
        if not 1 <= int(body.get("max_concurrency") or 0) <= 10:
            raise Refused(400, "Max concurrency of a recurring run must be at least 1 and at most 10")
        if cron is None or not is_robfig_cron(cron):
            raise Refused(400, f"Schedule cron is not a supported format. Error: {cron}")
        if body.get("mode") not in ("ENABLE", "DISABLE"):
            raise Refused(400, "recurring run mode")

    def one(self, command: str, kind: str, key: str, verb: str) -> dict:
        found = self.things[kind].get(key)
        if found is None:
            raise Refused(404, f"{kind} {key} not found")
        if command == "DELETE":
            if kind == "pipelines" and any(version["pipeline_id"] == key for version in self.versions.values()):
                raise Refused(400, "the pipeline has versions")
            del self.things[kind][key]
            return {}
        if verb:
            found["status"] = {"enable": "ENABLED", "disable": "DISABLED"}[verb]
            found["mode"] = verb.upper()
            return {}
        if kind == "runs" and self.progress:
            return found | (self.progress.pop(0) if len(self.progress) > 1 else self.progress[0])
        return found

    def upload(self, http: BaseHTTPRequestHandler, verb: str, query: dict, body: bytes) -> dict:
        """server/pipeline_upload_server.go: multipart body, name in the query; errors have their own format."""
        kind = http.headers.get("Content-Type", "")
        head = f"Content-Type: {kind}\r\n\r\n".encode()
        parts = list(email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts())
        files = [part for part in parts if part.get_param("name", header="content-disposition") == "uploadfile"]
        if len(files) != 1:
            raise Refused(400, "Failed to read pipeline from file", upload=True)
        if not str(files[0].get_filename()).endswith((".yaml", ".yml")):
            raise Refused(400, "Unexpected pipeline file format. Support .zip, .tar.gz, .json or YAML", upload=True)
        documents = template(files[0].get_payload(decode=True).decode())
        name = query.get("name") or files[0].get_filename()
        if verb == "upload":
            self.authorize(query.get("namespace"), needed=False)
            self.check_pipeline_name(name, query.get("namespace"), upload=True)
            pipeline = {"pipeline_id": str(uuid.uuid4()), "display_name": name, "created_at": NOW}
            pipeline |= {"namespace": query["namespace"]} if query.get("namespace") else {}
            self.things["pipelines"][pipeline["pipeline_id"]] = pipeline
        else:
            pipeline = self.things["pipelines"].get(query.get("pipelineid", ""))
            if pipeline is None:
                raise Refused(400, "Failed to create a pipeline version", upload=True)
        if len(name) > 127:
            raise Refused(400, "PipelineVersion.Name length cannot exceed 127", upload=True)
        key = pipeline["pipeline_id"]
        if any(v["pipeline_id"] == key and v["display_name"] == name for v in self.versions.values()):
            raise Refused(409, f"Failed to create a new pipeline version. The name {name} already exist.", upload=True)
        version = {
            "pipeline_id": key,
            "pipeline_version_id": str(uuid.uuid4()),
            "display_name": name,
            "created_at": NOW,
        }
        self.versions[version["pipeline_version_id"]] = version
        self.packages[version["pipeline_version_id"]] = documents
        return pipeline if verb == "upload" else version

    def check_pipeline_name(self, name: str, namespace: str | None, *, upload: bool) -> None:
        if len(name) > 128:
            raise Refused(400, "Pipeline.Name length cannot exceed 128", upload=upload)
        scope = namespace if self.namespaces else None
        if any(p["display_name"] == name and p.get("namespace") == scope for p in self.things["pipelines"].values()):
            raise Refused(409, f"Failed to create a new pipeline. The name {name} already exists.", upload=upload)


def strict(body: dict, model: type) -> dict:
    """Parses a body strictly as the gateway does: a field that the message does not have is an error."""
    unknown = set(body) - set(model.attribute_map.values())
    if unknown:
        raise Refused(400, f'json: unknown field "{sorted(unknown)[0]}"')
    return body


def template(text: str) -> list[dict]:
    """template/v2_template.go, NewV2SpecTemplate: a pipeline specification of 2.1.0, at most one platform document."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
        pipelines = [d for d in documents if "pipelineInfo" in d or "schemaVersion" in d]
        platforms = [d for d in documents if "platforms" in d]
        if len(pipelines) != 1:
            raise ValueError("no pipeline spec is provided" if not pipelines else "multiple pipeline specs provided")
        spec = json_format.ParseDict(pipelines[0], pipeline_spec_pb2.PipelineSpec())
        if spec.schema_version != "2.1.0":
            version = spec.schema_version
            raise ValueError(f"KFP only supports schema version 2.1.0, but the pipeline spec has version {version}")
        if not re.fullmatch(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", spec.pipeline_info.name
        ):
            raise ValueError("name should consist of lower case alphanumeric characters, '-' or '.'")
        if not spec.HasField("root"):
            raise ValueError("root component is empty")
        if len(platforms) > 1:
            raise ValueError("multiple platform specs provided")
        for platform in platforms:
            json_format.ParseDict(platform, pipeline_spec_pb2.PlatformSpec())
    except (ValueError, yaml.YAMLError, json_format.ParseError) as error:
        raise Refused(400, f"Invalid input error: invalid v2 pipeline spec: {error}", upload=True) from error
    return [*pipelines, *platforms]


def is_robfig_cron(line: str) -> bool:
    """github.com/robfig/cron v1: six fields (the sixth is optional); Sunday is 0, not 7."""
    bounds = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    months = {name: i + 1 for i, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())}
    days = {name: i for i, name in enumerate("sun mon tue wed thu fri sat".split())}
    fields = line.split()
    if len(fields) not in (5, 6):
        return False
    for field, (low, high), names in zip(fields, bounds, ({}, {}, {}, {}, months, days), strict=False):
        for item in field.split(","):
            span, *step = item.split("/")
            ends = span.split("-")
            if len(step) > 1 or len(ends) > 2 or (step and not (step[0].isdigit() and int(step[0]))):
                return False
            if span in ("*", "?"):
                continue
            numbers = [names.get(end.lower(), int(end) if end.isdigit() else -1) for end in ends]
            if not low <= numbers[0] <= numbers[-1] <= high:
                return False
    return True
