"""The two JSON messages between Kubeflow's launcher and a container: the task's input and its output."""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.files import write_atomically
from fullpass.base.redact import redact_tree
from fullpass.kubeflow.compile.packed import unpack
from fullpass.kubeflow.compile.parts import Json

ABSENT = "FULLPASS_ABSENT"
"""File that marks the folder of an absent artifact; the backend has no empty inputs."""
_UNRESOLVED = "{{$."
"""Start of a placeholder that the launcher did not replace."""


@dataclass(frozen=True)
class ArtifactCopy:
    """One artifact: its URI in the object store, the launcher's local copy of it, and its metadata."""

    uri: str
    path: Path
    metadata: Json
    name: str

    @property
    def is_absent(self) -> bool:
        """Whether the artifact is absent."""
        return (self.path / ABSENT).is_file()


@dataclass(frozen=True)
class ExecutorInput:
    """The input of a container from the launcher.

    parameters: values by name. inputs, outputs: artifacts by name, without the backend's own (executor-logs), whose
    paths the container does not receive. output_file: path of the output message. message: the launcher's JSON,
    unchanged.
    """

    parameters: Json
    inputs: Mapping[str, ArtifactCopy]
    outputs: Mapping[str, ArtifactCopy]
    output_file: Path
    message: str = ""


Outputs = tuple[Mapping[str, tuple[ArtifactCopy, Json]], Mapping[str, Any]]
"""Outputs of a container: artifacts with their metadata, and parameters."""


def parse(text: str, input_paths: Mapping[str, str], output_paths: Mapping[str, str]) -> ExecutorInput:
    """Parses the message that replaces `{{$}}` in the container's arguments.

    Args:
        text: the message.
        input_paths, output_paths: name -> local path of the artifact.

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the container arguments that `from_arguments` reads."""
    parser.add_argument("--executor-input", required=True)
    parser.add_argument("--constants", type=unpack, default={}, help="further parameters, written by pack")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--output", action="append", default=[])


def from_arguments(arguments: argparse.Namespace) -> ExecutorInput:
    """Returns the launcher's input from a container's arguments.

    Raises:
        UserError: The launcher's message is invalid.
    """
    task = parse(arguments.executor_input, name_values(arguments.input), name_values(arguments.output))
    return replace(task, parameters={**task.parameters, **arguments.constants})


def run_id(addresses: Iterable[str], pipeline: str) -> str | None:
    """Returns the id of the run from the URIs of its outputs, or None if they are not URIs of the backend.

    Every release stores outputs at ROOT/PIPELINE/RUN/TASK/SALT/OUTPUT (v2/metadata/client.go:316 and
    v2/driver/driver.go:2046 at 2.5.0). The placeholder `{{$.pipeline_job_uuid}}` exists only from 2.5 on, and as a
    parameter it would be part of the cache key.
    """
    for address in addresses:
        parts = address.split("/")
        if len(parts) >= 6 and parts[-5] == pipeline:
            return parts[-4]
    return None


def write_absent(copy: ArtifactCopy) -> None:
    """Marks an artifact as absent."""
    copy.path.mkdir(parents=True, exist_ok=True)
    (copy.path / ABSENT).write_text("Marks an absent artifact.\n")


def write_output(file: Path, artifacts: Mapping[str, tuple[ArtifactCopy, Json]], parameters: Mapping[str, Any]) -> None:
    """Writes the output message for the launcher, atomically.

    Args:
        file: path at which the launcher reads the message.
        artifacts: name -> artifact and its metadata.
        parameters: name -> value.
    """
    answer: Json = {
        "artifacts": {
            name: {"artifacts": [{"name": copy.name, "uri": copy.uri, "metadata": metadata}]}
            for name, (copy, metadata) in artifacts.items()
        },
        "parameterValues": dict(parameters),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    # The backend stores both, and everyone can read them.
    write_atomically(file, json.dumps(_redacted(answer), sort_keys=True))


def _redacted(answer: Json) -> Json:
    """Returns the output message without secrets; the URIs of artifacts are the backend's own and stay."""
    for listed in answer["artifacts"].values():
        for artifact in listed["artifacts"]:
            artifact["metadata"] = redact_tree(artifact["metadata"])
    return {**answer, "parameterValues": redact_tree(answer["parameterValues"])}


def name_values(pairs: list[str]) -> dict[str, str]:
    """Returns NAME=VALUE arguments as a mapping, without those whose placeholder the launcher did not replace."""
    split = (pair.partition("=") for pair in pairs)
    return {name: value for name, _, value in split if not value.startswith(_UNRESOLVED)}


def _copies(artifacts: Json, paths: Mapping[str, str]) -> dict[str, ArtifactCopy]:
    copies = {}
    for name, path in paths.items():
        listed = artifacts.get(name, {}).get("artifacts", [])
        if listed:
            first = listed[0]
            copies[name] = ArtifactCopy(first["uri"], Path(path), first.get("metadata", {}), first.get("name", ""))
    return copies
