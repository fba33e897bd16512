"""Converts a node of the TFX pipeline to a task whose container runs the node's executor."""

import json
from typing import Any

from tfx import types
from tfx.dsl.component.experimental import executor_specs
from tfx.dsl.components.base import base_component, base_driver, base_node, executor_spec
from tfx.types.channel import OutputChannel

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.parts import Json, Output, Task, task_name
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.pipeline.config import BeamConfig

ENTRYPOINT = ("python", "-P", "-m", "fullpass.kubeflow.runtime.entrypoint")
_TYPE_NAMES = {str: "str", int: "int", float: "float", bool: "bool"}

Sources = dict[tuple[str, str], Output]
"""Names of a node and its output in TFX -> the corresponding output in the package."""


def node_task(node: base_node.BaseNode, sources: Sources, environment: EnvironmentConfig) -> Task:
    """Returns the task of a component.

    Args:
        node: a component whose inputs are all in `sources`.
        sources: the outputs that inputs come from.
        environment: the environment file.

    Raises:
        UserError: The node is of a kind that cannot run on Kubeflow.
    """
    _check_kind(node)
    settings = environment.node(node.id)
    properties = {name: value for name, value in node.exec_properties.items() if value is not None}
    return Task(
        name=task_name(node.id),
        label=node.id,
        parameters={name: _constant(node, name, value) for name, value in properties.items()},
        artifacts={
            name: (_source(node, name, channel, sources), title(channel.type)) for name, channel in node.inputs.items()
        },
        outputs={name: title(channel.type) for name, channel in node.outputs.items()},
        after=_waits_for(node),
        cache=settings.cache is not False,
    )


def executor_args(
    node: base_node.BaseNode,
    beam: BeamConfig,
    environment: EnvironmentConfig,
    sources: Sources,
    *,
    window: Output | None,
    ingest: Json | None,
) -> list[str]:
    """Returns the arguments of the container that runs a component.

    Kubeflow replaces the placeholders: `{{$}}` becomes all inputs and outputs of the task, `.path` the local copy of an
    artifact. The arguments contain artifact types, because the backend passes artifacts without types.

    Args:
        node: a component.
        beam: the section `beam` of the pipeline YAML.
        environment: the environment file.
        sources: the outputs that inputs come from.
        window: the examples of a window of spans, which nodes find in the registry.
        ingest: for Ingest, where it finds its request and where spans are kept.
    """
    plan = {
        "node": node.id,
        "executor": node.executor_spec.class_path,
        "parameters": {n: _TYPE_NAMES[type(v)] for n, v in node.exec_properties.items() if v is not None},
        "inputs": {name: class_path(channel.type) for name, channel in node.inputs.items()},
        "windows": [name for name, c in node.inputs.items() if _source(node, name, c, sources) == window],
        "outputs": {name: class_path(channel.type) for name, channel in node.outputs.items()},
        "beam": beam.model_dump(mode="json")
        if isinstance(node.executor_spec, executor_spec.BeamExecutorSpec)
        else None,
        "folder": environment.folder,
        "artifacts": environment.artifacts,
        "ingest": ingest,
    }
    args = ["--plan", json.dumps(plan, sort_keys=True), "--executor-input", "{{$}}"]
    for name in node.inputs:
        args.append(f"--input={name}={{{{$.inputs.artifacts['{name}'].path}}}}")
    for name in node.outputs:
        args.append(f"--output={name}={{{{$.outputs.artifacts['{name}'].path}}}}")
    return args


def class_path(artifact: type[types.Artifact]) -> str:
    """Returns the import path of an artifact class."""
    return f"{artifact.__module__}.{artifact.__qualname__}"


def title(artifact: type[types.Artifact]) -> str:
    """Returns the name of an artifact class in Kubeflow, such as tfx.Examples."""
    ours = not artifact.__module__.startswith("tfx.")
    return f"{'fullpass' if ours else 'tfx'}.{artifact.__name__}"


def _check_kind(node: base_node.BaseNode) -> None:
    instead = "Leave it out of the pipeline, or run the pipeline with `fullpass run`."
    if not isinstance(node, base_component.BaseComponent):
        raise UserError(f"{node.id}: a {type(node).__name__} has no container on Kubeflow. {instead}")
    if isinstance(node.executor_spec, executor_specs.TemplatedExecutorContainerSpec):
        raise UserError(f"{node.id}: runs its own container, whose inputs Kubeflow cannot provide. {instead}")
    if not isinstance(node.executor_spec, executor_spec.ExecutorClassSpec):
        raise UserError(f"{node.id}: its executor is not a Python class. {instead}")
    if node.driver_class is not base_driver.BaseDriver:
        raise UserError(
            f"{node.id}: has its own driver ({node.driver_class.__name__}), which Kubeflow never calls. {instead}"
        )


def _waits_for(node: base_node.BaseNode) -> tuple[str, ...]:
    """Returns the tasks of nodes that must succeed before this node although it reads none of their outputs."""
    read = {channel.producer_component_id for channel in node.inputs.values() if isinstance(channel, OutputChannel)}
    upstream = (other for other in node.upstream_nodes if isinstance(other, base_component.BaseComponent))
    return tuple(sorted(task_name(other.id) for other in upstream if other.id not in read))


def _constant(node: base_node.BaseNode, name: str, value: Any) -> str | int | float | bool:
    if type(value) not in _TYPE_NAMES:
        raise UserError(f"{node.id}.{name}: a parameter must be text or a number. Received: {type(value).__name__}.")
    return value


def _source(node: base_node.BaseNode, name: str, channel: types.BaseChannel, sources: Sources) -> Output:
    if not isinstance(channel, OutputChannel):
        raise UserError(
            f"{node.id}.{name}: comes from a {type(channel).__name__}; Kubeflow connects one output to one input. Give "
            "the output of one node."
        )
    return sources[channel.producer_component_id, channel.output_key]
