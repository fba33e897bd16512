"""Reads and checks an environment file, with the same kind of messages as for pipeline files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from fullpass.base.errors import UserError, did_you_mean
from fullpass.base.files import is_address
from fullpass.kubeflow.config import (
    EXAMPLES,
    NAMES,
    EnvironmentConfig,
    NodeConfig,
    PredictionConfig,
    byte_count,
    cores,
)
from fullpass.kubeflow.kfp_internals import ON_ERROR_SINCE, is_before
from fullpass.kubeflow.kubernetes_names import TAKEN_VARIABLES, TAKEN_VOLUMES, taken_folder
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
        *_refused_pods(environment),
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


def _pods(environment: Environment) -> dict[Keys, NodeConfig]:
    """Returns the path of each section of pods -> its settings, those of a node with the defaults."""
    config = environment.config
    return {("defaults",): config.defaults} | {("nodes", name): config.node(name) for name in config.nodes}


def _refused_pods(environment: Environment) -> Iterator[Problem]:
    """Finds what Kubernetes would refuse only when a pod starts, and what hides a part of the pod itself.

    Only a pod with its defaults shows this; `kubernetes_names` has the rules of single values.
    """
    told = set[str]()
    for keys, node in _pods(environment).items():
        findings = [*_taken(node), *_mounted_twice(node), *_above_limit(node)]
        for below, text in findings:
            if text not in told:  # A node repeats the findings of the defaults.
                yield _problem(environment.tree, (*keys, *below), text)
        told.update(text for _, text in findings)


def _mounts(node: NodeConfig) -> list[tuple[str, str]]:
    """Returns name and folder of each mount. Kubeflow gives volumes the names of their claims and secrets."""
    secrets = [(secret.name, secret.mount) for secret in node.secrets if secret.mount is not None]
    return [*((volume.claim, volume.mount) for volume in node.volumes), *secrets]


def _taken(node: NodeConfig) -> Iterator[tuple[Keys, str]]:
    for name, folder in _mounts(node):
        if name in TAKEN_VOLUMES:
            yield (), f"{name!r} cannot be mounted: Kubeflow or Argo gives each pod a volume of this name. Rename it."
        if taken := taken_folder(folder):
            yield (), f"{name} cannot be mounted at {folder}: the pod needs its own {taken}. Choose another folder."
    for variable in (*node.env, *(variable for secret in node.secrets for variable in secret.env)):
        if TAKEN_VARIABLES.fullmatch(variable):
            yield (), f"{variable} cannot be set: Kubeflow, Argo or Kubernetes sets it for the pod. Remove it."


def _mounted_twice(node: NodeConfig) -> Iterator[tuple[Keys, str]]:
    mounts = _mounts(node)
    for values in zip(*mounts, strict=True):
        for twice in sorted({value for value in values if values.count(value) > 1}):
            listed = ", ".join(f"{name} at {folder}" for name, folder in mounts if twice in (name, folder))
            text = f"{twice} is mounted twice: {listed}. A pod mounts each claim, secret and folder once."
            yield (), f"{text} Lists of a node extend those of the defaults."


def _above_limit(node: NodeConfig) -> Iterator[tuple[Keys, str]]:
    for kind, amount, count in (("cpu", node.cpu, cores), ("memory", node.memory, byte_count)):
        if amount.request and amount.limit and count(amount.request) > count(amount.limit):
            text = f"the request of {amount.request} is above the limit of {amount.limit}. A node has the limits of"
            yield (kind,), f"{text} the defaults unless it gives its own. Lower the request, or raise the limit."


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
    if keys := next(((*keys, "retries") for keys, node in _pods(environment).items() if node.retries), None):
        yield _problem(
            environment.tree,
            keys,
            f"Kubeflow Pipelines {config.kubeflow} as shipped retries lost pods, but not containers that fail. An "
            "administrator can change that: docs/kubeflow.md, Retries.",
            "warning",
        )


def _problem(tree: Tree, keys: Keys, message: str, severity: Literal["error", "warning"] = "error") -> Problem:
    return Problem(format_path(keys), tree.line(keys), message, severity)
