"""What a release of the open-source backend refuses or breaks, told when a package is compiled and not when it runs.

One function per rule. References are to github.com/kubeflow/pipelines, tag 2.5.0, below backend/src, or to the project
and tag that is named. A rule yields sentences that say which task, what, and what to do instead.
"""

import json
import re
from collections.abc import Callable, Iterator

from kubeflow.config import RELEASES
from kubeflow.package import Package
from kubeflow.parts import Json
from preprocessing.errors import UserError

Rule = Callable[[Package, str], Iterator[str]]

MOST_BYTES = 120_000
"""Linux takes arguments of 131,072 bytes; the executor input is one, and carries names and addresses beside values."""
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
    "activeDeadlineSeconds",
}  # fmt: skip


def lint(package: Package, release: str) -> list[str]:
    """Returns everything that the backend of `release` would refuse or get wrong, in the order of the rules."""
    broken = list(_parses(package, release))
    return broken or [finding for rule in RULES for finding in rule(package, release)]


def require(package: Package, release: str) -> None:
    """Raises a UserError with every finding.

    Raises:
        UserError: The backend of `release` would not run the package.
    """
    findings = lint(package, release)
    if findings:
        listed = "\n".join(f"  {finding}" for finding in findings)
        raise UserError(f"Kubeflow Pipelines {release} would not run this package:\n{listed}")


def _parses(package: Package, release: str) -> Iterator[str]:
    """Strict parse by the API server (apiserver/template/v2_template.go:186). Unknown fields of the deployment, which
    the backend reads past without a word (v2/compiler/visitor.go:175), are refused too."""
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
    """apiserver/template/v2_template.go:190, every release."""
    found = package.pipeline.get("schemaVersion")
    if found != "2.1.0":
        yield f"schemaVersion must be 2.1.0. Received: {found}. Compile with `fullpass compile`."


def _pipeline_name(package: Package, release: str) -> Iterator[str]:
    """apiserver/template/v2_template.go:196."""
    if not _PIPELINE_NAME.fullmatch(package.name):
        yield f"the pipeline's name takes lower-case letters, digits, dashes and dots. Received: {package.name!r}."


def _pipeline_root(package: Package, release: str) -> Iterator[str]:
    """v2/objectstore/config.go:115."""
    root = package.pipeline.get("defaultPipelineRoot")
    if root and not re.match(r"(gs|s3|minio)://[^/]+", root):
        yield f"defaultPipelineRoot: artifacts lie under gs://, s3:// or minio://. Received: {root!r}."


def _executors(package: Package, release: str) -> Iterator[str]:
    """v2/compiler/visitor.go:128: containers and importers, nothing else, every release."""
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
                yield f"{where}: task {name!r}: Argo takes letters, digits and dashes. Use parts.task_name."
            if name in seen:
                yield f"{where}: task {name!r} stands in two DAGs; the backend knows tasks by name alone. Rename one."
            if f"{name}-driver" in tasks:
                yield f"{where}: task {name}-driver: the backend calls its driver of {name!r} so. Rename it."
            seen.add(name)


def _references(package: Package, release: str) -> Iterator[str]:
    """v2/compiler/visitor.go:108, :155 and argocompiler/dag.go:605: what is named must be there."""
    for where, tasks in _dags(package):
        for name, task in tasks.items():
            component = package.pipeline["components"].get(task["componentRef"]["name"])
            if component is None:
                yield f"{where}: task {name!r}: no component {task['componentRef']['name']!r}."
            elif "executorLabel" in component and component["executorLabel"] not in package.executors:
                yield f"{where}: task {name!r}: no executor {component['executorLabel']!r}."
            for waits in set(task.get("dependentTasks", ())) - set(tasks):
                yield f"{where}: task {name!r}: waits for {waits!r}, which is no task of this DAG."
            yield from _producers(package, where, name, task, tasks)


def _producers(package: Package, where: str, name: str, task: Json, tasks: Json) -> Iterator[str]:
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
            made = package.pipeline["components"].get(producer["componentRef"]["name"], {})
            if source[output_key] not in made.get("outputDefinitions", {}).get(kind, {}):
                yield f"{where}: task {name!r}: {source['producerTask']!r} has no output {source[output_key]!r}."


def _inputs(package: Package, release: str) -> Iterator[str]:
    """driver.go:1448: a parameter without a value becomes "" or fails, so every one must be given its value."""
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


def _constants(package: Package, release: str) -> Iterator[str]:
    """driver.go:1472: types are compared and, but for text, never converted."""
    for where, name, task in _tasks(package):
        declared = package.pipeline["components"].get(task["componentRef"]["name"], {}).get("inputDefinitions", {})
        for key, value in _given_constants(task):
            kind = declared.get("parameters", {}).get(key, {}).get("parameterType")
            if kind in _TYPES and type(value) not in _TYPES[kind]:
                yield f"{where}: task {name!r}: parameter {key!r} is declared {kind} and given {value!r}."


def _root_parameters(package: Package, release: str) -> Iterator[str]:
    """v2_template.go:388: a run without a value is refused."""
    for name, entry in package.pipeline["root"].get("inputDefinitions", {}).get("parameters", {}).items():
        if "defaultValue" not in entry:
            yield f"parameter {name!r} of the pipeline has no default value, so that no run starts without one."


def _placeholders(package: Package, release: str) -> Iterator[str]:
    """v2/component/launcher_v2.go:736: `.value` and what is not declared stay as they are written."""
    for label, executor in package.executors.items():
        components: list[Json] = list(package.pipeline["components"].values())
        component: Json = next((c for c in components if c.get("executorLabel") == label), {})
        container = executor.get("container", {})
        for text in [*container.get("command", []), *container.get("args", [])]:
            for found in _PLACEHOLDER.findall(text):
                known = _KNOWN_PLACEHOLDER.fullmatch(found)
                if known is None:
                    yield f"{label}: {found} is never filled in. Known: {{{{$}}}}, .uri, .path, .output_file."
                elif known["name"] and known["name"] not in component.get(
                    "inputDefinitions" if known["side"] == "inputs" else "outputDefinitions", {}
                ).get(known["kind"], {}):
                    yield f"{label}: {found} is never filled in: the component declares no {known['name']!r}."


def _texts(package: Package, release: str) -> Iterator[str]:
    """Argo fills in {{...}} anywhere in a workflow; Kubernetes replaces $(NAME) and $$ in the arguments of a pod, and
    the executor input is one (driver.go:480)."""
    for where, name, task in _tasks(package):
        for key, value in _given_constants(task):
            changed = re.search(r"\{\{|\$\$|\$\([A-Za-z_][\w.-]*\)", value) if isinstance(value, str) else None
            if changed:
                yield (
                    f"{where}: task {name!r}: parameter {key!r} holds {changed.group()!r}, which Argo or Kubernetes "
                    "change on the way. Write it another way in the pipeline YAML."
                )


def _sizes(package: Package, release: str) -> Iterator[str]:
    """driver.go:480 passes the executor input as one argument, :465 variables one by one; Linux, MAX_ARG_STRLEN."""
    for label, executor in package.executors.items():
        for entry in executor.get("container", {}).get("env", ()):
            size = len(entry["value"].encode())
            if size > MOST_BYTES:
                yield (
                    f"{label}: variable {entry['name']} is of {size:,} bytes, and a container takes {MOST_BYTES:,}. "
                    "Where it holds the pipeline YAML: move lists into files beside it; comments count too."
                )
    for where, name, task in _tasks(package):
        size = len(json.dumps(dict(_given_constants(task))).encode())
        if size > MOST_BYTES:
            yield (
                f"{where}: task {name!r}: its parameters are {size:,} bytes, and a container takes {MOST_BYTES:,}. "
                "Move lists such as vocabularies into files beside the pipeline YAML."
            )


def _importers(package: Package, release: str) -> Iterator[str]:
    """argocompiler/dag.go:320; v2/component/importer_launcher.go:200: a constant address, or an input of the DAG."""
    for where, name, task in _tasks(package):
        component = package.pipeline["components"].get(task["componentRef"]["name"], {})
        importer = package.executors.get(component.get("executorLabel", ""), {}).get("importer")
        if importer is None:
            continue
        if task.get("triggerPolicy", {}).get("condition"):
            yield f"{where}: task {name!r}: an importer takes no condition. Put it into a DAG of its own."
        address = importer["artifactUri"]
        if "constant" in address and not _STORE.fullmatch(str(address["constant"])):
            given = address["constant"]
            yield f"{where}: task {name!r}: an importer opens gs://, s3://, minio://. Received: {given!r}."
        source = task.get("inputs", {}).get("parameters", {}).get(address.get("runtimeParameter", ""), {})
        if "runtimeParameter" in address and "componentInputParameter" not in source:
            yield f"{where}: task {name!r}: an importer's address must be an input of the DAG it is in."


def _features(package: Package, release: str) -> Iterator[str]:
    """What only some releases have: retries from 2.5 (argocompiler/container.go:280), exit tasks that know how the run
    ended from 2.14 (dag.go:630); iteration over artifacts in none (driver.go:1179). An exit task runs after each task
    that it waits for, as a hook of that one (dag.go:84)."""
    for where, name, task in _tasks(package):
        if task.get("retryPolicy") and _before(release, "2.5"):
            yield f"{where}: task {name!r}: {release} knows no retries. Leave `retries` out, or use 2.5 or later."
        final = [key for key, spec in task.get("inputs", {}).get("parameters", {}).items() if "taskFinalStatus" in spec]
        if final and _before(release, "2.14"):
            yield f"{where}: task {name!r}: {final[0]} is how the run ended, which needs 2.14 or later."
        exits = task.get("triggerPolicy", {}).get("strategy") == "ALL_UPSTREAM_TASKS_COMPLETED"
        if exits and len(task.get("dependentTasks", ())) != 1:
            yield f"{where}: task {name!r}: an exit task waits for one task. Put all others into a DAG of their own."
        if task.get("artifactIterator"):
            yield f"{where}: task {name!r}: no release iterates over artifacts. Write one task per artifact."


def _kubernetes(package: Package, release: str) -> Iterator[str]:
    """kubernetes_platform/proto/kubernetes_executor_config.proto: an unknown field fails the driver."""
    for label, config in package.kubernetes.items():
        if label not in package.executors:
            yield f"the Kubernetes part names {label!r}, which is no executor."
        for key in sorted(set(config) - _KUBERNETES):
            yield f"{label}: {key} is not supported here. Supported: {', '.join(sorted(_KUBERNETES))}."


RULES: tuple[Rule, ...] = (
    _schema_version,
    _pipeline_name,
    _pipeline_root,
    _executors,
    _task_names,
    _references,
    _inputs,
    _constants,
    _root_parameters,
    _placeholders,
    _texts,
    _sizes,
    _importers,
    _features,
    _kubernetes,
)


def _before(release: str, other: str) -> bool:
    return RELEASES.index(release) < RELEASES.index(other)


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
