"""The Pusher component, which publishes a blessed model as the newest version, atomically."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tfx import types
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts

from fullpass.components.artifacts import ParityReport, ServingReport, SpanComparison
from fullpass.components.internals.tfx_internals import path_utils
from fullpass.components.push.model_lineage import facts_in_export, lineage_of
from fullpass.components.push.push import push
from fullpass.components.run_artifacts import RunArtifacts


@component
def Pusher(
    model: InputArtifact[standard_artifacts.Model],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    pushed_model: OutputArtifact[standard_artifacts.PushedModel],
    target: Parameter[str],
    keep: Parameter[int],
    examples: InputArtifact[list[standard_artifacts.Examples]] = None,
    transform_graph: InputArtifact[standard_artifacts.TransformGraph] = None,
    comparison: InputArtifact[SpanComparison] = None,
    evaluation: InputArtifact[standard_artifacts.ModelEvaluation] = None,
    parity: InputArtifact[ParityReport] = None,
    serving: InputArtifact[ServingReport] = None,
) -> None:
    """Pushes the model if it was blessed and passed Parity and ServingCheck.

    `pushed_model` has the properties `pushed` (0 or 1), `pushed_version`, `pushed_destination` and `served_version`,
    that which was served after the push. Parity and ServingCheck fail the run themselves; their reports are inputs to
    make the push wait for them. The pushed copy contains its lineage in `fullpass.json`, of the inputs that there are.
    """
    if not blessing.get_int_custom_property("blessed"):
        pushed_model.set_int_custom_property("pushed", 0)
        return
    others = {
        "transform_graph": transform_graph,
        "comparison": comparison,
        "evaluation": evaluation,
        "parity": parity,
        "serving": serving,
    }
    given = {name: [artifact] for name, artifact in others.items() if artifact is not None}
    inputs = {"examples": examples or [], "model": [model], "blessing": [blessing], **given}
    push_model(inputs, pushed_model, target, keep=keep)


def push_model(
    inputs: Mapping[str, Sequence[types.Artifact]],
    pushed_model: types.Artifact,
    target: str,
    *,
    keep: int,
) -> None:
    """Pushes a model that the Evaluator or a person blessed, and sets the properties of `pushed_model`.

    Args:
        inputs: The input artifacts of the Pusher, by name.
    """
    given = RunArtifacts.of(inputs)
    [model] = given.all("model")
    lineage = lineage_of(given, facts_in_export(model.uri))
    export = Path(path_utils.serving_model_path(model.uri))
    result = push(export, Path(target), keep=keep, origin=model.address, lineage=lineage)
    pushed_model.set_int_custom_property("pushed", 1)
    pushed_model.set_int_custom_property("created", int(result.created))
    pushed_model.set_string_custom_property("pushed_version", str(result.version))
    pushed_model.set_string_custom_property("served_version", str(result.served))
    pushed_model.set_string_custom_property("pushed_destination", str(Path(target) / str(result.version)))
