"""Finds defects at compile time that a release of the open-source backend would reject or mishandle at run time.

There is one function per rule. Its docstring refers to the backend's source: github.com/kubeflow/pipelines, tag 2.5.0,
in backend/src, unless it names another project and tag. A rule yields findings: full sentences that name the task,
the defect and the fix.
"""

import re
from collections.abc import Callable, Iterator

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile import argument_sizes
from fullpass.kubeflow.compile.lookup_tasks import SCHEDULE_TIME_PLACEHOLDER
from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.compile.parts import Json
from fullpass.kubeflow.config import RESTRICTED_SINCE, SCHEDULE_TIME_SINCE, is_before

Rule = Callable[[Package, str], Iterator[str]]

_PIPELINE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TASK_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9]*")
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_KNOWN_PLACEHOLDER = re.compile(
    r"\{\{\$\}\}|\{\{\$\.(?P<side>inputs|outputs)\.(?P<kind>artifacts|parameters)\['(?P<name>\w+)'\]"
    r"(?P<field>|\.uri|\.path|\.output_file)\}\}"
)
_STORE = re.compile(r"(gs|s3|minio|oci)://.+")
_KUBERNETES = {
    "nodeSelector", "tolerations", "secretAsEnv", "secretAsVolume", "pvcMount", "imagePullSecret", "imagePullPolicy",
    "activeDeadlineSeconds", "securityContext",
}  # fmt: skip


def lint(package: Package, release: str) -> list[str]:
    """Returns the findings of all rules for `release`; only those of the parser if the package does not parse."""
    invalid = list(_valid_specification(package, release))
    return invalid or [finding for rule in RULES for finding in rule(package, release)]


def check_package(package: Package, release: str) -> None:
    """Checks a package and raises one error with all findings.

    Raises:
        UserError: The backend of `release` would not run the package.
    """
    findings = lint(package, release)
    if findings:
        listed = "\n".join(f"  {finding}" for finding in findings)
        raise UserError(f"Kubeflow Pipelines {release} would not run this package:\n{listed}")


def _valid_specification(package: Package, release: str) -> Iterator[str]:
    """The API server parses strictly (apiserver/template/v2_template.go:186). This rule also rejects unknown fields of
    the deployment, which the backend ignores silently (v2/compiler/visitor.go:175)."""
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2

    try:
        json_format.ParseDict(package.pipeline, pipeline_spec_pb2.PipelineSpec())
        json_format.ParseDict(package.pipeline["deploymentSpec"], pipeline_spec_pb2.PipelineDeploymentConfig())
        json_format.ParseDict(package.platform, pipeline_spec_pb2.PlatformSpec())
        if not package.pipeline["root"]["dag"]["tasks"] or not package.name or not package.executors:
            yield "the pipeline has no tasks, no name or no executors."
    except (json_format.ParseError, KeyError, TypeError) as error:
        yield f"no pipeline specification: {type(error).__name__}: {error}."


def _schema_version(package: Package, release: str) -> Iterator[str]:
    """The API server checks the version in every release (apiserver/template/v2_template.go:190)."""
    found = package.pipeline.get("schemaVersion")
    if found != "2.1.0":
        yield f"schemaVersion must be 2.1.0. Received: {found}. Compile with `fullpass compile`."


def _pipeline_name(package: Package, release: str) -> Iterator[str]:
    """The API server checks the name (apiserver/template/v2_template.go:196)."""
    if not _PIPELINE_NAME.fullmatch(package.name):
        yield f"the pipeline's name accepts lower-case letters, digits, dashes and dots. Received: {package.name!r}."


def _pipeline_root(package: Package, release: str) -> Iterator[str]:
    """The backend supports these stores only (v2/objectstore/config.go:115)."""
    root = package.pipeline.get("defaultPipelineRoot")
    if root and not re.match(r"(gs|s3|minio)://[^/]+", root):
        yield f"defaultPipelineRoot: artifacts must be under gs://, s3:// or minio://. Received: {root!r}."


def _executor_kinds(package: Package, release: str) -> Iterator[str]:
    """v2/compiler/visitor.go:128: every release runs containers and importers only."""
    for label, executor in package.executors.items():
        kinds = sorted(set(executor) - {"container", "importer"})
        if kinds:
            yield f"{label}: a {kinds[0]} executor runs on Vertex only. Use a look-up container and an importer."


def _task_names(package: Package, release: str) -> Iterator[str]:
    """Argo v3.5.14 workflow/validate/validate.go:1575; dag.go:281 adds NAME-driver; driver.go:1744 joins all DAGs."""
    seen: set[str] = set()
    for where, tasks in _dags(package):
        for name in tasks:
            if not _TASK_NAME.fullmatch(name):
                yield f"{where}: task {name!r}: Argo accepts letters, digits and dashes. Use parts.task_name."
            if name in seen:
                yield f"{where}: task {name!r} is in two DAGs; the backend identifies tasks by name alone. Rename one."
            if f"{name}-driver" in tasks:
                yield f"{where}: task {name}-driver: the backend uses this name for its driver of {name!r}. Rename it."
            seen.add(name)


def _references(package: Package, release: str) -> Iterator[str]:
    """v2/compiler/visitor.go:108, :155, argocompiler/dag.go:605: named components, executors and tasks exist."""
    for where, tasks in _dags(package):
        for name, task in tasks.items():
            component = package.pipeline["components"].get(task["componentRef"]["name"])
            if component is None:
                yield f"{where}: task {name!r}: no component {task['componentRef']['name']!r}."
            elif "executorLabel" in component and component["executorLabel"] not in package.executors:
                yield f"{where}: task {name!r}: no executor {component['executorLabel']!r}."
            for upstream in set(task.get("dependentTasks", ())) - set(tasks):
                yield f"{where}: task {name!r}: waits for {upstream!r}, which is not a task of this DAG."
            yield from _task_outputs(package, where, name, task, tasks)


def _task_outputs(package: Package, where: str, name: str, task: Json, tasks: Json) -> Iterator[str]:
    for kind, source_key, output_key in (
        ("parameters", "taskOutputParameter", "outputParameterKey"),
        ("artifacts", "taskOutputArtifact", "outputArtifactKey"),
    ):
        for key, spec in task.get("inputs", {}).get(kind, {}).items():
            source = spec.get(source_key)
            if source is None:
                continue
            producer = tasks.get(source["producerTask"])
            if producer is None:
                yield f"{where}: task {name!r}: {key} comes from the unknown producer task {source['producerTask']!r}."
                continue
            component = package.pipeline["components"].get(producer["componentRef"]["name"], {})
            if source[output_key] not in component.get("outputDefinitions", {}).get(kind, {}):
                yield f"{where}: task {name!r}: {source['producerTask']!r} has no output {source[output_key]!r}."


def _input_values(package: Package, release: str) -> Iterator[str]:
    """driver.go:1448: a declared input without a value becomes "" or fails, so every input needs a value."""
    for where, tasks in _dags(package):
        for name, task in tasks.items():
            declared = package.pipeline["components"].get(task["componentRef"]["name"], {}).get("inputDefinitions", {})
            for kind in ("parameters", "artifacts"):
                given = task.get("inputs", {}).get(kind, {})
                optional = {key for key, entry in declared.get(kind, {}).items() if entry.get("isOptional")}
                for key in sorted(set(declared.get(kind, {})) - set(given) - optional):
                    yield f"{where}: task {name!r}: {kind[:-1]} {key!r} is declared and given no value."
                for key in sorted(set(given) - set(declared.get(kind, {}))):
                    yield f"{where}: task {name!r}: {kind[:-1]} {key!r} is given and not declared."


_TYPES = {"STRING": (str,), "BOOLEAN": (bool,), "NUMBER_INTEGER": (int,), "NUMBER_DOUBLE": (int, float)}


def _constant_types(package: Package, release: str) -> Iterator[str]:
    """driver.go:1472: a constant must have the declared type; only text is converted."""
    for where, name, task in _tasks(package):
        declared = package.pipeline["components"].get(task["componentRef"]["name"], {}).get("inputDefinitions", {})
        for key, value in _given_constants(task):
            kind = declared.get("parameters", {}).get(key, {}).get("parameterType")
            if kind in _TYPES and type(value) not in _TYPES[kind]:
                yield f"{where}: task {name!r}: parameter {key!r} is declared {kind} and given {value!r}."


def _root_parameters(package: Package, release: str) -> Iterator[str]:
    """v2_template.go:388: a run is rejected if a parameter of the pipeline has neither a value nor a default."""
    for name, entry in package.pipeline["root"].get("inputDefinitions", {}).get("parameters", {}).items():
        if "defaultValue" not in entry:
            yield f"parameter {name!r} of the pipeline has no default value, so a run without a value is rejected."


def _placeholders(package: Package, release: str) -> Iterator[str]:
    """v2/component/launcher_v2.go:736: `.value`, and placeholders of undeclared inputs, are not replaced."""
    for label, executor in package.executors.items():
        components: list[Json] = list(package.pipeline["components"].values())
        component: Json = next((c for c in components if c.get("executorLabel") == label), {})
        container = executor.get("container", {})
        for text in [*container.get("command", []), *container.get("args", [])]:
            for found in _PLACEHOLDER.findall(text):
                known = _KNOWN_PLACEHOLDER.fullmatch(found)
                if known is None:
                    yield f"{label}: {found} is never replaced. Accepted: {{{{$}}}}, .uri, .path, .output_file."
                elif known["name"] and known["name"] not in component.get(
                    "inputDefinitions" if known["side"] == "inputs" else "outputDefinitions", {}
                ).get(known["kind"], {}):
                    yield f"{label}: {found} is never replaced: the component declares no {known['name']!r}."


def _replaced_text(package: Package, release: str) -> Iterator[str]:
    """Argo replaces {{...}} anywhere in a workflow. Kubernetes replaces $(NAME) and $$ in the arguments of a pod, which
    include the executor input (driver.go:480)."""
    for where, name, task in _tasks(package):
        for key, value in _given_constants(task):
            changed = re.search(r"\{\{|\$\$|\$\([A-Za-z_][\w.-]*\)", value) if isinstance(value, str) else None
            if changed and not (value == SCHEDULE_TIME_PLACEHOLDER and not is_before(release, SCHEDULE_TIME_SINCE)):
                yield (
                    f"{where}: task {name!r}: parameter {key!r} contains {changed.group()!r}, which Argo or "
                    "Kubernetes would replace. Write it differently in the pipeline YAML."
                )


def _argument_sizes(package: Package, release: str) -> Iterator[str]:
    """See argument_sizes: a longer argument makes a pod fail with `argument list too long` before it starts."""
    for size in argument_sizes.sizes(package, release):
        if size.bytes > argument_sizes.MOST_BYTES:
            yield (
                f"{size.what} takes {size.bytes:,} bytes with {size.cause}. One argument or variable of a pod holds at "
                f"most {argument_sizes.LIMIT:,} bytes, of which a package may use {argument_sizes.MOST_BYTES:,}. Move "
                "lists, such as vocabularies, into files beside the pipeline YAML."
            )


def _importers(package: Package, release: str) -> Iterator[str]:
    """argocompiler/dag.go:320, v2/component/importer_launcher.go:200: an importer's URI is a constant or an input of
    its DAG, and an importer has no condition."""
    for where, name, task in _tasks(package):
        component = package.pipeline["components"].get(task["componentRef"]["name"], {})
        importer = package.executors.get(component.get("executorLabel", ""), {}).get("importer")
        if importer is None:
            continue
        if task.get("triggerPolicy", {}).get("condition"):
            yield f"{where}: task {name!r}: an importer cannot have a condition. Put it into a separate DAG."
        address = importer["artifactUri"]
        if "constant" in address and not _STORE.fullmatch(str(address["constant"])):
            given = address["constant"]
            yield f"{where}: task {name!r}: an importer accepts only gs://, s3:// and minio://. Received: {given!r}."
        source = task.get("inputs", {}).get("parameters", {}).get(address.get("runtimeParameter", ""), {})
        if "runtimeParameter" in address and "componentInputParameter" not in source:
            yield f"{where}: task {name!r}: an importer's address must be an input of the DAG it is in."


def _release_features(package: Package, release: str) -> Iterator[str]:
    """Features that not every release supports: retries need 2.5 (argocompiler/container.go:280); the final status of a
    run needs 2.14 (dag.go:630); no release iterates over artifacts (driver.go:1179). An exit task is a hook of the task
    that it waits for, so with several such tasks it would run once after each (dag.go:84)."""
    for where, name, task in _tasks(package):
        if task.get("retryPolicy") and is_before(release, "2.5"):
            yield f"{where}: task {name!r}: {release} does not support retries. Remove `retries`, or use 2.5 or later."
        final = [key for key, spec in task.get("inputs", {}).get("parameters", {}).items() if "taskFinalStatus" in spec]
        if final and is_before(release, "2.14"):
            yield f"{where}: task {name!r}: {final[0]} is the final status of the run, which needs 2.14 or later."
        exits = task.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"
        if exits and len(task.get("dependentTasks", ())) != 1:
            yield f"{where}: task {name!r}: an exit task waits for one task. Put all other tasks into a separate DAG."
        if task.get("artifactIterator"):
            yield f"{where}: task {name!r}: no release iterates over artifacts. Write one task per artifact."


def _kubernetes_options(package: Package, release: str) -> Iterator[str]:
    """kubernetes_platform/proto/kubernetes_executor_config.proto: the driver fails on an unknown field."""
    for label, config in package.kubernetes.items():
        if label not in package.executors:
            yield f"the Kubernetes part names {label!r}, which is not an executor."
        if "securityContext" in config and is_before(release, RESTRICTED_SINCE):
            yield f"{label}: securityContext needs {RESTRICTED_SINCE} or later."
        for key in sorted(set(config) - _KUBERNETES):
            yield f"{label}: {key} is not supported here. Supported: {', '.join(sorted(_KUBERNETES))}."


RULES: tuple[Rule, ...] = (
    _schema_version,
    _pipeline_name,
    _pipeline_root,
    _executor_kinds,
    _task_names,
    _references,
    _input_values,
    _constant_types,
    _root_parameters,
    _placeholders,
    _replaced_text,
    _argument_sizes,
    _importers,
    _release_features,
    _kubernetes_options,
)


def _dags(package: Package) -> Iterator[tuple[str, Json]]:
    yield "root", package.pipeline["root"]["dag"]["tasks"]
    for name, component in package.pipeline["components"].items():
        if "dag" in component:
            yield name, component["dag"]["tasks"]


def _tasks(package: Package) -> Iterator[tuple[str, str, Json]]:
    for where, tasks in _dags(package):
        for name, task in tasks.items():
            yield where, name, task


def _given_constants(task: Json) -> Iterator[tuple[str, object]]:
    for key, spec in task.get("inputs", {}).get("parameters", {}).items():
        if "runtimeValue" in spec:
            yield key, spec["runtimeValue"].get("constant")
