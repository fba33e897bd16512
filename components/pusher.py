"""The Pusher component: a blessed model becomes the newest version, whole or not at all."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tfx import types
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from components.artifacts import ParityReport, ServingReport, SpanComparison
from components.evaluation.config import EvaluationConfig
from components.lineage import GATES, Origins, facts_in_export, lineage_of, made
from components.push import push


@component
def Pusher(
    examples: InputArtifact[list[standard_artifacts.Examples]],
    transform_graph: InputArtifact[standard_artifacts.TransformGraph],
    comparison: InputArtifact[SpanComparison],
    model: InputArtifact[standard_artifacts.Model],
    evaluation: InputArtifact[standard_artifacts.ModelEvaluation],
    blessing: InputArtifact[standard_artifacts.ModelBlessing],
    parity: InputArtifact[ParityReport],
    serving: InputArtifact[ServingReport],
    pushed_model: OutputArtifact[standard_artifacts.PushedModel],
    target: Parameter[str],
    keep: Parameter[int],
    evaluated: Parameter[str],
) -> None:
    """Pushes the model if it was blessed, was equal in training and serving, and answered.

    `pushed_model` carries `pushed` (0 or 1), `pushed_version` and `pushed_destination`. Parity and ServingCheck fail
    the run when they do not hold; taking their reports as inputs makes the push wait for them. The pushed copy tells
    its lineage in `fullpass.json`; `evaluated` is the JSON of the config's section `evaluation`, to read metrics by.
    """
    if not blessing.get_int_custom_property("blessed"):
        pushed_model.set_int_custom_property("pushed", 0)
        return
    taken = {
        "examples": examples,
        "transform_graph": [transform_graph],
        "comparison": [comparison],
        "model": [model],
        "evaluation": [evaluation],
        "blessing": [blessing],
        "parity": [parity],
        "serving": [serving],
    }
    push_model(taken, pushed_model, target, keep=keep, config=EvaluationConfig.model_validate_json(evaluated))


def push_model(
    taken: Mapping[str, Sequence[types.Artifact]],
    pushed_model: types.Artifact,
    target: str,
    *,
    keep: int,
    config: EvaluationConfig,
) -> None:
    """Pushes a model that was blessed, by the Evaluator or by a person, and describes `pushed_model`.

    Args:
        taken: the inputs of the Pusher.
        pushed_model: of the metadata.
        target: folder that a model server watches.
        keep: versions to keep.
        config: says which metrics count.
    """
    [model] = taken["model"]
    origins = Origins(
        model=made(model.mlmd_artifact),
        examples=[made(span.mlmd_artifact) for span in taken["examples"]],
        transform_graph=made(taken["transform_graph"][0].mlmd_artifact),
        evaluation=made(taken["evaluation"][0].mlmd_artifact),
        blessing=made(taken["blessing"][0].mlmd_artifact),
        gates={node: made(taken[name][0].mlmd_artifact) for name, node in GATES.items() if name in taken},
    )
    lineage = lineage_of(origins, facts_in_export(model.uri), config)
    export = Path(path_utils.serving_model_path(model.uri))
    result = push(export, Path(target), keep=keep, origin=origins.model.address, lineage=lineage)
    pushed_model.set_int_custom_property("pushed", 1)
    pushed_model.set_int_custom_property("created", int(result.created))
    pushed_model.set_string_custom_property("pushed_version", str(result.version))
    pushed_model.set_string_custom_property("pushed_destination", str(Path(target) / str(result.version)))
