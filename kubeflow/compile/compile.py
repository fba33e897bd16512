"""`fullpass compile`: compiles the pipeline of a config to a package for open-source Kubeflow Pipelines v2."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfx.components.trainer.component import Trainer
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common.resolver import RESOLVER_CONFIG, Resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.base.user_modules import use_modules_of
from fullpass.components.artifacts import Report
from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.config import SpanColumn
from fullpass.components.ingest.spans.spans import LATEST, span_unit
from fullpass.components.push.last_blessed import LastBlessedModel
from fullpass.components.statistics.component import StatisticsGen
from fullpass.components.transform.component import Transform
from fullpass.kubeflow.beam_engines import beam_config
from fullpass.kubeflow.compile import lint, lookup_tasks, notify_tasks, packed
from fullpass.kubeflow.compile.node_tasks import ENTRYPOINT, Sources, executor_args, node_task, title
from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.compile.package_paths import check_engines, cluster_paths, span_records
from fullpass.kubeflow.compile.parts import Json, Output, Task, task_name
from fullpass.kubeflow.compile.pod import (
    LAUNCHER_MEMORY,
    LOOKUP_MEMORY,
    container,
    helper_pod_settings,
    kubernetes,
    retry_policy,
)
from fullpass.kubeflow.compile.redacted_inputs import redacted_environment, redacted_pipeline
from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig, Volume
from fullpass.kubeflow.environment import Environment, require
from fullpass.kubeflow.runtime import pod_provenance
from fullpass.kubeflow.runtime.executor_imports import IN_SMALL_IMAGE
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Problem
from fullpass.pipeline.running.build import build_nodes

SCHEMA_VERSION = "2.1.0"
WORKER_LAUNCHER = ("python", "-P", "-m", "fullpass.kubeflow.deploy.worker_launcher")


@dataclass(frozen=True)
class Compiled:
    """package: the package for Kubeflow. remarks: sentences about nodes that run differently there. warnings: problems
    of the environment file."""

    package: Package
    remarks: tuple[str, ...]
    warnings: tuple[Problem, ...]


def compile_package(loaded: Loaded, environment: Environment) -> Compiled:
    """Returns the package of a config: the same nodes as `fullpass run`, in containers.

    Queries of TFX's metadata store are replaced: a look-up finds Ingest's files when a run begins, and the last blessed
    model comes from the registry of the environment. Equal inputs give equal packages.

    Args:
        loaded: a file that passes `checks.require`.
        environment: the environment file.

    Raises:
        UserError: A node cannot run on Kubeflow, the environment does not fit the pipeline, or the release of the
            environment would reject the package.
    """
    use_modules_of(loaded.folder)
    loaded, blanked = redacted_pipeline(loaded)
    config, others = redacted_environment(environment.config, environment.file.name)
    paths = cluster_paths(loaded, config)
    nodes = Pipeline(
        pipeline_name=loaded.config.name, pipeline_root="unused", components=build_nodes(loaded, paths)
    ).components
    check_engines(loaded, config, [node.id for node in nodes])
    names = [node.id for node in nodes]
    registry_nodes = _registry_nodes(nodes)
    if loaded.config.notify:
        notify_tasks.check(loaded.config.notify, config)
        names = registry_nodes = [*names, notify_tasks.NODE]  # Every failing container writes to the registry.
    warnings = require(environment, names, push_to=paths.push_to, registry_nodes=registry_nodes)
    builder = _PackageBuilder(loaded, config, spanned=paths.window.unit is not None)
    for node in nodes:
        builder.add_node(node)
    package = builder.package()
    lint.check_package(package, config.kubeflow)
    return Compiled(package, (*blanked, *others, *builder.remarks), tuple(warnings))


@dataclass
class _PackageBuilder:
    """Builds a package node by node, in the order of the DAG.

    spanned: whether the source has spans. found_window: the look-up that finds the window. window: the examples of the
    window.
    """

    loaded: Loaded
    environment: EnvironmentConfig
    spanned: bool
    sources: Sources = field(default_factory=dict)
    components: Json = field(default_factory=dict)
    executors: Json = field(default_factory=dict)
    kubernetes: Json = field(default_factory=dict)
    tasks: Json = field(default_factory=dict)
    resolvers: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    request: Output | None = None
    made_from: dict[str, str | Output] = field(default_factory=dict)
    found_window: Task | None = None
    window: Output | None = None

    def add_node(self, node: base_node.BaseNode) -> None:
        """Adds the tasks of a node."""
        if isinstance(node, Resolver):
            self._add_resolver(node)
            return
        task = node_task(node, self.sources, self.environment)
        ingest = self._with_request(node, task) if isinstance(node, Ingest) else None
        settings = self.environment.node(node.id, small=self._is_small(node))
        beam = beam_config(settings.beam, self.loaded.config.beam, self.environment.pipeline_root)
        args = executor_args(node, beam, self.environment, self.sources, window=self.window, ingest=ingest)
        command: Sequence[str] = ENTRYPOINT
        if settings.workers:
            command, args = WORKER_LAUNCHER, self._job_args(node, settings, settings.workers.count, args)
            settings = helper_pod_settings(settings, self.environment.defaults, LAUNCHER_MEMORY)
        if isinstance(node, Trainer):
            facts = {pod_provenance.VARIABLE: pod_provenance.package_facts(self.loaded)}
            settings = settings.model_copy(update={"env": settings.env | facts})
        self._add_container(task, command, args, settings)
        self.sources |= {(node.id, key): Output(task.name, key) for key in node.outputs}
        if isinstance(node, Ingest) and self.spanned:
            self.window = Output(task.name, "examples")
        self._record_blessings(node, task)
        self._record_window(node)

    def _is_small(self, node: base_node.BaseNode) -> bool:
        """Returns whether a node needs no TensorFlow; TFX needs it to open artifacts at gs:// directly."""
        return self.environment.artifacts == "copied" and node.executor_spec.class_path in IN_SMALL_IMAGE

    def _job_args(self, node: base_node.BaseNode, settings: NodeConfig, count: int, args: list[str]) -> list[str]:
        """Returns the arguments of the container that runs the node as a Job."""
        launcher_settings = {
            "pipeline": self.loaded.config.name,
            "node_id": node.id,
            "node": settings.model_dump(mode="json"),
            "pull_secrets": self.environment.image_pull_secrets,
            "pull_policy": self.environment.image_pull_policy,
        }
        self.remarks.append(f"{node.id}: runs in {count} pods of a separate Job; its task waits for them.")
        return ["--workers", json.dumps(launcher_settings, sort_keys=True), *args]

    def package(self) -> Package:
        """Returns the package of all added nodes."""
        pipeline: Json = {
            "pipelineInfo": {"name": self.loaded.config.name},
            "schemaVersion": SCHEMA_VERSION,
            "sdkVersion": "fullpass",
            "deploymentSpec": {"executors": self.executors},
            "components": self.components,
            "root": {"dag": {"tasks": self.tasks}},
        }
        if self._run_parameters():
            pipeline["root"]["inputDefinitions"] = {"parameters": self._run_parameters()}
        if self.loaded.config.notify:
            pipeline = self._with_notify(pipeline)
        if self.loaded.config.mlflow is not None:
            self.remarks.append(
                "mlflow: runs of packages are not recorded in MLflow; only `fullpass run` records its runs."
            )
        if self.environment.pipeline_root:
            pipeline["defaultPipelineRoot"] = self.environment.pipeline_root
        return Package(pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": self.kubernetes}}}})

    def _with_notify(self, pipeline: Json) -> Json:
        """Returns the pipeline with a task that records the outcome of a run, and a task that notifies receivers."""
        config = self.loaded.config
        reported = {
            "evaluation": ("Evaluator", standard_artifacts.ModelEvaluation),
            "blessing": ("Evaluator", standard_artifacts.ModelBlessing),
            "pushed_model": ("Pusher", standard_artifacts.PushedModel),
            "report": ("Report", Report),
        }
        artifacts = {key: (self.sources[node, key], title(kind)) for key, (node, kind) in reported.items()}
        records = [name for name in self.tasks if name.startswith("record-")]
        outcome = notify_tasks.outcome_task(config.evaluation.model_dump_json(), artifacts, records)
        self._add_lookup("outcome", outcome, notify_tasks.NODE)
        folder, file = self.environment.folder, self.loaded.file.name
        exit_task = notify_tasks.notify_task(config.name, f"{folder}/{file}", config.notify, folder)
        self._add_lookup("tell", exit_task, notify_tasks.NODE)
        del self.tasks[exit_task.name]
        self.remarks.append(f"notify: {exit_task.name} runs after all other tasks and notifies the receivers.")
        return notify_tasks.with_exit_task(pipeline, exit_task)

    def _run_parameters(self) -> Json:
        declared: Json = {}
        if self._has_path:
            text = "Files to read instead of data.source.path: a path, or the value of that key as JSON."
            declared[lookup_tasks.DATA_PATH] = _text_parameter("", text)
        if self.spanned:
            text = (
                "The newest span to train on, as a date or number, or A:B; latest; or new, the newest, which must not "
                "have been trained on before."
            )
            declared[lookup_tasks.SPAN] = _text_parameter(LATEST, text)
        return declared

    @property
    def _has_path(self) -> bool:
        return hasattr(self.loaded.config.data.source, "path")

    def _with_request(self, node: Ingest, task: Task) -> Json:
        """Adds the look-up of Ingest's inputs; returns where Ingest finds its request, and where spans are kept."""
        records = span_records(self.loaded, self.environment) if self.spanned else {}
        data, release = self.loaded.config.data, self.environment.kubeflow
        planned = lookup_tasks.schedule_time(self.loaded.config.schedule, span_unit(data), release)
        spans = str(data.window.spans)
        found = lookup_tasks.find_inputs_task(
            node.id,
            self.loaded.config.name,
            node.exec_properties["request"],
            self.environment,
            by_path=self._has_path,
            window={lookup_tasks.SPANS: spans, lookup_tasks.ENTRIES: records["entries"], **planned} if records else {},
        )
        # With a span column, the look-up must read the rows, like Ingest, to determine their spans.
        self._add_lookup("inputs", found, node.id, small=not isinstance(data.span, SpanColumn))
        self.remarks.append(f"{node.id}: {found.name} finds its files and their fingerprints when a run begins.")
        self.request = Output(found.name, lookup_tasks.REQUEST)
        task.parameters |= {"request": self.request}
        where: Json = {"registry": self.environment.registry, "pipeline": self.loaded.config.name}
        if not records:
            return where
        self.found_window, self.request = found, Output(found.name, lookup_tasks.WINDOW)
        self.remarks.append(f"{node.id}: spans that earlier runs ingested are reused from the registry.")
        return {**where, **records, "anew": not task.cache}

    def _record_window(self, node: base_node.BaseNode) -> None:
        if self.found_window is None or not isinstance(node, Trainer):
            return
        task = lookup_tasks.record_window_task(self.loaded.config.name, self.found_window, node.id, self.environment)
        self._add_lookup("record-window", task, node.id)
        self.remarks.append(f"{node.id}: {task.name} records the window for runs that train only on new spans.")

    def _add_resolver(self, node: Resolver) -> None:
        strategy = node.exec_properties.get("resolver_class")
        if strategy is SpansOfWindow:
            # The ingest tasks produce the window.
            examples: Any = node.raw_inputs["examples"]
            self.sources[node.id, "examples"] = self.sources[examples.producer_component_id, examples.output_key]
            return
        if strategy is not LastBlessedModel:
            name = getattr(strategy, "__name__", strategy)
            raise UserError(
                f"{node.id}: Kubeflow runs no resolvers, and a package has no replacement for {name}. Run the pipeline "
                "with `fullpass run`."
            )
        self.made_from = self._made_from(node)
        nothing = lookup_tasks.empty_artifact_task(node.id, self.environment)
        self._add_lookup("nothing", nothing, node.id)
        push_to = node.exec_properties[RESOLVER_CONFIG]["target"]
        found = lookup_tasks.find_blessed_model_task(
            node.id, self.loaded.config.name, push_to, self.made_from, nothing, self.environment
        )
        self._add_lookup("blessed-model", found, node.id, self._push_volume(node.id, push_to))
        name = task_name(node.id)
        importer = lookup_tasks.import_model(name, found)
        self.tasks[name] = importer.dag_task
        self.components |= {f"comp-{name}": importer.dag, f"comp-{importer.name}": importer.component}
        self.executors[f"exec-{importer.name}"] = importer.executor
        self._add_dag_end_task(importer.end, node.id, importer.dag["dag"]["tasks"])
        self.sources[node.id, "model"] = Output(name, "model")
        self.resolvers.append(node.id)
        searched = f"the registry {self.environment.registry}"
        self.remarks.append(f"{node.id}: {found.name} searches {searched}; {importer.name} imports the model.")

    def _made_from(self, node: Resolver) -> dict[str, str | Output]:
        """Returns the look-up inputs that identify a model's parameters and data."""
        if self.request is None:
            raise ValueError(f"{node.id} is before Ingest, whose request identifies the data of a model")
        return {"made_from": node.exec_properties[RESOLVER_CONFIG]["made_from"], "request": self.request}

    def _record_blessings(self, node: base_node.BaseNode, task: Task) -> None:
        for key, channel in node.outputs.items():
            if channel.type is standard_artifacts.ModelBlessing:
                for resolver in self.resolvers:
                    record = lookup_tasks.record_blessed_model_task(
                        resolver, self.loaded.config.name, Output(task.name, key), self.made_from, self.environment
                    )
                    self._add_lookup("record", record, resolver)
                    self.remarks.append(f"{node.id}: {record.name} records a blessed model for later runs.")

    def _push_volume(self, node: str, push_to: str) -> tuple[Volume, ...]:
        """Returns the volume that a look-up also mounts to find models that were rolled back."""
        pushed, own = self.environment.node("Pusher").volume_of(push_to), self.environment.node(node).volumes
        if pushed is None or pushed in own:
            return ()
        for volume in own:
            if volume.mount == pushed.mount:
                raise UserError(
                    f"nodes.{node}.volumes: claim {volume.claim} is mounted at {volume.mount}, where claim "
                    f"{pushed.claim} of Pusher is needed to see which models in {push_to} were rolled back. Mount "
                    f"{volume.claim} at another folder."
                )
        return (pushed,)

    def _add_lookup(
        self, kind: str, task: Task, node: str, volumes: tuple[Volume, ...] = (), *, small: bool = True
    ) -> None:
        settings = helper_pod_settings(
            self.environment.node(node, small=small), self.environment.defaults, LOOKUP_MEMORY
        )
        settings = settings.model_copy(update={"volumes": settings.volumes + volumes})
        self._add_container(task, lookup_tasks.COMMAND, lookup_tasks.lookup_args(kind, task), settings)

    def _add_dag_end_task(self, task: Task, node: str, dag: Json) -> None:
        """Adds the task that ends a DAG; it opens no volumes or secrets."""
        settings = helper_pod_settings(
            self.environment.node(node, small=True), self.environment.defaults, LOOKUP_MEMORY
        )
        settings = settings.model_copy(update={"volumes": (), "secrets": (), "env": {}})
        self._add_container(task, lookup_tasks.END_COMMAND, (), settings, dag)

    def _add_container(
        self, task: Task, command: Sequence[str], args: Sequence[str], settings: NodeConfig, dag: Json | None = None
    ) -> None:
        """Adds a task to a DAG, by default to the root."""
        tasks = self.tasks if dag is None else dag
        if task.name in tasks:
            raise UserError(f"{task.label}: two nodes are called {task.name} on Kubeflow. Rename one of them.")
        if self.loaded.config.notify:
            variables = notify_tasks.variables(self.loaded.config.name, self.environment)
            settings = settings.model_copy(update={"env": settings.env | variables})
        if settings.retries:
            task.retry = retry_policy(settings.retries)
        constants = task.take_constants(packed.MOST_CHARACTERS)
        if constants:
            args = [*args, "--constants", packed.pack(constants)]
        component: Json = {"executorLabel": f"exec-{task.name}"}
        definitions = {"inputDefinitions": task.input_definitions(), "outputDefinitions": task.output_definitions()}
        self.components[f"comp-{task.name}"] = component | {key: value for key, value in definitions.items() if value}
        self.executors[f"exec-{task.name}"] = {"container": container(settings, command, args)}
        kubernetes_part = kubernetes(settings, self.environment)
        if kubernetes_part:
            self.kubernetes[f"exec-{task.name}"] = kubernetes_part
        tasks[task.name] = task.task_spec()


def _registry_nodes(nodes: Sequence[base_node.BaseNode]) -> list[str]:
    """Returns the nodes whose containers or look-ups open the registry."""
    strategies = {node.id: node.exec_properties["resolver_class"] for node in nodes if isinstance(node, Resolver)}
    blessed = [name for name, strategy in strategies.items() if strategy is LastBlessedModel]
    windows = {name for name, strategy in strategies.items() if strategy is SpansOfWindow}
    keeping: tuple[type, ...] = (StatisticsGen, SpanComparison, Ingest)
    if windows:
        keeping = (*keeping, Transform, Trainer)

    def reads_spans(node: base_node.BaseNode) -> bool:
        return any(getattr(c, "producer_component_id", None) in windows for c in node.inputs.values())

    return blessed + [node.id for node in nodes if isinstance(node, keeping) or reads_spans(node)]


def _text_parameter(default: str, description: str) -> Json:
    return {"parameterType": "STRING", "defaultValue": default, "isOptional": True, "description": description}
