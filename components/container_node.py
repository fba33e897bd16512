"""A node of the user that runs a container: TFX's `create_container_component`.

TFX's own executor for containers, which only some of its runners have, mounts no folder, so a container sees none of
the artifacts of a local root.
"""

import json
import logging
import os
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fullpass.base.errors import UserError
from fullpass.components.beam_component import Artifacts
from fullpass.components.internals.tfx_internals import (
    ValueArtifact,
    base_component,
    base_executor,
    executor_spec,
    placeholder_pb2,
)

ENGINES = ("docker", "podman")
"""Programs that run containers, the first that works."""
_MOST_LINES = 20
"""Lines of the end of a container's output that its error shows."""

Part = str | tuple[str, str]
"""A part of an argument: a text, or what stands for it: `input`, `output` or `value`, and its name."""
Container = tuple[str, Sequence[Sequence[Part]]]
"""An image, and the arguments of its container, each in parts."""
_Type = placeholder_pb2.Placeholder
_ARTIFACTS = {_Type.INPUT_ARTIFACT: "input", _Type.OUTPUT_ARTIFACT: "output"}


def container_of(node: base_component.BaseComponent) -> Container | None:
    """Returns the container of a container component; None for another node.

    Raises:
        UserError: An argument has a placeholder other than the URI of an artifact or a value.
    """
    spec = node.executor_spec
    if isinstance(spec, executor_spec.ExecutorClassSpec) and spec.class_path == _CLASS:
        image, command = json.loads(spec.extra_flags[0])
        return image, [[part if isinstance(part, str) else tuple(part) for part in parts] for parts in command]
    if not hasattr(spec, "image"):
        return None
    encoded = spec.encode(node.spec)
    if not encoded.commands:
        raise UserError(f"{node.id}: its command is empty. Give a program of its image, and arguments.")
    try:
        return encoded.image, [_parts(one) for one in (*encoded.commands, *encoded.args)]
    except _NotKnownError as error:
        raise UserError(
            f"{node.id}: an argument of its command has {error}. Accepted: texts, the URI of an input or output, and "
            "the value of a parameter or of an input such as a String."
        ) from error


class _NotKnownError(ValueError):
    """A placeholder that only TFX's own executors resolve."""


def _parts(expression: Any) -> list[Part]:
    """Returns the parts of an argument from the form in which TFX compiles it."""
    if expression.HasField("value"):
        return [expression.value.string_value]
    kind = expression.operator.WhichOneof("operator_type")
    if kind == "concat_op":
        return [part for one in expression.operator.concat_op.expressions for part in _parts(one)]
    found = expression.operator.artifact_uri_op.expression if kind == "artifact_uri_op" else expression
    found = found.operator.artifact_value_op.expression if kind == "artifact_value_op" else found
    found = found.operator.index_op.expression if found.operator.HasField("index_op") else found
    if not found.HasField("placeholder") or kind not in ("artifact_uri_op", "artifact_value_op", "index_op", None):
        raise _NotKnownError(kind or "an unknown placeholder")
    if kind == "artifact_uri_op":
        return [(_ARTIFACTS[found.placeholder.type], found.placeholder.key)]
    return [("value", found.placeholder.key)]


def fill(command: Sequence[Sequence[Part]], ways: Mapping[str, Callable[[str], str]]) -> list[str]:
    """Returns the arguments of a container. ways: `input`, `output` and `value` -> the text for a name.

    Example:
        >>> fill([["--to=", ("output", "table")]], {"output": "/artifacts/{}".format})
        ['--to=/artifacts/table']
    """
    return ["".join(part if isinstance(part, str) else ways[part[0]](part[1]) for part in parts) for parts in command]


class ContainerExecutor(base_executor.BaseExecutor):
    """Runs a container with the folders of its artifacts under their own paths."""

    def __init__(self, context: base_executor.BaseExecutor.Context) -> None:
        super().__init__(context)
        self._container: Container = json.loads(context.extra_flags[0])

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:
        image, command = self._container

        def value(name: str) -> str:
            return str(input_dict[name][0].value if name in input_dict else exec_properties[name])

        ways = {"input": lambda name: input_dict[name][0].uri, "output": lambda name: output_dict[name][0].uri}
        arguments = fill(command, {**ways, "value": value})
        mounts = [*_mounts(input_dict, ":ro"), *_mounts(output_dict, "")]
        run_container(image, arguments, mounts)


_CLASS = f"{ContainerExecutor.__module__}.{ContainerExecutor.__qualname__}"


def run_by_fullpass(node: base_component.BaseComponent, image: str, command: Sequence[Sequence[Part]]) -> None:
    """Gives a container component the executor above, with which any runner of TFX runs it."""
    node.executor_spec = executor_spec.ExecutorClassSpec(ContainerExecutor)
    node.executor_spec.add_extra_flags([json.dumps([image, command])])


def _mounts(artifacts: Artifacts, mode: str) -> list[str]:
    """Returns the volumes with the files of local artifacts: a value is a file, and other artifacts are folders."""
    found = (one for listed in artifacts.values() for one in listed if "://" not in one.uri)
    folders = (os.path.dirname(one.uri) if isinstance(one, ValueArtifact) else one.uri for one in found)
    return [f"{folder}:{folder}{mode}" for folder in folders]


def run_container(image: str, arguments: Sequence[str], mounts: Sequence[str]) -> None:
    """Runs a container to its end, and logs its output.

    Args:
        mounts: FOLDER:FOLDER, with the suffix `:ro` if the container must not write there.

    Raises:
        UserError: No engine runs containers here, or the container ended with an error.
    """
    engine = find_engine(f"A container of {image}")
    # Files that it writes belong to the user of this process, whom podman maps to the root of the container otherwise.
    user = ["--user", f"{os.getuid()}:{os.getgid()}", *(["--userns=keep-id"] if engine == "podman" else [])]
    volumes = [f"--volume={mount}" for mount in mounts]
    given = [engine, "run", "--rm", *user, *volumes, "--entrypoint", arguments[0], image, *arguments[1:]]
    last = deque[str](maxlen=_MOST_LINES)
    with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as run:
        for line in run.stdout or ():
            logging.info("%s", line.rstrip())
            last.append(line.rstrip())
    if run.returncode:
        ended = "\n  ".join([f"the container of {image} ended with exit code {run.returncode}.", *last])
        raise UserError(ended)


def check_engine(node_id: str, spec: Any) -> None:
    """Checks that this machine runs the container of a node, if its executor, as compiled by TFX, is that above.

    Raises:
        UserError: It does not.
    """
    if getattr(spec, "class_path", "") == _CLASS:
        find_engine(f"{node_id}: its image {json.loads(spec.extra_flags[0])[0]}")


def find_engine(what: str) -> str:
    """Returns the program that runs containers on this machine. what: what needs it, for the error.

    Raises:
        UserError: None does.
    """
    found = [program for program in ENGINES if shutil.which(program)]
    answers = {program: subprocess.run([program, "info"], capture_output=True, text=True) for program in found}
    for program, answer in answers.items():
        if answer.returncode == 0:
            return program
    said = [f"{program} info: {_last_line(answer.stderr)}" for program, answer in answers.items()]
    raise UserError(
        f"{what} needs {' or '.join(ENGINES)}, and none runs containers on this machine "
        f"({'; '.join(said) or 'neither is installed'}). Install or start one, or end the run before it with --to."
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["failed"])[-1].rstrip(".")
