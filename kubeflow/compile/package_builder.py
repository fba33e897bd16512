"""Builds a package node by node, in the order of the DAG; the container of a node's task runs the node's executor."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfx import types
from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.resolver import Resolver
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.components.artifacts import Report
from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.config import SpanColumn
from fullpass.components.ingest.spans.spans import LATEST, span_unit
from fullpass.components.internals.tfx_internals import OutputChannel, base_component, base_node, executor_spec
from fullpass.components.library_versions import line
from fullpass.kubeflow import protocol
from fullpass.kubeflow.compile import notify_tasks
from fullpass.kubeflow.compile.look_ups import ModelImport, find_inputs_task, message_args, schedule_time
from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.compile.pod import LAUNCHER_MEMORY, container, helper_pod_settings, kubernetes, retry_policy
from fullpass.kubeflow.compile.task import Task, TaskOutput, Value, task_name
from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig, Volume, beam_config
from fullpass.kubeflow.kfp_internals import END_COMMAND, SCHEMA_VERSION
from fullpass.kubeflow.page_outputs import PageOutput, page_outputs
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import user_functions
from fullpass.pipeline.record.provenance import config_facts


def class_path(artifact: type[types.Artifact]) -> str:
    """Returns the import path of an artifact class."""
    return f"{artifact.__module__}.{artifact.__qualname__}"


def title(artifact: type[types.Artifact]) -> str:
    """Returns the name of an artifact class in Kubeflow, such as tfx.Examples."""
    ours = not artifact.__module__.startswith("tfx.")
    return f"{'fullpass' if ours else 'tfx'}.{artifact.__name__}"


def _parameters(node: base_node.BaseNode) -> dict[str, Value]:
    return {name: value for name, value in node.exec_properties.items() if value is not None}


def _waits_for(node: base_node.BaseNode) -> tuple[str, ...]:
    """Returns the tasks of nodes that must succeed before this node although it reads none of their outputs."""
    read = {channel.producer_component_id for channel in node.inputs.values() if isinstance(channel, OutputChannel)}
    upstream = (other for other in node.upstream_nodes if isinstance(other, base_component.BaseComponent))
    return tuple(sorted(task_name(other.id) for other in upstream if other.id not in read))


@dataclass
class PackageBuilder:
    """The package so far.

    Attributes:
        remarks: Sentences about nodes that run differently on Kubeflow.
        baseline: TFX's settings of the node that finds the last blessed model.
        found: Name of the look-up of the inputs of a run.
        outputs: Names of a node and its output in TFX -> the corresponding output in the package.
        window: The examples of a window of spans, which nodes find in the registry.
    """

    loaded: Loaded
    environment: EnvironmentConfig
    spanned: bool
    remarks: list[str] = field(default_factory=list)
    outputs: dict[tuple[str, str], TaskOutput] = field(default_factory=dict)
    window: TaskOutput | None = None
    components: Json = field(default_factory=dict)
    executors: Json = field(default_factory=dict)
    kubernetes: Json = field(default_factory=dict)
    tasks: Json = field(default_factory=dict)
    baseline: Json = field(default_factory=dict)
    found: str = ""

    @property
    def records(self) -> dict[str, Value]:
        """Where the pipeline keeps its records."""
        return {"registry": self.environment.registry, "pipeline": self.loaded.config.name}

    def add_node(self, node: base_node.BaseNode) -> None:
        """Adds the tasks of a node."""
        if not isinstance(node, Resolver):
            self._add_component(node)
        elif node.exec_properties["resolver_class"] is SpansOfWindow:
            # The ingest tasks produce the window.
            self.outputs[node.id, "examples"] = self._source(node.raw_inputs["examples"])
        else:
            imported = ModelImport(task_name(node.id), self.found)
            self.outputs[node.id, "model"] = self._add_import(node.id, imported)

    def package(self) -> Package:
        """Returns the package of all added nodes."""
        config = self.loaded.config
        pipeline: Json = {
            "pipelineInfo": {"name": config.name},
            "schemaVersion": SCHEMA_VERSION,
            "sdkVersion": f"fullpass, {line()}",
            "deploymentSpec": {"executors": self.executors},
            "components": self.components,
            "root": {"dag": {"tasks": self.tasks}},
        }
        if self._run_parameters():
            pipeline["root"]["inputDefinitions"] = {"parameters": self._run_parameters()}
        if config.notify:
            pipeline = self._with_notify(pipeline)
        if config.mlflow is not None:
            self.remarks.append(
                "mlflow: runs of packages are not recorded in MLflow; only `fullpass run` records its runs."
            )
        if self.environment.pipeline_root:
            pipeline["defaultPipelineRoot"] = self.environment.pipeline_root
        return Package(pipeline, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": self.kubernetes}}}})

    def _add_component(self, node: base_node.BaseNode) -> None:
        environment = self.environment
        pages = page_outputs(node.executor_spec.class_path, self.loaded.config.label.task)
        task = Task(
            name=task_name(node.id),
            parameters=_parameters(node),
            artifacts={name: (self._source(channel), title(channel.type)) for name, channel in node.inputs.items()},
            outputs={name: title(channel.type) for name, channel in node.outputs.items()}
            | {page.name: page.kind for page in pages},
            after=_waits_for(node),
            cache=environment.node(node.id).cache is not False,
        )
        registry: Json = {}
        if isinstance(node, Ingest):
            registry = {"ingest": self._with_request(node, task)}
        elif any(channel.type is standard_artifacts.ModelBlessing for channel in node.outputs.values()):
            registry = {"records": self._with_records(node, task)}
        elif isinstance(node, SpanComparison):
            task.parameters[protocol.KNOWN] = TaskOutput(self.found, protocol.KNOWN)
        # TFX needs TensorFlow to open artifacts at gs:// directly.
        small = environment.artifacts == "copied" and node.executor_spec.class_path in protocol.IN_SMALL_IMAGE
        settings = environment.node(node.id, small=small)
        args = self._args(node, settings, registry, pages)
        command: Sequence[str] = protocol.NODE_COMMAND
        if settings.workers:
            self.remarks.append(
                f"{node.id}: runs in {settings.workers.count} pods of a separate Job; its task waits for them."
            )
            command, args = protocol.WORKER_LAUNCHER_COMMAND, ["--workers", self._job_settings(node, settings), *args]
            settings = helper_pod_settings(settings, environment.defaults, LAUNCHER_MEMORY)
        if isinstance(node, Trainer | SpanComparison):
            facts = {protocol.FACTS_VARIABLE: package_facts(self.loaded)}
            settings = settings.model_copy(update={"env": settings.env | facts})
        self._add_container(task, command, args, settings)
        self.outputs |= {(node.id, key): TaskOutput(task.name, key) for key in node.outputs}
        if isinstance(node, Ingest) and self.spanned:
            self.window = TaskOutput(task.name, "examples")

    def _source(self, channel: types.BaseChannel) -> TaskOutput:
        return self.outputs[channel.producer_component_id, channel.output_key]

    def _args(
        self, node: base_node.BaseNode, settings: NodeConfig, registry: Json, pages: Sequence[PageOutput]
    ) -> list[str]:
        """Returns the arguments of a container. They hold artifact types, because the backend passes on none.

        Args:
            registry: What it keeps there: `ingest`, with its request and spans, or `records`, of blessed models.
        """
        environment = self.environment
        beam = beam_config(settings.beam, self.loaded.config.beam, environment.pipeline_root)
        runs_beam = isinstance(node.executor_spec, executor_spec.BeamExecutorSpec)
        plan = {
            "node": node.id,
            "line": line(),
            "executor": node.executor_spec.class_path,
            "parameters": {name: type(value).__name__ for name, value in _parameters(node).items()},
            "inputs": {name: class_path(channel.type) for name, channel in node.inputs.items()},
            "windows": [name for name, channel in node.inputs.items() if self._source(channel) == self.window],
            "outputs": {name: class_path(channel.type) for name, channel in node.outputs.items()},
            "beam": beam.model_dump(mode="json") if runs_beam else None,
            "folder": environment.folder,
            "artifacts": environment.artifacts,
            **registry,
        }
        outputs = [*node.outputs, *(page.name for page in pages)]
        return ["--plan", json.dumps(plan, sort_keys=True), *message_args(node.inputs, outputs)]

    def _job_settings(self, node: base_node.BaseNode, settings: NodeConfig) -> str:
        launcher = {
            "pipeline": self.loaded.config.name,
            "node_id": node.id,
            "node": settings.model_dump(mode="json"),
            "pull_secrets": self.environment.image_pull_secrets,
            "pull_policy": self.environment.image_pull_policy,
        }
        return json.dumps(launcher, sort_keys=True)

    def _with_request(self, node: Ingest, task: Task) -> Json:
        """Adds the look-up of the run's inputs; returns where Ingest finds its request, and where spans are kept."""
        config, where = self.loaded.config, span_records(self.loaded, self.environment) if self.spanned else {}
        window = {protocol.SPANS: str(config.data.window.spans), protocol.ENTRIES: where["entries"]} if where else {}
        if where:
            window |= schedule_time(config.schedule, span_unit(config.data), self.environment.kubeflow)
        given: dict[str, Value] = {
            protocol.REQUEST: node.exec_properties["request"],
            "folder": self.environment.folder,
            **self.records,
            protocol.PUSH_TO: self.baseline["target"],
            protocol.MADE_FROM: self.baseline["made_from"],
            protocol.GATES: config.gates.model_dump_json(),
        }
        found = find_inputs_task(given, by_path=self._has_path, window=window)
        self.found = found.name
        # With a span column, the look-up must read the rows, like Ingest, to determine their spans.
        small = not isinstance(config.data.span, SpanColumn)
        volumes = self._push_volume(node.id, self.baseline["target"])
        self._add_lookup("inputs", found, node.id, small=small, volumes=volumes)
        self.remarks.append(f"{node.id}: {found.name} finds its files and their fingerprints when a run begins.")
        task.parameters[protocol.REQUEST] = TaskOutput(found.name, protocol.REQUEST)
        if not where:
            return self.records
        self.remarks.append(f"{node.id}: spans that earlier runs ingested are reused from the registry.")
        return {**self.records, **where, "anew": not task.cache}

    def _with_records(self, node: base_node.BaseNode, task: Task) -> Json:
        """Has the node that blesses models record them for later runs; returns where."""
        task.parameters |= {
            name: TaskOutput(self.found, name)
            for name in (protocol.MADE_FROM, *((protocol.WINDOW,) if self.spanned else ()))
        }
        also = ", and the window for runs that train only on new spans" if self.spanned else ""
        self.remarks.append(f"{node.id}: records a blessed model in the registry for later runs{also}.")
        return self.records

    def _add_import(self, node: str, imported: ModelImport) -> TaskOutput:
        """Adds the tasks that import the model found by a look-up of a node; returns the model."""
        self.tasks[imported.name] = imported.task_spec()
        self.components |= imported.components()
        self.executors[f"exec-{imported.importer}"] = imported.executor()
        inside = self.components[f"comp-{imported.name}"]["dag"]["tasks"]
        settings = self._helper_settings(node).model_copy(update={"volumes": (), "secrets": (), "env": {}})
        self._add_container(imported.end, END_COMMAND, (), settings, inside)
        self.remarks.append(
            f"{node}: {imported.found} searches the registry {self.environment.registry}; {imported.importer} imports "
            "the model."
        )
        return TaskOutput(imported.name, "model")

    def _push_volume(self, node: str, push_to: str) -> tuple[Volume, ...]:
        """Returns the volume that a look-up also mounts to find models that were rolled back."""
        pushed, own = self.environment.node("Pusher").volume_of(push_to), self.environment.node(node).volumes
        if pushed is None or pushed in own:
            return ()
        for volume in own:
            if volume.mount == pushed.mount or volume.claim == pushed.claim:
                raise UserError(
                    f"nodes.{node}.volumes: claim {volume.claim} is mounted at {volume.mount}. To see which models in "
                    f"{push_to} were rolled back, {node}'s look-up needs claim {pushed.claim} at {pushed.mount}, as "
                    "Pusher has it, and a pod mounts each claim and folder once. Mount them alike."
                )
        return (pushed,)

    def _with_notify(self, pipeline: Json) -> Json:
        """Returns the pipeline with a task that records the outcome of a run, and a task that notifies receivers."""
        config = self.loaded.config
        reported: dict[str, tuple[str, Any]] = {
            "evaluation": ("Evaluator", standard_artifacts.ModelEvaluation),
            "blessing": ("Evaluator", standard_artifacts.ModelBlessing),
            "pushed_model": ("Pusher", standard_artifacts.PushedModel),
            "report": ("Report", Report),
        }
        artifacts = {key: (self.outputs[node, key], title(kind)) for key, (node, kind) in reported.items()}
        outcome = notify_tasks.outcome_task(artifacts)
        self._add_lookup("outcome", outcome, notify_tasks.NODE)
        folder = self.environment.folder
        notified = notify_tasks.notify_task(config, f"{folder}/{self.loaded.file.name}", folder)
        self._add_lookup("tell", notified, notify_tasks.NODE)
        del self.tasks[notified.name]
        self.remarks.append(f"notify: {notified.name} runs after all other tasks and notifies the receivers.")
        return notify_tasks.with_exit_task(pipeline, notified)

    def _run_parameters(self) -> Json:
        declared: Json = {}
        if self._has_path:
            text = "Files to read instead of data.source.path: a path, or the value of that key as JSON."
            declared[protocol.DATA_PATH] = text_parameter("", text)
        if self.spanned:
            text = (
                "The newest span to train on, as a date or number, or A:B; latest; or new, the newest, which must not "
                "have been trained on before."
            )
            declared[protocol.SPAN] = text_parameter(LATEST, text)
        text = "warn trains even if the data gate would stop the run, and releases the stopped spans of the window."
        declared[protocol.GATE] = text_parameter(protocol.STOP, text)
        return declared

    @property
    def _has_path(self) -> bool:
        return hasattr(self.loaded.config.data.source, "path")

    def _helper_settings(self, node: str, *, small: bool = True) -> NodeConfig:
        return helper_pod_settings(self.environment.node(node, small=small), self.environment.defaults)

    def _add_lookup(
        self, kind: str, task: Task, node: str, *, small: bool = True, volumes: tuple[Volume, ...] = ()
    ) -> None:
        settings = self._helper_settings(node, small=small)
        settings = settings.model_copy(update={"volumes": settings.volumes + volumes})
        args = ["--kind", kind, *message_args(task.artifacts, task.outputs)]
        self._add_container(task, protocol.LOOKUP_COMMAND, args, settings)

    def _add_container(
        self, task: Task, command: Sequence[str], args: Sequence[str], settings: NodeConfig, dag: Json | None = None
    ) -> None:
        """Adds a task to a DAG, by default to the root."""
        if self.loaded.config.notify:
            outcomes = f"{self.environment.registry}/{self.loaded.config.name}/outcomes"
            settings = settings.model_copy(update={"env": settings.env | {protocol.OUTCOMES_VARIABLE: outcomes}})
        if settings.retries:
            task.retry = retry_policy(settings.retries)
        if constants := task.take_constants(protocol.PACK_ABOVE):
            args = [*args, "--constants", protocol.pack(constants)]
        self.components[f"comp-{task.name}"] = task.component()
        self.executors[f"exec-{task.name}"] = {"container": container(settings, command, args)}
        if kubernetes_part := kubernetes(settings, self.environment):
            self.kubernetes[f"exec-{task.name}"] = kubernetes_part
        (self.tasks if dag is None else dag)[task.name] = task.task_spec()


def package_facts(loaded: Loaded) -> str:
    """Returns the facts common to all runs of a package, as the value of an environment variable.

    The backend's cache key consists of image, arguments, parameters and inputs (v2/cacheutils/cache.go:52 at 2.5.0,
    :173 at 2.17.0), without variables: a changed comment in the YAML causes no new training.
    """
    facts = {"pipeline": loaded.config.name, "config": config_facts(loaded), "functions": user_functions(loaded.config)}
    return protocol.pack(facts)


def span_records(loaded: Loaded, environment: EnvironmentConfig) -> Json:
    """Returns the folders of ingested spans: `entries`, which name them, and `records`.

    Beam on a cluster cannot write to a volume, so records are stored beside the artifacts if Beam may run on a cluster.
    """
    kept = f"{environment.registry}/{loaded.config.name}"
    root = f"{environment.pipeline_root}/{loaded.config.name}" if environment.artifacts == "direct" else kept
    return {"entries": f"{kept}/examples", "records": f"{root}/examples/files"}


def text_parameter(default: str, description: str) -> Json:
    """Returns the declaration of an optional parameter of a run."""
    return {"parameterType": "STRING", "defaultValue": default, "isOptional": True, "description": description}
