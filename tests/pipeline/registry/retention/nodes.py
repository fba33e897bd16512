"""A pipeline in small with the nodes, artifact types and properties of the real one; no TF Transform, no training."""

from pathlib import Path

from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.types import Channel
from tfx.types.standard_artifacts import (
    Examples,
    Model,
    ModelBlessing,
    ModelEvaluation,
    ModelRun,
    PushedModel,
    TransformGraph,
)

from fullpass.components.artifacts import Report as ReportArtifact
from fullpass.components.ingest.component import SpansOfWindow
from fullpass.components.ingest.writing.manifest import COUNTS, RowCounts
from fullpass.components.push.push import push
from tests.pipeline.registry.bless_nodes import write

KEEP = 2


def pipeline(root: Path, target: Path, span: int, *, blessed: bool = True) -> Pipeline:
    """Trains on a span and the one before it, and pushes if the model is to be blessed."""
    ingest = Ingest(number=span)
    examples = Channel(type=Examples, producer_component_id="Ingest", output_key="examples")
    fingerprints = {str(number): f"f{number}" for number in (span - 1, span) if number > 0}
    window = Resolver(strategy_class=SpansOfWindow, config={"fingerprints": fingerprints}, examples=examples)
    window = window.with_id("Window")
    window.add_upstream_node(ingest)
    transform = Transform(examples=window.outputs["examples"])
    graph = transform.outputs["transform_graph"]
    trainer = Trainer(examples=transform.outputs["transformed_examples"], transform_graph=graph)
    model = trainer.outputs["model"]
    baseline = Resolver(
        strategy_class=LatestBlessedModelStrategy,
        model=Channel(type=Model),
        model_blessing=Channel(type=ModelBlessing),
    ).with_id("LastBlessedModel")
    baseline.add_downstream_node(trainer)
    evaluator = Evaluator(
        examples=window.outputs["examples"],
        model=model,
        baseline_model=baseline.outputs["model"],
        blessed=int(blessed),
    )
    blessing = evaluator.outputs["blessing"]
    pusher = Pusher(model=model, blessing=blessing, target=str(target))
    report = Report(blessing=blessing, pushed=pusher.outputs["pushed_model"])
    return Pipeline(
        pipeline_name="toy",
        pipeline_root=str(root),
        components=[ingest, window, transform, baseline, trainer, evaluator, pusher, report],
        enable_cache=True,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(root / "metadata.sqlite")),
    )


@component
def Ingest(number: Parameter[int], examples: OutputArtifact[Examples]):
    write(examples.uri, "Split-train/rows", f"rows of {number}")
    write(examples.uri, "quarantine.parquet", "bad rows")
    examples.span = number
    examples.set_string_custom_property("fingerprint", f"f{number}")
    examples.set_string_custom_property(COUNTS, RowCounts(read=1, written={"train": 1}).to_json())


@component
def Transform(
    examples: InputArtifact[list[Examples]],
    transform_graph: OutputArtifact[TransformGraph],
    transformed_examples: OutputArtifact[Examples],
):
    read = " ".join((Path(one.uri) / "Split-train" / "rows").read_text() for one in examples)
    write(transform_graph.uri, "graph", read)
    write(transformed_examples.uri, "Split-train/rows", read)


@component
def Trainer(
    examples: InputArtifact[Examples],
    transform_graph: InputArtifact[TransformGraph],
    model: OutputArtifact[Model],
    model_run: OutputArtifact[ModelRun],
):
    write(model.uri, "Format-Serving/saved_model.pb", (Path(examples.uri) / "Split-train" / "rows").read_text())
    write(model_run.uri, "training.json", "{}")


@component
def Evaluator(
    examples: InputArtifact[list[Examples]],
    model: InputArtifact[Model],
    blessed: Parameter[int],
    blessing: OutputArtifact[ModelBlessing],
    evaluation: OutputArtifact[ModelEvaluation],
    baseline_model: InputArtifact[Model] = None,
):
    write(evaluation.uri, "metrics", "0.9")
    blessing.set_int_custom_property("blessed", blessed)
    blessing.set_int_custom_property("current_model_id", model.id)


@component
def Pusher(
    model: InputArtifact[Model],
    blessing: InputArtifact[ModelBlessing],
    target: Parameter[str],
    pushed_model: OutputArtifact[PushedModel],
):
    if blessing.get_int_custom_property("blessed"):
        push(Path(model.uri) / "Format-Serving", Path(target), keep=KEEP, origin=model.uri)


@component
def Report(
    blessing: InputArtifact[ModelBlessing],
    pushed: InputArtifact[PushedModel],
    report: OutputArtifact[ReportArtifact],
):
    write(report.uri, "report.html", "page")
