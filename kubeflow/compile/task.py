"""One task of a package, with its component: plain data in the form of a pipeline specification."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fullpass.kubeflow.protocol import Json

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER = re.compile(r"[^a-z0-9]+")
_PARAMETER_TYPES = {str: "STRING", bool: "BOOLEAN", int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE"}


@dataclass(frozen=True)
class TaskOutput:
    """One output of a task: the artifact or parameter named `key`."""

    task: str
    key: str


@dataclass(frozen=True)
class DagInput:
    """A parameter of the enclosing DAG, a text."""

    name: str


Value = str | int | float | bool | TaskOutput | DagInput
"""A parameter: a constant, the task whose output parameter it is, or a parameter of the DAG."""


@dataclass
class Task:
    """One task with its component.

    Attributes:
        parameters: Input -> a constant or the source of its value.
        artifacts: Input -> its source and its type.
        outputs: Artifact -> type.
        output_parameters: Names of the output parameters; all are texts.
        after: Tasks it waits for, in addition to the sources of its inputs.
    """

    name: str
    parameters: dict[str, Value] = field(default_factory=dict)
    artifacts: dict[str, tuple[TaskOutput, str]] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    output_parameters: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cache: bool = False
    retry: Json | None = None

    def take_constants(self, longest: int) -> Json:
        """Removes and returns the parameters that are texts of more than `longest` characters."""
        taken = {name: v for name, v in self.parameters.items() if isinstance(v, str) and len(v) > longest}
        self.parameters = {name: value for name, value in self.parameters.items() if name not in taken}
        return taken

    def task_spec(self) -> Json:
        """Returns the entry of `dag.tasks`."""
        parameters = {name: _parameter_source(value) for name, value in self.parameters.items()}
        artifacts = {
            name: {"taskOutputArtifact": {"producerTask": source.task, "outputArtifactKey": source.key}}
            for name, (source, _) in self.artifacts.items()
        }
        producers = {value.task for value in self.parameters.values() if isinstance(value, TaskOutput)}
        producers |= {source.task for source, _ in self.artifacts.values()}
        spec = {
            "taskInfo": {"name": self.name},
            "componentRef": {"name": f"comp-{self.name}"},
            "cachingOptions": {"enableCache": self.cache},
        }
        more = {
            "inputs": _given(parameters=parameters, artifacts=artifacts),
            "dependentTasks": sorted(producers | set(self.after)),
            "retryPolicy": self.retry,
        }
        return spec | _given(**more)

    def component(self) -> Json:
        """Returns the component of the task, with the types of its inputs and outputs."""
        types = {
            name: "STRING" if isinstance(value, TaskOutput | DagInput) else _PARAMETER_TYPES[type(value)]
            for name, value in self.parameters.items()
        }
        inputs = _definitions(types, {name: kind for name, (_, kind) in self.artifacts.items()})
        outputs = _definitions(dict.fromkeys(self.output_parameters, "STRING"), self.outputs)
        return {"executorLabel": f"exec-{self.name}"} | _given(inputDefinitions=inputs, outputDefinitions=outputs)


def task_name(node_id: str) -> str:
    """Returns a node's name in the form that Argo accepts.

    Example:
        >>> task_name("StatisticsGen"), task_name("my_node.v2")
        ('statistics-gen', 'my-node-v2')
    """
    return _OTHER.sub("-", _HUMP.sub("-", node_id).lower()).strip("-")


def artifact_type(title: str) -> Json:
    """Returns the type of an artifact by its title, such as tfx.Model."""
    return {"schemaTitle": title, "schemaVersion": "0.0.1"}


@dataclass(frozen=True)
class Dag:
    """A task that is a DAG of other tasks.

    Attributes:
        tasks: Name -> entry of each task in it.
        parameters: Parameter of the DAG, a text -> where its value comes from.
    """

    name: str
    tasks: Json
    parameters: Mapping[str, TaskOutput | DagInput]

    def task_spec(self) -> Json:
        """Returns the entry of `dag.tasks` of the enclosing DAG."""
        producers = {value.task for value in self.parameters.values() if isinstance(value, TaskOutput)}
        sources = {name: _parameter_source(value) for name, value in self.parameters.items()}
        return {
            "taskInfo": {"name": self.name},
            "componentRef": {"name": f"comp-{self.name}"},
            "cachingOptions": {"enableCache": False},
        } | _given(inputs=_given(parameters=sources), dependentTasks=sorted(producers))

    def component(self) -> Json:
        """Returns the component of the task."""
        inputs = _definitions(dict.fromkeys(self.parameters, "STRING"), {})
        return {"dag": {"tasks": self.tasks}} | _given(inputDefinitions=inputs)


def _parameter_source(value: Value) -> Json:
    if isinstance(value, DagInput):
        return {"componentInputParameter": value.name}
    if isinstance(value, TaskOutput):
        return {"taskOutputParameter": {"producerTask": value.task, "outputParameterKey": value.key}}
    return {"runtimeValue": {"constant": value}}


def _definitions(parameters: Mapping[str, str], artifacts: Mapping[str, str]) -> Json:
    return _given(
        parameters={name: {"parameterType": kind} for name, kind in parameters.items()},
        artifacts={name: {"artifactType": artifact_type(kind)} for name, kind in artifacts.items()},
    )


def _given(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value}
