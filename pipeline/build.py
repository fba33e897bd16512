"""The DAG: one config in, one TFX pipeline out. Reads from top to bottom as the data flows."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow_data_validation as tfdv
from tfx import types
from tfx.components import ExampleValidator, Trainer, Tuner
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from components.blessed import LastBlessedModel
from components.data_gate.component import SpanComparison
from components.data_gate.gate import DataGate
from components.evaluation.component import Evaluator
from components.ingest.component import Ingest, SpansOfWindow
from components.ingest.request import KnownSpan, Request
from components.ingest.spans import Window, find_window
from components.parity.component import Parity
from components.pusher import Pusher
from components.report.component import Report
from components.schema import DeclaredSchema, SchemaComparison
from components.serving_check.component import ServingCheck
from components.statistics import StatisticsGen
from components.transform.component import Transform
from pipeline.beam_args import beam_args
from pipeline.config import PipelineConfig
from pipeline.execution.metadata_store import ingested_spans
from pipeline.loading.load import Loaded
from pipeline.run import SPAN_STATISTICS
from pipeline.user_code import code_digest, model_functions, transform_functions, vocabulary_files
from preprocessing.columns import raw_columns
from preprocessing.config import PreprocessingConfig
from preprocessing.places import materializes
from trainer.config import TrainerConfig

METADATA = "metadata.sqlite"


def with_absolute_files(config: PreprocessingConfig, resolve: Callable[[str], str]) -> PreprocessingConfig:
    """Returns a config whose vocabulary files are found from any folder: nodes run in folders of their own."""

    def absolute(holder: Any) -> Any:
        vocabulary = getattr(holder, "vocabulary", None)
        if vocabulary is None or vocabulary.file is None:
            return holder
        return holder.model_copy(
            update={"vocabulary": vocabulary.model_copy(update={"file": resolve(vocabulary.file)})}
        )

    features = {name: absolute(feature) for name, feature in config.features.items()}
    crosses = tuple(absolute(cross) for cross in config.crosses)
    return config.model_copy(update={"features": features, "crosses": crosses})


@dataclass(frozen=True)
class Place:
    """What depends on where a pipeline runs.

    resolve: writes a path of the YAML as nodes find it. window: what Ingest reads, as known now. known: spans that were
    ingested before. analyzer_cache: folder of what analyzers made of each span. span_statistics: folder of what the
    gate keeps of each span. compress: gzip records that the YAML leaves open. push_to: where models go. work: folder of
    unfinished work, the same for a retry; None keeps none.
    """

    resolve: Callable[[str], str]
    window: Window
    known: Sequence[KnownSpan]
    analyzer_cache: str
    span_statistics: str
    compress: bool
    push_to: str
    cache_dir: str | None = None
    work: str | None = None


def trainer_config(config: PipelineConfig, place: Place) -> TrainerConfig:
    """Returns what the Trainer is told, with folders as `place` has them."""
    given = config.trainer_config
    folder = place.cache_dir if given.input.cache_dir is None else str(place.resolve(given.input.cache_dir))
    update: dict[str, Any] = {"input": given.input.model_copy(update={"cache_dir": folder})}
    if given.training.begins_from_folder:
        begin = place.resolve(given.training.warm_start)
        update["training"] = given.training.model_copy(update={"warm_start": begin})
    return given.model_copy(update=update)


def made_from(request: Request, *parameters: Any) -> str:
    """Returns a digest of all that a model follows from but the model before it: data, features, training, code.

    Args:
        request: what Ingest is asked for.
        parameters: of the nodes that make the graph and the model, as JSON data.
    """
    spans = [span.fingerprint for span in request.spans]
    return hashlib.sha256(json.dumps([spans, parameters], sort_keys=True).encode()).hexdigest()


def build(loaded: Loaded, *, root: Path, cache: bool = True, window: Window | None = None) -> Pipeline:
    """Returns the TFX pipeline of a config, to be run on this machine.

    Args:
        loaded: the config and where it lies.
        root: folder of artifacts and metadata.
        cache: take over results of nodes whose inputs and parameters are unchanged, and spans that are ingested.
        window: the spans to train on; by default those up to the newest.

    Raises:
        UserError: Source files are missing.
    """
    config = loaded.config
    here = Place(
        resolve=loaded.resolve,
        window=window or find_window(config.data, loaded.resolve),
        known=ingested_spans(root / METADATA, config.name),
        analyzer_cache=str(root / "analyzer_cache"),
        span_statistics=str(root / SPAN_STATISTICS),
        compress="://" in str(root),
        push_to=str(loaded.resolve(config.push.to)),
        cache_dir=str(root / "input_cache"),
        work=f"{root}/work",
    )
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=str(root),
        components=build_nodes(loaded, here, reuse=cache),
        enable_cache=cache,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(root / METADATA)),
        beam_pipeline_args=beam_args(config.beam, data_bytes=sum(file.size for file in here.window.files)),
    )


def build_nodes(loaded: Loaded, place: Place, *, reuse: bool = True) -> list[base_node.BaseNode]:
    """Returns the nodes of a config, joined by their inputs and outputs.

    Args:
        loaded: the config and where it lies.
        place: where the nodes will run.
        reuse: take over spans that are known, and what analyzers made of them.
    """
    config = loaded.config
    declared = config.preprocessing_config
    preprocessing = with_absolute_files(declared, place.resolve)
    columns = raw_columns(preprocessing)
    records = config.data.records
    gzip = records.compression == "gzip" or (records.compression == "auto" and place.compress)

    request = Request(config.ingest_config, config.data.split_names, tuple(columns.values()), gzip)
    request = request.with_window(place.window, place.known)
    ingest = Ingest(request, known=place.known if reuse and request.spanned else ())
    spans = _window_node(ingest, request) if request.spanned else None
    examples = (spans or ingest).outputs["examples"]

    statistics = StatisticsGen(examples=examples, stats_options=tfdv.StatsOptions(feature_allowlist=list(columns)))
    schema = DeclaredSchema(preprocessing=preprocessing.model_dump_json()).with_id("Schema")
    comparison = SchemaComparison(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])

    span_comparison = SpanComparison(
        preprocessing,
        config.gates,
        examples=examples,
        anomalies=validator.outputs["anomalies"],
        name=config.name,
        unit=place.window.unit,
        folder=place.span_statistics,
    )
    gate = DataGate(comparison=span_comparison.outputs["comparison"], serving=place.push_to)

    code = code_digest(transform_functions(config), [loaded.resolve(f) for f in vocabulary_files(declared)])
    training: dict[str, Any] = {
        "name": config.name,
        "preprocessing": preprocessing.model_dump(mode="json"),
        "trainer": trainer_config(config, place).model_dump(mode="json"),
        "source": config.data.source.raw_text.model_dump(mode="json"),
        "code": code_digest(model_functions(config) + transform_functions(config)),
    }
    if config.tuning is not None:
        # As text: the order of the search is part of it, and TFX sorts the keys of mappings.
        training["tuning"] = config.tuning.model_dump_json()
    origin = made_from(request, training, code)
    blessed = Resolver(
        strategy_class=LastBlessedModel,
        config={"made_from": origin, "target": place.push_to},
        model=types.Channel(type=standard_artifacts.Model),
        model_blessing=types.Channel(type=standard_artifacts.ModelBlessing),
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
        cache=place.analyzer_cache if request.spanned and reuse else None,
        base_model=last if preprocessing.has_stable_ids else None,
    )
    transform_graph = transform.outputs["transform_graph"]
    ready = transform.outputs["transformed_examples"] if materializes(preprocessing) else examples

    tuner = None
    if config.tuning is not None:
        tuner = Tuner(
            tuner_fn="trainer.tuning.search.tuner_fn",
            examples=ready,
            transform_graph=transform_graph,
            custom_config={**training, "work": place.work and f"{place.work}/Tuner"},
        )
    trainer = Trainer(
        run_fn="trainer.run_fn.run_fn",
        examples=ready,
        transform_graph=transform_graph,
        hyperparameters=tuner.outputs["best_hyperparameters"] if tuner else None,
        base_model=last if config.training.warm_start == "blessed" else None,
        custom_config={**training, "made_from": origin, "work": place.work and f"{place.work}/Trainer"},
    )
    for node in (tuner, trainer):
        if node is not None:
            # What learns waits for the gate; Transform runs beside it, and what it makes is kept for the next run.
            node.add_upstream_node(gate)
    model = trainer.outputs["model"]

    parity = Parity(
        examples=examples,
        ready=ready,
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
        baseline_model=last,
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
        target=place.push_to,
        keep=config.push.keep,
        evaluated=config.evaluation.model_dump_json(),
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
        evaluated=config.evaluation.model_dump_json(),
    )

    return [
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


def _window_node(ingest: Ingest, request: Request) -> Resolver:
    """Returns the node that joins the spans ingested now with those ingested before."""
    every = types.Channel(type=standard_artifacts.Examples, producer_component_id=ingest.id, output_key="examples")
    fingerprints = {str(span.number): span.fingerprint for span in request.spans}
    node = Resolver(strategy_class=SpansOfWindow, config={"fingerprints": fingerprints}, examples=every)
    node = node.with_id("Window")
    node.add_upstream_node(ingest)
    return node
