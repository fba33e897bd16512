"""Reads and checks an environment file, with the same kind of messages as for pipeline files."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.kubeflow.config import EXAMPLES, NAMES, EnvironmentConfig, PredictionConfig
from fullpass.kubeflow.kfp_internals import ON_ERROR_SINCE, is_before
from fullpass.pipeline.authoring.loading.load import FileForm, load_as
from fullpass.pipeline.authoring.loading.problems import ConfigError, Keys, Problem, format_path
from fullpass.pipeline.authoring.loading.yaml_tree import Tree

ENVIRONMENT = FileForm(
    model=EnvironmentConfig,
    schema=cache(EnvironmentConfig.model_json_schema),
    examples=EXAMPLES,
    needed=("image", "kubeflow", "registry"),
    names=NAMES,
    advice=(
        "Everyone can read packages in the backend. Use a Kubernetes secret of the namespace instead: as an "
        "environment variable, `secrets: [{name: SECRET, env: {VARIABLE: KEY}}]`, or as mounted files, `secrets: "
        "[{name: SECRET, mount: /FOLDER}]`, under `defaults` or a node."
    ),
)


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""Names of volumes in Kubernetes."""


@dataclass(frozen=True)
class Environment:
    """A valid environment file."""

    config: EnvironmentConfig
    file: Path
    tree: Tree

    @property
    def prediction(self) -> PredictionConfig:
        """The batch prediction.

        Raises:
            UserError: The file declares none.
        """
        if self.config.predict is None:
            raise UserError(f"{self.file}: predict is missing. Add predict: {EXAMPLES['predict']}.")
        return self.config.predict


def load_environment(path: Path | str) -> Environment:
    """Returns an environment file.

    Raises:
        ConfigError: The file has problems; the error lists all of them.
    """
    config, tree = load_as(path, ENVIRONMENT)
    return Environment(config, Path(path), tree)


def require_environment(
    environment: Environment, nodes: Sequence[str], lasting: Sequence[tuple[Keys, str, str]]
) -> list[Problem]:
    """Returns the warnings about an environment file for a pipeline.

    Args:
        lasting: Key, node and folder of everything that must outlive the node's pod; addresses do.

    Raises:
        ConfigError: The file does not fit the pipeline.
    """
    problems = [
        *_unknown_nodes(environment.tree, environment.config.nodes, nodes),
        *_volumes(environment, lasting),
        *_mounts(environment),
        *_image_tags(environment),
        *_retries(environment),
    ]
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(environment.file, problems)
    return problems


def _unknown_nodes(tree: Tree, given: Iterable[str], nodes: Sequence[str]) -> list[Problem]:
    return [
        _problem(tree, ("nodes", name), f"no node of this pipeline.{did_you_mean(name, nodes)} Accepted: "
                 f"{', '.join(nodes)}.")
        for name in given
        if name not in nodes
    ]  # fmt: skip


def _volumes(environment: Environment, lasting: Sequence[tuple[Keys, str, str]]) -> Iterator[Problem]:
    """Checks that folders that must outlive a pod are on a volume."""
    config = environment.config
    for keys, node, folder in lasting:
        if not is_address(folder) and config.node(node).volume_of(folder) is None:
            mounts = [volume.mount for volume in config.node(node).volumes]
            yield _problem(
                environment.tree,
                keys,
                f"{folder} is on no volume of {node}, so its files are lost when the pod ends. Mounted: "
                f"{', '.join(mounts) or 'nothing'}. Add defaults.volumes: [{{claim: NAME, mount: FOLDER}}].",
            )


def _mounts(environment: Environment) -> list[Problem]:
    """Finds what Kubernetes would refuse only when a pod starts: mounts with equal names or folders, and other names.

    Kubeflow gives volumes the names of their claims and secrets (v2/driver/k8s.go:305, 1155 at 2.17.0).
    """
    config, found = environment.config, list[Problem]()
    pods = {("defaults",): config.defaults} | {("nodes", name): config.node(name) for name in config.nodes}
    for keys, node in pods.items():
        mounts = [(volume.claim, volume.mount) for volume in node.volumes]
        mounts += [(secret.name, secret.mount) for secret in node.secrets if secret.mount is not None]
        texts = [
            f"{name!r} cannot be mounted: names of claims and mounted secrets have lower-case letters, digits and "
            "dashes, at most 63."
            for name, _ in mounts
            if not _LABEL.fullmatch(name)
        ]
        for values in zip(*mounts, strict=True):
            for twice in sorted({value for value in values if values.count(value) > 1}):
                listed = ", ".join(f"{name} at {folder}" for name, folder in mounts if twice in (name, folder))
                texts.append(
                    f"{twice} is mounted twice: {listed}. A pod mounts each claim, secret and folder once. Lists of a "
                    "node extend those of the defaults."
                )
        found += [_problem(environment.tree, keys, text) for text in texts]
        if found and keys == ("defaults",):
            break
    return found


def _image_tags(environment: Environment) -> Iterator[Problem]:
    config = environment.config
    images = {
        ("image",): config.image,
        ("small_image",): config.small_image,
        ("defaults", "image"): config.defaults.image,
    }
    images |= {("nodes", name, "image"): node.image for name, node in config.nodes.items()}
    for keys, image in images.items():
        tag = (image or ":x").rpartition("/")[2].partition(":")[2]
        if tag in ("", "latest") and "@" not in (image or ""):
            yield _problem(
                environment.tree,
                keys,
                "the image has no version tag. Kubeflow's cache uses the image name, so nodes do not run again when "
                "their code changes. Give a version or a digest.",
                "warning",
            )


def _retries(environment: Environment) -> Iterator[Problem]:
    """Warns of retries that a backend as shipped does not make."""
    config = environment.config
    if is_before(config.kubeflow, ON_ERROR_SINCE):
        return
    nodes = {("defaults",): config.defaults} | {("nodes", name): node for name, node in config.nodes.items()}
    if keys := next(((*keys, "retries") for keys, node in nodes.items() if node.retries), None):
        yield _problem(
            environment.tree,
            keys,
            f"Kubeflow Pipelines {config.kubeflow} as shipped retries lost pods, but not containers that fail. An "
            "administrator can change that: docs/kubeflow.md, Retries.",
            "warning",
        )


def _problem(tree: Tree, keys: Keys, message: str, severity: Literal["error", "warning"] = "error") -> Problem:
    return Problem(format_path(keys), tree.line(keys), message, severity)
