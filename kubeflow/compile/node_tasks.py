"""Converts a node of the TFX pipeline to a task whose container runs the node's executor."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfx import types

from fullpass.base.tfx_line import line
from fullpass.components.internals.tfx_internals import OutputChannel, base_component, base_node, executor_spec
from fullpass.kubeflow.compile.look_ups import message_args
from fullpass.kubeflow.compile.task import Output, Task, Value, task_name
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.kubeflow.page_outputs import PageOutput
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.config import BeamConfig


@dataclass
class Sources:
    """The outputs that inputs of nodes come from.

    Attributes:
        outputs: Names of a node and its output in TFX -> the corresponding output in the package.
        window: The examples of a window of spans, which nodes find in the registry.
    """

    outputs: dict[tuple[str, str], Output] = field(default_factory=dict)
    window: Output | None = None

    def of(self, channel: types.BaseChannel) -> Output:
        """Returns the output that a channel stands for."""
        return self.outputs[channel.producer_component_id, channel.output_key]


def node_task(node: base_node.BaseNode, sources: Sources, pages: Sequence[PageOutput] = (), *, cache: bool) -> Task:
    """Returns the task of a component whose inputs are all in `sources`; pages: its outputs for the run's page."""
    return Task(
        name=task_name(node.id),
        parameters=_parameters(node),
        artifacts={name: (sources.of(channel), title(channel.type)) for name, channel in node.inputs.items()},
        outputs={name: title(channel.type) for name, channel in node.outputs.items()}
        | {page.name: page.kind for page in pages},
        after=_waits_for(node),
        cache=cache,
    )


def executor_args(
    node: base_node.BaseNode,
    sources: Sources,
    environment: EnvironmentConfig,
    beam: BeamConfig,
    registry: Json,
    pages: Sequence[PageOutput] = (),
) -> list[str]:
    """Returns the arguments of the container that runs a component.

    They contain artifact types, because the backend passes artifacts without types.

    Args:
        registry: What it keeps there: `ingest`, with its request and spans, or `records`, of blessed models.
    """
    runs_beam = isinstance(node.executor_spec, executor_spec.BeamExecutorSpec)
    plan = {
        "node": node.id,
        "line": line(),
        "executor": node.executor_spec.class_path,
        "parameters": {name: type(value).__name__ for name, value in _parameters(node).items()},
        "inputs": {name: class_path(channel.type) for name, channel in node.inputs.items()},
        "windows": [name for name, channel in node.inputs.items() if sources.of(channel) == sources.window],
        "outputs": {name: class_path(channel.type) for name, channel in node.outputs.items()},
        "beam": beam.model_dump(mode="json") if runs_beam else None,
        "folder": environment.folder,
        "artifacts": environment.artifacts,
        **registry,
    }
    return [
        "--plan",
        json.dumps(plan, sort_keys=True),
        *message_args(node.inputs, [*node.outputs, *(page.name for page in pages)]),
    ]


def class_path(artifact: type[types.Artifact]) -> str:
    """Returns the import path of an artifact class."""
    return f"{artifact.__module__}.{artifact.__qualname__}"


def title(artifact: type[types.Artifact]) -> str:
    """Returns the name of an artifact class in Kubeflow, such as tfx.Examples."""
    ours = not artifact.__module__.startswith("tfx.")
    return f"{'fullpass' if ours else 'tfx'}.{artifact.__name__}"


def _parameters(node: base_node.BaseNode) -> dict[str, Value]:
    return {name: value for name, value in node.exec_properties.items() if value is not None}


def _waits_for(node: base_node.BaseNode) -> tuple[str, ...]:
    """Returns the tasks of nodes that must succeed before this node although it reads none of their outputs."""
    read = {channel.producer_component_id for channel in node.inputs.values() if isinstance(channel, OutputChannel)}
    upstream = (other for other in node.upstream_nodes if isinstance(other, base_component.BaseComponent))
    return tuple(sorted(task_name(other.id) for other in upstream if other.id not in read))
