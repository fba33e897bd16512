"""Finds in a compiled package what the open-source backend would reject or mishandle at run time.

References are to github.com/kubeflow/pipelines, tag 2.5.0, below backend/src, unless a rule names another project.
"""

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.kfp_internals import RESTRICTED_SINCE, is_before

_PLACEHOLDER = re.compile(
    r"\{\{\$(?:\.(?P<side>inputs|outputs)\.(?:(?P<kind>artifacts|parameters)\['(?P<name>\w+)'\])"
    r"(?P<path>\.path)?)?\}\}"
)
_TYPES = {"STRING": (str,), "BOOLEAN": (bool,), "NUMBER_INTEGER": (int,), "NUMBER_DOUBLE": (int, float)}
_KUBERNETES = {
    "nodeSelector", "tolerations", "secretAsEnv", "secretAsVolume", "pvcMount", "imagePullSecret", "imagePullPolicy",
    "activeDeadlineSeconds", "securityContext",
}  # fmt: skip
"""Fields that every supported release knows; the driver fails on an unknown field
(kubernetes_platform/proto/kubernetes_executor_config.proto)."""


def lint(package: Package, release: str) -> list[str]:
    """Returns what is wrong with a package for `release`."""
    _parse(package)
    rules = (_task_names, _references, _inputs, _root_parameters, _placeholders, _importers, _exit_tasks)
    return [*(finding for rule in rules for finding in rule(package)), *_kubernetes(package, release)]


def _parse(package: Package) -> None:
    """The API server parses strictly (apiserver/template/v2_template.go:186), but ignores unknown fields of the
    deployment (v2/compiler/visitor.go:175), which are refused here."""
    json_format.ParseDict(package.pipeline, pipeline_spec_pb2.PipelineSpec())
    json_format.ParseDict(package.pipeline["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig())
    json_format.ParseDict(package.platform, pipeline_spec_pb2.PlatformSpec())


def _tasks(package: Package) -> Iterator[tuple[str, dict, dict, dict]]:
    """Yields name, task, component and the DAG's tasks."""
    for _, dag in package.dags():
        for name, task in dag["dag"]["tasks"].items():
            yield name, task, package.component(task), dag["dag"]["tasks"]


def _task_names(package: Package) -> Iterator[str]:
    """Argo v3.5.14 workflow/validate/validate.go:1575; dag.go:281 adds NAME-driver; driver.go:1744 joins all DAGs."""
    names = [name for name, *_ in _tasks(package)]
    yield from (f"{name}: in two DAGs" for name in set(names) if names.count(name) > 1)
    yield from (f"{name}: Argo's names" for name in names if not re.fullmatch(r"[a-zA-Z0-9][-a-zA-Z0-9]*", name))
    yield from (f"{name}: its driver's name is taken" for name in names if f"{name}-driver" in names)


def _references(package: Package) -> Iterator[str]:
    """v2/compiler/visitor.go:108, :155, argocompiler/dag.go:605: named components, executors and tasks exist; :128:
    executors are containers or importers."""
    for name, task, component, tasks in _tasks(package):
        if not component:
            yield f"{name}: no component"
        elif "executorLabel" in component and not {"container", "importer"} & set(
            package.executors.get(component["executorLabel"], ())
        ):
            yield f"{name}: no executor"
        yield from (f"{name}: waits for {other}" for other in task.get("dependentTasks", ()) if other not in tasks)
        for kind, source_key, output_key in (
            ("parameters", "taskOutputParameter", "outputParameterKey"),
            ("artifacts", "taskOutputArtifact", "outputArtifactKey"),
        ):
            for spec in task.get("inputs", {}).get(kind, {}).values():
                source = spec.get(source_key)
                if source is None:
                    continue
                producer = tasks.get(source["producerTask"])
                made = package.component(producer).get("outputDefinitions", {}) if producer else {}
                if source[output_key] not in made.get(kind, {}):
                    yield f"{name}: {source['producerTask']} has no output {source[output_key]}"


def _inputs(package: Package) -> Iterator[str]:
    """driver.go:1448: a declared input needs a value; :1472: a constant needs the declared type."""
    for name, task, component, _ in _tasks(package):
        for kind in ("parameters", "artifacts"):
            declared = component.get("inputDefinitions", {}).get(kind, {})
            given = task.get("inputs", {}).get(kind, {})
            yield from (f"{name}: {key} is declared or given alone" for key in set(declared) ^ set(given))
            for key, spec in given.items():
                expected = _TYPES.get(declared.get(key, {}).get("parameterType", ""))
                if "runtimeValue" in spec and expected and type(spec["runtimeValue"]["constant"]) not in expected:
                    yield f"{name}: {key} has another type"


def _root_parameters(package: Package) -> Iterator[str]:
    """v2_template.go:388: a run is rejected if a parameter of the pipeline has neither a value nor a default."""
    yield from (f"{name}: no default" for name, entry in package.parameters.items() if "defaultValue" not in entry)


def _placeholders(package: Package) -> Iterator[str]:
    """v2/component/launcher_v2.go:736: placeholders of undeclared inputs are not replaced."""
    components = {c["executorLabel"]: c for c in package.pipeline["components"].values() if "executorLabel" in c}
    for label, executor in package.executors.items():
        container = executor.get("container", {})
        for text in [*container.get("command", ()), *container.get("args", ())]:
            for found in re.findall(r"\{\{.*?\}\}", text):
                known = _PLACEHOLDER.fullmatch(found)
                declared: Any = known and components[label].get(f"{(known['side'] or 'inputs')[:-1]}Definitions", {})
                wrong = known and (known["kind"] == "artifacts") != bool(known["path"])  # a parameter has no path
                if not known or wrong or (known["name"] and known["name"] not in declared.get(known["kind"], {})):
                    yield f"{label}: {found} is never replaced"


def _importers(package: Package) -> Iterator[str]:
    """argocompiler/dag.go:320, v2/component/importer_launcher.go:200: the URI is an input of the importer's DAG."""
    for name, task, component, _ in _tasks(package):
        importer = package.executors.get(component.get("executorLabel", ""), {}).get("importer")
        if importer:
            parameter = importer["artifactUri"].get("runtimeParameter", "")
            source = task.get("inputs", {}).get("parameters", {}).get(parameter, {})
            if "componentInputParameter" not in source:
                yield f"{name}: an importer's address must be an input of its DAG"


def _exit_tasks(package: Package) -> Iterator[str]:
    """dag.go:84: an exit task is a hook of each task that it waits for, so with several it would run several times."""
    for name, task, *_ in _tasks(package):
        exits = task.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"
        if exits and len(task.get("dependentTasks", ())) != 1:
            yield f"{name}: an exit task waits for one task"


def _kubernetes(package: Package, release: str) -> Iterator[str]:
    for label, config in package.kubernetes.items():
        if label not in package.executors:
            yield f"{label}: no executor"
        if "securityContext" in config and is_before(release, RESTRICTED_SINCE):
            yield f"{label}: securityContext needs {RESTRICTED_SINCE}"
        yield from (f"{label}: {key} is unknown" for key in sorted(set(config) - _KUBERNETES))
