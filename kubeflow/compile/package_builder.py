"""Builds a package task by task; the container of a task runs the executors of its nodes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tfx import types
from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.resolver import Resolver
from tfx.types import standard_artifacts

from fullpass.base.errors import UserError
from fullpass.base.user_modules import portable_path
from fullpass.components.artifacts import Report
from fullpass.components.container_node import Container, container_of, fill
from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.evaluation.own_checks import judge
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.config import SpanColumn
from fullpass.components.ingest.spans.spans import LATEST, span_unit
from fullpass.components.internals.tfx_internals import base_component, base_node, executor_spec
from fullpass.components.library_versions import line
from fullpass.kubeflow import protocol
from fullpass.kubeflow.compile import notify_tasks
from fullpass.kubeflow.compile.look_ups import FIND_INPUTS, ModelImport, find_inputs_task, message_args, schedule_time
from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.compile.pod import LAUNCHER_MEMORY, container, helper_pod_settings, kubernetes, retry_policy
from fullpass.kubeflow.compile.shared_tasks import name_of, shared_tasks
from fullpass.kubeflow.compile.task import Dag, DagInput, Task, TaskOutput, Value, task_name
from fullpass.kubeflow.config import EnvironmentConfig, NodeConfig, Volume, beam_config
from fullpass.kubeflow.kfp_internals import SCHEMA_VERSION, path_placeholder, value_placeholder
from fullpass.kubeflow.page_outputs import page_outputs
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import user_functions
from fullpass.pipeline.record.provenance import config_facts


def class_path(artifact: type[types.Artifact]) -> str:
    """Returns the import path of an artifact class in a pod."""
    return portable_path(f"{artifact.__module__}.{artifact.__qualname__}")


def title(artifact: type[types.Artifact]) -> str:
    """Returns the name of an artifact class in Kubeflow, such as tfx.Examples."""
    ours = not artifact.__module__.startswith("tfx.")
    return f"{'fullpass' if ours else 'tfx'}.{artifact.__name__}"


def _parameters(node: base_node.BaseNode) -> dict[str, Any]:
    given = {name: value for name, value in node.exec_properties.items() if value is not None}
    for name, value in given.items():
        if not isinstance(value, str | int | float | bool | list | dict):
            raise UserError(
                f"{node.id}: {name} is a {type(value).__name__}, which is known only while it runs. Give "
                "a text, a number, a truth value, a list or a dict."
            )
    return given


def _constant(value: Any) -> Value:
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value


NODES = "nodes"
"""Name of the DAG of all nodes, which gets from a look-up what a run begins with."""


@dataclass(frozen=True)
class _Shared:
    """The nodes of one task, and the names that artifacts and parameters of a node have in the task."""

    nodes: Sequence[str]

    @property
    def task(self) -> str:
        return name_of(self.nodes)

    def name(self, node: str, key: str) -> str:
        """Returns a name of which no other begins, unlike those of two nodes with equal outputs."""
        return key if len(self.nodes) == 1 else f"{node}_{key}"


@dataclass
class PackageBuilder:
    """The package so far.

    Attributes:
        remarks: Sentences about nodes that run differently on Kubeflow.
        baseline: TFX's settings of the node that finds the last blessed model.
        judge: The node whose verdict counts.
        found: Name of the look-up of the inputs of a run.
        outputs: Names of a node and its output in TFX -> the corresponding output in the package.
        window: The examples of a window of spans, which nodes find in the registry.
        shared: Node -> those of its task.
        tasks: Tasks of the root.
        inside: Tasks of the DAG of all nodes.
        given: Parameter of this DAG -> where its value comes from.
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
    shared: dict[str, _Shared] = field(default_factory=dict)
    tasks: Json = field(default_factory=dict)
    inside: Json = field(default_factory=dict)
    given: dict[str, TaskOutput | DagInput] = field(default_factory=dict)
    baseline: Json = field(default_factory=dict)
    judge: str = ""
    found: str = FIND_INPUTS

    @property
    def records(self) -> dict[str, Value]:
        """Where the pipeline keeps its records."""
        return {"registry": self.environment.registry, "pipeline": self.loaded.config.name}

    def add_nodes(self, nodes: Sequence[base_node.BaseNode]) -> None:
        """Adds the tasks of all nodes."""
        for ids in shared_tasks(nodes, self.environment):
            self.shared |= dict.fromkeys(ids, _Shared(ids))
        for node in nodes:
            self._name_outputs(node)
        components = {node.id: node for node in nodes if not isinstance(node, Resolver)}
        self.judge = judge(components)
        for shared in dict.fromkeys(self.shared.values()):
            self._add_task(shared, [components[name] for name in shared.nodes])

    def _name_outputs(self, node: base_node.BaseNode) -> None:
        if not isinstance(node, Resolver):
            shared = self.shared[node.id]
            found = {(node.id, key): TaskOutput(shared.task, shared.name(node.id, key)) for key in node.outputs}
            self.outputs |= found
            if isinstance(node, Ingest) and self.spanned:
                self.window = found[node.id, "examples"]
        elif node.exec_properties["resolver_class"] is SpansOfWindow:
            # The ingest tasks produce the window.
            self.outputs[node.id, "examples"] = self._source(node.raw_inputs["examples"])
        else:
            self.outputs[node.id, "model"] = self._add_import(node.id, ModelImport(task_name(node.id)))

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
        if self.inside:
            nodes = Dag(NODES, self.inside, self.given)
            self.tasks[NODES], self.components[f"comp-{NODES}"] = nodes.task_spec(), nodes.component()
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

    def _add_task(self, shared: _Shared, nodes: Sequence[base_component.BaseComponent]) -> None:
        """Adds the task of nodes with equal settings, which run one after the other in its container."""
        environment = self.environment
        settings = environment.node(nodes[0].id, small=all(self._is_small(node) for node in nodes))
        task = Task(shared.task, cache=settings.cache is not False)
        plans = [self._add_part(task, shared, node, settings) for node in nodes]
        if (found := container_of(nodes[0])) is not None:
            self._add_image(task, nodes[0], found, settings)
            return
        plan = {"line": line(), "folder": environment.folder, "artifacts": environment.artifacts, "nodes": plans}
        args = ["--plan", json.dumps(plan, sort_keys=True), *message_args(task.artifacts, task.outputs)]
        command: Sequence[str] = protocol.NODE_COMMAND
        if settings.workers:
            [node] = nodes
            self.remarks.append(
                f"{node.id}: runs in {settings.workers.count} pods of a separate Job; its task waits for them."
            )
            command, args = protocol.WORKER_LAUNCHER_COMMAND, ["--workers", self._job_settings(node, settings), *args]
            settings = helper_pod_settings(settings, environment.defaults, LAUNCHER_MEMORY)
        if any(isinstance(node, Trainer | SpanComparison) for node in nodes):
            facts = {protocol.FACTS_VARIABLE: package_facts(self.loaded)}
            settings = settings.model_copy(update={"env": settings.env | facts})
        if len(nodes) > 1:
            self.remarks.append(f"{task.name}: runs {', '.join(shared.nodes)}.")
        self._add_container(task, command, args, settings, self.inside)

    def _add_image(
        self,
        task: Task,
        node: base_component.BaseComponent,
        found: Container,
        settings: NodeConfig,
    ) -> None:
        """Adds the task of a container component: its image and command, in which the launcher puts the artifacts."""
        image, command = found
        for name, channel in node.inputs.items():
            if self._source(channel) == self.window:
                raise UserError(
                    f"{node.id}: {name} are the spans of a window, which only nodes in Python can read on Kubeflow. "
                    'Read nodes["Transform"].outputs["transformed_examples"], or let a @component prepare the files.'
                )

        def value(name: str) -> str:
            if name in node.inputs:
                raise UserError(
                    f"{node.id}: Kubeflow passes no value of the input {name} to a command. Pass its URI, and read the "
                    "file in the container."
                )
            return value_placeholder(name)

        ways = {"input": partial(path_placeholder, "inputs"), "output": partial(path_placeholder, "outputs")}
        # An entry of the environment file may name a copy of the image, and no default does.
        own = self.environment.nodes.get(node.id)
        settings = settings.model_copy(update={"image": (own and own.image) or image})
        self._add_container(task, fill(command, {**ways, "value": value}), (), settings, self.inside, packs=False)

    def _is_small(self, node: base_component.BaseComponent) -> bool:
        # TFX needs TensorFlow to open artifacts at gs:// directly.
        return self.environment.artifacts == "copied" and node.executor_spec.class_path in protocol.IN_SMALL_IMAGE

    def _add_part(self, task: Task, shared: _Shared, node: base_component.BaseComponent, settings: NodeConfig) -> Json:
        """Adds what a node reads and makes to its task; returns its plan. A plan holds artifact types, because the
        backend passes on none."""
        pages = page_outputs(node.executor_spec.class_path, self.loaded.config.label.task)
        given = {name: _constant(value) for name, value in _parameters(node).items()}
        registry = dict[str, Json]()
        if isinstance(node, Ingest):
            registry = {"ingest": self._with_request(node, given, anew=not task.cache)}
        elif node.id == self.judge:
            registry = {"records": self._with_records(node, given)}
        elif isinstance(node, SpanComparison):
            given[protocol.KNOWN] = self._looked_up(protocol.KNOWN)
        task.parameters |= {shared.name(node.id, name): value for name, value in given.items()}
        kinds = {name: title(channel.type) for name, channel in node.outputs.items()}
        kinds |= {page.name: page.kind for page in pages}
        task.outputs |= {shared.name(node.id, name): kind for name, kind in kinds.items()}
        reads = {name: self._read(task, shared, name, channel) for name, channel in node.inputs.items()}
        upstream = [other for other in node.upstream_nodes if isinstance(other, base_component.BaseComponent)]
        task.after = tuple(sorted({*task.after, *(self.shared[other.id].task for other in upstream)} - {task.name}))
        beam = beam_config(settings.beam, self.loaded.config.beam, self.environment.pipeline_root)
        runs_beam = isinstance(node.executor_spec, executor_spec.BeamExecutorSpec)
        return {
            "node": node.id,
            "prefix": shared.name(node.id, ""),
            "executor": portable_path(node.executor_spec.class_path),
            "parameters": {name: type(value).__name__ for name, value in _parameters(node).items()},
            "inputs": {name: class_path(channel.type) for name, channel in node.inputs.items()},
            "reads": reads,
            "windows": [name for name, channel in node.inputs.items() if self._source(channel) == self.window],
            "outputs": {name: class_path(channel.type) for name, channel in node.outputs.items()},
            "beam": beam.model_dump(mode="json") if runs_beam else None,
            **({"flags": flags} if (flags := node.executor_spec.extra_flags) else {}),  # the digest of the user's code
            **registry,
        }

    def _read(self, task: Task, shared: _Shared, name: str, channel: types.BaseChannel) -> str:
        """Returns the name in the task of an input: that of an output of the task, or of an input of the task, which it
        adds. Several nodes read one copy."""
        source = self._source(channel)
        if source.task == task.name:
            return source.key
        name = shared.name(channel.producer_component_id, channel.output_key) if len(shared.nodes) > 1 else name
        task.artifacts[name] = (source, title(channel.type))
        return name

    def _source(self, channel: types.BaseChannel) -> TaskOutput:
        found = getattr(channel, "producer_component_id", None), getattr(channel, "output_key", None)
        if found not in self.outputs:
            named = f"{found[0]}.outputs[{found[1]!r}]" if all(found) else type(channel).__name__
            raise UserError(
                f"nodes: {self.loaded.config.nodes}: a node reads {named}, which a package for Kubeflow does not have. "
                f"Read an output of one of {', '.join(dict.fromkeys(node for node, _ in self.outputs))}."
            )
        return self.outputs[found]

    def _job_settings(self, node: base_node.BaseNode, settings: NodeConfig) -> str:
        launcher = {
            "pipeline": self.loaded.config.name,
            "node_id": node.id,
            "node": settings.model_dump(mode="json"),
            "pull_secrets": self.environment.image_pull_secrets,
            "pull_policy": self.environment.image_pull_policy,
        }
        return json.dumps(launcher, sort_keys=True)

    def _looked_up(self, name: str) -> DagInput:
        """Returns a parameter of the DAG of all nodes, whose value the look-up of the run found."""
        self.given[name] = TaskOutput(self.found, name)
        return DagInput(name)

    def _with_request(self, node: Ingest, given: dict[str, Value], *, anew: bool) -> Json:
        """Adds the look-up of the run's inputs; returns where Ingest finds its request, and where spans are kept.

        Args:
            given: Parameters of Ingest, to which this adds its request.
            anew: Whether every run ingests all spans.
        """
        config, where = self.loaded.config, span_records(self.loaded, self.environment) if self.spanned else {}
        window = {protocol.SPANS: str(config.data.window.spans), protocol.ENTRIES: where["entries"]} if where else {}
        if where:
            window |= schedule_time(config.schedule, span_unit(config.data), self.environment.kubeflow)
        asked: dict[str, Value] = {
            protocol.REQUEST: node.exec_properties["request"],
            "folder": self.environment.folder,
            **self.records,
            protocol.PUSH_TO: self.baseline["target"],
            protocol.MADE_FROM: self.baseline["made_from"],
            protocol.GATES: config.gates.model_dump_json(),
        }
        found = find_inputs_task(asked, by_path=self._has_path, window=window)
        # With a span column, the look-up must read the rows, like Ingest, to determine their spans.
        small = not isinstance(config.data.span, SpanColumn)
        volumes = self._push_volume(node.id, self.baseline["target"])
        self._add_lookup("inputs", found, node.id, small=small, volumes=volumes)
        self.remarks.append(f"{node.id}: {found.name} finds its files and their fingerprints when a run begins.")
        given[protocol.REQUEST] = self._looked_up(protocol.REQUEST)
        if not where:
            return self.records
        self.remarks.append(f"{node.id}: spans that earlier runs ingested are reused from the registry.")
        return {**self.records, **where, "anew": anew}

    def _with_records(self, node: base_node.BaseNode, given: dict[str, Value]) -> Json:
        """Has the node that blesses models record them for later runs; returns where."""
        for name in (protocol.MADE_FROM, *((protocol.WINDOW,) if self.spanned else ())):
            given[name] = self._looked_up(name)
        also = ", and the window for runs that train only on new spans" if self.spanned else ""
        self.remarks.append(f"{node.id}: records a blessed model in the registry for later runs{also}.")
        return self.records

    def _add_import(self, node: str, imported: ModelImport) -> TaskOutput:
        """Adds the importer of the model found by a look-up of a node; returns the model."""
        self._looked_up(protocol.MODEL_URI)
        self.inside[imported.name] = imported.task_spec()
        self.components[f"comp-{imported.name}"] = imported.component()
        self.executors[f"exec-{imported.name}"] = imported.executor()
        self.remarks.append(
            f"{node}: {self.found} searches the registry {self.environment.registry}; {imported.name} imports the "
            "model."
        )
        return imported.model

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
            "evaluation": (self.judge, standard_artifacts.ModelEvaluation),
            "blessing": (self.judge, standard_artifacts.ModelBlessing),
            "pushed_model": ("Pusher", standard_artifacts.PushedModel),
            "report": ("Report", Report),
        }
        artifacts = {key: (self.outputs[node, key], title(kind)) for key, (node, kind) in reported.items()}
        own = [task for task in self.inside if task not in {source.task for source, _ in artifacts.values()}]
        outcome = notify_tasks.outcome_task(artifacts, own if config.nodes else ())
        self._add_lookup("outcome", outcome, notify_tasks.NODE, dag=self.inside)
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
        self,
        kind: str,
        task: Task,
        node: str,
        *,
        small: bool = True,
        volumes: tuple[Volume, ...] = (),
        dag: Json | None = None,
    ) -> None:
        settings = self._helper_settings(node, small=small)
        settings = settings.model_copy(update={"volumes": settings.volumes + volumes})
        args = ["--kind", kind, *message_args(task.artifacts, task.outputs)]
        self._add_container(task, protocol.LOOKUP_COMMAND, args, settings, dag)

    def _add_container(
        self,
        task: Task,
        command: Sequence[str],
        args: Sequence[str],
        settings: NodeConfig,
        dag: Json | None = None,
        *,
        packs: bool = True,
    ) -> None:
        """Adds a task to a DAG, by default to the root. packs: whether its program unpacks long constants."""
        if self.loaded.config.notify:
            outcomes = f"{self.environment.registry}/{self.loaded.config.name}/outcomes"
            settings = settings.model_copy(update={"env": settings.env | {protocol.OUTCOMES_VARIABLE: outcomes}})
        if settings.retries:
            task.retry = retry_policy(settings.retries)
        if packs and (constants := task.take_constants(protocol.PACK_ABOVE)):
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
