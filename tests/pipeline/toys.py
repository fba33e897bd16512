"""Small TFX components that stand for the real ones, and pipelines of them."""

import importlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
from tfx.dsl.compiler import constants
from tfx.dsl.compiler.compiler import Compiler
from tfx.dsl.component.experimental.annotations import (
    BeamComponentParameter,
    InputArtifact,
    OutputArtifact,
    Parameter,
)
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.pipeline import Pipeline
from tfx.orchestration.portable import runtime_parameter_utils
from tfx.types.standard_artifacts import Examples, Model

from fullpass.base import progress
from fullpass.base.errors import UserError
from fullpass.pipeline.record.events import new_run_id
from fullpass.pipeline.running.execution.launch import launch
from fullpass.pipeline.running.execution.metadata_store import LockedMetadata
from fullpass.pipeline.running.execution.node_process import NodeOutcome
from tests.waiting import until


def pipeline_of(root: Path, nodes: Sequence[BaseNode], *, cache: bool = True, name: str = "toy") -> Pipeline:
    return Pipeline(
        pipeline_name=name,
        pipeline_root=str(root / "artifacts"),
        components=list(nodes),
        enable_cache=cache,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(root / "metadata" / "metadata.db")),
    )


def launched_here(pipeline: Pipeline) -> dict[str, NodeOutcome]:
    """Launches all nodes one after the other in this process, and returns node -> outcome."""
    compiled = Compiler().compile(pipeline)
    run = {constants.PIPELINE_RUN_ID_PARAMETER_NAME: new_run_id()}
    runtime_parameter_utils.substitute_runtime_parameter(compiled, run)
    deployment = runner_utils.extract_local_deployment_config(compiled)
    store = LockedMetadata(Path(deployment.metadata_connection_config.database_connection_config.sqlite.filename_uri))
    nodes = [node.pipeline_node for node in compiled.nodes]
    return {node.node_info.id: launch(node, compiled, deployment, store) for node in nodes}


def rows(directory: str) -> list[int]:
    return [int(line) for line in (Path(directory) / "rows").read_text().split()]


def write_rows(directory: str, values: Sequence[int]) -> None:
    (Path(directory) / "rows").write_text(" ".join(map(str, values)))


def wait_until(path: Path) -> None:
    until(path.exists, 120)


@component
def Count(to: Parameter[int], data: OutputArtifact[Examples]):
    """Writes 0 .. to-1."""
    print("counting on stdout")
    write_rows(data.uri, range(to))
    data.set_int_custom_property("rows", to)


@component
def Imports(module: Parameter[str], data: OutputArtifact[Examples]):
    """Imports a module, as the code of a user may, and writes how many names it has."""
    write_rows(data.uri, [len(vars(importlib.import_module(module)))])


@component
def Double(source: InputArtifact[Examples], data: OutputArtifact[Examples]):
    write_rows(data.uri, [2 * value for value in rows(source.uri)])


@component
def Add(left: InputArtifact[Examples], right: InputArtifact[Examples], data: OutputArtifact[Examples]):
    write_rows(data.uri, [a + b for a, b in zip(rows(left.uri), rows(right.uri), strict=True)])


@component(use_beam=True)
def Square(
    source: InputArtifact[Examples],
    data: OutputArtifact[Examples],
    beam_pipeline: BeamComponentParameter[beam.Pipeline] = None,
):
    with beam_pipeline as p:
        (
            p
            | beam.Create(rows(source.uri))
            | "Square rows" >> beam.Map(lambda value: value * value)
            | beam.combiners.ToList()
            | beam.Map(lambda values, uri=data.uri: write_rows(uri, sorted(values)))
        )


@component(use_beam=True)
def RejectInBeam(
    source: InputArtifact[Examples],
    data: OutputArtifact[Examples],
    beam_pipeline: BeamComponentParameter[beam.Pipeline] = None,
):
    with beam_pipeline as p:
        p | beam.Create(rows(source.uri)) | "Check rows" >> beam.Map(_reject)


def _reject(value: int) -> int:
    if value == 3:
        raise UserError(f"row {value}: bad date\nuse YYYY-MM-DD")
    return value


@component
def FailOnce(source: InputArtifact[Examples], flag: Parameter[str], data: OutputArtifact[Examples]):
    """Fails, half written, until the file `flag` is there."""
    write_rows(data.uri, rows(source.uri))
    if not Path(flag).exists():
        raise UserError("model.kind: cannot train")


@component
def Die(source: InputArtifact[Examples], data: OutputArtifact[Examples]):
    """Is killed with half of its output written."""
    write_rows(data.uri, [0])
    os.kill(os.getpid(), signal.SIGKILL)


@component
def Meet(mine: Parameter[str], other: Parameter[str], data: OutputArtifact[Examples]):
    """Reports progress, and ends when the file `other` is there: that of its counterpart, or of a listener."""
    Path(mine).touch()
    progress.report(1, 4, "rows", "waiting")
    wait_until(Path(other))
    write_rows(data.uri, [1])


@component
def Sleep(
    source: InputArtifact[Examples], running: Parameter[str], seconds: Parameter[float], data: OutputArtifact[Examples]
):
    write_rows(data.uri, [0])
    progress.report(1, 4, "rows", "asleep")
    Path(running).write_text(str(os.getpid()))
    end = time.monotonic() + seconds
    while time.monotonic() < end:  # a signal just before one long sleep is seen only after it
        time.sleep(0.01)


@component
def Consume(model: InputArtifact[Model], data: OutputArtifact[Examples]):
    write_rows(data.uri, [1])


@component
def Compare(source: InputArtifact[Examples], data: OutputArtifact[Examples], baseline: InputArtifact[Model] = None):
    """Takes a baseline where there is one."""
    write_rows(data.uri, rows(source.uri))


@component
def Touch(data: OutputArtifact[Examples]):
    """Does next to nothing."""


@component
def Chain(source: InputArtifact[Examples], data: OutputArtifact[Examples]):
    """Does next to nothing, after something."""
