"""The Pusher component: a blessed model becomes the newest version, whole or not at all."""

from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from components.artifacts import ParityReport, ServingReport, SpanComparison
from components.evaluation.config import EvaluationConfig
from components.lineage import Origins, facts_in_export, lineage_of, made
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
    origins = Origins(
        model=made(model),
        examples=[made(span) for span in examples],
        transform_graph=made(transform_graph),
        evaluation=made(evaluation),
        blessing=made(blessing),
        gates={"DataGate": made(comparison), "Parity": made(parity), "ServingCheck": made(serving)},
    )
    lineage = lineage_of(origins, facts_in_export(model.uri), EvaluationConfig.model_validate_json(evaluated))
    export = Path(path_utils.serving_model_path(model.uri))
    result = push(export, Path(target), keep=keep, origin=model.uri, lineage=lineage)
    pushed_model.set_int_custom_property("pushed", 1)
    pushed_model.set_int_custom_property("created", int(result.created))
    pushed_model.set_string_custom_property("pushed_version", str(result.version))
    pushed_model.set_string_custom_property("pushed_destination", str(Path(target) / str(result.version)))
