"""Compiles the pipeline of a config, or its batch prediction, to a package for open-source Kubeflow Pipelines v2.

Everyone can read packages in the backend, so values that may be secrets are blanked. A batch prediction is declared in
the environment file, because that says where rows, model and output are in the cluster.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration.pipeline import Pipeline

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.base.redact import redact_setting, redact_tree, redact_yaml
from fullpass.base.user_modules import use_modules_of
from fullpass.components.data_gate.component import SpanComparison
from fullpass.components.evaluation.own_checks import judge
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.spans.spans import Window, span_unit
from fullpass.components.internals.tfx_internals import RESOLVER_CONFIG, base_component, base_node
from fullpass.components.library_versions import line
from fullpass.components.predict.write_tables import format_to_write
from fullpass.components.push.last_blessed import LastBlessedModel
from fullpass.components.statistics.component import StatisticsGen
from fullpass.components.transform.component import Transform
from fullpass.kubeflow import protocol
from fullpass.kubeflow.compile import notify_tasks
from fullpass.kubeflow.compile.look_ups import MODEL_TITLE, ModelImport, message_args
from fullpass.kubeflow.compile.package import Package, check_package
from fullpass.kubeflow.compile.package_builder import PackageBuilder, text_parameter
from fullpass.kubeflow.compile.task import DagInput, Task, TaskOutput, task_name
from fullpass.kubeflow.config import EnvironmentConfig, PredictionConfig, beam_config, seconds
from fullpass.kubeflow.environment import Environment, require_environment
from fullpass.kubeflow.kfp_internals import SCHEDULE_TIME_PLACEHOLDER, SCHEDULE_TIME_SINCE, is_before
from fullpass.kubeflow.page_outputs import METRICS
from fullpass.kubeflow.protocol import Json
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path
from fullpass.pipeline.authoring.user_code import check_code_is_packed
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.root.layout import ANALYZER_CACHE, SPAN_STATISTICS, SPAN_VERDICTS, WORK
from fullpass.pipeline.running.build import build_nodes
from fullpass.pipeline.running.tfx_components import RunPaths
from fullpass.trainer.config import RunFn

PREDICT, WATCH = "Predict", "Watch"
"""Names of the nodes of a batch prediction and of a watch, as used in the environment file."""


@dataclass(frozen=True)
class Compiled:
    """A compiled pipeline."""

    package: Package
    remarks: tuple[str, ...]
    warnings: tuple[Problem, ...]


def compile_package(loaded: Loaded, environment: Environment) -> Compiled:
    """Returns the package of a config: the same nodes as `fullpass run`, in containers.

    Queries of TFX's metadata store are replaced: a look-up finds Ingest's files when a run begins, and the last blessed
    model comes from the registry of the environment. Equal inputs give equal packages.

    Raises:
        UserError: The environment does not fit the pipeline, Kubeflow does not run a node of the user, the user's code
            loads files that the image lacks, or the release of Kubeflow would reject the package.
    """
    use_modules_of(loaded.folder)
    check_code_is_packed(loaded)
    loaded, blanked = redacted_pipeline(loaded)
    config, others = redacted_environment(environment.config, environment.file.name)
    paths = _cluster_paths(loaded, config)
    nodes = Pipeline(
        pipeline_name=loaded.config.name, pipeline_root="unused", components=build_nodes(loaded, paths)
    ).components
    names = [node.id for node in nodes]
    check_engines(loaded, config, names)
    _check_own_nodes(nodes)
    registry_nodes = _registry_nodes(nodes)
    if loaded.config.notify:
        notify_tasks.check(loaded.config.notify, config)
        names = registry_nodes = [*names, notify_tasks.NODE]  # Every failing container writes to the registry.
    if config.predict is not None:
        names = [*names, PREDICT]  # The file is that of both packages.
    if loaded.config.serving_log is not None:
        names = [*names, WATCH]
    lasting = [("push_to", "Pusher", paths.push_to), *(("registry", node, config.registry) for node in registry_nodes)]
    warnings = require_environment(environment, names, [((key,), node, folder) for key, node, folder in lasting])
    [baseline] = (node.exec_properties[RESOLVER_CONFIG] for node in nodes if _resolves(node) is LastBlessedModel)
    builder = PackageBuilder(loaded, config, spanned=paths.window.unit is not None, baseline=baseline)
    builder.add_nodes(nodes)
    package = builder.package()
    check_package(package, config.kubeflow)
    return Compiled(package, (*blanked, *others, *builder.remarks), tuple(warnings))


def _cluster_paths(loaded: Loaded, environment: EnvironmentConfig) -> RunPaths:
    def resolve(path: str) -> str:
        if is_address(path):
            return path
        if path.startswith("package:"):
            raise UserError(
                f"{path}: the folder of an installed package in the image is unknown. Copy the file beside the YAML."
            )
        return str(PurePosixPath(environment.folder) / path)

    registry = environment.registry
    kept = f"{registry}/{loaded.config.name}"
    outlives_pods = registry.startswith("gs://") or environment.node("Trainer").volume_of(registry) is not None
    return RunPaths(
        resolve=resolve,
        # A look-up finds the files when a run begins.
        window=Window(span_unit(loaded.config.data), ()),
        known=(),
        # Not an artifact: inputs of Transform are part of Kubeflow's cache key.
        analyzer_cache=f"{kept}/{ANALYZER_CACHE}",
        span_statistics=f"{kept}/{SPAN_STATISTICS}",
        span_verdicts=f"{kept}/{SPAN_VERDICTS}",
        compress=True,
        push_to=environment.push_to or resolve(loaded.config.push.to),
        # The folder of checkpoints, from which a retry resumes training.
        work=f"{kept}/{WORK}" if outlives_pods else None,
    )


def check_engines(loaded: Loaded, environment: EnvironmentConfig, nodes: Sequence[str]) -> None:
    """Checks that processes outside a node's own pod can read and write the store."""
    runner = loaded.config.beam.runner
    if environment.artifacts == "copied" and runner not in ("direct", "DirectRunner"):
        raise UserError(
            f"beam.runner: {runner}: its workers cannot access a pod's artifact copies. Give artifacts: direct in the "
            "environment file, or beam.runner: direct."
        )
    if others := [name for name in nodes if name != "Trainer" and environment.node(name).workers]:
        raise UserError(f"nodes.{others[0]}.workers: only Trainer can run in several pods. Remove it.")
    if environment.node("Trainer").workers and isinstance(loaded.config.model, RunFn):
        raise UserError("nodes.Trainer.workers: the run_fn of model: trains in one pod. Remove it.")
    distribution = loaded.config.training.distribution
    if environment.node("Trainer").workers and distribution not in ("auto", "multi_worker"):
        raise UserError(
            f"nodes.Trainer.workers: the pipeline's training.distribution is {distribution}. Set it to multi_worker "
            "or auto."
        )


def _registry_nodes(nodes: Sequence[base_node.BaseNode]) -> list[str]:
    """Returns the nodes whose containers or look-ups open the registry."""
    windows = {node.id for node in nodes if _resolves(node) is SpansOfWindow}
    keeping: tuple[type, ...] = (StatisticsGen, SpanComparison, Ingest)
    deciding = judge([node.id for node in nodes])
    if windows:
        keeping = (*keeping, Transform, Trainer)

    def reads_spans(node: base_node.BaseNode) -> bool:
        return any(getattr(c, "producer_component_id", None) in windows for c in node.inputs.values())

    return [node.id for node in nodes if isinstance(node, keeping) or node.id == deciding or reads_spans(node)]


def _check_own_nodes(nodes: Sequence[base_node.BaseNode]) -> None:
    """Checks that each node has a task, or a look-up in its stead."""
    for node in nodes:
        looked_up = _resolves(node) in (LastBlessedModel, SpansOfWindow)
        if not looked_up and not isinstance(node, base_component.BaseComponent):
            raise UserError(
                f"{node.id}: a package for Kubeflow has no node of the type {type(node).__name__}. Give a @component, "
                "a component of TFX, or a container component."
            )


def _resolves(node: base_node.BaseNode) -> type | None:
    return node.exec_properties["resolver_class"] if isinstance(node, Resolver) else None


def redacted_pipeline(loaded: Loaded) -> tuple[Loaded, list[str]]:
    """Returns a pipeline file without secrets, and sentences that name the places of removed values."""
    fields = loaded.config.model_dump(mode="json")
    redacted = redact_tree(fields)
    config = loaded.config if redacted == fields else PipelineConfig.model_validate(redacted)
    return replace(loaded, config=config, text=redact_yaml(loaded.text)), _remarks(loaded.file.name, fields, redacted)


def redacted_environment(config: EnvironmentConfig, file: str) -> tuple[EnvironmentConfig, list[str]]:
    """Returns an environment without secrets, and sentences that name the places of removed values in its file."""
    fields = config.model_dump(mode="json")
    redacted = redact_tree(fields)
    for node in (redacted["defaults"], *redacted["nodes"].values()):
        node["env"] = {name: redact_setting(name, value) for name, value in node["env"].items()}
    kept = config if redacted == fields else EnvironmentConfig.model_validate(redacted)
    return kept, _remarks(file, fields, redacted)


def _remarks(file: str, before: Any, after: Any) -> list[str]:
    return [
        f"{file}: {format_path(keys)}: may be a secret, so the package has *** in its place. Use `secrets:` of the "
        "environment file."
        for keys in _differences((), before, after)
    ]


def _differences(keys: Keys, before: Any, after: Any) -> Iterator[Keys]:
    if isinstance(before, dict):
        for key, value in before.items():
            yield from _differences((*keys, key), value, after[key])
    elif isinstance(before, list):
        for number, value in enumerate(before):
            yield from _differences((*keys, number), value, after[number])
    elif before != after:
        yield keys


_PUSHED, _BLESSED = "pushed", "blessed"


def compile_prediction(loaded: Loaded, environment: Environment) -> Compiled:
    """Returns the package that the section `predict` of an environment file declares, for models of a pipeline.

    Raises:
        UserError: The section is missing, does not fit, or the release would reject the package.
    """
    loaded, blanked = redacted_pipeline(loaded)
    config, others = redacted_environment(environment.config, environment.file.name)
    declared = replace(environment, config=config).prediction
    check_engines(loaded, config, [PREDICT])
    format_to_write(declared.output)
    push_to = _absolute(config.push_to or loaded.config.push.to, config.folder)
    model = push_to if declared.model == _PUSHED else declared.model
    lasting: list[tuple[Keys, str, str]] = [(("predict", "output"), PREDICT, _absolute(declared.output, config.folder))]
    if declared.model == _BLESSED:
        lasting.append((("registry",), PREDICT, config.registry))
    elif declared.model == _PUSHED:
        lasting.append((("push_to",), PREDICT, push_to))
    warnings = require_environment(environment, list(config.nodes), lasting)
    # Notifications and MLflow are of trainings.
    name = protocol.name_of_prediction(loaded.config.name)
    own = loaded.config.model_copy(update={"name": name, "notify": (), "mlflow": None})
    builder = _Builder(replace(loaded, config=own), config, spanned=False, declared=declared, model=model)
    builder.add_prediction(loaded.config.name, push_to)
    package = builder.package()
    check_package(package, config.kubeflow)
    return Compiled(package, (*blanked, *others, *builder.remarks), tuple(warnings))


def compile_watch(loaded: Loaded, environment: Environment) -> Compiled:
    """Returns the package that watches the served model of a pipeline, with the code of `fullpass watch`.

    Raises:
        UserError: The YAML names no request log, the environment does not fit, or the release would reject the package.
    """
    log = loaded.config.serving_log
    if log is None:
        raise UserError(f"{loaded.file}: serving_log is missing, so there is nothing to watch (docs/watch.md).")
    loaded, blanked = redacted_pipeline(loaded)
    config, others = redacted_environment(environment.config, environment.file.name)
    push_to = _absolute(config.push_to or loaded.config.push.to, config.folder)
    lasting: list[tuple[Keys, str, str]] = [(("registry",), WATCH, config.registry), (("push_to",), WATCH, push_to)]
    if is_address(config.registry):
        raise UserError(
            f"{environment.file}: registry: {config.registry}: a watch writes its record and page to a folder. Give "
            "a folder on a volume of Watch."
        )
    warnings = require_environment(environment, list(config.nodes), lasting)
    name = protocol.name_of_watch(loaded.config.name)
    own = loaded.config.model_copy(update={"name": name, "notify": (), "mlflow": None})
    builder = _WatchBuilder(replace(loaded, config=own), config, spanned=False)
    plan = {
        "line": line(),
        "file": f"{config.folder}/{loaded.file.name}",
        "root": f"{config.registry}/{loaded.config.name}",
        "push_to": push_to,
    }
    builder.add_watch(plan)
    package = builder.package()
    check_package(package, config.kubeflow)
    return Compiled(package, (*blanked, *others, *builder.remarks), tuple(warnings))


class _WatchBuilder(PackageBuilder):
    """The package of a watch."""

    def add_watch(self, plan: Json) -> None:
        """Adds the task."""
        task = Task(task_name(WATCH), outputs={"metrics": METRICS})
        task.parameters |= {name: DagInput(name) for name in self._run_parameters()}
        args = ["--plan", json.dumps(plan, sort_keys=True), *message_args(task.artifacts, task.outputs)]
        self._add_container(task, protocol.WATCH_COMMAND, args, self.environment.node(WATCH))

    def _run_parameters(self) -> Json:
        return {protocol.DATE: text_parameter("", "Watch as of this time, UTC: 2026-01-21; by default now.")}


def _absolute(path: str, folder: str) -> str:
    return path if is_address(path) else str(PurePosixPath(folder) / path)


@dataclass(kw_only=True)
class _Builder(PackageBuilder):
    """The package of a batch prediction. model: folder or address of the model, or `blessed`."""

    declared: PredictionConfig
    model: str

    def add_prediction(self, pipeline: str, push_to: str) -> None:
        """Adds the tasks."""
        environment = self.environment
        settings = environment.node(PREDICT)
        knows_time = not is_before(environment.kubeflow, SCHEDULE_TIME_SINCE)
        task = Task(
            task_name(PREDICT),
            parameters={protocol.SCHEDULE_TIME: SCHEDULE_TIME_PLACEHOLDER} if knows_time else {},
            artifacts={protocol.MODEL: (self._blessed_model(pipeline, push_to), MODEL_TITLE)}
            if self._is_blessed
            else {},
            outputs={"metrics": METRICS},
        )
        given = {name: DagInput(name) for name in self._run_parameters()}
        task.parameters |= given
        plan = {
            "line": line(),
            "read_as": self.declared.source,
            "explain": self.declared.explain,
            "lag": seconds(self.declared.lag) if self.declared.lag else 0,
            "beam": beam_config(settings.beam, self.loaded.config.beam, environment.pipeline_root).model_dump(
                mode="json"
            ),
            "folder": environment.folder,
            "artifacts": environment.artifacts,
        }
        args = ["--plan", json.dumps(plan, sort_keys=True), *message_args(task.artifacts, task.outputs)]
        if self._is_blessed:
            self.given |= given
        self._add_container(task, protocol.PREDICT_COMMAND, args, settings, self.inside if self._is_blessed else None)

    @property
    def _is_blessed(self) -> bool:
        return self.model == _BLESSED

    def _blessed_model(self, pipeline: str, push_to: str) -> TaskOutput:
        given = {"registry": self.environment.registry, "pipeline": pipeline, protocol.PUSH_TO: push_to}
        self.found = "find-model"
        found = Task(self.found, parameters=dict(given), output_parameters=(protocol.MODEL_URI,))
        self._add_lookup("model", found, PREDICT, volumes=self._push_volume(PREDICT, push_to))
        return self._add_import(PREDICT, ModelImport("fetched-model"))

    def _run_parameters(self) -> Json:
        dated = "{YYYY}, {MM}, {DD} and {HH} are the date of the run."
        declared = {
            protocol.ROWS: text_parameter(
                self.declared.rows, f"Rows to predict: a file, folder, glob or address. {dated}"
            ),
            protocol.OUTPUT: text_parameter(self.declared.output, f"Folder or address to write. {dated}"),
            protocol.DATE: text_parameter(
                "", "Date of the run, as 2026-01-02 or 2026-01-02T03; by default the planned one."
            ),
        }
        if not self._is_blessed:
            declared[protocol.MODEL] = text_parameter(self.model, "Folder or address of the model, or of its versions.")
        return declared
