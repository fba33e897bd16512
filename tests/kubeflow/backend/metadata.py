"""A real ML Metadata store (SQLite) with the types and properties that the backend writes."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

CONTAINER, DAG, IMPORTER = "system.ContainerExecution", "system.DAGExecution", "system.ImporterExecution"


class Metadata:
    """Executions by parent DAG, their parameters and artifacts (v2/metadata/client.go)."""

    def __init__(self, file: Path) -> None:
        config = pb.ConnectionConfig()
        config.sqlite.filename_uri = str(file)
        config.sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self._store = metadata_store.MetadataStore(config)
        self._lock = threading.RLock()
        self._contexts: dict[str, list[pb.Context]] = {}

    def begin(self, pipeline: str, run: str, namespace: str, root: str) -> None:
        """client.go:316 GetPipeline: creates a context of the pipeline, and a context of the run as its child."""
        with self._lock:
            above = self._context("system.Pipeline", pipeline, {})
            own = self._context("system.PipelineRun", run, {"namespace": namespace, "pipeline_root": root})
            self._store.put_parent_contexts([pb.ParentContext(child_id=own.id, parent_id=above.id)])
            self._contexts[run] = [above, own]

    def _context(self, kind: str, name: str, properties: dict[str, str]) -> pb.Context:
        found = self._store.get_context_by_type_and_name(kind, name)
        if found is None:
            context = pb.Context(type_id=self._store.put_context_type(pb.ContextType(name=kind)), name=name)
            for key, value in properties.items():
                context.custom_properties[key].string_value = value
            [found] = self._store.get_contexts_by_id(self._store.put_contexts([context]))
        return found

    def answer(self, call: Callable[..., Any], request: bytes) -> Any:
        """Calls a function of ML Metadata's library with this store and a request message; returns its response."""
        with self._lock:
            return call(self._store._metadata_store, request)

    def start(self, kind: str, run: str, task: str, parent: int, inputs: dict[str, Any], **more: Any) -> int:
        """Creates an execution; `inputs` are the resolved parameters."""
        with self._lock:
            type_id = self._store.put_execution_type(pb.ExecutionType(name=kind))
            execution = pb.Execution(type_id=type_id, last_known_state=pb.Execution.RUNNING)
            for name, value in {
                "run": run,
                "task_name": task,
                "parent_dag_id": parent,
                "inputs": inputs,
                **more,
            }.items():
                _set(execution.custom_properties[name], value)
            return self._store.put_execution(execution, [], self._contexts[run])[0]  # client.go:626

    def finish(self, execution: int, state: str, outputs: dict[str, Any], artifacts: dict[str, int]) -> None:
        """Publishes the state and the outputs of an execution (client.go:462 PublishExecution)."""
        with self._lock:
            [found] = self._store.get_executions_by_id([execution])
            found.last_known_state = pb.Execution.State.Value(state)
            _set(found.custom_properties["outputs"], outputs)
            pairs: list[tuple[Any, pb.Event]] = []
            for name, artifact in artifacts.items():
                event = pb.Event(artifact_id=artifact, type=pb.Event.OUTPUT)
                event.path.steps.add().key = name
                pairs.append((None, event))
            run = found.custom_properties["run"].string_value
            self._store.put_execution(found, pairs, self._contexts[run])

    def end_dag(self, execution: int) -> None:
        """client.go:693 UpdateDAGExecutionsState; only the launcher of containers calls it (launcher_v2.go:200)."""
        with self._lock:
            [dag] = self._store.get_executions_by_id([execution])
            ended = [
                task
                for task in self._store.get_executions()
                if task.custom_properties["parent_dag_id"].int_value == dag.id
                and task.last_known_state in (pb.Execution.COMPLETE, pb.Execution.CACHED)
            ]
            if len(ended) == dag.custom_properties["total_dag_tasks"].int_value:
                dag.last_known_state = pb.Execution.COMPLETE
                self._store.put_executions([dag])

    def record_artifact(self, title: str, name: str, uri: str, metadata: dict[str, Any]) -> int:
        """client.go:1018 RecordArtifact; converter.go:110: null metadata fails, booleans become 0 or 1."""
        with self._lock:
            type_id = self._store.put_artifact_type(pb.ArtifactType(name=title))
            artifact = pb.Artifact(type_id=type_id, uri=uri, state=pb.Artifact.LIVE)
            for key, value in {"display_name": name, "store_session_info": "{}", **metadata}.items():
                if value is None:
                    raise ValueError(f"metadata {key!r} of artifact {name!r}: unknown/unsupported value type NullValue")
                _set(artifact.custom_properties[key], value)
            return self._store.put_artifacts([artifact])[0]

    def tasks(self, run: str, parent: int) -> dict[str, pb.Execution]:
        """Returns task -> execution, for a DAG and its sub-DAGs (v2/driver/driver.go:1744 getDAGTasks)."""
        found: dict[str, pb.Execution] = {}
        with self._lock:
            for execution in self._store.get_executions():
                properties = execution.custom_properties
                if properties["run"].string_value == run and properties["parent_dag_id"].int_value == parent:
                    found[properties["task_name"].string_value] = execution
        for execution in list(found.values()):
            if execution.type == DAG:
                found |= self.tasks(run, execution.id)
        return found

    def states(self, kind: str) -> dict[str, list[str]]:
        """Returns task -> the states of its executions of a type, oldest first."""
        with self._lock:
            found = sorted(self._store.get_executions_by_type(kind), key=lambda execution: execution.id)
        states: dict[str, list[str]] = {}
        for execution in found:
            task = execution.custom_properties["task_name"].string_value
            states.setdefault(task, []).append(pb.Execution.State.Name(execution.last_known_state))
        return states

    def parameters(self, execution: int, which: str) -> dict[str, Any]:
        """Returns the parameters of an execution; `which` is `inputs` or `outputs`."""
        with self._lock:
            [found] = self._store.get_executions_by_id([execution])
        return json_format.MessageToDict(found.custom_properties[which].struct_value)

    def output_artifacts(self, execution: int) -> dict[str, int]:
        """Returns output name -> artifact id."""
        with self._lock:
            events = self._store.get_events_by_execution_ids([execution])
        return {event.path.steps[0].key: event.artifact_id for event in events if event.type == pb.Event.OUTPUT}

    def runtime_artifact(self, artifact: int) -> dict[str, Any]:
        """Returns an artifact as passed to a task.

        The type is empty (client.go:948), numbers are floats, and the name is the id (converter.go:176).
        """
        with self._lock:
            [found] = self._store.get_artifacts_by_id([artifact])
        metadata = {name: _get(value) for name, value in found.custom_properties.items()}
        return {"name": str(artifact), "uri": found.uri, "type": {"instanceSchema": ""}, "metadata": metadata}

    def find_artifact(self, title: str, uri: str) -> int | None:
        """client.go FindMatchedArtifact: finds an artifact that an importer has already imported."""
        with self._lock:
            same = [a for a in self._store.get_artifacts_by_uri(uri) if a.type == title]
        return same[0].id if same else None

    def artifacts(self, title: str) -> list[dict[str, Any]]:
        """Returns all artifacts of a type, oldest first."""
        with self._lock:
            ids = sorted(artifact.id for artifact in self._store.get_artifacts_by_type(title))
        return [self.runtime_artifact(artifact) for artifact in ids]


def _set(target: pb.Value, value: Any) -> None:
    if isinstance(value, bool):
        target.int_value = int(value)
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, dict):
        json_format.Parse(json.dumps(value), target.struct_value)
    else:
        json_format.Parse(json.dumps({"list": value}), target.struct_value)


def _get(value: pb.Value) -> Any:
    kind = value.WhichOneof("value")
    if kind == "struct_value":
        return json_format.MessageToDict(value.struct_value)
    found = getattr(value, kind)
    return float(found) if kind in ("int_value", "double_value") else found
