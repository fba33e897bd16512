"""The parts of a pipeline specification as plain data: one task, with its component and its executor."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
"""A JSON object."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER = re.compile(r"[^a-z0-9]+")
_PARAMETER_TYPES = {str: "STRING", bool: "BOOLEAN", int: "NUMBER_INTEGER", float: "NUMBER_DOUBLE"}


@dataclass(frozen=True)
class Output:
    """One output of a task: the artifact or parameter named `key`."""

    task: str
    key: str


@dataclass
class Task:
    """One task with its component and executor.

    parameters: input -> a constant or the source of its value. artifacts: input -> its source and its type. outputs:
    artifact -> type. output_parameters: name -> type. component_inputs: inputs that come from the pipeline or the
    enclosing DAG under the same name. after: tasks it waits for, in addition to the sources of its inputs.
    """

    name: str
    label: str
    parameters: dict[str, str | int | float | bool | Output] = field(default_factory=dict)
    artifacts: dict[str, tuple[Output, str]] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    output_parameters: dict[str, str] = field(default_factory=dict)
    component_inputs: dict[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    condition: str | None = None
    cache: bool = True
    retry: Json | None = None

    def take_constants(self, longest: int) -> Json:
        """Removes and returns the parameters that are texts of more than `longest` characters."""
        taken = {name: v for name, v in self.parameters.items() if isinstance(v, str) and len(v) > longest}
        self.parameters = {name: value for name, value in self.parameters.items() if name not in taken}
        return taken

    def task_spec(self) -> Json:
        """Returns the entry of `dag.tasks`."""
        inputs: Json = {}
        parameters = {name: _parameter_source(value) for name, value in self.parameters.items()}
        parameters |= {name: {"componentInputParameter": name} for name in self.component_inputs}
        artifacts = {
            name: {"taskOutputArtifact": {"producerTask": source.task, "outputArtifactKey": source.key}}
            for name, (source, _) in self.artifacts.items()
        }
        if parameters:
            inputs["parameters"] = parameters
        if artifacts:
            inputs["artifacts"] = artifacts
        spec: Json = {
            "taskInfo": {"name": self.name},
            "componentRef": {"name": f"comp-{self.name}"},
            "cachingOptions": {"enableCache": self.cache},
        }
        producers = {v.task for v in self.parameters.values() if isinstance(v, Output)}
        waits = sorted(producers | {source.task for source, _ in self.artifacts.values()} | set(self.after))
        if inputs:
            spec["inputs"] = inputs
        if waits:
            spec["dependentTasks"] = waits
        if self.condition:
            spec["triggerPolicy"] = {"condition": self.condition}
        if self.retry:
            spec["retryPolicy"] = self.retry
        return spec

    def input_definitions(self) -> Json:
        """Returns the inputs of the component, with their types."""
        types = {name: _parameter_type(value) for name, value in self.parameters.items()} | self.component_inputs
        return _definitions(types, {name: kind for name, (_, kind) in self.artifacts.items()})

    def output_definitions(self) -> Json:
        """Returns the outputs of the component, with their types."""
        return _definitions(self.output_parameters, self.outputs)


def task_name(node_id: str) -> str:
    """Returns a node's name in the form that Argo accepts.

    Example:
        >>> task_name("StatisticsGen"), task_name("my_node.v2")
        ('statistics-gen', 'my-node-v2')
    """
    return _OTHER.sub("-", _HUMP.sub("-", node_id).lower()).strip("-")


def parameter_type(value: object) -> str:
    """Returns the name of a constant's type in a pipeline specification.

    Raises:
        TypeError: The type is not supported.
    """
    if type(value) not in _PARAMETER_TYPES:
        raise TypeError(f"a parameter must be text, a number or a boolean. Received: {type(value).__name__}.")
    return _PARAMETER_TYPES[type(value)]


def artifact_type(title: str) -> Json:
    """Returns the type of an artifact by its title, such as tfx.Model."""
    return {"schemaTitle": title, "schemaVersion": "0.0.1"}


def _parameter_source(value: str | int | float | bool | Output) -> Json:
    if isinstance(value, Output):
        return {"taskOutputParameter": {"producerTask": value.task, "outputParameterKey": value.key}}
    return {"runtimeValue": {"constant": value}}


def _parameter_type(value: str | int | float | bool | Output) -> str:
    return "STRING" if isinstance(value, Output) else parameter_type(value)


def _definitions(parameters: Mapping[str, str], artifacts: Mapping[str, str]) -> Json:
    definitions: Json = {}
    if parameters:
        definitions["parameters"] = {name: {"parameterType": kind} for name, kind in parameters.items()}
    if artifacts:
        definitions["artifacts"] = {name: {"artifactType": artifact_type(kind)} for name, kind in artifacts.items()}
    return definitions
