"""What the container of a node runs: the node's TFX executor, between two messages of Kubeflow's launcher.

`python -m kubeflow.entrypoint --plan JSON --executor-input '{{$}}' --input NAME=PATH --output NAME=PATH`
"""

import argparse
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kubeflow import termination
from kubeflow.executor_input import Copy, ExecutorInput, name_values, parse, write_absent, write_output
from kubeflow.imports import libraries_for
from kubeflow.parts import Json
from pipeline.environment import set_environment
from preprocessing.errors import UserError

_CASTS = {"str": str, "int": int, "float": float, "bool": bool}


def main(then: Callable[[ExecutorInput], None] | None = None) -> None:
    """Runs one node; the process ends here.

    Args:
        then: called at the end, with what the launcher said.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="kubeflow.entrypoint", description=__doc__)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--executor-input", required=True)
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--output", action="append", default=[])
    arguments = parser.parse_args()
    # Executors of TFX take what follows the program's name for flags of their own.
    sys.argv = sys.argv[:1]
    plan = json.loads(arguments.plan)

    def work() -> None:
        told = parse(arguments.executor_input, name_values(arguments.input), name_values(arguments.output))
        run_node(plan, told)
        if then is not None:
            then(told)

    def note(error: BaseException) -> None:
        from kubeflow.outcomes import note_failure

        note_failure(os.environ, arguments.executor_input, plan["node"], error)

    termination.run_to_end(plan["node"], work, note)


def run_node(plan: Json, told: ExecutorInput) -> None:
    """Runs the executor of a node and writes what came of it.

    Args:
        plan: what the compiler knew: executor, types, Beam, where the user's modules lie.
        told: what the launcher said.

    Raises:
        UserError: An input has no files, or an output was declared and not written.
    """
    set_environment()
    direct = plan["artifacts"] == "direct"
    with libraries_for(plan["executor"], direct=direct):
        executor_class = _import_executor(plan["executor"], plan["folder"])
    from kubeflow.artifacts import to_tfx
    from kubeflow.facts import tell_node

    _forget_times(told)
    inputs = {name: copy for name, copy in told.inputs.items() if not copy.is_absent}
    if not direct:
        _check_inputs(inputs)
        for copy in told.outputs.values():
            copy.path.mkdir(parents=True, exist_ok=True)
    input_dict = {
        name: [to_tfx(inputs[part], plan["inputs"][name], direct=direct) for part in joined if part in inputs]
        for name, joined in plan["joined"].items()
        if any(part in inputs for part in joined)
    }
    output_dict = {name: [to_tfx(copy, plan["outputs"][name], direct=direct)] for name, copy in told.outputs.items()}
    properties = _properties(plan["parameters"], told.parameters)
    with tempfile.TemporaryDirectory() as scratch:
        tell_node(os.environ, told, Path(scratch))
        temporary = f"{os.path.dirname(next(iter(told.outputs.values())).uri)}/.temp" if direct else scratch
        _executor(executor_class, plan, _data_bytes(told, plan), temporary).Do(input_dict, output_dict, properties)
    copies = [*inputs.values(), *told.outputs.values()]
    described = {
        name: (told.outputs[name], _described(told.outputs[name], artifacts, copies, direct=direct))
        for name, artifacts in output_dict.items()
    }
    write_output(told.output_file, described, {})


def _import_executor(class_path: str, folder: str) -> Any:
    """Returns the class of an executor, and lets Python find the user's modules from now on."""
    if Path(folder).is_dir():
        # Beam's and Keras's own processes find the user's modules there too.
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    from tfx.utils import import_utils

    return import_utils.import_class_by_path(class_path)


def _forget_times(told: ExecutorInput) -> None:
    """Gives local copies of inputs one time of change: they are copied anew for every attempt at a task, and a training
    that goes on where an earlier attempt ended knows its data by name, size and time."""
    for copy in told.inputs.values():
        for file in copy.path.rglob("*"):
            if file.is_file():
                os.utime(file, (0, 0))


def _properties(types: Mapping[str, str], values: Json) -> dict[str, Any]:
    """Returns the parameters of the executor; numbers come as floats, and a truth value may come as 1 or 0."""
    return {name: _CASTS[kind](values[name]) for name, kind in types.items() if name in values}


def _executor(executor_class: Any, plan: Json, data_bytes: int, temporary: str) -> Any:
    from tfx.dsl.components.base import base_executor

    if not plan["beam"]:
        context = base_executor.BaseExecutor.Context(tmp_dir=temporary, unique_id="node")
        return executor_class(context)
    from tfx.dsl.components.base import base_beam_executor

    from pipeline.beam_args import beam_args
    from pipeline.config import BeamConfig

    args = beam_args(BeamConfig.model_validate(plan["beam"]), data_bytes=data_bytes)
    return executor_class(
        base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=args, tmp_dir=temporary, unique_id="node")
    )


def _data_bytes(told: ExecutorInput, plan: Json) -> int:
    """Returns how much data the node reads: the files of its inputs, or those that Ingest was asked to read."""
    request = told.parameters.get("request")
    if not told.inputs and isinstance(request, str):
        return sum(file["size"] for span in json.loads(request).get("spans", ()) for file in span["files"])
    files = (file for copy in told.inputs.values() for file in copy.path.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files)


def _has_files(path: Path) -> bool:
    return path.is_file() or any(file.is_file() for file in path.rglob("*"))


def _check_inputs(inputs: Mapping[str, Any]) -> None:
    for name, copy in inputs.items():
        if not _has_files(copy.path) and not copy.metadata:
            raise UserError(
                f"input {name!r}: {copy.uri} holds no files. They were deleted since they were written, or the run may "
                "not read them."
            )


def _described(copy: Copy, artifacts: Sequence[Any], copies: Sequence[Copy], *, direct: bool) -> Json:
    """Returns what is known of an output; where the executor made none of it, the output stands for nothing."""
    from kubeflow.artifacts import metadata_of

    if not artifacts:
        write_absent(copy)
        return {}
    metadata = metadata_of(artifacts[0], copies)
    if not direct and not metadata and not _has_files(copy.path):
        name = copy.uri.rsplit("/", 1)[-1]
        raise UserError(f"output {name!r}: the executor neither wrote a file under {copy.path} nor described it.")
    return metadata


if __name__ == "__main__":
    main()
