"""The services that the driver and the launcher of Kubeflow Pipelines call: Kubernetes, metadata, cache, object store.

Kubernetes and the cache are fakes that answer the few requests of these programs. The metadata service is ML Metadata's
own library behind its gRPC interface, and the object store is a real S3 server.
"""

import base64
import datetime
import json
import ssl
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.live.metadata_service import StoredMetadata, metadata_service
from tests.live.servers import free_port, listens, server
from tests.loopback import QuietHandler, self_signed, serving

NAMESPACE, BUCKET = "kubeflow", "artifacts"
KEY, SECRET = "fullpass", "a-secret-of-this-check"
ROOT = f"s3://{BUCKET}/v2"
EPOCH = "scheduledworkflows.kubeflow.org/workflowEpoch"
PLANNED = int(datetime.datetime(2013, 1, 4, 3, tzinfo=datetime.UTC).timestamp())
"""The scheduled time of every run. The run starts a day late."""


@dataclass(frozen=True)
class Services:
    """Ports and folders of the services. account: the folder of a service account. cached: execution by fingerprint."""

    account: Path
    kubernetes: int
    metadata: int
    cache: int
    store: StoredMetadata
    objects: Path
    cached: dict[str, str]


@contextmanager
def services(folder: Path, s3_server: Path, cache_port: int = 0) -> Iterator[Services]:
    """Runs all services while the block runs. cache_port: port of the cache; 0 picks a free one."""
    account, objects = folder / "account", folder / "objects"
    (objects / BUCKET).mkdir(parents=True)
    account.mkdir()
    port = free_port()
    command = [str(s3_server), "--port", f"127.0.0.1:{port}", "posix", str(objects)]
    env = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    store = StoredMetadata(folder / "metadata.sqlite")
    with ExitStack() as stack:
        stack.enter_context(server(command, folder / "s3.log", listens(port), seconds=60, env=env))
        cached: dict[str, str] = {}
        yield Services(
            account=account,
            kubernetes=stack.enter_context(_kubernetes(account, f"http://127.0.0.1:{port}")),
            metadata=stack.enter_context(metadata_service(store)),
            cache=stack.enter_context(_cache(cached, cache_port)),
            store=store,
            objects=objects / BUCKET,
            cached=cached,
        )


@contextmanager
def _kubernetes(account: Path, store: str) -> Iterator[int]:
    """Serves the launcher's settings, the store's secret, and any pod or workflow."""
    provider = {
        "endpoint": store, "region": "us-east-1", "disableSSL": True, "forcePathStyle": True,
        "credentials": {"fromEnv": False, "secretRef": {
            "secretName": "store", "accessKeyKey": "accesskey", "secretKeyKey": "secretkey"}},
    }  # fmt: skip
    settings = {"defaultPipelineRoot": ROOT, "providers": yaml.safe_dump({"s3": {"default": provider}})}
    secret = {"accesskey": KEY, "secretkey": SECRET}
    found: dict[str, dict[str, Any]] = {
        "configmaps/kfp-launcher": {"kind": "ConfigMap", "data": settings},
        "secrets/store": {
            "kind": "Secret",
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in secret.items()},
        },
    }

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            kind, _, name = self.path.partition(f"/namespaces/{NAMESPACE}/")[2].partition("?")[0].partition("/")
            answer = found.get(f"{kind}/{name}")
            if kind == "pods":
                answer = {"kind": "Pod", "spec": {}}
            if kind == "workflows":
                answer = {"kind": "Workflow", "apiVersion": "argoproj.io/v1alpha1", "spec": {}}
            status = 200 if answer else 404
            missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            of_schedule = {"labels": {EPOCH: str(PLANNED)}, "creationTimestamp": "2013-01-05T09:30:00Z"}
            metadata = {"name": name, "namespace": NAMESPACE, **(of_schedule if kind == "workflows" else {})}
            body = {"apiVersion": "v1", "metadata": metadata, **(answer or missing)}
            self.reply(body, status)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_certificate(account))
    with serving(Handler, context) as address:
        yield int(address.rpartition(":")[2])


def _certificate(account: Path) -> tuple[str, str]:
    """Writes the files of a service account, and a self-signed certificate for loopback."""
    certificate, key = self_signed()
    files = {"ca.crt": certificate, "token": b"a-token-of-this-check", "namespace": NAMESPACE.encode()}
    for file, content in files.items():
        (account / file).write_bytes(content)
    private = account.parent / "kubernetes.key"
    private.write_bytes(key)
    return str(account / "ca.crt"), str(private)


@contextmanager
def _cache(cached: dict[str, str], port: int) -> Iterator[int]:
    """Serves CreateTaskV1 and ListTasksV1 of api.TaskService (backend/api/v1beta1/task.proto at 2.17.0)."""
    task_type, listed_type, create_type, asked_type = _messages()

    def create(request: Any, _: grpc.ServicerContext) -> Any:
        task = request.task
        cached[json.dumps([task.fingerprint, task.pipelineName, task.namespace])] = task.mlmdExecutionID
        return task

    def listed(request: Any, _: grpc.ServicerContext) -> Any:
        predicates = json.loads(request.filter)["predicates"]
        asked = {found["key"]: found.get("stringValue", found.get("string_value")) for found in predicates}
        execution = cached.get(json.dumps([asked["fingerprint"], asked["pipelineName"], asked["namespace"]]))
        return listed_type(tasks=[task_type(mlmdExecutionID=execution)] if execution else [])

    handlers = {
        "CreateTaskV1": grpc.unary_unary_rpc_method_handler(
            create, create_type.FromString, task_type.SerializeToString
        ),
        "ListTasksV1": grpc.unary_unary_rpc_method_handler(
            listed, asked_type.FromString, listed_type.SerializeToString
        ),
    }
    service = grpc.server(futures.ThreadPoolExecutor(4))
    service.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("api.TaskService", handlers)])
    port = service.add_insecure_port(f"127.0.0.1:{port}")
    service.start()
    try:
        yield port
    finally:
        service.stop(grace=None).wait(timeout=30)


def _messages() -> tuple[Any, Any, Any, Any]:
    """Builds four messages with only the fields that this check needs, by their field numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="fullpass_check_tasks.proto", package="fullpass_check")
    text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    nested = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
    fields = {
        "Task": [("namespace", 2), ("pipelineName", 3), ("runId", 4), ("mlmdExecutionID", 5), ("fingerprint", 8)],
        "CreateTaskRequest": [("task", 1)],
        "ListTasksRequest": [("filter", 5)],
        "ListTasksResponse": [("tasks", 1)],
    }
    for name, numbered in fields.items():
        message = file.message_type.add(name=name)
        for field, number in numbered:
            of_task = field in ("task", "tasks")
            message.field.add(
                name=field, number=number, type=nested if of_task else text,
                type_name=".fullpass_check.Task" if of_task else None,
                label=3 if field == "tasks" else 1,
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"fullpass_check.{name}")) for name in fields
    }
    return made["Task"], made["ListTasksResponse"], made["CreateTaskRequest"], made["ListTasksRequest"]
