"""Builds the TFX pipeline of a config; the nodes are listed in the order of the data flow."""

from pathlib import Path

from tfx import types
from tfx.components.example_validator.component import ExampleValidator
from tfx.components.schema_gen.component import SchemaGen
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from fullpass.base.files import is_address
from fullpass.components.declared_schema import SchemaComparison, declared_schema
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.spans.ingest_request import Request
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.internals.tfx_internals import UnionChannel, base_node, metadata
from fullpass.components.library_versions import COMPUTING, version
from fullpass.components.push.last_blessed import LastBlessedModel
from fullpass.components.report.component import Report
from fullpass.components.statistics.component import StatisticsGen
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import (
    code_digest,
    declared_code_files,
)
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.beam_args import beam_args
from fullpass.pipeline.running.execution.metadata_store import ingested_spans
from fullpass.pipeline.running.own_nodes import with_own_nodes
from fullpass.pipeline.running.run_window import run_window
from fullpass.pipeline.running.tfx_components import RunPaths, TfxComponents
from fullpass.preprocessing.columns.compute_at import materializes
from fullpass.trainer.config import RunFn


def build(loaded: Loaded, *, root: Path, cache: bool = True, window: Window | None = None) -> Pipeline:
    """Returns the TFX pipeline of a config for this machine.

    Args:
        cache: Whether to reuse ingested spans and the results of nodes whose inputs and parameters are unchanged.
        window: The spans to train on; by default those up to the newest.

    Raises:
        UserError: Source files are missing.
    """
    config, paths = loaded.config, paths_here(loaded, root, window or run_window(loaded, root))
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=str(root),
        components=build_nodes(loaded, paths, reuse=cache),
        enable_cache=cache,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(RootLayout(root).metadata)),
        beam_pipeline_args=beam_args(config.beam, data_bytes=sum(file.size for file in paths.window.files)),
    )


def paths_here(loaded: Loaded, root: Path, window: Window) -> RunPaths:
    """Returns the paths of a pipeline whose nodes run on this machine."""
    config, layout = loaded.config, RootLayout(root)
    return RunPaths(
        resolve=loaded.resolve,
        window=window,
        known=ingested_spans(layout.metadata, config.name),
        analyzer_cache=str(layout.analyzer_cache),
        span_statistics=str(layout.span_statistics),
        span_verdicts=str(layout.span_verdicts),
        compress=is_address(str(root)),
        push_to=str(loaded.resolve(config.push.to)),
        libraries=" ".join(f"{package}={version(package)}" for package in COMPUTING),
        cache_dir=str(layout.input_cache),
        work=str(layout.work),
    )


def build_nodes(loaded: Loaded, paths: RunPaths, *, reuse: bool = True) -> list[base_node.BaseNode]:
    """Returns the nodes of a config, connected by their inputs and outputs.

    Args:
        reuse: Whether to reuse ingested spans and their accumulators.
    """
    config, own = loaded.config, TfxComponents(loaded, paths, reuse=reuse)
    preprocessing = own.preprocessing

    ingest = own.Ingest()
    spans = _window_node(ingest, own.request) if own.request.spanned else None
    examples = (spans or ingest).outputs["examples"]

    statistics = StatisticsGen(
        preprocessing,
        examples=examples,
        unit=paths.window.unit,
        folder=paths.span_statistics,
        libraries=paths.libraries,
    )
    schema = declared_schema(preprocessing)
    comparison = SchemaComparison(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    schema_gen = None
    if isinstance(config.model, RunFn):  # modules of TFX rely on the shapes and types that it finds
        schema_gen = SchemaGen(statistics=statistics.outputs["statistics"])
    schema_of_graph = (schema_gen or schema).outputs["schema"]
    validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])

    span_comparison = own.SpanComparison(examples=examples, anomalies=validator.outputs["anomalies"])
    gate = own.DataGate(comparison=span_comparison.outputs["comparison"])

    blessed = Resolver(
        strategy_class=LastBlessedModel,
        config={"made_from": own.origin, "target": paths.push_to},
        model=types.Channel(type=standard_artifacts.Model),
        model_blessing=_verdicts(),
    ).with_id("LastBlessedModel")
    last = blessed.outputs["model"]

    transform = own.Transform(
        examples=examples,
        schema=schema_of_graph,
        base_model=last if preprocessing.has_stable_ids else None,
    )
    transform_graph = transform.outputs["transform_graph"]
    training_examples = transform.outputs["transformed_examples"] if materializes(preprocessing) else examples

    tuner = None
    if config.tuning is not None:
        from fullpass.components.tuning.component import Tuner  # loads KerasTuner, which no other node needs

        tuner = Tuner(
            tuner_fn="fullpass.trainer.tuning.search.tuner_fn",
            examples=training_examples,
            transform_graph=transform_graph,
            custom_config={**own.training, "work": paths.work and f"{paths.work}/Tuner"},
        )
    trainer = own.Trainer(
        examples=training_examples,
        transform_graph=transform_graph,
        schema=schema_of_graph,
        hyperparameters=tuner.outputs["best_hyperparameters"] if tuner else None,
        base_model=last if config.training.warm_start == "blessed" else None,
    )
    for node in filter(None, (tuner, trainer)):
        # Only training waits for the gate. Transform runs in parallel, and the next run can reuse its result.
        node.add_upstream_node(gate)
    model, model_run = trainer.outputs["model"], trainer.outputs["model_run"]

    parity = serving_check = None
    if schema_gen is None:
        parity = own.Parity(
            examples=examples,
            ready=training_examples,
            transform_graph=transform_graph,
            model=model,
            model_run=model_run,
        )
        serving_check = own.ServingCheck(model=model)
    checked = {
        name: check.outputs["report"] for name, check in (("parity", parity), ("serving", serving_check)) if check
    }
    evaluator = own.Evaluator(
        examples=examples, model=model, model_run=None if schema_gen else model_run, baseline_model=last
    )

    pusher = own.Pusher(
        examples=examples,
        transform_graph=transform_graph,
        comparison=span_comparison.outputs["comparison"],
        model=model,
        evaluation=evaluator.outputs["evaluation"],
        blessing=evaluator.outputs["blessing"],
        **checked,
    )

    report = Report(
        examples=examples,
        statistics=statistics.outputs["statistics"],
        comparison=comparison.outputs["comparison"],
        spans=span_comparison.outputs["comparison"],
        model_run=model_run,
        evaluation=evaluator.outputs["evaluation"],
        blessing=evaluator.outputs["blessing"],
        pushed=pusher.outputs["pushed_model"],
        name=config.name,
        label=config.label.model_dump_json(),
        facts=config.card_facts.model_dump_json(),
        **checked,
    )

    nodes = [
        ingest,
        *([spans] if spans else []),
        statistics,
        schema,
        *([schema_gen] if schema_gen else []),
        comparison,
        validator,
        span_comparison,
        gate,
        blessed,
        transform,
        *([tuner] if tuner else []),
        trainer,
        *([parity] if parity else []),
        evaluator,
        *([serving_check] if serving_check else []),
        pusher,
        report,
    ]
    if config.nodes is None:
        return nodes
    return with_own_nodes(config.nodes, nodes, code_digest([config.nodes], declared_code_files(loaded)))


def _verdicts() -> types.BaseChannel:
    """Returns the blessings of all runs, without those of the user's nodes, on which the node Blessing decides."""
    return UnionChannel(
        types.Channel(type=standard_artifacts.ModelBlessing, producer_component_id=node, output_key="blessing")
        for node in ("Evaluator", "Blessing", "Bless")
    )


def _window_node(ingest: Ingest, request: Request) -> Resolver:
    """Returns the node that merges the spans ingested now with those ingested before."""
    every = types.Channel(type=standard_artifacts.Examples, producer_component_id=ingest.id, output_key="examples")
    fingerprints = {str(span.number): span.fingerprint for span in request.spans}
    node = Resolver(strategy_class=SpansOfWindow, config={"fingerprints": fingerprints}, examples=every)
    node = node.with_id("Window")
    node.add_upstream_node(ingest)
    return node
