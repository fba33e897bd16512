"""What Kubeflow's launcher tells a container, and what the container tells it back: two JSON messages."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeflow.parts import Json
from preprocessing.errors import UserError

ABSENT = "FULLPASS_ABSENT"
"""File of a folder that stands for an artifact that is not there: the backend knows no empty inputs."""
UNWRITTEN = "{{$."
"""Begins a placeholder that the launcher had no value for."""


@dataclass(frozen=True)
class Copy:
    """One artifact: its address in the object store, the launcher's local copy, and what is known of it."""

    uri: str
    path: Path
    metadata: Json
    name: str

    @property
    def is_absent(self) -> bool:
        """Whether it stands for nothing."""
        return (self.path / ABSENT).is_file()


@dataclass(frozen=True)
class ExecutorInput:
    """parameters: as JSON has them. inputs, outputs: artifacts by name; only those the container was told paths of, so
    that outputs of the backend's own (executor-logs) are left to it. output_file: where the answer goes. message: as it
    came."""

    parameters: Json
    inputs: Mapping[str, Copy]
    outputs: Mapping[str, Copy]
    output_file: Path
    message: str = ""


Outputs = tuple[Mapping[str, tuple[Copy, Json]], Mapping[str, Any]]
"""What a container gives: artifacts, with what is now known of them, and parameters."""


def parse(text: str, input_paths: Mapping[str, str], output_paths: Mapping[str, str]) -> ExecutorInput:
    """Returns the message that stands for `{{$}}` in the container's arguments.

    Args:
        text: the message.
        input_paths, output_paths: name -> what `.path` of the artifact was replaced by.

    Raises:
        UserError: It is no such message.
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
            f"--executor-input is not what Kubeflow's launcher writes ({type(error).__name__}: {error}). This program "
            f"runs in a task of a package that `fullpass compile` wrote. Received: {text[:200]!r}"
        ) from error


def run_id(addresses: Iterable[str], pipeline: str) -> str | None:
    """Returns the id of the run that outputs are of, None where addresses are not the backend's.

    Every release puts outputs under ROOT/PIPELINE/RUN/TASK/SALT/OUTPUT (v2/metadata/client.go:316 and
    v2/driver/driver.go:2046 at 2.5.0). The placeholder `{{$.pipeline_job_uuid}}` is known from 2.5 on, and as a
    parameter it would be part of what the cache goes by.
    """
    for address in addresses:
        parts = address.split("/")
        if len(parts) >= 6 and parts[-5] == pipeline:
            return parts[-4]
    return None


def write_absent(copy: Copy) -> None:
    """Makes an artifact one that stands for nothing."""
    copy.path.mkdir(parents=True, exist_ok=True)
    (copy.path / ABSENT).write_text("Stands for an artifact that is not there.\n")


def write_output(file: Path, artifacts: Mapping[str, tuple[Copy, Json]], parameters: Mapping[str, Any]) -> None:
    """Writes the answer to the launcher, whole or not at all.

    Args:
        file: where the launcher looks for it.
        artifacts: name -> the artifact and what is now known of it.
        parameters: name -> value of an output parameter.
    """
    answer: Json = {
        "artifacts": {
            name: {"artifacts": [{"name": copy.name, "uri": copy.uri, "metadata": metadata}]}
            for name, (copy, metadata) in artifacts.items()
        },
        "parameterValues": dict(parameters),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.part")
    temporary.write_text(json.dumps(answer, sort_keys=True), encoding="utf-8")
    os.replace(temporary, file)


def name_values(pairs: list[str]) -> dict[str, str]:
    """Returns arguments of the form NAME=VALUE as a mapping, without those the launcher had no value for."""
    split = (pair.partition("=") for pair in pairs)
    return {name: value for name, _, value in split if not value.startswith(UNWRITTEN)}


def _copies(artifacts: Json, paths: Mapping[str, str]) -> dict[str, Copy]:
    copies = {}
    for name, path in paths.items():
        listed = artifacts.get(name, {}).get("artifacts", [])
        if listed:
            first = listed[0]
            copies[name] = Copy(first["uri"], Path(path), first.get("metadata", {}), first.get("name", ""))
    return copies
