"""The backend: API server, driver and workflow engine, task by task."""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from tests.kubeflow.backend.launcher import Pod, Process, TaskFailed, launch
from tests.kubeflow.backend.metadata import CONTAINER, DAG, IMPORTER, Metadata
from tests.kubeflow.backend.store import ObjectStore

_JSON_TYPES = {
    "STRING": str,
    "BOOLEAN": bool,
    "NUMBER_INTEGER": float,
    "NUMBER_DOUBLE": float,
    "LIST": list,
    "STRUCT": dict,
}


class Refused(Exception):
    """The API server rejects a package or a run."""


@dataclass
class Result:
    """The end of a run: task -> COMPLETE or CACHED; attempts per task; seconds of its last attempt.

    pods: drivers of DAGs and of containers, importers, and containers.
    """

    id: str
    states: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    pods: int = 0

    def log(self, task: str) -> str:
        """Returns the output that the container of a task printed."""
        return (self.folders[task] / "log").read_text()


class Backend:
    """One installation: metadata, an object store and a cache that outlive runs."""

    def __init__(
        self,
        folder: Path,
        *,
        release: str = "2.5",
        root: str = "minio://mlpipeline/v2/artifacts",
    ) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.store = ObjectStore(folder / "store")
        self.metadata = Metadata()
        self.secrets: dict[str, dict[str, str]] = {}
        self.started: Callable[[str, int, Process], None] = lambda task, attempt, process: None
        # Task -> whether its Python starts as in a cluster. By default it is a fork of a process that has imported TFX,
        # which takes less time.
        self.starts_fresh: Callable[[str], bool] = lambda task: False
        self.modules: dict[str, Path] = {}  # image -> a folder that comes first on its import path
        self._cache: dict[str, int] = {}
        version = tuple(map(int, release.split(".")))
        self._presets, self._newest = version >= (2, 15), version >= (2, 17)
        self._root = root
        self.planned = "2026-01-09T13:00:00Z"  # RFC 3339, in seconds

    def run(
        self, package: str, parameters: Mapping[str, Any] | None = None, *, parallel: int = 1, timeout: float = 300
    ):
        """Runs a package to its end; raises Refused or TaskFailed."""
        spec, platform = _parse(package)
        run = _Run(self, spec, platform, parallel, timeout, Result(uuid.uuid4().hex[:12]))
        run.root(_run_parameters(spec, parameters or {}))
        return run.result


@dataclass
class _Run:
    backend: Backend
    spec: dict[str, Any]
    platform: dict[str, Any]
    parallel: int
    timeout: float
    result: Result

    @property
    def metadata(self) -> Metadata:
        return self.backend.metadata

    def root(self, parameters: dict[str, Any]) -> None:
        self.result.pods += 1
        execution = self.metadata.start(DAG, self.result.id, "", 0, parameters)
        self._dag(self.spec["root"]["dag"], execution)

    def _dag(self, dag: dict[str, Any], execution: int) -> None:
        """Runs each task as soon as all its dependencies have succeeded (v2/compiler/argocompiler/dag.go:654)."""
        exits = {name: task for name, task in dag["tasks"].items() if _is_exit(task)}
        waiting, running = {name: task for name, task in dag["tasks"].items() if name not in exits}, {}
        waits = {
            name: set(task.get("dependentTasks", ())) | _producers(name, task, dag) for name, task in waiting.items()
        }
        with ThreadPoolExecutor(self.parallel) as pool:
            while waiting or running:
                ready = [
                    n for n in waiting if all(self.result.states.get(d) in ("COMPLETE", "CACHED") for d in waits[n])
                ]
                for name in ready[: self.parallel - len(running)]:
                    running[pool.submit(self._hooked, name, waiting.pop(name), execution, exits)] = name
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    self.result.states[running.pop(future)] = future.result()

    def _hooked(self, name: str, task: dict[str, Any], parent: int, exits: dict[str, Any]) -> str:
        """Runs a task, then its exit tasks: hooks that depend on it and run whatever its final state (dag.go:84)."""
        try:
            return self._task(name, task, parent)
        finally:
            for hook, exit_task in exits.items():
                if name in exit_task.get("dependentTasks", ()):
                    self.result.states[hook] = self._task(hook, exit_task, parent)

    def _task(self, name: str, task: dict[str, Any], parent: int) -> str:
        self.result.pods += 1
        component = self.spec["components"][task["componentRef"]["name"]]
        if "dag" in component:
            inputs = self._inputs(name, task, component, parent)
            outputs, total = component["dag"].get("outputs", {}).get("artifacts", {}), len(component["dag"]["tasks"])
            execution = self.metadata.start(
                DAG, self.result.id, name, parent, inputs["parameterValues"], outputs=outputs, total_dag_tasks=total
            )
            self._dag(component["dag"], execution)
            return "COMPLETE"
        executor = self.spec["deploymentSpec"]["executors"][component["executorLabel"]]
        if "importer" in executor:
            return self._import(name, task, component, executor["importer"], parent)
        return self._container(name, task, component, executor["container"], parent)

    def _container(self, name: str, task: dict, component: dict, container: dict, parent: int) -> str:
        """v2/driver/driver.go:247 Container."""
        message: dict[str, Any] = {"inputs": self._inputs(name, task, component, parent)}
        salt = uuid.uuid4().hex
        self._provision(message, name, component, salt)
        # driver.go:2535 GetExecutionCache: looks up executions of the same pipeline.
        key = f"{self.spec['pipelineInfo']['name']}/{_fingerprint(message, component, container)}"
        execution = self.metadata.start(CONTAINER, self.result.id, name, parent, message["inputs"]["parameterValues"])
        cached = self.backend._cache.get(key)
        if task.get("cachingOptions", {}).get("enableCache") and cached is not None:
            earlier = self.metadata.executions[cached]
            self.metadata.finish(execution, "CACHED", earlier.outputs, earlier.artifacts)
            return "CACHED"
        outputs, artifacts = self._attempts(name, task, component, container, message, salt)
        self.metadata.finish(execution, "COMPLETE", outputs, artifacts)
        self.metadata.end_dag(parent)
        if task.get("cachingOptions", {}).get("enableCache"):
            self.backend._cache[key] = execution
        return "COMPLETE"

    def _attempts(self, name: str, task: dict, component: dict, container: dict, message: dict, salt: str):
        """Runs a task with its retries. Every retry is a new pod: an empty file system, the same URIs and paths."""
        most = 1 + task.get("retryPolicy", {}).get("maxRetryCount", 0)
        for attempt in range(most):
            self.result.attempts[name] = attempt + 1
            self.result.pods += 1
            if attempt:
                self.result.folders[name].rename(f"{self.result.folders[name]}-{attempt - 1}")
            pod = self._pod(name, container, component["executorLabel"], attempt)
            self.result.folders[name] = pod.folder
            pod_message = json.loads(json.dumps(message))
            pod_message["outputs"]["outputFile"] = str(pod.folder / pod_message["outputs"]["outputFile"].lstrip("/"))
            for output in pod_message["outputs"]["parameters"].values():
                output["outputFile"] = str(pod.folder / output["outputFile"].lstrip("/"))
                Path(output["outputFile"]).parent.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            try:
                backend = self.backend
                outputs, described = launch(
                    pod, pod_message, component, backend.store, backend._root, newest=backend._newest
                )
                return outputs, self._record(name, component, described)
            except TaskFailed:
                if attempt + 1 == most:
                    raise
            finally:
                self.result.seconds[name] = time.monotonic() - began
        raise AssertionError

    def _record(self, name: str, component: dict, described: dict[str, tuple[str, dict]]) -> dict[str, int]:
        types = component.get("outputDefinitions", {}).get("artifacts", {})
        try:
            return {
                key: self.metadata.record_artifact(types[key]["artifactType"]["schemaTitle"], key, uri, metadata)
                for key, (uri, metadata) in described.items()
            }
        except ValueError as error:
            raise TaskFailed(name, str(error)) from error

    def _pod(self, name: str, container: dict, label: str, attempt: int) -> Pod:
        folder = self.backend._folder / "pods" / self.result.id / name
        folder.mkdir(parents=True)
        secrets: dict[str, str] = {}
        for secret in self.platform.get(label, {}).get("secretAsEnv", []):
            values = self.backend.secrets.get(secret["secretName"])
            if values is None:
                raise TaskFailed(name, f"CreateContainerConfigError: secret {secret['secretName']!r} not found")
            secrets |= {entry["envVar"]: values[entry["secretKey"]] for entry in secret["keyToEnv"]}
        return Pod(
            name, folder, container, secrets, self.timeout, self.backend.starts_fresh(name),
            str(self.backend.modules.get(container["image"], "")),
            lambda process: self.backend.started(name, attempt, process),
        )  # fmt: skip

    def _import(self, name: str, task: dict, component: dict, importer: dict, parent: int) -> str:
        """v2/component/importer_launcher.go: the URI is a constant, or a parameter of the enclosing DAG."""
        uri = importer["artifactUri"].get("constant")
        if uri is None:
            source = task["inputs"]["parameters"][importer["artifactUri"]["runtimeParameter"]]
            uri = self.metadata.executions[parent].inputs.get(source.get("componentInputParameter", ""))
        if not uri:
            raise TaskFailed(name, "error resolving artifact URI: parent DAG does not have the input parameter")
        if not re.match(r"(gs|s3|minio)://", uri):
            raise TaskFailed(name, f"no provider scheme found in artifact URI: {uri}")
        [key] = component["outputDefinitions"]["artifacts"]
        title = importer["typeSchema"]["schemaTitle"]
        known = None if importer.get("reimport") else self.metadata.find_artifact(title, uri)
        artifact = known or self.metadata.record_artifact(title, key, uri, importer.get("metadata", {}))
        execution = self.metadata.start(IMPORTER, self.result.id, name, parent, {})
        self.metadata.finish(execution, "COMPLETE", {}, {key: artifact})
        return "COMPLETE"

    def _inputs(self, name: str, task: dict, component: dict, parent: int) -> dict[str, Any]:
        """driver.go:1369 resolveInputs."""
        inputs = task.get("inputs", {})
        values = {key: self._parameter(name, key, spec, parent) for key, spec in inputs.get("parameters", {}).items()}
        _check_types(name, values, component.get("inputDefinitions", {}).get("parameters", {}))
        artifacts = {
            key: {"artifacts": [self._artifact(spec["taskOutputArtifact"], parent)]}
            for key, spec in inputs.get("artifacts", {}).items()
        }
        return {"parameterValues": values, "artifacts": artifacts}

    def _parameter(self, name: str, key: str, spec: dict, parent: int) -> Any:
        if "componentInputParameter" in spec:
            values = self.metadata.executions[parent].inputs
            if spec["componentInputParameter"] not in values:
                raise TaskFailed(name, f"parent DAG does not have input parameter {spec['componentInputParameter']}")
            return values[spec["componentInputParameter"]]
        if "taskOutputParameter" in spec:
            source = spec["taskOutputParameter"]
            producer = self.metadata.tasks(self.result.id, parent)[source["producerTask"]]
            return producer.outputs[source["outputParameterKey"]]
        constant = spec["runtimeValue"]["constant"]
        # v2/cmd/driver/main.go:288 of 2.17: the scheduled time replaces a constant that consists of this text only.
        planned = constant == "{{$.pipeline_job_schedule_time_utc}}" and self.backend._newest
        return self.backend.planned if planned else constant

    def _artifact(self, source: dict, parent: int) -> dict[str, Any]:
        """driver.go:1927 resolveUpstreamArtifacts: follows the outputs of sub-DAGs to the producer task."""
        tasks = self.metadata.tasks(self.result.id, parent)
        producer, key = tasks[source["producerTask"]], source["outputArtifactKey"]
        while producer.kind == DAG:
            selector = producer.dag["outputs"][key]["artifactSelectors"][-1]
            producer, key = tasks[selector["producerSubtask"]], selector["outputArtifactKey"]
        return self.metadata.runtime_artifact(producer.artifacts[key])

    def _provision(self, message: dict[str, Any], name: str, component: dict, salt: str) -> None:
        """driver.go:2010 provisionOutputs; since 2.15 (driver.go:658) names are preset, and the executor output file is
        under the task's root."""
        backend, outputs = self.backend, component.get("outputDefinitions", {})
        base = f"{backend._root}/{self.spec['pipelineInfo']['name']}/{self.result.id}/{name}/{salt}"
        types = {key: value["artifactType"] for key, value in outputs.get("artifacts", {}).items()}
        types["executor-logs"] = {"schemaTitle": "system.Artifact"}
        artifacts = {}
        for key, kind in types.items():
            named = {"name": key} if backend._presets else {}
            artifacts[key] = {"artifacts": [{"uri": f"{base}/{key}", "type": kind, "metadata": {}, **named}]}
        parameters = {key: {"outputFile": f"/tmp/kfp/outputs/{key}"} for key in outputs.get("parameters", {})}
        local = f"/{base.replace('://', '/', 1)}/output_metadata.json"
        file = local if backend._presets else "/tmp/kfp_outputs/output_metadata.json"
        message["outputs"] = {"artifacts": artifacts, "parameters": parameters, "outputFile": file}


def _parse(package: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """apiserver/template/v2_template.go:155: strict protojson, one schema version."""
    documents = list(yaml.safe_load_all(package))
    try:
        json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
        deployment = documents[0]["deploymentSpec"]
        # v2/compiler/visitor.go:175: unknown fields are ignored there.
        json_format.ParseDict(deployment, pipeline_spec_pb2.PipelineDeploymentConfig(), ignore_unknown_fields=True)
    except (json_format.ParseError, KeyError, TypeError, IndexError) as error:
        raise Refused(f"invalid v2 pipeline spec: {error}") from error
    if documents[0].get("schemaVersion") != "2.1.0":
        raise Refused(f"KFP only supports schema version 2.1.0, not {documents[0].get('schemaVersion')}")
    platform = documents[1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"] if len(documents) > 1 else {}
    return documents[0], platform


def _run_parameters(spec: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """v2_template.go:388 validatePipelineJobInputs, with the defaults (argocompiler/argo.go)."""
    declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    extra = sorted(set(given) - set(declared))
    if extra:
        raise Refused(f"parameter(s) provided are not required by pipeline: {', '.join(extra)}")
    values = {name: given.get(name, entry.get("defaultValue")) for name, entry in declared.items()}
    for name, value in values.items():
        if value is None:
            raise Refused(f"parameter {name} is not optional, yet has neither default value nor user provided value")
        kind = declared[name]["parameterType"]
        if not _fits(kind, value):
            raise Refused(f"input parameter {name} requires type {kind}, received {value!r}")
    return values


def _fits(kind: str, value: Any) -> bool:
    if _JSON_TYPES[kind] is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, _JSON_TYPES[kind])


def _check_types(task: str, values: dict[str, Any], declared: dict[str, Any]) -> None:
    """driver.go:1437: a STRING parameter accepts any value, converted to text; nothing else is converted."""
    for name, entry in declared.items():
        kind = entry["parameterType"]
        if name not in values:
            if not entry.get("isOptional"):
                raise TaskFailed(task, f"neither value nor default value provided for non-optional parameter {name!r}")
        elif kind == "STRING" and not isinstance(values[name], str):
            values[name] = json.dumps(values[name])
        elif not _fits(kind, values[name]):
            raise TaskFailed(task, f"input parameter {name!r} type mismatch: expect {kind}, got {values[name]!r}")


def _is_exit(task: dict[str, Any]) -> bool:
    return task.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"


def _producers(name: str, task: dict, dag: dict) -> set[str]:
    """argocompiler/dag.go:598 addImplicitDependencies."""
    inputs = task.get("inputs", {})
    sources = [spec.get("taskOutputParameter") for spec in inputs.get("parameters", {}).values()]
    sources += [spec.get("taskOutputArtifact") for spec in inputs.get("artifacts", {}).values()]
    producers = {source["producerTask"] for source in sources if source}
    for unknown in producers - set(dag["tasks"]):
        raise Refused(f"task {name!r}: unknown producer task {unknown!r} in DAG")
    return producers


def _fingerprint(message: dict[str, Any], component: dict, container: dict) -> str:
    """v2/cacheutils/cache.go:52: the fingerprint of input artifact ids, parameters, output types, image and command."""
    key = {
        "artifacts": {n: [a["name"] for a in v["artifacts"]] for n, v in message["inputs"]["artifacts"].items()},
        "parameters": message["inputs"]["parameterValues"],
        "outputs": component.get("outputDefinitions", {}),
        "container": [container["image"], container["command"], container.get("args", [])],
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
