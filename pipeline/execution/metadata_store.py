"""The metadata of local runs: one SQLite file that several processes take turns with."""

import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

from ml_metadata import proto
from tfx.dsl.compiler import compiler_utils, constants
from tfx.dsl.io import fileio
from tfx.orchestration import metadata
from tfx.orchestration.portable import execution_publish_utils, outputs_utils
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import pipeline_pb2

from components.ingest.component import FINGERPRINT
from components.ingest.ingest import MANIFEST
from components.ingest.request import KnownSpan
from pipeline.execution import locks
from pipeline.execution.events import Artifact, RunResult

INGEST = "Ingest"


class LockedMetadata(metadata.Metadata):
    """TFX's metadata handle, held to the exclusion of every other process while it is entered.

    Writers that meet make SQLite poll and, in the end, give up with "database is locked"; and what TFX reads and
    then writes is several transactions. TFX enters the handle for the driver and the publisher of a node but not
    while its executor runs, so nodes wait for each other for milliseconds only.
    """

    def __init__(self, path: Path) -> None:
        """Takes the SQLite file at `path`, which is created on first use."""
        super().__init__(metadata.sqlite_metadata_connection_config(str(path)))
        self._lock_path = path.with_name(f"{path.name}.lock")
        # TFX enters a handle again inside itself, and from the thread of its execution watcher.
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._process_lock = ExitStack()

    def __enter__(self) -> "LockedMetadata":
        self._thread_lock.acquire()
        if self._depth == 0:
            self._process_lock.enter_context(locks.exclusive(self._lock_path))
        self._depth += 1
        try:
            super().__enter__()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *exception) -> None:
        try:
            super().__exit__(*exception)
        finally:
            self._release()

    def _release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._process_lock.close()
        self._thread_lock.release()


def outputs(result: RunResult, node_id: str) -> dict[str, list[Artifact]]:
    """Returns the output artifacts of a node in a run, by output name; a cached or reused node has them too.

    Raises:
        KeyError: No such node in the run.
    """
    result.node(node_id)
    return outputs_in(result.metadata_path, result.pipeline_name, result.run_id, node_id)


def outputs_in(path: Path, pipeline_name: str, run_id: str, node_id: str) -> dict[str, list[Artifact]]:
    """Returns the output artifacts of a node in a run, by output name; none where it was not part of it.

    Args:
        path: of the metadata.
        pipeline_name: in the metadata.
        run_id: of the run.
        node_id: of the node.
    """
    with LockedMetadata(path) as handle:
        executions = _executions(handle, pipeline_name, run_id, node_id)
        found: dict[str, list[Artifact]] = {}
        for execution in executions:
            for name, artifacts in execution_lib.get_output_artifacts(handle, execution.id).items():
                found.setdefault(name, []).extend(map(_artifact, artifacts))
    return found


def newest_run_with(path: Path, pipeline_name: str, node_ids: Collection[str]) -> str | None:
    """Returns the id of the newest run in which all of `node_ids` ended well, or None."""
    with LockedMetadata(path) as handle:
        pipeline_context = handle.store.get_context_by_type_and_name(
            constants.PIPELINE_CONTEXT_TYPE_NAME, pipeline_name
        )
        if pipeline_context is None:
            return None
        children = handle.store.get_children_contexts_by_context(pipeline_context.id)
        runs = [run for run in children if run.type == constants.PIPELINE_RUN_CONTEXT_TYPE_NAME]
        for run in sorted(runs, key=lambda run: run.create_time_since_epoch, reverse=True):
            if all(_ended_well(handle, pipeline_name, run.name, node_id) for node_id in node_ids):
                return run.name
    return None


def ingested_spans(path: Path, pipeline_name: str) -> tuple[KnownSpan, ...]:
    """Returns the spans whose examples an earlier run of the pipeline made, and which still lie where they were put."""
    if not path.exists():
        return ()
    with LockedMetadata(path) as handle:
        node = handle.store.get_context_by_type_and_name(
            constants.NODE_CONTEXT_TYPE_NAME, compiler_utils.node_context_name(pipeline_name, INGEST)
        )
        artifacts = handle.store.get_artifacts_by_context(node.id) if node is not None else ()
    return tuple(
        KnownSpan(
            number=artifact.properties["span"].int_value,
            fingerprint=artifact.custom_properties[FINGERPRINT].string_value,
            version=artifact.properties["version"].int_value,
        )
        for artifact in artifacts
        if artifact.state == proto.Artifact.LIVE
        and FINGERPRINT in artifact.custom_properties
        and fileio.exists(f"{artifact.uri}/{MANIFEST}")
    )


def settle(path: Path, node: pipeline_pb2.PipelineNode, pipeline: pipeline_pb2.Pipeline, run_id: str) -> None:
    """Records as failed what a node that was killed left open, and removes what it had half written.

    Does nothing for a node that settled its own affairs.
    """
    node_id = node.node_info.id
    with LockedMetadata(path) as handle:
        executions = _executions(handle, pipeline.pipeline_info.id, run_id, node_id)
        abandoned = [execution for execution in executions if execution_lib.is_execution_active(execution)]
        for execution in abandoned:
            execution_publish_utils.publish_failed_execution(handle, contexts=[], execution_id=execution.id)
    for execution in abandoned:
        _remove_outputs(node, pipeline, execution.id)


def _remove_outputs(node: pipeline_pb2.PipelineNode, pipeline: pipeline_pb2.Pipeline, execution_id: int) -> None:
    resolver = outputs_utils.OutputsResolver(node, pipeline.pipeline_info, pipeline.runtime_spec)
    written = {
        name: [artifact for artifact in artifacts if fileio.exists(artifact.uri)]
        for name, artifacts in resolver.generate_output_artifacts(execution_id).items()
    }
    outputs_utils.remove_output_dirs(written)
    fileio.rmtree(resolver.make_tmp_dir(execution_id))


def _executions(handle: metadata.Metadata, pipeline_name: str, run_id: str, node_id: str) -> Sequence[proto.Execution]:
    """Returns the executions of a node in a run; none where it was never started."""
    run = handle.store.get_context_by_type_and_name(constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id)
    node = handle.store.get_context_by_type_and_name(
        constants.NODE_CONTEXT_TYPE_NAME, compiler_utils.node_context_name(pipeline_name, node_id)
    )
    if run is None or node is None:
        return ()
    return execution_lib.get_executions_associated_with_all_contexts(handle, [run, node])


def _ended_well(handle: metadata.Metadata, pipeline_name: str, run_id: str, node_id: str) -> bool:
    executions = _executions(handle, pipeline_name, run_id, node_id)
    return any(map(execution_lib.is_execution_successful, executions))


def _artifact(found) -> Artifact:
    record = found.mlmd_artifact
    recorded = [*record.properties.items(), *record.custom_properties.items()]
    properties = {name: getattr(value, value.WhichOneof("value")) for name, value in recorded}
    return Artifact(type_name=found.type_name, uri=found.uri, properties=properties)
