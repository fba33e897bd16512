"""`fullpass compile`: the pipeline of a config as a package for open-source Kubeflow Pipelines v2."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tfx.dsl.components.base import base_node
from tfx.dsl.components.common.resolver import RESOLVER_CONFIG, Resolver
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from components.blessed import LastBlessedModel
from components.ingest.component import Ingest
from components.ingest.spans import Window, has_spans
from components.ingest.storage import is_address
from kubeflow import lint, lookups
from kubeflow.config import EnvironmentConfig, NodeConfig
from kubeflow.environment import Environment, require
from kubeflow.nodes import ENTRYPOINT, Sources, executor_args, node_task
from kubeflow.package import Package
from kubeflow.parts import Json, Output, Task, task_name
from kubeflow.pod import container, kubernetes, retry_policy
from pipeline.build import Place, build_nodes
from pipeline.loading.load import Loaded
from pipeline.loading.problems import Problem
from pipeline.run import add_user_modules
from preprocessing.errors import UserError

SCHEMA_VERSION = "2.1.0"


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
    if has_spans(loaded.config.data):
        raise UserError(
            "data.source has spans, whose window TFX's metadata store knows and Kubeflow's does not tell. Give a path "
            "without {YYYY}, {SPAN} and the like, and the files of the window as data_path of each run."
        )
    add_user_modules(loaded)
    config = environment.config
    place = _place(loaded, config)
    nodes = Pipeline(
        pipeline_name=loaded.config.name, pipeline_root="unused", components=build_nodes(loaded, place)
    ).components
    warnings = require(environment, [node.id for node in nodes], push_to=place.push_to)
    assembly = _Assembly(loaded, config)
    for node in nodes:
        assembly.add_node(node)
    package = assembly.package()
    lint.require(package, config.kubeflow)
    return Compiled(package, tuple(assembly.stand_ins), tuple(warnings))


@dataclass
class _Assembly:
    """A package that grows node by node, in the order of the DAG."""

    loaded: Loaded
    environment: EnvironmentConfig
    sources: Sources = field(default_factory=dict)
    components: Json = field(default_factory=dict)
    executors: Json = field(default_factory=dict)
    kubernetes: Json = field(default_factory=dict)
    tasks: Json = field(default_factory=dict)
    resolvers: list[str] = field(default_factory=list)
    stand_ins: list[str] = field(default_factory=list)
    request: Output | None = None
    made_from: dict[str, str | Output] = field(default_factory=dict)

    def add_node(self, node: base_node.BaseNode) -> None:
        """Adds the tasks that stand for a node."""
        if isinstance(node, Resolver):
            self._add_resolver(node)
            return
        task = node_task(node, self.sources, self.environment)
        if isinstance(node, Ingest):
            task.parameters |= self._add_find_inputs(node)
        args = executor_args(node, self.loaded.config.beam, self.environment)
        self._add_container(task, ENTRYPOINT, args, self.environment.node(node.id))
        self.sources |= {(node.id, key): Output(task.name, key) for key in node.outputs}
        self._record_blessings(node, task)

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
        if self.environment.pipeline_root:
            pipeline["defaultPipelineRoot"] = self.environment.pipeline_root
        return Package(pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": self.kubernetes}}}})

    def _run_parameters(self) -> Json:
        if not self._reads_paths:
            return {}
        return {
            lookups.DATA_PATH: {
                "parameterType": "STRING",
                "defaultValue": "",
                "isOptional": True,
                "description": "Files to read instead of data.source.path: a path, or JSON as it stands in the YAML.",
            }
        }

    @property
    def _reads_paths(self) -> bool:
        return hasattr(self.loaded.config.data.source, "path")

    def _add_find_inputs(self, node: Ingest) -> dict[str, Output]:
        request = node.exec_properties["request"]
        task = lookups.find_inputs(node.id, request, self.environment, by_path=self._reads_paths)
        self._add_lookup("inputs", task, node.id)
        self.stand_ins.append(f"{node.id}: its files and their fingerprint are found by {task.name} when a run begins.")
        found = lookups.found_inputs(task)
        self.request = found["request"]
        return found

    def _add_resolver(self, node: Resolver) -> None:
        strategy = node.exec_properties.get("resolver_class")
        if strategy is not LastBlessedModel:
            name = getattr(strategy, "__name__", strategy)
            raise UserError(
                f"{node.id}: Kubeflow runs no resolvers, and nothing stands in for {name}. Run the pipeline with "
                "`fullpass run`."
            )
        self.made_from = self._made_from(node)
        found = lookups.find_blessed_model(node.id, self.loaded.config.name, self.made_from, self.environment)
        self._add_lookup("blessed-model", found, node.id)
        name = task_name(node.id)
        importer = lookups.import_model(name, found)
        self.tasks[name] = importer.dag_task
        self.components |= {f"comp-{name}": importer.dag, f"comp-{importer.name}": importer.component}
        self.executors[f"exec-{importer.name}"] = importer.executor
        self.sources[node.id, "model"] = Output(name, "model")
        self.resolvers.append(node.id)
        self.stand_ins.append(
            f"{node.id}: {found.name} asks the registry {self.environment.registry}, {importer.name} imports the model."
        )

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

    def _add_lookup(self, kind: str, task: Task, node: str) -> None:
        # What it looks at is where the node's own data is; but it needs no accelerator and little memory.
        settings = _without_resources(self.environment.node(node))
        self._add_container(task, lookups.COMMAND, lookups.lookup_args(kind, task), settings)

    def _add_container(self, task: Task, command: Sequence[str], args: Sequence[str], settings: NodeConfig) -> None:
        if task.name in self.tasks:
            raise UserError(f"{task.label}: two nodes are called {task.name} on Kubeflow. Rename one of them.")
        if settings.retries:
            task.retry = retry_policy(settings.retries)
        component: Json = {"executorLabel": f"exec-{task.name}"}
        definitions = {"inputDefinitions": task.input_definitions(), "outputDefinitions": task.output_definitions()}
        self.components[f"comp-{task.name}"] = component | {key: value for key, value in definitions.items() if value}
        self.executors[f"exec-{task.name}"] = {"container": container(settings, command, args)}
        asked = kubernetes(settings, self.environment)
        if asked:
            self.kubernetes[f"exec-{task.name}"] = asked
        self.tasks[task.name] = task.task_spec()


def _place(loaded: Loaded, environment: EnvironmentConfig) -> Place:
    def resolve(path: str) -> str:
        if is_address(path):
            return path
        if path.startswith("package:"):
            raise UserError(f"{path}: where a package lies in the image is not known. Copy the file beside the YAML.")
        return str(PurePosixPath(environment.folder) / path)

    push_to = environment.push_to or resolve(loaded.config.push.to)
    # Which files there are is found when a run begins.
    return Place(
        resolve=resolve,
        window=Window(None, ()),
        known=(),
        analyzer_cache="",
        span_statistics=f"{environment.registry}/{loaded.config.name}/span_statistics",
        compress=True,
        push_to=push_to,
    )


def _without_resources(settings: NodeConfig) -> NodeConfig:
    """Returns a node's settings without its share of cores, memory and devices."""
    nothing = NodeConfig()
    return settings.model_copy(
        update={"cpu": nothing.cpu, "memory": nothing.memory, "accelerator": None, "timeout": None}
    )
