"""The two JSON messages between Kubeflow's launcher and a container: the task's input and its output."""

import argparse
import json
import logging
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.base.redact import redact_streams, redact_tree
from fullpass.kubeflow.kfp_internals import UNRESOLVED
from fullpass.kubeflow.protocol import EMPTY_ARTIFACT, Json, unpack

ABSENT = "FULLPASS_ABSENT"
"""File that marks the folder of an absent artifact; the backend has no empty inputs."""


@dataclass(frozen=True)
class ArtifactCopy:
    """One artifact: its URI in the object store, the launcher's local copy of it, and its metadata."""

    uri: str
    path: Path
    metadata: Json
    name: str

    @property
    def is_absent(self) -> bool:
        """Whether the artifact is absent: an executor removed it, or a look-up found none."""
        return self.uri.endswith(f"/{EMPTY_ARTIFACT}") or (self.path / ABSENT).is_file()


@dataclass(frozen=True)
class ExecutorInput:
    """The input of a container from the launcher.

    Attributes:
        outputs: Artifacts by name, without the backend's own (executor-logs), whose paths the container does not get.
        message: The launcher's JSON, unchanged.
    """

    parameters: Json
    inputs: Mapping[str, ArtifactCopy]
    outputs: Mapping[str, ArtifactCopy]
    output_file: Path
    message: str = ""


Outputs = tuple[Mapping[str, tuple[ArtifactCopy, Json]], Mapping[str, Any]]
"""Outputs of a container: artifacts with their metadata, and parameters."""


def parse_message(text: str, input_paths: Mapping[str, str], output_paths: Mapping[str, str]) -> ExecutorInput:
    """Parses the launcher's message.

    Raises:
        UserError: The message is invalid.
    """
    try:
        message = json.loads(text)
        inputs, outputs = message.get("inputs", {}), message["outputs"]
        return ExecutorInput(
            parameters=inputs.get("parameterValues", {}),
            inputs=_copies(inputs.get("artifacts", {}), input_paths),
            outputs=_copies(outputs.get("artifacts", {}), output_paths),
            output_file=Path(outputs["outputFile"]),
            message=text,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"--executor-input is not a message of Kubeflow's launcher ({type(error).__name__}: {error}). This program "
            f"runs in a task of a package that `fullpass compile` wrote. Received: {text[:200]!r}"
        ) from error


def container_arguments(program: str, about: str | None, **own: Collection[str] | None) -> argparse.Namespace:
    """Prepares the output of a container's program, and returns its arguments.

    Args:
        own: Required argument of the program -> the accepted values; None accepts all.
    """
    redact_streams()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog=program, description=about)
    for name, accepted in own.items():
        parser.add_argument(f"--{name}", required=True, choices=accepted)
    parser.add_argument("--executor-input", required=True)
    parser.add_argument("--constants", type=unpack, default={}, help="further parameters, written by pack")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--output", action="append", default=[])
    return parser.parse_args()


def from_arguments(arguments: argparse.Namespace) -> ExecutorInput:
    """Returns the launcher's input from a container's arguments.

    Raises:
        UserError: The launcher's message is invalid.
    """
    task = parse_message(arguments.executor_input, name_values(arguments.input), name_values(arguments.output))
    return replace(task, parameters={**task.parameters, **arguments.constants})


def clear_addresses(copies: Iterable[ArtifactCopy]) -> None:
    """Empties outputs in the object store: a retried task gets the addresses of the attempt before it."""
    import tensorflow as tf  # late: other containers have none

    for copy in copies:
        if tf.io.gfile.isdir(copy.uri):
            tf.io.gfile.rmtree(copy.uri)
            tf.io.gfile.makedirs(copy.uri)


def write_absent(copy: ArtifactCopy) -> None:
    """Marks an artifact as absent."""
    copy.path.mkdir(parents=True, exist_ok=True)
    (copy.path / ABSENT).write_text("Marks an absent artifact.\n")


def write_output(file: Path, artifacts: Mapping[str, tuple[ArtifactCopy, Json]], parameters: Mapping[str, Any]) -> None:
    """Writes the output message for the launcher, atomically.

    It has no secrets, because the backend stores it where everyone can read it. The URIs of artifacts are the backend's
    own and stay.
    """
    answer = {
        "artifacts": {
            name: {"artifacts": [{"name": copy.name, "uri": copy.uri, "metadata": redact_tree(metadata)}]}
            for name, (copy, metadata) in artifacts.items()
        },
        "parameterValues": redact_tree(dict(parameters)),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(answer, sort_keys=True))


def name_values(pairs: list[str]) -> dict[str, str]:
    """Returns NAME=VALUE arguments as a mapping, without those whose placeholder the launcher did not replace."""
    split = (pair.partition("=") for pair in pairs)
    return {name: value for name, _, value in split if not value.startswith(UNRESOLVED)}


def _copies(artifacts: Json, paths: Mapping[str, str]) -> dict[str, ArtifactCopy]:
    copies = {}
    for name, path in paths.items():
        if listed := artifacts.get(name, {}).get("artifacts", []):
            first = listed[0]
            copies[name] = ArtifactCopy(first["uri"], Path(path), first.get("metadata", {}), first.get("name", ""))
    return copies
