"""Entry point of the container of a node: runs the TFX executor between the launcher's input and output messages.

`python -m fullpass.kubeflow.runtime.entrypoint --plan JSON --executor-input '{{$}}' --input NAME=PATH --output
NAME=PATH`
"""

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.base.redact import redact_streams
from fullpass.base.user_modules import use_modules_of
from fullpass.kubeflow.compile.parts import Json
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.executor_imports import libraries_for
from fullpass.kubeflow.runtime.executor_input import (
    ArtifactCopy,
    ExecutorInput,
    add_arguments,
    from_arguments,
    write_absent,
    write_output,
)
from fullpass.pipeline.process_environment import set_environment

_CASTS = {"str": str, "int": int, "float": float, "bool": bool}


def main(on_success: Callable[[ExecutorInput], None] | None = None) -> None:
    """Runs one node, then exits the process.

    Args:
        on_success: called with the launcher's input after the node succeeded.
    """
    redact_streams()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="fullpass.kubeflow.runtime.entrypoint", description=__doc__)
    parser.add_argument("--plan", required=True)
    add_arguments(parser)
    arguments = parser.parse_args()
    # TFX executors would parse the remaining arguments as their own flags.
    sys.argv = sys.argv[:1]
    plan = json.loads(arguments.plan)

    def work() -> None:
        task = from_arguments(arguments)
        run_node(plan, task)
        if on_success is not None:
            on_success(task)

    def record_error(error: BaseException) -> None:
        from fullpass.kubeflow.runtime.pod_outcomes import record_failure

        record_failure(os.environ, arguments.executor_input, plan["node"], error)

    termination.run_to_end(plan["node"], work, record_error)


def run_node(plan: Json, task: ExecutorInput) -> None:
    """Runs the executor of a node and writes the output message.

    Args:
        plan: from the compiler: executor, types, Beam options, folder of the user-defined modules.
        task: the launcher's input.

    Raises:
        UserError: An input has no files, or a declared output was not written.
    """
    set_environment()
    direct = plan["artifacts"] == "direct"
    with libraries_for(plan["executor"], direct=direct):
        executor_class = _import_executor(plan["executor"], plan["folder"])
    from fullpass.kubeflow.runtime.pod_provenance import provide_run_facts

    _reset_file_times(task.inputs.values())
    inputs = {name: [copy] for name, copy in task.inputs.items() if not copy.is_absent}
    if not direct:
        _check_inputs(inputs)
        for copy in task.outputs.values():
            copy.path.mkdir(parents=True, exist_ok=True)
    for name in plan["windows"]:
        inputs[name] = _spans_of(inputs[name][0], direct=direct)
    copies = [copy for listed in inputs.values() for copy in listed]
    properties = _properties(plan["parameters"], task.parameters)
    if plan["ingest"]:
        properties["request"] = _request(plan["ingest"], task)
    with tempfile.TemporaryDirectory() as scratch:
        provide_run_facts(os.environ, task, Path(scratch))
        temporary = f"{os.path.dirname(next(iter(task.outputs.values())).uri)}/.temp" if direct else scratch
        executor = _executor(executor_class, plan, _data_bytes(copies, properties), temporary)
        work = _ingest_window if plan["ingest"] and "entries" in plan["ingest"] else _do
        outputs = work(executor, plan, task, inputs, properties)
    write_output(task.output_file, outputs, {})


Copies = Mapping[str, Sequence[ArtifactCopy]]
Described = dict[str, tuple[ArtifactCopy, Json]]


def _do(executor: Any, plan: Json, task: ExecutorInput, inputs: Copies, properties: dict[str, Any]) -> Described:
    """Runs an executor and returns the outputs with their metadata."""
    from fullpass.kubeflow.runtime.artifact_messages import to_tfx

    direct = plan["artifacts"] == "direct"
    input_dict = {
        name: [to_tfx(copy, plan["inputs"][name], direct=direct) for copy in copies] for name, copies in inputs.items()
    }
    output_dict = {name: [to_tfx(copy, plan["outputs"][name], direct=direct)] for name, copy in task.outputs.items()}
    executor.Do(input_dict, output_dict, properties)
    copies = [*(copy for listed in inputs.values() for copy in listed), *task.outputs.values()]
    return {
        name: (task.outputs[name], _describe_output(task.outputs[name], artifacts, copies, direct=direct))
        for name, artifacts in output_dict.items()
    }


def _spans_of(window: ArtifactCopy, *, direct: bool) -> list[ArtifactCopy]:
    from fullpass.kubeflow.runtime.span_store import open_window

    copies = open_window(window, direct=direct)
    _reset_file_times(copy for copy in copies if is_address(copy.uri))
    return copies


def _request(where: Json, task: ExecutorInput) -> str:
    """Returns the request to Ingest, which the look-up of the run stored in the registry."""
    from fullpass.kubeflow.runtime.registry_store import FolderRegistry

    name = json.loads(task.parameters["request"])["name"]
    return FolderRegistry(where["registry"]).request(where["pipeline"], name)


def _ingest_window(
    executor: Any, plan: Json, task: ExecutorInput, inputs: Copies, properties: dict[str, Any]
) -> Described:
    """Ingests the spans of a window that the store lacks; returns the artifact that names all spans of the window."""
    from fullpass.components.ingest.spans.ingest_request import Request, read_request
    from fullpass.kubeflow.runtime.artifact_messages import metadata_of, to_tfx
    from fullpass.kubeflow.runtime.span_store import SpanStore, ingest_window, write_window

    where, [(name, output)] = plan["ingest"], task.outputs.items()

    def ingest(request: Request, folder: str) -> list[tuple[str, Json]]:
        output_dict = {name: [to_tfx(ArtifactCopy(folder, Path(folder), {}, ""), plan["outputs"][name], direct=True)]}
        executor.Do({}, output_dict, {"request": request.to_json()})
        return [(artifact.uri, metadata_of(artifact, ())) for artifact in output_dict[name]]

    store = SpanStore(where["entries"])
    window = ingest_window(
        read_request(properties["request"]), store, where["records"], ingest, reingest_all=where["anew"]
    )
    return {name: (output, write_window(window, output.path))}


def _import_executor(class_path: str, folder: str) -> Any:
    """Adds the user-defined modules to the import path and returns the class of an executor."""
    if Path(folder).is_dir():
        use_modules_of(Path(folder))
    from tfx.utils import import_utils

    return import_utils.import_class_by_path(class_path)


def _reset_file_times(copies: Iterable[ArtifactCopy]) -> None:
    """Sets the modification time of all inputs to zero: each attempt copies them again, and a resumed training
    identifies its data by name, size and time."""
    for copy in copies:
        for file in copy.path.rglob("*"):
            if file.is_file():
                os.utime(file, (0, 0))


def _properties(types: Mapping[str, str], values: Json) -> dict[str, Any]:
    """Returns the executor's parameters with their types; in JSON, integers are floats and booleans are 1 or 0."""
    return {name: _CASTS[kind](values[name]) for name, kind in types.items() if name in values}


def _executor(executor_class: Any, plan: Json, data_bytes: int, temporary: str) -> Any:
    from tfx.dsl.components.base import base_executor

    if not plan["beam"]:
        context = base_executor.BaseExecutor.Context(tmp_dir=temporary, unique_id="node")
        return executor_class(context)
    from tfx.dsl.components.base import base_beam_executor

    from fullpass.pipeline.config import BeamConfig
    from fullpass.pipeline.running.beam_args import beam_args

    args = beam_args(BeamConfig.model_validate(plan["beam"]), data_bytes=data_bytes)
    return executor_class(
        base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=args, tmp_dir=temporary, unique_id="node")
    )


def _data_bytes(copies: Sequence[ArtifactCopy], properties: Mapping[str, Any]) -> int:
    """Returns the input size of the node in bytes: its inputs, or for Ingest the files of its request."""
    request = properties.get("request")
    if not copies and isinstance(request, str):
        return sum(file["size"] for span in json.loads(request).get("spans", ()) for file in span["files"])
    files = (file for copy in copies for file in copy.path.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files)


def _has_files(path: Path) -> bool:
    return path.is_file() or any(file.is_file() for file in path.rglob("*"))


def _check_inputs(inputs: Copies) -> None:
    for name, [copy] in inputs.items():
        if not _has_files(copy.path) and not copy.metadata:
            raise UserError(
                f"input {name!r}: {copy.uri} contains no files. They were deleted, or the run has no permission to "
                "read them."
            )


def _describe_output(
    copy: ArtifactCopy, artifacts: Sequence[Any], copies: Sequence[ArtifactCopy], *, direct: bool
) -> Json:
    """Returns the metadata of an output; marks the output as absent if the executor removed it."""
    from fullpass.kubeflow.runtime.artifact_messages import metadata_of

    if not artifacts:
        write_absent(copy)
        return {}
    metadata = metadata_of(artifacts[0], copies)
    if not direct and not metadata and not _has_files(copy.path):
        name = copy.uri.rsplit("/", 1)[-1]
        raise UserError(f"output {name!r}: the executor neither wrote a file under {copy.path} nor set its metadata.")
    return metadata


if __name__ == "__main__":
    main()
