"""The components of a pipeline file, one by one: `build_nodes` connects them, and so does a pipeline of TFX by hand."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfx import types
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.resolver import Resolver
from tfx.proto import trainer_pb2

from fullpass.base.errors import UserError
from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.data_gate.gate_component import DataGate
from fullpass.components.evaluation.component import Evaluator
from fullpass.components.ingest.component import Ingest
from fullpass.components.ingest.spans.ingest_request import KnownSpan, Request
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.internals.tfx_internals import base_component, base_node
from fullpass.components.parity.component import Parity
from fullpass.components.push.component import Pusher
from fullpass.components.serving_check.component import ServingCheck
from fullpass.components.training.component import RunFnTrainer
from fullpass.components.transform.component import Transform, check_kinds, read_schema_file
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import (
    code_digest,
    declared_code_files,
    model_functions,
    vocabulary_files,
    weight_files,
)
from fullpass.pipeline.config import PipelineConfig
from fullpass.preprocessing.columns.compute_at import materializes
from fullpass.preprocessing.columns.raw_columns import RawColumn, raw_columns, request_columns
from fullpass.preprocessing.config import PreprocessingConfig
from fullpass.preprocessing.features.image_feature import Pretrained
from fullpass.preprocessing.features.sequences import SequenceSpec
from fullpass.trainer.config import RunFn, SeveralModels, TrainerConfig, Trees

RUN_FN = "fullpass.trainer.run_fn.run_fn"


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


class TfxComponents:
    """Makes the components of a pipeline file. Each takes and gives standard artifacts of TFX.

    What a component cannot do without another of them is refused here, before anything runs.

    Example:
        >>> own = fullpass.tfx_components("pipeline.yaml", root="runs/mine")  # doctest: +SKIP
        >>> examples = tfx.components.CsvExampleGen(input_base="data").outputs["examples"]  # doctest: +SKIP
        >>> transform = own.Transform(examples=examples, schema=schema)  # doctest: +SKIP
    """

    def __init__(self, loaded: Loaded, paths: RunPaths, *, reuse: bool = True) -> None:
        """Prepares the components.

        Args:
            reuse: Whether to reuse ingested spans and their accumulators.
        """
        self.loaded, self.config, self.paths, self.reuse = loaded, loaded.config, paths, reuse
        declared = self.config.preprocessing_config
        self.preprocessing = with_absolute_files(declared, paths.resolve)
        self._gzip = self.config.data.records.gzip(remote=paths.compress)
        # Digests are computed from the files of this machine; `preprocessing` holds the paths of the nodes' machine.
        self._read_by_code = declared_code_files(loaded)
        of_graph = code_digest(declared.functions, [*vocabulary_files(loaded), *self._read_by_code])
        self._code = f"{of_graph} {paths.libraries}".strip()

    @cached_property
    def columns(self) -> dict[str, RawColumn]:
        """The raw columns that the pipeline reads."""
        return raw_columns(self.preprocessing)

    @cached_property
    def request(self) -> Request:
        """The request to Ingest."""
        data = self.config.data
        request = Request(self.config.ingest_config, data.split_names, tuple(self.columns.values()), self._gzip)
        return request.with_window(self.paths.window, self.paths.known)

    @cached_property
    def training(self) -> dict[str, Any]:
        """The parameters of training, which Tuner and Trainer have in common."""
        config, paths = self.config, self.paths
        functions = model_functions(config) + config.preprocessing_config.functions
        training: dict[str, Any] = {
            "name": config.name,
            "preprocessing": self.preprocessing.model_dump(mode="json"),
            "trainer": trainer_config(config, paths).model_dump(mode="json"),
            "source": config.data.source.description(),
            "code": code_digest(functions, [*weight_files(self.loaded), *self._read_by_code]),
        }
        if self._joins:
            training["joins"] = self._joins
        if paths.libraries:
            training["libraries"] = paths.libraries
        if isinstance(config.model, SeveralModels | Trees) and config.splits_single_rows:
            training["folds"] = True
        if config.tuning is not None:
            # As text, since TFX sorts the keys of mappings and the order of the search matters.
            training["tuning"] = config.tuning.model_dump_json()
        return training

    @property
    def _joins(self) -> dict[str, Any]:
        return {name: join.description() for name, join in self.config.data.joins.items() if join.serve == "given"}

    @property
    def _decision(self) -> dict[str, Any]:
        rule = self.config.evaluation.decision
        return {"decision": rule.model_dump(mode="json")} if rule else {}

    @property
    def origin(self) -> str:
        """The digest of what a model is made from."""
        return lineage_digest(self.request, self.training | self._decision, self._code)

    def Ingest(self) -> base_component.BaseComponent:
        """Returns the component that reads `data.source`. Output: `examples`."""
        return Ingest(self.request, known=self.paths.known if self.reuse and self.request.spanned else ())

    def Transform(
        self,
        *,
        examples: types.BaseChannel,
        schema: types.BaseChannel,
        base_model: types.BaseChannel | None = None,
        preprocessing_fn: str | None = None,
    ) -> base_component.BaseComponent:
        """Returns the full pass. Outputs: `transform_graph`, and `transformed_examples` unless features wait for them.

        Args:
            examples: Of Ingest or of any other ExampleGen.
            schema: Of TFX's SchemaGen, for `preprocessing_fn`; else the declared one, or one of the same columns.
            base_model: The model whose ids of tokens stay.
            preprocessing_fn: The path `package.module:function` of a preprocessing_fn of TFX, which takes the place of
                the features: it gets the tensors of all columns of the schema, and names the outputs.

        Raises:
            UserError: The schema of an ImportSchemaGen has integers that features read. That of SchemaGen is read when
                the component runs, before the examples.
        """
        preprocessing, code, spanned = self.preprocessing, self._code, self._is_spanned(examples)
        if preprocessing_fn is not None:
            update = {"function": preprocessing_fn, "whole": True, "compute_at": "transform"}
            preprocessing = preprocessing.model_copy(update=update)
            code = f"{code_digest([preprocessing_fn], self._read_by_code)} {self.paths.libraries}".strip()
        imported = _producer(schema)
        if isinstance(imported, ImportSchemaGen) and not preprocessing.whole:
            check_kinds(read_schema_file(imported.exec_properties["schema_file"]), preprocessing)
        return Transform(
            preprocessing,
            examples=examples,
            schema=schema,
            materialize=materializes(preprocessing),
            records=self.config.data.records,
            gzip=self._gzip,
            code=code,
            cache=self.paths.analyzer_cache if spanned and self.reuse else None,
            base_model=base_model,
        )

    def Trainer(
        self,
        *,
        examples: types.BaseChannel,
        transform_graph: types.BaseChannel,
        schema: types.BaseChannel | None = None,
        base_model: types.BaseChannel | None = None,
        hyperparameters: types.BaseChannel | None = None,
    ) -> base_component.BaseComponent:
        """Returns TFX's Trainer with the model and the training of the YAML. Outputs: `model`, `model_run`.

        Args:
            examples: `transformed_examples` of Transform, or the raw ones if it writes none.
            transform_graph: Of Transform, for the features of the YAML. `model: {kind: run_fn}` takes any graph.
            schema: For `model: {kind: run_fn}`, as `fn_args.schema_path`.

        Raises:
            UserError: The graph is another one.
        """
        given = {"examples": examples, "transform_graph": transform_graph, "base_model": base_model}
        given["hyperparameters"] = hyperparameters
        if isinstance(self.config.model, RunFn):
            return self._run_fn_trainer(self.config.model, {**given, "schema": schema})
        self._require_features("Trainer", transform_graph)
        personal, others = list(self.config.data.personal), dict[str, Any]()
        if personal:
            others["personal"] = personal
        if self._joins or self.config.data.history:
            others["bad_rows"] = self.config.data.bad_rows.max_fraction
        return Trainer(
            run_fn=RUN_FN,
            **given,
            custom_config={
                **self.training,
                **self._decision,
                **others,
                "made_from": self.origin,
                "work": self.paths.work and f"{self.paths.work}/Trainer",
            },
        )

    def _run_fn_trainer(
        self, model: RunFn, inputs: Mapping[str, types.BaseChannel | None]
    ) -> base_component.BaseComponent:
        columns = request_columns(self.preprocessing).values()
        label = self.config.label
        facts = {"name": self.config.name, "task": label.task, "label": label.column, "made_from": self.origin}
        return RunFnTrainer(
            run_fn=model.function,
            **inputs,
            train_args=trainer_pb2.TrainArgs(num_steps=model.train_steps),
            eval_args=trainer_pb2.EvalArgs(num_steps=model.eval_steps),
            custom_config={
                "custom_config": model.custom_config,
                "keras": model.keras,
                "code": f"{self.training['code']} {self.paths.libraries}",
                "facts": {**facts, "columns": [{"name": one.name, "type": one.type} for one in columns]},
            },
        ).with_id("Trainer")

    def Parity(
        self,
        *,
        examples: types.BaseChannel,
        ready: types.BaseChannel,
        transform_graph: types.BaseChannel,
        model: types.BaseChannel,
        model_run: types.BaseChannel,
    ) -> base_component.BaseComponent:
        """Returns the comparison of training with serving. Output: `report`.

        Args:
            examples: Of Ingest, whose row ids tell which rows are the same.
            ready: What the Trainer read.

        Raises:
            UserError: The examples are of another ExampleGen, or the model is of another Trainer.
        """
        self._require_ingest("Parity", examples, "tells rows apart by the row ids that only Ingest writes")
        self._require_features("Parity", transform_graph)
        self._require_own_model("Parity", model, "compares signatures and scores that only this Trainer writes")
        return Parity(
            examples=examples,
            ready=ready,
            transform_graph=transform_graph,
            model=model,
            model_run=model_run,
            preprocessing=self.preprocessing.model_dump_json(),
            options=self.config.parity.model_dump_json(),
        )

    def Evaluator(
        self,
        *,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        model_run: types.BaseChannel | None = None,
        baseline_model: types.BaseChannel | None = None,
        label: str | None = None,
        logits: bool = False,
    ) -> base_component.BaseComponent:
        """Returns the evaluation by `evaluation` of the YAML. Outputs: `evaluation`, `blessing`.

        Args:
            examples: Raw ones, of Ingest or of any other ExampleGen; the split `eval` is read.
            model: Of this Trainer or of any other. That of another has the signatures `serving_default` and
                `transform_features` of serialized examples, as those of TFX's templates.
            model_run: Of this Trainer. Without it the report has neither importance nor partial dependence.
            baseline_model: The model that is compared, such as that of TFX's LatestBlessedModelStrategy.
            label: For a model of another Trainer, the name of its label among the outputs of `transform_features`.
            logits: Whether the scores of such a model are logits.

        Raises:
            UserError: The model is of another Trainer, and `label` is not given.
        """
        own = self.config.model
        if label is None and isinstance(own, RunFn):
            label, logits = own.label, own.logits
        if label is None:
            self._require_own_model("Evaluator", model, "knows the label of these only. Give label=")
        return Evaluator(
            self.config.evaluation,
            examples=examples,
            model=model,
            model_run=model_run,
            baseline_model=baseline_model,
            preprocessing=self.preprocessing,
            columns=self.columns,
            spanned=self._is_spanned(examples),
            label=None if label is None else {"name": label, "logits": logits},
        )

    def ServingCheck(self, *, model: types.BaseChannel) -> base_component.BaseComponent:
        """Returns the check of the export in a fresh process. Output: `report`.

        Raises:
            UserError: The model is of another Trainer.
        """
        self._require_own_model("ServingCheck", model, "sends the sample requests that only this Trainer exports")
        return ServingCheck(model=model)

    def SpanComparison(
        self, *, examples: types.BaseChannel, anomalies: types.BaseChannel
    ) -> base_component.BaseComponent:
        """Returns the comparison of the newest span with others by `gates` of the YAML. Output: `comparison`.

        Args:
            examples: Of Ingest, which names spans by their content.
            anomalies: Of TFX's ExampleValidator.

        Raises:
            UserError: The examples are of another ExampleGen.
        """
        self._require_ingest("SpanComparison", examples, "knows a span by the digest of its content, from Ingest")
        paths = self.paths
        return SpanComparison(
            self.preprocessing,
            self.config.gates,
            examples=examples,
            anomalies=anomalies,
            name=self.config.name,
            unit=paths.window.unit,
            folder=paths.span_statistics,
            verdicts=paths.span_verdicts,
            known=paths.window.gate,
        )

    def DataGate(self, *, comparison: types.BaseChannel) -> base_component.BaseComponent:
        """Returns the gate that fails if SpanComparison has found what stops a run. Output: `verdict`.

        What must not run then waits for it: `trainer.add_upstream_node(gate)`.
        """
        return DataGate(comparison=comparison, serving=self.paths.push_to)

    def Pusher(
        self,
        *,
        model: types.BaseChannel,
        blessing: types.BaseChannel,
        evaluation: types.BaseChannel | None = None,
        examples: types.BaseChannel | None = None,
        transform_graph: types.BaseChannel | None = None,
        comparison: types.BaseChannel | None = None,
        parity: types.BaseChannel | None = None,
        serving: types.BaseChannel | None = None,
    ) -> base_component.BaseComponent:
        """Returns the push of a blessed model to `push.to`. Output: `pushed_model`.

        Args:
            blessing: Of the Evaluator, or of TFX's.
            evaluation, examples, transform_graph, comparison, parity, serving: What the lineage of the model tells;
                the push waits for those that are given.
        """
        given = {"evaluation": evaluation, "examples": examples, "transform_graph": transform_graph}
        given |= {"comparison": comparison, "parity": parity, "serving": serving}
        return Pusher(
            model=model,
            blessing=blessing,
            target=self.paths.push_to,
            keep=self.config.push.keep,
            **{name: channel for name, channel in given.items() if channel is not None},
        )

    def _is_spanned(self, examples: types.BaseChannel) -> bool:
        return self.request.spanned and _is_ingested(examples)

    def _require_ingest(self, node: str, examples: types.BaseChannel, why: str) -> None:
        if not _is_ingested(examples):
            raise UserError(
                f"{node} {why}, and its examples are of {_producer_name(examples)}. Use Ingest, or leave {node} out."
            )

    def _require_features(self, node: str, graph: types.BaseChannel) -> None:
        producer = _producer(graph)
        given = producer.exec_properties["preprocessing"] if isinstance(producer, Transform) else None
        if given is None or PreprocessingConfig.model_validate_json(given).whole:
            raise UserError(
                f"{node} knows the features of {self.loaded.file} only, and its transform_graph is of "
                f"{_producer_name(graph)}{'' if given is None else ' with a preprocessing_fn'}. Use Transform without "
                "preprocessing_fn, or TFX's Trainer with a run_fn of yours."
            )

    def _require_own_model(self, node: str, model: types.BaseChannel, why: str) -> None:
        producer = _producer(model)
        if isinstance(producer, Trainer) and producer.exec_properties.get("run_fn") != RUN_FN:
            raise UserError(f"{node} {why}, and its model is of {producer.id} with another run_fn.")


def _producer(channel: types.BaseChannel) -> base_node.BaseNode | None:
    """Returns the node that a channel is an output of; None for another channel."""
    return getattr(channel, "producer_component", None)


def _producer_name(channel: types.BaseChannel) -> str:
    producer = _producer(channel)
    return producer.id if producer is not None else type(channel).__name__


def _is_ingested(examples: types.BaseChannel) -> bool:
    """Returns whether examples are of Ingest, or of the node Window, which takes them from it."""
    return isinstance(_producer(examples), Ingest | Resolver)
