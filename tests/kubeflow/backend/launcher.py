"""Runs one container: copies artifacts in, runs the unchanged command, reads its output file, copies artifacts out."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from tests import warm_process
from tests.kubeflow.backend.store import ObjectStore

Process = subprocess.Popen | warm_process.Process
_SCHEMES = {"gs://": "gcs/", "minio://": "minio/", "s3://": "s3/"}
_PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"


class TaskFailed(Exception):
    """A task failed; the message names the task and the cause."""

    def __init__(self, task: str, cause: str) -> None:
        self.task, self.cause = task, cause
        super().__init__(f"task {task!r}: {cause}")


@dataclass(frozen=True)
class Pod:
    """One attempt of a task.

    folder: its private file system. fresh: whether its Python is a new interpreter. first: a folder of modules that
    comes first on the import path of its image, "" for none. started: called with the process once it runs.
    """

    task: str
    folder: Path
    container: Mapping[str, Any]
    secrets: Mapping[str, str]
    timeout: float
    fresh: bool
    first: str
    started: Callable[[Process], None]

    def local(self, uri: str) -> Path:
        """v2/component/launcher_v2.go:882 LocalPathForURI, below the pod's own root.

        A path replaces an address that nodes open themselves (tests/live/flink.py); it is its own local copy.
        """
        if uri.startswith("/"):
            return Path(uri)
        for scheme, folder in _SCHEMES.items():
            if uri.startswith(scheme):
                return self.folder / folder / uri.removeprefix(scheme)
        raise TaskFailed(self.task, f"failed to generate local path for URI {uri}: unsupported storage scheme")


def launch(
    pod: Pod, message: dict[str, Any], component: dict[str, Any], store: ObjectStore, root: str, *, newest: bool
):
    """Runs one attempt; returns the output parameters and, per output artifact, the executor's metadata.

    newest: Whether to follow the conventions of 2.17 instead of those of 2.5.
    """
    for listed in message["inputs"]["artifacts"].values():
        uri = listed["artifacts"][0]["uri"]
        store.download(uri, pod.local(uri), whole_names=newest)
    for listed in message["outputs"]["artifacts"].values():  # launcher_v2.go:898 prepareOutputFolders
        pod.local(listed["artifacts"][0]["uri"]).parent.mkdir(parents=True, exist_ok=True)
    _run(pod, message)
    answer = _answer(pod, Path(message["outputs"]["outputFile"]))
    parameters = _output_parameters(pod.task, answer, message, component)
    artifacts = {}
    for name, listed in message["outputs"]["artifacts"].items():
        if name == "executor-logs":
            continue
        artifact = listed["artifacts"][0]
        reported = answer.get("artifacts", {}).get(name, {}).get("artifacts", [{}])[0]
        uri = reported.get("uri") or artifact["uri"]
        if not uri.startswith(root):  # objectstore/config.go:86 KeyFromURI
            raise TaskFailed(
                pod.task, f"output artifact {name!r}: URI {uri!r} does not have expected bucket prefix {root!r}"
            )
        store.upload(pod.local(uri), uri)
        artifacts[name] = (uri, reported.get("metadata", {}))
    return parameters, artifacts


def _run(pod: Pod, message: dict[str, Any]) -> None:
    command = [*pod.container["command"], *pod.container.get("args", [])]
    for placeholder, value in _placeholders(pod, message).items():
        command = [argument.replace(placeholder, value) for argument in command]
    command[0] = sys.executable if command[0] == "python" else command[0]
    temporary, end = pod.folder / "tmp", pod.folder / "termination-log"
    temporary.mkdir(exist_ok=True)
    end.touch()
    environment = {
        "PATH": _PATH,
        "HOME": str(pod.folder),
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join(filter(None, [pod.first, os.environ.get("PYTHONPATH", "")])),
        "FULLPASS_TERMINATION_LOG": str(end),
        "CUDA_VISIBLE_DEVICES": "-1",
        **{entry["name"]: entry["value"] for entry in pod.container.get("env", [])},
        **pod.secrets,
    }
    with open(pod.folder / "log", "w") as log:
        # Small test programs import little, so a new interpreter starts as fast as a fork.
        is_fork = "-m" in command[1:3] and not pod.fresh
        starts = warm_process.Process if is_fork else subprocess.Popen
        process = starts(command, cwd=pod.folder, env=environment, stdout=log, stderr=log)
        pod.started(process)
        try:
            code = process.wait(timeout=pod.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TaskFailed(pod.task, f"did not end within {pod.timeout} s") from None
    if code:
        cause = end.read_text() or (pod.folder / "log").read_text()[-2000:]
        raise TaskFailed(pod.task, f"exit status {code}: {cause}")


def _placeholders(pod: Pod, message: dict[str, Any]) -> dict[str, str]:
    """launcher_v2.go:736 getPlaceholders."""
    found = {"{{$}}": json.dumps(message)}
    for side in ("inputs", "outputs"):
        for name, listed in message[side]["artifacts"].items():
            uri = listed["artifacts"][0]["uri"]
            found[f"{{{{$.{side}.artifacts['{name}'].uri}}}}"] = uri
            found[f"{{{{$.{side}.artifacts['{name}'].path}}}}"] = str(pod.local(uri))
    for name, value in message["inputs"]["parameterValues"].items():
        found[f"{{{{$.inputs.parameters['{name}']}}}}"] = value if isinstance(value, str) else json.dumps(value)
    for name, output in message["outputs"]["parameters"].items():
        found[f"{{{{$.outputs.parameters['{name}'].output_file}}}}"] = output["outputFile"]
    return found


def _answer(pod: Pod, file: Path) -> dict[str, Any]:
    """launcher_v2.go:851 getExecutorOutputFile: strict parsing, unknown fields are errors; no file means no outputs."""
    if not file.exists():
        return {}
    try:
        parsed = json_format.Parse(file.read_text(), pipeline_spec_pb2.ExecutorOutput())
    except json_format.ParseError as error:
        raise TaskFailed(pod.task, f"failed to unmarshall ExecutorOutput in file {file}: {error}") from error
    return json_format.MessageToDict(parsed)


def _output_parameters(task: str, answer: dict, message: dict, component: dict) -> dict[str, Any]:
    """launcher_v2.go:416 collectOutputParameters: from the executor output file, else from the parameter's own file."""
    values = dict(answer.get("parameterValues", {}))
    for name, output in message["outputs"]["parameters"].items():
        if name in values:
            continue
        file = Path(output["outputFile"])
        if not file.exists():
            raise TaskFailed(task, f"failed to read output parameter {name!r}: no such file {file}")
        kind = component["outputDefinitions"]["parameters"][name]["parameterType"]
        values[name] = file.read_text() if kind == "STRING" else json.loads(file.read_text())
    return values
