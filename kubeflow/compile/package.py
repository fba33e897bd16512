"""A package: the pipeline specification and its Kubernetes part, two YAML documents in one file, and its checks.

A user's files may contain what a release of the backend would reject or change. The largest arguments: the compiler of
the backend passes DAGs, tasks and containers as JSON to drivers, one argument each
(v2/compiler/argocompiler/dag.go:542, container.go:245 at 2.5.0; dag.go:573, container.go:194 at 2.17.0), and the
launcher starts a node's program with arguments. Up to Argo 3.5, a pod also receives its whole template in a variable,
with inputs twice, as parameters and as arguments, their quotes escaped.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from fullpass.base.errors import UserError
from fullpass.kubeflow.kfp_internals import (
    ARGUMENT_LIMIT,
    RETRIES_SINCE,
    SCHEDULE_TIME_PLACEHOLDER,
    WITH_TEMPLATE_VARIABLE,
    is_before,
)
from fullpass.kubeflow.protocol import Json

MOST_BYTES = 120_000
"""Part of the limit that a package may use; URIs and metadata of artifacts and the ids of a run need the rest."""
_TEMPLATE_BYTES = 3_000
"""The rest of a driver's template: names, images and options."""
_REPLACED = re.compile(r"\{\{|\$\$|\$\([A-Za-z_][\w.-]*\)")


@dataclass(frozen=True)
class Package:
    """One package.

    Attributes:
        pipeline: A PipelineSpec of schema 2.1.0.
        platform: Its PlatformSpec, without executors if no executor needs Kubernetes options.
    """

    pipeline: Json
    platform: Json

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return self.pipeline["pipelineInfo"]["name"]

    @property
    def parameters(self) -> Json:
        """Parameters of a run, by name."""
        return self.pipeline["root"].get("inputDefinitions", {}).get("parameters", {})

    @property
    def tasks(self) -> Json:
        """Name -> task, over all DAGs; the backend identifies tasks by name alone."""
        return {name: task for _, dag in self.dags() for name, task in dag["dag"]["tasks"].items()}

    @property
    def executors(self) -> Json:
        """Label -> executor."""
        return self.pipeline["deploymentSpec"]["executors"]

    @property
    def kubernetes(self) -> Json:
        """Label of an executor -> its Kubernetes part."""
        return self.platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})

    def dags(self) -> Iterator[tuple[str, Json]]:
        """Yields name and component of each DAG, the root first."""
        yield "root", self.pipeline["root"]
        yield from ((name, found) for name, found in self.pipeline["components"].items() if "dag" in found)

    def component(self, task: Json) -> Json:
        """Returns the component of a task; empty if it does not exist."""
        return self.pipeline["components"].get(task["componentRef"]["name"], {})


class _Plain(yaml.SafeDumper):
    """Writes no aliases, which readers in other languages may not support."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def to_yaml(package: Package) -> str:
    """Returns a package as text; equal packages give equal text."""
    documents = [package.pipeline, package.platform] if package.kubernetes else [package.pipeline]
    return yaml.dump_all(
        documents, Dumper=_Plain, sort_keys=True, default_flow_style=False, width=1_000_000, allow_unicode=True
    )


def check_package(package: Package, release: str) -> None:
    """Checks a package and raises one error with all findings.

    Raises:
        UserError: The backend of `release` would not run the package.
    """
    if found := [*_retries(package, release), *_replaced_texts(package), *_large(package, release)]:
        listed = "\n".join(f"  {finding}" for finding in found)
        raise UserError(f"Kubeflow Pipelines {release} would not run this package:\n{listed}")


def _retries(package: Package, release: str) -> Iterator[str]:
    if is_before(release, RETRIES_SINCE):
        for name, task in package.tasks.items():
            if "retryPolicy" in task:
                yield f"task {name!r}: {release} does not support retries. Remove `retries`, or use 2.5 or later."


def _replaced_texts(package: Package) -> Iterator[str]:
    """Argo replaces {{...}} anywhere in a workflow. Kubernetes replaces $(NAME) and $$ in the arguments of a pod, which
    include the executor input (driver.go:480)."""
    for name, task in package.tasks.items():
        for key, source in task.get("inputs", {}).get("parameters", {}).items():
            value = source.get("runtimeValue", {}).get("constant")
            found = _REPLACED.search(value) if isinstance(value, str) and value != SCHEDULE_TIME_PLACEHOLDER else None
            if found:
                yield (
                    f"task {name!r}: parameter {key!r} contains {found.group()!r}, which Argo or Kubernetes would "
                    "replace. Write it differently in the pipeline YAML."
                )


def _large(package: Package, release: str) -> Iterator[str]:
    """A longer argument makes a pod fail with `argument list too long` before it starts."""
    for size in sizes(package, release):
        if size.bytes > MOST_BYTES:
            yield (
                f"{size.what} takes {size.bytes:,} bytes with {size.cause}. One argument or variable of a pod holds at "
                f"most {ARGUMENT_LIMIT:,} bytes, of which a package may use {MOST_BYTES:,}. Move lists, such as "
                "vocabularies, into files beside the pipeline YAML."
            )


@dataclass(frozen=True)
class Size:
    """The bytes of an argument or variable of a pod: what it is, and the reason for its length."""

    what: str
    bytes: int
    cause: str


def sizes(package: Package, release: str) -> Iterator[Size]:
    """Yields the size of every argument and variable, as far as it is known at compile time."""
    templates = release in WITH_TEMPLATE_VARIABLE
    for where, dag in package.dags():
        text = _text(dag)
        yield Size(f"DAG {where}: the specification", len(text.encode()), "its tasks")
        if templates:
            yield Size(f"DAG {where}: ARGO_TEMPLATE of its driver", _template(text), "its tasks")
    for name, task in package.tasks.items():
        component = package.component(task)
        label = component.get("executorLabel", "")
        container = package.executors.get(label, {}).get("container")
        if container is None:
            continue
        parts = {
            "component": component, "task": task, "container": container,
            "Kubernetes part": package.kubernetes.get(label, {}),
        }  # fmt: skip
        texts = {what: _text(part) for what, part in parts.items()}
        for what, text in texts.items():
            cause = "its parameters, arguments and variables"
            yield Size(f"task {name!r}: the {what}", len(text.encode()), cause)
        if templates:
            driver = _template(*texts.values())
            yield Size(f"task {name!r}: ARGO_TEMPLATE of its driver", driver, "its arguments and variables")
        for number, argument in enumerate(container["args"]):
            what = f"task {name!r}: argument {number} of its container"
            yield Size(what, len(argument.encode()), "a section of the pipeline YAML")
        for entry in container.get("env", ()):
            size = len(f"{entry['name']}={entry['value']}".encode())
            yield Size(f"task {name!r}: variable {entry['name']}", size, "its value")


def _template(*texts: str) -> int:
    return _TEMPLATE_BYTES + 2 * sum(len(json.dumps(text).encode()) for text in texts)


def _text(part: Json) -> str:
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False)
