"""`fullpass compile`: the pipeline of a config as a package for open-source Kubeflow Pipelines v2."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfx.components import Trainer
from tfx.dsl.components.base import base_node
from tfx.dsl.components.common.resolver import RESOLVER_CONFIG, Resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from components.artifacts import Report
from components.blessed import LastBlessedModel
from components.data_gate.component import SpanComparison
from components.ingest.component import Ingest, SpansOfWindow
from components.ingest.spans import LATEST
from components.transform.component import Transform
from kubeflow import facts, lint, lookups, receivers
from kubeflow.config import EnvironmentConfig, NodeConfig, Volume
from kubeflow.engines import beam_config
from kubeflow.environment import Environment, require
from kubeflow.nodes import ENTRYPOINT, Sources, executor_args, node_task, title
from kubeflow.package import Package
from kubeflow.parts import Json, Output, Task, task_name
from kubeflow.place import check_engines, cluster_place, widest_window
from kubeflow.pod import container, kubernetes, retry_policy
from pipeline.build import build_nodes
from pipeline.loading.load import Loaded
from pipeline.loading.problems import Problem
from pipeline.run import add_user_modules
from preprocessing.errors import UserError

SCHEMA_VERSION = "2.1.0"
BY_WORKERS = ("python", "-m", "kubeflow.deploy.workers")


@dataclass(frozen=True)
class Compiled:
    """package: what Kubeflow takes. stand_ins: sentences about nodes that run otherwise there. warnings: about the
    environment file."""

    package: Package
    stand_ins: tuple[str, ...]
    warnings: tuple[Problem, ...]


def compile_package(loaded: Loaded, environment: Environment) -> Compiled:
    """Returns the package of a config: the same nodes as `fullpass run`, in containers.

    What asks TFX's metadata store is replaced: Ingest's files are found when a run begins, and the last blessed model
    comes from the registry of the environment. Equal inputs give equal packages.

    Args:
        loaded: a file that passes `checks.require`.
        environment: the environment file.

    Raises:
        UserError: A node cannot run on Kubeflow, the environment does not go with the pipeline, or the release of the
            environment would refuse the package.
    """
    add_user_modules(loaded)
    config = environment.config
    place = cluster_place(loaded, config)
    nodes = Pipeline(
        pipeline_name=loaded.config.name, pipeline_root="unused", components=build_nodes(loaded, place)
    ).components
    check_engines(loaded, environment.config, [node.id for node in nodes])
    names = [node.id for node in nodes]
    remembering = _remembering(nodes, config, spans=place.window.unit is not None)
    if loaded.config.notify:
        receivers.check(loaded.config.notify, config)
        names = remembering = [*names, receivers.NODE]  # whatever fails says so in the registry
    warnings = require(environment, names, push_to=place.push_to, remembering=remembering)
    assembly = _Assembly(loaded, config, widest_window(loaded, place.window))
    for node in nodes:
        assembly.add_node(node)
    package = assembly.package()
    lint.require(package, config.kubeflow)
    return Compiled(package, tuple(assembly.stand_ins), tuple(warnings))


@dataclass
class _Assembly:
    """A package that grows node by node, in the order of the DAG.

    spans: widest window, 0 for a source without spans. found_window: the look-up that finds it.
    """

    loaded: Loaded
    environment: EnvironmentConfig
    spans: int
    sources: Sources = field(default_factory=dict)
    components: Json = field(default_factory=dict)
    executors: Json = field(default_factory=dict)
    kubernetes: Json = field(default_factory=dict)
    tasks: Json = field(default_factory=dict)
    resolvers: list[str] = field(default_factory=list)
    stand_ins: list[str] = field(default_factory=list)
    request: Output | None = None
    made_from: dict[str, str | Output] = field(default_factory=dict)
    found_window: Task | None = None

    def add_node(self, node: base_node.BaseNode) -> None:
        """Adds the tasks that stand for a node."""
        if isinstance(node, Resolver):
            self._add_resolver(node)
            return
        task = node_task(node, self.sources, self.environment)
        tasks = self._ingest_tasks(node, task) if isinstance(node, Ingest) else [task]
        settings = self.environment.node(node.id)
        beam = beam_config(settings.beam, self.loaded.config.beam, self.environment.pipeline_root)
        args = executor_args(node, beam, self.environment, self.sources)
        command: Sequence[str] = ENTRYPOINT
        if settings.workers:
            command, args = BY_WORKERS, self._for_workers(node, settings, settings.workers.count, args)
            settings = _without_resources(settings)  # its pod only waits
        if isinstance(node, Trainer):
            told = {facts.VARIABLE: facts.package_facts(self.loaded)}
            settings = settings.model_copy(update={"env": settings.env | told})
        for task in tasks:
            self._add_container(task, command, args, settings)
        self.sources |= {(node.id, key): tuple(Output(task.name, key) for task in tasks) for key in node.outputs}
        self._record_blessings(node, task)
        self._record_window(node)

    def _for_workers(self, node: base_node.BaseNode, settings: NodeConfig, count: int, args: list[str]) -> list[str]:
        """Returns the arguments of a container that has a Job do the node's work."""
        asked = {
            "pipeline": self.loaded.config.name,
            "node_id": node.id,
            "node": settings.model_dump(mode="json"),
            "pull_secrets": self.environment.image_pull_secrets,
            "pull_policy": self.environment.image_pull_policy,
        }
        self.stand_ins.append(f"{node.id}: {count} pods of a Job of its own do the work; its task waits for them.")
        return ["--workers", json.dumps(asked, sort_keys=True), *args]

    def package(self) -> Package:
        """Returns what was added as a package."""
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
            pipeline = self._with_receivers(pipeline)
        if self.environment.pipeline_root:
            pipeline["defaultPipelineRoot"] = self.environment.pipeline_root
        return Package(pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": self.kubernetes}}}})

    def _with_receivers(self, pipeline: Json) -> Json:
        """Returns the pipeline with a task that notes how a run ended, and one that tells receivers of it."""
        config = self.loaded.config
        made = {
            "evaluation": ("Evaluator", standard_artifacts.ModelEvaluation),
            "blessing": ("Evaluator", standard_artifacts.ModelBlessing),
            "pushed_model": ("Pusher", standard_artifacts.PushedModel),
            "report": ("Report", Report),
        }
        artifacts = {key: (self.sources[node, key][0], title(kind)) for key, (node, kind) in made.items()}
        records = [name for name in self.tasks if name.startswith("record-")]
        noted = receivers.note_outcome(config.evaluation.model_dump_json(), artifacts, records)
        self._add_lookup("outcome", noted, receivers.NODE)
        folder, file = self.environment.folder, self.loaded.file.name
        told = receivers.tell(config.name, f"{folder}/{file}", config.notify, folder)
        self._add_lookup("tell", told, receivers.NODE)
        del self.tasks[told.name]
        self.stand_ins.append(f"notify: {told.name} runs when all else has ended, and tells receivers.")
        return receivers.with_exit_task(pipeline, told)

    def _run_parameters(self) -> Json:
        declared: Json = {}
        if self._reads_paths:
            text = "Files to read instead of data.source.path: a path, or JSON as it stands in the YAML."
            declared[lookups.DATA_PATH] = _text_parameter("", text)
        if self.spans:
            text = (
                "The newest span to train on, as a date or number, or A:B; latest; or new, the newest, which must not "
                "have been trained on before."
            )
            declared[lookups.SPAN] = _text_parameter(LATEST, text)
        return declared

    @property
    def _reads_paths(self) -> bool:
        return hasattr(self.loaded.config.data.source, "path")

    def _ingest_tasks(self, node: Ingest, task: Task) -> list[Task]:
        """Returns the tasks that ingest: one, or one per place of the window, so that Kubeflow's cache knows spans."""
        found = lookups.find_inputs(
            node.id,
            self.loaded.config.name,
            node.exec_properties["request"],
            self.environment,
            by_path=self._reads_paths,
            spans=self.spans,
        )
        self._add_lookup("inputs", found, node.id)
        self.stand_ins.append(
            f"{node.id}: its files and their fingerprint are found by {found.name} when a run begins."
        )
        if not self.spans:
            self.request = Output(found.name, "request")
            return [replace(task, parameters={**task.parameters, "request": self.request})]
        self.found_window, self.request = found, Output(found.name, lookups.WINDOW)
        requests = lookups.requests(self.spans)
        if self.spans > 1:
            self.stand_ins.append(
                f"{node.id}: {self.spans} tasks of one span each; the cache has those of earlier runs."
            )
        return [
            replace(
                task,
                name=f"{task.name}-{place:03d}" if self.spans > 1 else task.name,
                component=task.name,
                parameters={**task.parameters, "request": Output(found.name, request)},
            )
            for place, request in enumerate(requests, 1)
        ]

    def _record_window(self, node: base_node.BaseNode) -> None:
        if self.found_window is None or not isinstance(node, Trainer):
            return
        task = lookups.record_window(self.loaded.config.name, self.found_window, node.id, self.environment)
        self._add_lookup("record-window", task, node.id)
        self.stand_ins.append(f"{node.id}: {task.name} remembers the window for runs that take only what is new.")

    def _add_resolver(self, node: Resolver) -> None:
        strategy = _strategy(node)
        if strategy is SpansOfWindow:
            # The tasks that ingest are the window.
            examples: Any = node.raw_inputs["examples"]
            self.sources[node.id, "examples"] = self.sources[examples.producer_component_id, examples.output_key]
            return
        if strategy is not LastBlessedModel:
            name = getattr(strategy, "__name__", strategy)
            raise UserError(
                f"{node.id}: Kubeflow runs no resolvers, and nothing stands in for {name}. Run the pipeline with "
                "`fullpass run`."
            )
        self.made_from = self._made_from(node)
        nothing = lookups.make_nothing(node.id, self.environment)
        self._add_lookup("nothing", nothing, node.id)
        push_to = node.exec_properties[RESOLVER_CONFIG]["target"]
        found = lookups.find_blessed_model(
            node.id, self.loaded.config.name, push_to, self.made_from, nothing, self.environment
        )
        by_metadata = self.environment.blessed_models == "mlmd"
        kind = "blessed-model-of-metadata" if by_metadata else "blessed-model"
        self._add_lookup(kind, found, node.id, self._volume_of_pushes(node.id, push_to))
        name = task_name(node.id)
        importer = lookups.import_model(name, found)
        self.tasks[name] = importer.dag_task
        self.components |= {f"comp-{name}": importer.dag, f"comp-{importer.name}": importer.component}
        self.executors[f"exec-{importer.name}"] = importer.executor
        self.sources[node.id, "model"] = (Output(name, "model"),)
        if not by_metadata:
            self.resolvers.append(node.id)
        asked = "Kubeflow's metadata" if by_metadata else f"the registry {self.environment.registry}"
        self.stand_ins.append(f"{node.id}: {found.name} asks {asked}, {importer.name} imports the model.")

    def _made_from(self, node: Resolver) -> dict[str, str | Output]:
        """Returns what tells a look-up what a model follows from: the parameters, and the data found by the run."""
        if self.request is None:
            raise ValueError(f"{node.id} stands before Ingest, which says what a model follows from")
        return {"made_from": node.exec_properties[RESOLVER_CONFIG]["made_from"], "request": self.request}

    def _record_blessings(self, node: base_node.BaseNode, task: Task) -> None:
        for key, channel in node.outputs.items():
            if channel.type is standard_artifacts.ModelBlessing:
                for resolver in self.resolvers:
                    record = lookups.record_blessed_model(
                        resolver, self.loaded.config.name, Output(task.name, key), self.made_from, self.environment
                    )
                    self._add_lookup("record", record, resolver)
                    self.stand_ins.append(f"{node.id}: {record.name} remembers a blessed model for later runs.")

    def _volume_of_pushes(self, node: str, push_to: str) -> tuple[Volume, ...]:
        """Returns what a look-up mounts beside its own volumes to see which models were rolled back."""
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

    def _add_lookup(self, kind: str, task: Task, node: str, volumes: tuple[Volume, ...] = ()) -> None:
        # What it looks at is where the node's own data is; but it needs no accelerator and little memory.
        settings = _without_resources(self.environment.node(node))
        settings = settings.model_copy(update={"volumes": settings.volumes + volumes})
        self._add_container(task, lookups.COMMAND, lookups.lookup_args(kind, task), settings)

    def _add_container(self, task: Task, command: Sequence[str], args: Sequence[str], settings: NodeConfig) -> None:
        if task.name in self.tasks:
            raise UserError(f"{task.label}: two nodes are called {task.name} on Kubeflow. Rename one of them.")
        if self.loaded.config.notify:
            told = receivers.variables(self.loaded.config.name, self.environment)
            settings = settings.model_copy(update={"env": settings.env | told})
        if settings.retries:
            task.retry = retry_policy(settings.retries)
        component: Json = {"executorLabel": f"exec-{task.kind}"}
        definitions = {"inputDefinitions": task.input_definitions(), "outputDefinitions": task.output_definitions()}
        self.components[f"comp-{task.kind}"] = component | {key: value for key, value in definitions.items() if value}
        self.executors[f"exec-{task.kind}"] = {"container": container(settings, command, args)}
        asked = kubernetes(settings, self.environment)
        if asked:
            self.kubernetes[f"exec-{task.kind}"] = asked
        self.tasks[task.name] = task.task_spec()


def _remembering(nodes: Sequence[base_node.BaseNode], environment: EnvironmentConfig, *, spans: bool) -> list[str]:
    """Returns the nodes whose containers, or those of their look-ups, open the registry."""
    resolvers = [node.id for node in nodes if isinstance(node, Resolver) and _strategy(node) is LastBlessedModel]
    ids = resolvers if environment.blessed_models == "registry" else []
    keeping = (SpanComparison, Ingest, Transform, Trainer) if spans else (SpanComparison,)
    return ids + [node.id for node in nodes if isinstance(node, keeping)]


def _strategy(node: Resolver) -> Any:
    return node.exec_properties.get("resolver_class")


def _text_parameter(default: str, description: str) -> Json:
    return {"parameterType": "STRING", "defaultValue": default, "isOptional": True, "description": description}


def _without_resources(settings: NodeConfig) -> NodeConfig:
    """Returns a node's settings without its share of cores, memory and devices."""
    nothing = NodeConfig()
    return settings.model_copy(
        update={"cpu": nothing.cpu, "memory": nothing.memory, "accelerator": None, "timeout": None}
    )
