"""A package: the pipeline specification and its Kubernetes part, two YAML documents in one file."""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from fullpass.kubeflow.protocol import Json


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
