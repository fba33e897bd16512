"""Entry point of the container of nodes: runs their TFX executors between the launcher's input and output messages.

`python -m fullpass.kubeflow.runtime.entrypoint --plan JSON --executor-input '{{$}}' --input NAME=PATH --output
NAME=PATH`
"""

import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fullpass.base.errors import UserError
from fullpass.base.files import is_address
from fullpass.base.processes import limit_arenas
from fullpass.base.user_modules import import_class, use_modules_of
from fullpass.components.library_versions import is_same, line
from fullpass.kubeflow.kfp_internals import run_id
from fullpass.kubeflow.protocol import FACTS_VARIABLE, WITHOUT_TENSORFLOW, Json, unpack
from fullpass.kubeflow.runtime import termination
from fullpass.kubeflow.runtime.executor_input import (
    ArtifactCopy,
    ExecutorInput,
    clear_addresses,
    container_arguments,
    from_arguments,
    write_absent,
    write_output,
)
from fullpass.pipeline.startup import blocked_imports, import_frameworks, set_environment

COMMIT_VARIABLE = "FULLPASS_COMMIT"
"""Environment variable: commit of the files in the image under `folder`, which have no Git history there."""
INDEX = "JOB_COMPLETION_INDEX"
"""Environment variable: the index of a pod of several that run one node (set by Kubernetes)."""
_CASTS: dict[str, Callable[[Any], Any]] = {
    "str": str, "int": int, "float": float, "bool": bool, "list": json.loads, "dict": json.loads,
}  # fmt: skip

Inputs = Mapping[str, Sequence[ArtifactCopy]]
Described = dict[str, tuple[ArtifactCopy, Json]]
"""Outputs with their metadata."""


def main(on_success: Callable[[ExecutorInput], None] = lambda _: None, *, reconnect: bool = True) -> None:
    """Runs the nodes of a task, then exits the process.

    Args:
        on_success: Called with the launcher's input after the nodes succeeded.
        reconnect: Whether to start again after a lost connection.
    """
    arguments = container_arguments("fullpass.kubeflow.runtime.entrypoint", __doc__, plan=None)
    # TFX executors would parse the remaining arguments as their own flags.
    sys.argv = sys.argv[:1]
    plan = json.loads(arguments.plan)
    begun = [plan["nodes"][0]["node"]]

    def work() -> None:
        limit_arenas()
        task = from_arguments(arguments)
        run_nodes(plan, task, begun.append)
        on_success(task)

    def record_error(error: BaseException) -> None:
        from fullpass.kubeflow.runtime.outcomes import record_failure

        record_failure(os.environ, arguments.executor_input, begun[-1], error)

    termination.run_to_end(lambda: begun[-1], work, record_error, reconnect=reconnect)


def run_nodes(plan: Json, task: ExecutorInput, begin: Callable[[str], None] = lambda _: None) -> None:
    """Runs the nodes of a task one after the other, and writes the output message.

    Args:
        plan: From the compiler: its line of TFX, folder of the user-defined modules, and of each node executor, types,
            names of its inputs and outputs in the task, Beam options.
        begin: Called with the name of each node before it runs.

    Raises:
        UserError: The image is of another line than the package, an input has no files, or a declared output was not
            written.
    """
    check_line(plan["line"])
    set_environment()
    direct, nodes = plan["artifacts"] == "direct", plan["nodes"]
    made: Described = {}
    with tempfile.TemporaryDirectory() as scratch:
        with libraries_for([one["executor"] for one in nodes], direct=direct):
            executors = [import_executor(one["executor"], plan["folder"]) for one in nodes]
        provide_run_facts(os.environ, task, Path(scratch))
        temporary = f"{os.path.dirname(next(iter(task.outputs.values())).uri)}/.temp" if direct else scratch
        for number, (one, executor) in enumerate(zip(nodes, executors, strict=True), 1):
            begin(one["node"])
            if len(nodes) > 1:
                logging.info("==== %s, node %d of %d of this task ====", one["node"], number, len(nodes))
            part = input_of_node(one, task, made)
            found = _Node(one, part, direct).run(executor, f"{temporary}/{one['node']}")
            made |= {f"{one['prefix']}{name}": described for name, described in found.items()}
    write_output(task.output_file, made, {})


def input_of_node(plan: Json, task: ExecutorInput, made: Described) -> ExecutorInput:
    """Returns the part of a task's input that is for one node, under the node's own names.

    Args:
        made: What earlier nodes of the task have made, by its name in the task.
    """
    copies = {**task.inputs, **{name: replace(copy, metadata=metadata) for name, (copy, metadata) in made.items()}}
    prefix = plan["prefix"]

    def own(named: Mapping[str, Any]) -> Json:
        return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}

    return replace(
        task,
        parameters=own(task.parameters),
        inputs={name: copies[read] for name, read in plan["reads"].items() if read in copies},
        outputs=own(task.outputs),
    )


def check_line(compiled: str) -> None:
    """Checks that the image of this container is of the line of TFX of which the package is.

    One line for all containers of a package: a graph that one TensorFlow saved need not load in an older one.

    Raises:
        UserError: It is of another line.
    """
    if not is_same(compiled, line()):
        raise UserError(
            f"the package was compiled with {compiled}, and the image of this container has {line()}. All containers "
            "of a package need one line of TFX. Set `image` to an image of the package's line, or compile the package "
            "with the image's line, such as in a container of the image."
        )


@contextmanager
def libraries_for(executors: Collection[str], *, direct: bool) -> Iterator[None]:
    """Imports the libraries that executors need, or hides them from TFX while the executors are imported.

    Imports take most of a task's start-up time. TFX itself works without TensorFlow and Beam if they are not installed.

    Args:
        executors: Package.module.Class of each.
        direct: Whether artifacts are opened in the object store, for which TFX uses TensorFlow.
    """
    if WITHOUT_TENSORFLOW.issuperset(executors) and not direct:
        with blocked_imports("tensorflow", "apache_beam"):
            yield
        return
    try:
        import_frameworks()
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise UserError(
            "this node needs TensorFlow, which its image lacks; images of the variant small have none. Set "
            "`image`, or `nodes.NAME.image`, to an image of the variant cpu or gpu."
        ) from error
    yield


def import_executor(class_path: str, folder: str) -> Any:
    """Adds the user-defined modules to the import path and returns the class of an executor."""
    if Path(folder).is_dir():
        use_modules_of(Path(folder))
    if class_path not in WITHOUT_TENSORFLOW:
        from fullpass.preprocessing.internals.tfx_bsl_internals import let_bulk_inferrer_take_texts

        let_bulk_inferrer_take_texts(class_path)
    return import_class(class_path)


def provide_run_facts(variables: Mapping[str, str], task: ExecutorInput, folder: Path) -> None:
    """Provides the provenance of the run to the node in this process, if its container has it.

    `pipeline/record/provenance.py` does the same on one machine. The facts about the code are read here.
    """
    text = variables.get(FACTS_VARIABLE)
    if text is None:
        return
    # Imported late: containers without these facts do not need the classes of the whole config.
    from fullpass.pipeline.record.facts import RunFacts
    from fullpass.pipeline.record.provenance import code_facts, tell_nodes

    facts = unpack(text)
    code = code_facts(facts["functions"], variables.get(COMMIT_VARIABLE))
    run = run_id((output.uri for output in task.outputs.values()), facts["pipeline"])
    tell_nodes(RunFacts(run_id=run or "", config=facts["config"], code=code), folder / "run.json")


@dataclass(frozen=True)
class _Node:
    """One node, its launcher's input, and whether it opens artifacts in the object store (`direct`)."""

    plan: Json
    task: ExecutorInput
    direct: bool

    def run(self, executor_class: Any, temporary: str) -> Described:
        """Runs the executor; returns all outputs of the node. temporary: a folder of its own."""
        inputs = self.open_inputs()
        types, given = self.plan["parameters"], self.task.parameters
        properties = {name: _CASTS[kind](given[name]) for name, kind in types.items() if name in given}
        if "ingest" in self.plan:
            properties["request"] = self.request()
        executor = _executor(executor_class, self.plan["beam"], _data_bytes(inputs, properties), temporary)
        if "entries" in self.plan.get("ingest", {}):
            return self.ingest_window(executor, properties)
        outputs = self.do(executor, inputs, properties)
        outputs |= self.make_pages(outputs)
        self.record(outputs)
        return outputs

    @property
    def outputs(self) -> Mapping[str, ArtifactCopy]:
        """The outputs of the executor, without those that the node has on Kubeflow only."""
        return {name: copy for name, copy in self.task.outputs.items() if name in self.plan["outputs"]}

    def open_inputs(self) -> Inputs:
        """Returns the inputs that are not absent, and makes the folders of the outputs."""
        from fullpass.kubeflow.runtime.artifact_messages import is_value_type

        inputs = {name: [copy] for name, copy in self.task.inputs.items() if not copy.is_absent}
        if not self.direct:
            _reset_file_times(self.task.inputs.values())
            for name, [copy] in inputs.items():
                if not _has_files(copy.path) and not copy.metadata:
                    raise UserError(
                        f"input {name!r}: {copy.uri} contains no files. They were deleted, or the run has no "
                        "permission to read them."
                    )
            for name, copy in self.outputs.items():
                # An earlier attempt in this container may have left a part of its output.
                shutil.rmtree(copy.path, ignore_errors=True)
                is_file = is_value_type(self.plan["outputs"][name])
                (copy.path.parent if is_file else copy.path).mkdir(parents=True, exist_ok=is_file)
        elif INDEX not in os.environ:  # before several workers start, their launcher does it
            clear_addresses(self.outputs.values())
        for name in self.plan["windows"]:
            inputs[name] = self._open_spans(inputs[name][0])
        return inputs

    def request(self) -> str:
        """Returns the request to Ingest, which the look-up of the run stored in the registry."""
        from fullpass.kubeflow.runtime.registry import FolderRegistry

        where, name = self.plan["ingest"], json.loads(self.task.parameters["request"])["name"]
        return FolderRegistry(where["registry"]).request(where["pipeline"], name)

    def do(self, executor: Any, inputs: Inputs, properties: dict[str, Any]) -> Described:
        """Runs an executor and returns its outputs."""
        from fullpass.kubeflow.runtime.artifact_messages import read_values, to_tfx

        types, outputs = self.plan["inputs"], self.outputs
        input_dict = {
            name: [to_tfx(copy, types[name], direct=self.direct) for copy in copies] for name, copies in inputs.items()
        }
        output_dict = {
            name: [to_tfx(copy, self.plan["outputs"][name], direct=self.direct)] for name, copy in outputs.items()
        }
        read_values(artifact for artifacts in input_dict.values() for artifact in artifacts)
        executor.Do(input_dict, output_dict, properties)
        copies = [*(copy for listed in inputs.values() for copy in listed), *outputs.values()]
        return {
            name: (outputs[name], self._metadata(outputs[name], artifacts, copies))
            for name, artifacts in output_dict.items()
        }

    def make_pages(self, made: Described) -> Described:
        """Makes the outputs that a node has on Kubeflow only, from its own."""
        if self.task.outputs.keys() == self.outputs.keys():
            return {}
        # Imported late: other nodes do not read evaluations.
        from tfx.dsl.io import fileio

        from fullpass.kubeflow.page_outputs import metadata_of_page, page_outputs

        pages: Described = {}
        for page in page_outputs(self.plan["executor"]):
            copy, source = self.task.outputs.get(page.name), made[page.source][0]
            if copy is None:
                continue
            folder, target = (one.uri if self.direct else str(one.path) for one in (source, copy))
            pages[page.name] = copy, metadata_of_page(page, folder)
            if page.file:
                if not self.direct:
                    copy.path.parent.mkdir(parents=True, exist_ok=True)
                fileio.copy(f"{folder}/{page.file}", target, overwrite=True)
        return pages

    def record(self, made: Described) -> None:
        """Records the window and a blessed model for later runs, if the node blesses models."""
        where = self.plan.get("records")
        if where is None:
            return
        from fullpass.kubeflow.runtime.registry import record_evaluated

        copy, blessing = made["blessing"]
        record_evaluated(where, self.task.parameters, copy.uri, blessing)

    def ingest_window(self, executor: Any, properties: dict[str, Any]) -> Described:
        """Ingests the spans of a window that the store lacks; returns the artifact that names all its spans."""
        from fullpass.components.ingest.spans.ingest_request import Request, read_request
        from fullpass.kubeflow.runtime.artifact_messages import metadata_of, to_tfx
        from fullpass.kubeflow.runtime.span_store import SpanStore, ingest_window, write_window

        where, [(name, output)] = self.plan["ingest"], self.task.outputs.items()

        def ingest(request: Request, folder: str) -> list[tuple[str, Json]]:
            copy = ArtifactCopy(folder, Path(folder), {}, "")
            output_dict = {name: [to_tfx(copy, self.plan["outputs"][name], direct=True)]}
            executor.Do({}, output_dict, {"request": request.to_json()})
            return [(artifact.uri, metadata_of(artifact, ())) for artifact in output_dict[name]]

        window = ingest_window(
            read_request(properties["request"]),
            SpanStore(where["entries"]),
            where["records"],
            ingest,
            reingest_all=where["anew"],
        )
        return {name: (output, write_window(window, output.path))}

    def _open_spans(self, window: ArtifactCopy) -> list[ArtifactCopy]:
        from fullpass.kubeflow.runtime.span_store import open_window

        copies = open_window(window, direct=self.direct)
        _reset_file_times(copy for copy in copies if is_address(copy.uri))
        return copies

    def _metadata(self, copy: ArtifactCopy, artifacts: Sequence[Any], copies: Sequence[ArtifactCopy]) -> Json:
        """Returns the metadata of an output; marks the output as absent if the executor removed it."""
        from fullpass.kubeflow.runtime.artifact_messages import metadata_of

        if not artifacts:
            write_absent(copy)
            return {}
        metadata = metadata_of(artifacts[0], copies)
        if not self.direct and not metadata and not _has_files(copy.path):
            name = copy.uri.rsplit("/", 1)[-1]
            raise UserError(
                f"output {name!r}: the executor neither wrote a file under {copy.path} nor set its metadata."
            )
        return metadata


def _reset_file_times(copies: Iterable[ArtifactCopy]) -> None:
    """Sets the modification time of copies to zero: each attempt copies its inputs again, and a resumed training
    identifies its data by name, size and time. What is read in place keeps its time, and may be of another owner."""
    for copy in copies:
        for file in copy.path.rglob("*"):
            if file.is_file():
                os.utime(file, (0, 0))


def _executor(executor_class: Any, beam: Json | None, data_bytes: int, temporary: str) -> Any:
    if not beam:
        from fullpass.components.internals.tfx_internals import base_executor

        return executor_class(base_executor.BaseExecutor.Context(tmp_dir=temporary, unique_id="node"))
    from fullpass.components.ingest.readers.crashes import worker_ended_text
    from fullpass.components.internals.tfx_internals import base_beam_executor
    from fullpass.pipeline.config import BeamConfig
    from fullpass.pipeline.running.beam_args import beam_args
    from fullpass.preprocessing.internals.beam_internals import fail_with_workers

    fail_with_workers(worker_ended_text)
    args = beam_args(BeamConfig.model_validate(beam), data_bytes=data_bytes)
    return executor_class(
        base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=args, tmp_dir=temporary, unique_id="node")
    )


def _data_bytes(inputs: Inputs, properties: Mapping[str, Any]) -> int:
    """Returns the input size of the node in bytes: its inputs, or for Ingest the files of its request."""
    if not inputs and "request" in properties:
        return sum(file["size"] for span in json.loads(properties["request"])["spans"] for file in span["files"])
    found = (file for copies in inputs.values() for copy in copies for file in copy.path.rglob("*"))
    return sum(file.stat().st_size for file in found if file.is_file())


def _has_files(path: Path) -> bool:
    return path.is_file() or any(file.is_file() for file in path.rglob("*"))


if __name__ == "__main__":
    main()
