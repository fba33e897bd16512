"""The metadata of an installation: executions and artifacts, with the values that the backend makes of them."""

import threading
from dataclasses import dataclass, field
from typing import Any

CONTAINER, DAG, IMPORTER = "system.ContainerExecution", "system.DAGExecution", "system.ImporterExecution"


@dataclass
class Execution:
    """One execution. `inputs` and `outputs` are its parameters, `artifacts` its output artifacts."""

    id: int
    kind: str
    run: str
    task: str
    parent: int
    inputs: dict[str, Any]
    dag: dict[str, Any]
    state: str = "RUNNING"
    outputs: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, int] = field(default_factory=dict)


class Metadata:
    """Executions by id, and artifacts by id (v2/metadata/client.go)."""

    def __init__(self) -> None:
        self.executions: dict[int, Execution] = {}
        self._artifacts: dict[int, tuple[str, str, dict[str, Any]]] = {}
        self._lock = threading.RLock()

    def start(self, kind: str, run: str, task: str, parent: int, inputs: dict[str, Any], **dag: Any) -> int:
        """Creates an execution; `inputs` are the resolved parameters, `dag` further facts about a DAG."""
        with self._lock:
            made = Execution(len(self.executions) + 1, kind, run, task, parent, _as_struct(inputs), dag)
            self.executions[made.id] = made
            return made.id

    def finish(self, execution: int, state: str, outputs: dict[str, Any], artifacts: dict[str, int]) -> None:
        """Publishes the state and the outputs of an execution (client.go:462 PublishExecution)."""
        found = self.executions[execution]
        found.state, found.outputs, found.artifacts = state, _as_struct(outputs), artifacts

    def end_dag(self, execution: int) -> None:
        """client.go:693 UpdateDAGExecutionsState; only the launcher of containers calls it (launcher_v2.go:200)."""
        with self._lock:
            dag = self.executions[execution]
            ended = [e for e in self.executions.values() if e.parent == dag.id and e.state in ("COMPLETE", "CACHED")]
            if len(ended) == dag.dag.get("total_dag_tasks"):
                dag.state = "COMPLETE"

    def record_artifact(self, title: str, name: str, uri: str, metadata: dict[str, Any]) -> int:
        """client.go:1018 RecordArtifact; converter.go:110: null metadata fails, booleans become 0 or 1."""
        for key, value in metadata.items():
            if value is None:
                raise ValueError(f"metadata {key!r} of artifact {name!r}: unknown/unsupported value type NullValue")
        with self._lock:
            stored = {"display_name": name, "store_session_info": "{}", **metadata}
            as_values = {key: float(v) if isinstance(v, bool) else _as_struct(v) for key, v in stored.items()}
            self._artifacts[len(self._artifacts) + 1] = (title, uri, as_values)
            return len(self._artifacts)

    def tasks(self, run: str, parent: int) -> dict[str, Execution]:
        """Returns task -> execution, for a DAG and its sub-DAGs (v2/driver/driver.go:1744 getDAGTasks)."""
        with self._lock:
            found = {e.task: e for e in self.executions.values() if e.run == run and e.parent == parent}
        for execution in list(found.values()):
            if execution.kind == DAG:
                found |= self.tasks(run, execution.id)
        return found

    def states(self, kind: str) -> dict[str, list[str]]:
        """Returns task -> the states of its executions of a kind, oldest first."""
        states: dict[str, list[str]] = {}
        for execution in self.executions.values():
            if execution.kind == kind:
                states.setdefault(execution.task, []).append(execution.state)
        return states

    def runtime_artifact(self, artifact: int) -> dict[str, Any]:
        """Returns an artifact as passed to a task.

        The type is empty (client.go:948), numbers are floats, and the name is the id (converter.go:176).
        """
        _, uri, metadata = self._artifacts[artifact]
        return {"name": str(artifact), "uri": uri, "type": {"instanceSchema": ""}, "metadata": metadata}

    def find_artifact(self, title: str, uri: str) -> int | None:
        """client.go FindMatchedArtifact: finds an artifact that an importer has already imported."""
        return next((key for key, found in self._artifacts.items() if found[:2] == (title, uri)), None)

    def artifacts(self, title: str) -> list[dict[str, Any]]:
        """Returns all artifacts of a type, oldest first."""
        return [self.runtime_artifact(key) for key, found in self._artifacts.items() if found[0] == title]


def _as_struct(value: Any) -> Any:
    """Returns JSON data after a protobuf Struct, in which every number is a float."""
    if isinstance(value, dict):
        return {key: _as_struct(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_struct(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
