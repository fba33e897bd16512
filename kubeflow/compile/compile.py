"""Compiles the pipeline of a config to a package for open-source Kubeflow Pipelines v2.

Everyone can read packages in the backend, so values that may be secrets are blanked.
"""

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
from fullpass.components.evaluation.component import Evaluator
from fullpass.components.ingest.component import Ingest, SpansOfWindow
from fullpass.components.ingest.spans.spans import Window, span_unit
from fullpass.components.internals.tfx_internals import RESOLVER_CONFIG, base_node
from fullpass.components.push.last_blessed import LastBlessedModel
from fullpass.components.statistics.component import StatisticsGen
from fullpass.components.transform.component import Transform
from fullpass.kubeflow.compile import notify_tasks
from fullpass.kubeflow.compile.package import Package, check_package
from fullpass.kubeflow.compile.package_builder import PackageBuilder
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.kubeflow.environment import Environment, require
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.loading.problems import Keys, Problem, format_path
from fullpass.pipeline.config import PipelineConfig
from fullpass.pipeline.root.layout import ANALYZER_CACHE, SPAN_STATISTICS, WORK
from fullpass.pipeline.running.build import RunPaths, build_nodes

PREDICT = "Predict"
"""Name of the node of a batch prediction, as used in the environment file."""


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
        UserError: The environment does not fit the pipeline, or its release would reject the package.
    """
    use_modules_of(loaded.folder)
    loaded, blanked = redacted_pipeline(loaded)
    config, others = redacted_environment(environment.config, environment.file.name)
    paths = _cluster_paths(loaded, config)
    nodes = Pipeline(
        pipeline_name=loaded.config.name, pipeline_root="unused", components=build_nodes(loaded, paths)
    ).components
    names = [node.id for node in nodes]
    check_engines(loaded, config, names)
    registry_nodes = _registry_nodes(nodes)
    if loaded.config.notify:
        notify_tasks.check(loaded.config.notify, config)
        names = registry_nodes = [*names, notify_tasks.NODE]  # Every failing container writes to the registry.
    if config.predict is not None:
        names = [*names, PREDICT]  # The file is that of both packages.
    lasting = [("push_to", "Pusher", paths.push_to), *(("registry", node, config.registry) for node in registry_nodes)]
    warnings = require(environment, names, [((key,), node, folder) for key, node, folder in lasting])
    [baseline] = (node.exec_properties[RESOLVER_CONFIG] for node in nodes if _resolves(node) is LastBlessedModel)
    builder = PackageBuilder(loaded, config, spanned=paths.window.unit is not None, baseline=baseline)
    for node in nodes:
        builder.add_node(node)
    package = builder.package()
    check_package(package, config.kubeflow)
    return Compiled(package, (*blanked, *others, *builder.remarks), tuple(warnings))


def _cluster_paths(loaded: Loaded, environment: EnvironmentConfig) -> RunPaths:
    """Returns the paths that the containers of a package use."""

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
    others = [name for name in nodes if name != "Trainer" and environment.node(name).workers]
    if others:
        raise UserError(f"nodes.{others[0]}.workers: only Trainer can run in several pods. Remove it.")
    distribution = loaded.config.training.distribution
    if environment.node("Trainer").workers and distribution not in ("auto", "multi_worker"):
        raise UserError(
            f"nodes.Trainer.workers: the pipeline's training.distribution is {distribution}. Set it to multi_worker "
            "or auto."
        )


def _registry_nodes(nodes: Sequence[base_node.BaseNode]) -> list[str]:
    """Returns the nodes whose containers or look-ups open the registry."""
    windows = {node.id for node in nodes if _resolves(node) is SpansOfWindow}
    keeping: tuple[type, ...] = (StatisticsGen, SpanComparison, Ingest, Evaluator)
    if windows:
        keeping = (*keeping, Transform, Trainer)

    def reads_spans(node: base_node.BaseNode) -> bool:
        return any(getattr(c, "producer_component_id", None) in windows for c in node.inputs.values())

    return [node.id for node in nodes if isinstance(node, keeping) or reads_spans(node)]


def _resolves(node: base_node.BaseNode) -> type | None:
    """Returns the strategy of a resolver."""
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
