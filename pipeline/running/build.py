"""Builds the TFX pipeline of a config; the nodes are listed in the order of the data flow."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.example_validator.component import ExampleValidator
from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from fullpass.base.files import is_address
from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.data_gate.gate_component import DataGate
from fullpass.components.declared_schema import SchemaComparison, declared_schema
from fullpass.components.evaluation.component import Evaluator
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.internals.tfx_internals import UnionChannel, base_node, metadata
from fullpass.components.library_versions import COMPUTING, version
from fullpass.components.parity.component import Parity
from fullpass.components.push.component import Pusher
from fullpass.components.push.last_blessed import LastBlessedModel
from fullpass.components.report.component import Report
from fullpass.components.serving_check.component import ServingCheck
from fullpass.components.statistics.component import StatisticsGen
from fullpass.components.transform.component import Transform
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import (
    code_digest,
    declared_code_files,
    model_functions,
    vocabulary_files,
    weight_files,
)
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.running.beam_args import beam_args
from fullpass.pipeline.running.execution.metadata_store import ingested_spans
from fullpass.pipeline.running.own_nodes import with_own_nodes
from fullpass.pipeline.running.run_window import run_window
from fullpass.preprocessing.columns.compute_at import materializes
from fullpass.preprocessing.columns.raw_columns import raw_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.image_feature import Pretrained
from fullpass.preprocessing.features.sequences import SequenceSpec
from fullpass.trainer.config import SeveralModels, TrainerConfig


def with_absolute_files(config: PreprocessingConfig, resolve: Callable[[str], str]) -> PreprocessingConfig:
    """Returns a config with resolved paths of vocabularies and weights, since nodes run in other folders."""

    def absolute(part: Any) -> Any:
        encoder = getattr(part, "encoder", None)
        if isinstance(encoder, Pretrained):
            return part.model_copy(update={"encoder": encoder.model_copy(update={"weights": resolve(encoder.weights)})})
        vocabulary = getattr(part, "vocabulary", None)
        if vocabulary is None or vocabulary.file is None:
            return part
        return part.model_copy(update={"vocabulary": vocabulary.model_copy(update={"file": resolve(vocabulary.file)})})

    def with_columns(sequence: SequenceSpec) -> SequenceSpec:
        columns = {name: absolute(column) for name, column in sequence.columns.items()}
        return sequence.model_copy(update={"columns": columns})

    features = {name: absolute(feature) for name, feature in config.features.items()}
    # A node that reads the config makes the features of a sequence anew from its columns.
    sequences = {name: with_columns(sequence) for name, sequence in config.sequences.items()}
    crosses = tuple(absolute(cross) for cross in config.crosses)
    return config.model_copy(update={"features": features, "sequences": sequences, "crosses": crosses})


@dataclass(frozen=True)
class RunPaths:
    """The paths and inputs of a pipeline that differ between this machine and a cluster.

    Attributes:
        window: The spans and files to ingest, and the joined tables, as found now.
        compress: Whether records are gzipped if the YAML sets `auto`.
        libraries: The versions of the libraries that compute; empty on a cluster, where the image determines them.
        cache_dir: The folder of the input cache, if the YAML names none.
        work: The folder of checkpoints and other unfinished work for retries; None keeps none.
    """

    resolve: Callable[[str], str]
    window: Window
    known: Sequence[KnownSpan]
    analyzer_cache: str
    span_statistics: str
    span_verdicts: str
    compress: bool
    push_to: str
    libraries: str = ""
    cache_dir: str | None = None
    work: str | None = None


def trainer_config(config: PipelineConfig, paths: RunPaths) -> TrainerConfig:
    """Returns the config of the Trainer with resolved paths."""
    trainer = config.trainer_config
    folder = paths.cache_dir if trainer.input.cache_dir is None else str(paths.resolve(trainer.input.cache_dir))
    update: dict[str, Any] = {"input": trainer.input.model_copy(update={"cache_dir": folder})}
    if trainer.training.begins_from_folder:
        begin = paths.resolve(trainer.training.warm_start)
        update["training"] = trainer.training.model_copy(update={"warm_start": begin})
    return trainer.model_copy(update=update)


def lineage_digest(request: Request, *parameters: Any) -> str:
    """Returns a digest of the data, features, training and code of a model, but not of the model before it.

    Args:
        parameters: The parameters of the nodes that produce the graph and the model, as JSON data.
    """
    spans = [span.fingerprint for span in request.spans]
    return hashlib.sha256(json.dumps([spans, parameters], sort_keys=True).encode()).hexdigest()


def build(loaded: Loaded, *, root: Path, cache: bool = True, window: Window | None = None) -> Pipeline:
    """Returns the TFX pipeline of a config for this machine.

    Args:
        cache: Whether to reuse ingested spans and the results of nodes whose inputs and parameters are unchanged.
        window: The spans to train on; by default those up to the newest.

    Raises:
        UserError: Source files are missing.
    """
    config = loaded.config
    layout = RootLayout(root)
    paths = RunPaths(
        resolve=loaded.resolve,
        window=window or run_window(loaded, root),
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
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=str(root),
        components=build_nodes(loaded, paths, reuse=cache),
        enable_cache=cache,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(layout.metadata)),
        beam_pipeline_args=beam_args(config.beam, data_bytes=sum(file.size for file in paths.window.files)),
    )


def build_nodes(loaded: Loaded, paths: RunPaths, *, reuse: bool = True) -> list[base_node.BaseNode]:
    """Returns the nodes of a config, connected by their inputs and outputs.

    Args:
        reuse: Whether to reuse ingested spans and their accumulators.
    """
    config = loaded.config
    declared = config.preprocessing_config
    preprocessing = with_absolute_files(declared, paths.resolve)
    columns = raw_columns(preprocessing)
    records = config.data.records
    gzip = records.gzip(remote=paths.compress)

    request = Request(config.ingest_config, config.data.split_names, tuple(columns.values()), gzip)
    request = request.with_window(paths.window, paths.known)
    ingest = Ingest(request, known=paths.known if reuse and request.spanned else ())
    spans = _window_node(ingest, request) if request.spanned else None
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
    validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])

    span_comparison = SpanComparison(
        preprocessing,
        config.gates,
        examples=examples,
        anomalies=validator.outputs["anomalies"],
        name=config.name,
        unit=paths.window.unit,
        folder=paths.span_statistics,
        verdicts=paths.span_verdicts,
        known=paths.window.gate,
    )
    gate = DataGate(comparison=span_comparison.outputs["comparison"], serving=paths.push_to)

    # Digests are computed from the files of this machine; `preprocessing` holds the paths of the nodes' machine.
    read_by_code = declared_code_files(loaded)
    of_graph = code_digest(declared.functions, [*vocabulary_files(loaded), *read_by_code])
    code = f"{of_graph} {paths.libraries}".strip()
    training: dict[str, Any] = {
        "name": config.name,
        "preprocessing": preprocessing.model_dump(mode="json"),
        "trainer": trainer_config(config, paths).model_dump(mode="json"),
        "source": config.data.source.description(),
        "code": code_digest(model_functions(config) + declared.functions, [*weight_files(loaded), *read_by_code]),
    }
    joins = {name: join.description() for name, join in config.data.joins.items() if join.serve == "given"}
    if joins:
        training["joins"] = joins
    if paths.libraries:
        training["libraries"] = paths.libraries
    if isinstance(config.model, SeveralModels) and config.splits_single_rows:
        training["folds"] = True
    if config.tuning is not None:
        # As text, since TFX sorts the keys of mappings and the order of the search matters.
        training["tuning"] = config.tuning.model_dump_json()
    rule = config.evaluation.decision
    decision = {"decision": rule.model_dump(mode="json")} if rule else {}
    others: dict[str, Any] = {"personal": list(config.data.personal)} if config.data.personal else {}
    if joins or config.data.history:
        others["bad_rows"] = config.data.bad_rows.max_fraction
    origin = lineage_digest(request, training | decision, code)
    blessed = Resolver(
        strategy_class=LastBlessedModel,
        config={"made_from": origin, "target": paths.push_to},
        model=types.Channel(type=standard_artifacts.Model),
        model_blessing=_verdicts(),
    ).with_id("LastBlessedModel")
    last = blessed.outputs["model"]

    transform = Transform(
        preprocessing,
        examples=examples,
        schema=schema.outputs["schema"],
        materialize=materializes(preprocessing),
        records=records,
        gzip=gzip,
        code=code,
        cache=paths.analyzer_cache if request.spanned and reuse else None,
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
            custom_config={**training, "work": paths.work and f"{paths.work}/Tuner"},
        )
    trainer = Trainer(
        run_fn="fullpass.trainer.run_fn.run_fn",
        examples=training_examples,
        transform_graph=transform_graph,
        hyperparameters=tuner.outputs["best_hyperparameters"] if tuner else None,
        base_model=last if config.training.warm_start == "blessed" else None,
        custom_config={
            **training,
            **decision,
            **others,
            "made_from": origin,
            "work": paths.work and f"{paths.work}/Trainer",
        },
    )
    for node in filter(None, (tuner, trainer)):
        # Only training waits for the gate. Transform runs in parallel, and the next run can reuse its result.
        node.add_upstream_node(gate)
    model = trainer.outputs["model"]

    parity = Parity(
        examples=examples,
        ready=training_examples,
        transform_graph=transform_graph,
        model=model,
        model_run=trainer.outputs["model_run"],
        preprocessing=preprocessing.model_dump_json(),
        options=config.parity.model_dump_json(),
    )
    evaluator = Evaluator(
        config.evaluation,
        examples=examples,
        model=model,
        model_run=trainer.outputs["model_run"],
        baseline_model=last,
        preprocessing=preprocessing,
        columns=columns,
        spanned=request.spanned,
    )
    serving_check = ServingCheck(model=model)

    pusher = Pusher(
        examples=examples,
        transform_graph=transform_graph,
        comparison=span_comparison.outputs["comparison"],
        model=model,
        evaluation=evaluator.outputs["evaluation"],
        blessing=evaluator.outputs["blessing"],
        parity=parity.outputs["report"],
        serving=serving_check.outputs["report"],
        target=paths.push_to,
        keep=config.push.keep,
    )

    report = Report(
        examples=examples,
        statistics=statistics.outputs["statistics"],
        comparison=comparison.outputs["comparison"],
        spans=span_comparison.outputs["comparison"],
        model_run=trainer.outputs["model_run"],
        parity=parity.outputs["report"],
        evaluation=evaluator.outputs["evaluation"],
        blessing=evaluator.outputs["blessing"],
        serving=serving_check.outputs["report"],
        pushed=pusher.outputs["pushed_model"],
        name=config.name,
        label=config.label.model_dump_json(),
    )

    nodes = [
        ingest,
        *([spans] if spans else []),
        statistics,
        schema,
        comparison,
        validator,
        span_comparison,
        gate,
        blessed,
        transform,
        *([tuner] if tuner else []),
        trainer,
        parity,
        evaluator,
        serving_check,
        pusher,
        report,
    ]
    if config.nodes is None:
        return nodes
    return with_own_nodes(config.nodes, nodes, code_digest([config.nodes], read_by_code))


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
