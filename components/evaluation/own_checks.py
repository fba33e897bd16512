"""The node Blessing: the verdict on a model in a pipeline whose own nodes bless models too."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tfx import types
from tfx.dsl.io import fileio
from tfx.types import standard_artifacts

from fullpass.components.beam_component import Artifacts
from fullpass.components.evaluation.judge.verdict import FILE, JUDGED_BY, read_verdict, verdict_json
from fullpass.components.internals.tfx_internals import (
    artifact_utils,
    base_component,
    base_executor,
    component_spec,
    executor_spec,
    io_utils,
)

BLESSINGS = (standard_artifacts.ModelBlessing, standard_artifacts.InfraBlessing)
"""The artifacts with a property `blessed`, 0 or 1, that TFX's own Pusher obeys."""
WHY = "why"
"""Custom property of the blessing of an own node: why it refuses the model, as a sentence."""
EVALUATED = ("evaluation", "blessing")
"""What the Evaluator writes, and what this node writes in its stead."""
_BLESSED, _NOT_BLESSED = "BLESSED", "NOT_BLESSED"
"""The files of a blessing, of which it has one."""
_GIVEN = tuple(f"evaluator_{name}" for name in EVALUATED)
"""The inputs from the Evaluator: a component's inputs and outputs have different names."""


def judge(nodes: Collection[str]) -> str:
    """Returns the node of a pipeline whose verdict on the model counts."""
    return "Blessing" if "Blessing" in nodes else "Evaluator"


class BlessingExecutor(base_executor.BaseExecutor):
    """Copies the Evaluator's evaluation, and adds the refusals of the own nodes to its verdict."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        evaluated, judged = (artifact_utils.get_single_instance(input_dict[name]) for name in _GIVEN)
        evaluation, blessing = (artifact_utils.get_single_instance(output_dict[name]) for name in EVALUATED)
        verdict = read_verdict(evaluated.uri)
        refusals = [
            refusal(name, found)
            for name, artifacts in sorted(input_dict.items())
            for found in artifacts
            if name not in _GIVEN and not is_blessed(found)
        ]
        verdict = replace(verdict, blessed=verdict.blessed and not refusals, reasons=(*verdict.reasons, *refusals))
        io_utils.copy_dir(evaluated.uri, evaluation.uri)
        with fileio.open(f"{evaluation.uri}/{FILE}", "w") as file:
            file.write(verdict_json(verdict))
        for model in ("current_model", "baseline_model"):
            if uri := judged.get_string_custom_property(model):
                blessing.set_string_custom_property(model, uri)
                blessing.set_int_custom_property(f"{model}_id", judged.get_int_custom_property(f"{model}_id"))
        judges = ["Evaluator", *sorted(input_dict.keys() - {*_GIVEN})]
        blessing.set_string_custom_property(JUDGED_BY, ", ".join(judges))
        mark(blessing, blessed=verdict.blessed)


def is_blessed(blessing: types.Artifact) -> bool:
    """Returns whether an own node blesses a model: by the property, or, as a container does, by the file."""
    return bool(blessing.get_int_custom_property("blessed")) or fileio.exists(f"{blessing.uri}/{_BLESSED}")


def refusal(node: str, blessing: types.Artifact) -> str:
    """Returns the sentence about an own node that refuses a model; a container writes the reason to its file."""
    why, file = blessing.get_string_custom_property(WHY), f"{blessing.uri}/{_NOT_BLESSED}"
    if not why and fileio.exists(file):
        why = fileio.open(file, "r").read().strip()
    return f"{node} did not bless the model{f': {why}' if why else '.'}"


def mark(blessing: types.Artifact, *, blessed: bool) -> None:
    """Sets the property and the file by which TFX's components tell whether a model is blessed."""
    blessing.set_int_custom_property("blessed", int(blessed))
    with fileio.open(f"{blessing.uri}/{_BLESSED if blessed else _NOT_BLESSED}", "w") as file:
        file.write("")


class _Spec(component_spec.ComponentSpec):
    PARAMETERS: dict[str, Any] = {}
    INPUTS: dict[str, Any] = {}
    OUTPUTS = {
        "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
    }


class Blessing(base_component.BaseComponent):
    """Blesses a model that the Evaluator and all own nodes with a blessing bless.

    Outputs: `evaluation`, that of the Evaluator with the reasons of all; `blessing`.
    """

    SPEC_CLASS = _Spec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(BlessingExecutor)

    def __init__(self, evaluator: base_component.BaseComponent, others: Mapping[str, types.BaseChannel]):
        """Constructs the component. others: id of an own node -> its blessing."""
        given = (evaluator.outputs[name] for name in EVALUATED)
        inputs = {**dict(zip(_GIVEN, given, strict=True)), **others}
        declared = {name: component_spec.ChannelParameter(type=found.type) for name, found in inputs.items()}
        spec = type("BlessingSpec", (_Spec,), {"INPUTS": declared})  # the own nodes differ from pipeline to pipeline
        super().__init__(spec(**inputs, **{name: types.Channel(type=p.type) for name, p in _Spec.OUTPUTS.items()}))
