"""Computes the bytes of a package in single arguments and variables of pods, which Linux limits to 131,071 each.

The compiler of the backend passes DAGs, tasks and containers as JSON to drivers, one argument each
(v2/compiler/argocompiler/dag.go:542, container.go:245 at 2.5.0; dag.go:573, container.go:194 at 2.17.0). Up to Argo
3.5, a pod also receives its whole template in the variable ARGO_TEMPLATE. This template contains inputs twice, as
parameters and as arguments, with their quotes escaped. From 2.17 on (Argo 4.0.5,
workflow/controller/workflowpod.go:535), both can be offloaded to files, but the launcher still starts a node's program
with arguments.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.compile.parts import Json

LIMIT = 131_071
"""Largest size of an argument or variable in bytes: Linux's MAX_ARG_STRLEN without the terminating zero."""
MOST_BYTES = 120_000
"""Part of LIMIT that a package may use; URIs and metadata of artifacts and the ids of a run need the rest."""
WITH_TEMPLATE_VARIABLE = ("2.4", "2.5")
"""Releases with Argo 3.4 and 3.5."""
_TEMPLATE_BYTES = 3_000
"""The rest of a driver's template: names, images and options."""


@dataclass(frozen=True)
class Size:
    """An argument or variable. what: its description. cause: the reason for its length."""

    what: str
    bytes: int
    cause: str


def sizes(package: Package, release: str) -> Iterator[Size]:
    """Yields the size of every argument and variable, as far as it is known at compile time.

    Args:
        package: a package without findings of the parser.
        release: release of the backend.
    """
    templates = release in WITH_TEMPLATE_VARIABLE
    for where, component in _dags(package):
        text = _text(component)
        yield Size(f"DAG {where}: the specification", len(text.encode()), "its tasks")
        if templates:
            yield Size(f"DAG {where}: ARGO_TEMPLATE of its driver", _template(text), "its tasks")
    for name, task in package.tasks.items():
        component = package.pipeline["components"].get(task["componentRef"]["name"], {})
        label = component.get("executorLabel", "")
        container, pod = package.executors.get(label, {}).get("container"), package.kubernetes.get(label, {})
        if container is None:
            continue
        texts = [_text(part) for part in (component, task, container, pod)]
        parts = zip(("the component", "the task", "the container", "the Kubernetes part"), texts, strict=True)
        for part, text in parts:
            yield Size(f"task {name!r}: {part}", len(text.encode()), "its parameters, arguments and variables")
        if templates:
            yield Size(f"task {name!r}: ARGO_TEMPLATE of its driver", _template(*texts), "its arguments and variables")
        yield from _of_container(name, container)


def _of_container(task: str, container: Json) -> Iterator[Size]:
    for number, argument in enumerate(container.get("args", ())):
        size = len(argument.encode())
        yield Size(f"task {task!r}: argument {number} of its container", size, "a section of the pipeline YAML")
    for entry in container.get("env", ()):
        size = len(entry["name"].encode()) + 1 + len(entry["value"].encode())
        yield Size(f"task {task!r}: variable {entry['name']}", size, "its value")


def _template(*texts: str) -> int:
    return _TEMPLATE_BYTES + 2 * sum(len(json.dumps(text).encode()) for text in texts)


def _text(part: Json) -> str:
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False)


def _dags(package: Package) -> Iterator[tuple[str, Json]]:
    yield "root", package.pipeline["root"]
    for name, component in package.pipeline["components"].items():
        if "dag" in component:
            yield name, component
