"""Two nodes of your own: a check that may refuse the model, and predictions of the pushed model."""

import json
from collections.abc import Mapping
from pathlib import Path

from tfx import v1 as tfx
from tfx.dsl.components.base.base_node import BaseNode
from tfx.types import standard_artifacts


@tfx.dsl.components.component
def FairnessCheck(
    evaluation: tfx.dsl.components.InputArtifact[standard_artifacts.ModelEvaluation],
    blessing: tfx.dsl.components.OutputArtifact[standard_artifacts.ModelBlessing],
    metric: tfx.dsl.components.Parameter[str],
    widest: tfx.dsl.components.Parameter[float],
) -> None:
    """Refuses a model whose metric differs by more than `widest` between two slices of 50 rows or more."""
    verdict = json.loads(Path(evaluation.uri, "verdict.json").read_text(encoding="utf-8"))
    values = {one["name"]: one["values"][metric] for one in verdict["slices"] if one["examples"] >= 50}
    width = max(values.values()) - min(values.values()) if values else 0.0
    blessing.set_int_custom_property("blessed", int(width <= widest))
    blessing.set_string_custom_property("why", f"{metric} differs by {width:.3f} between slices, allowed: {widest}.")


def add(nodes: Mapping[str, BaseNode]) -> dict[BaseNode, list[str]]:
    """Returns the nodes to add, each with the ids of the nodes that wait for it."""
    check = FairnessCheck(evaluation=nodes["Evaluator"].outputs["evaluation"], metric="auc", widest=0.5)
    scores = tfx.components.BulkInferrer(
        examples=nodes["Ingest"].outputs["examples"],
        model=nodes["Trainer"].outputs["model"],
        data_spec=tfx.proto.DataSpec(example_splits=["eval"]),
        model_spec=tfx.proto.ModelSpec(),
    )
    scores.add_upstream_node(nodes["Pusher"])
    return {check: ["Pusher"], scores: []}
