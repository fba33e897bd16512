"""A package: the pipeline specification and its Kubernetes part, two YAML documents in one file."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.kubeflow.compile.parts import Json


@dataclass(frozen=True)
class Package:
    """pipeline: a PipelineSpec of schema 2.1.0. platform: its PlatformSpec, without executors if no executor needs
    Kubernetes options."""

    pipeline: Json
    platform: Json

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return self.pipeline["pipelineInfo"]["name"]

    @property
    def tasks(self) -> Json:
        """Name -> task, over all DAGs; the backend identifies tasks by name alone."""
        dags = [self.pipeline["root"], *self.pipeline["components"].values()]
        return {name: task for dag in dags if "dag" in dag for name, task in dag["dag"]["tasks"].items()}

    @property
    def executors(self) -> Json:
        """Label -> executor."""
        return self.pipeline["deploymentSpec"]["executors"]

    @property
    def kubernetes(self) -> Json:
        """Label of an executor -> its Kubernetes part."""
        return self.platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})


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


def from_yaml(text: str) -> Package:
    """Returns the package in `text`.

    Raises:
        UserError: The text is not YAML of one or two documents, each a mapping.
    """
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise UserError(f"the package is not YAML: {error}") from error
    if not documents or len(documents) > 2 or not all(isinstance(document, dict) for document in documents):
        raise UserError(f"a package contains one or two YAML documents, each a mapping. Received: {len(documents)}.")
    return Package(documents[0], documents[1] if len(documents) == 2 else {})


def write(package: Package, target: Path) -> None:
    """Writes a package atomically: a reader finds either the old or the new file, complete."""
    write_atomically(target, to_yaml(package))
