"""The specification of a component that runs on Beam, in one place: TFX wants three classes and each channel twice."""

from collections.abc import Collection, Mapping
from typing import Any

from tfx import types

from fullpass.components.internals.tfx_internals import (
    base_beam_component,
    base_beam_executor,
    component_spec,
    executor_spec,
)

Artifacts = dict[str, list[types.Artifact]]
"""Name of a channel -> its artifacts."""


class BeamComponent(base_beam_component.BaseBeamComponent):
    """A component whose executor runs Beam pipelines; see `__init_subclass__`."""

    def __init_subclass__(
        cls,
        *,
        executor: type[base_beam_executor.BaseBeamExecutor],
        parameters: Collection[str],
        inputs: Mapping[str, type],
        outputs: Mapping[str, type],
        optional: Collection[str] = (),
    ):
        """Specifies a component.

        Args:
            parameters: Names of the parameters; all are text.
            inputs: Name of each input channel -> type of its artifacts.
            outputs: Name of each output channel -> type of its artifacts.
            optional: Names of the channels that may be absent.
        """
        super().__init_subclass__()
        cls.EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor)
        spec = {
            "PARAMETERS": {name: component_spec.ExecutionParameter(type=str) for name in parameters},
            "INPUTS": _channels(inputs, optional),
            "OUTPUTS": _channels(outputs, optional),
        }
        cls.SPEC_CLASS = type(f"{cls.__name__}Spec", (component_spec.ComponentSpec,), spec)

    def __init__(self, **given: Any):
        """Constructs the component from its parameters and input channels; an optional output may be None."""
        outputs = {name: types.Channel(type=channel.type) for name, channel in self.SPEC_CLASS.OUTPUTS.items()}
        super().__init__(self.SPEC_CLASS(**{**outputs, **given}))


def _channels(of: Mapping[str, type], optional: Collection[str]) -> dict[str, component_spec.ChannelParameter]:
    return {name: component_spec.ChannelParameter(type=kind, optional=name in optional) for name, kind in of.items()}
