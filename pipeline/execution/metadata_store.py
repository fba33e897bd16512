"""The metadata of local runs: one SQLite file that several processes take turns with."""

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ml_metadata import proto
from tfx.dsl.compiler import compiler_utils, constants
from tfx.dsl.io import fileio
from tfx.orchestration import metadata
from tfx.orchestration.portable import execution_publish_utils
from tfx.orchestration.portable.mlmd import context_lib, execution_lib

from components.ingest.component import FINGERPRINT
from components.ingest.manifest import MANIFEST
from components.ingest.request import KnownSpan
from components.recorded import properties_of
from pipeline.execution import locks
from pipeline.execution.events import Artifact, RunResult
from pipeline.execution.recorded import node_of

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


def record_run(path: Path, pipeline_name: str, run_id: str, facts: Mapping[str, Any]) -> None:
    """Records what a run says of itself (pipeline/run_facts.py) on its context, before it starts.

    `config_hash` and `config`, the YAML, are text, `code` is JSON.
    """
    register = context_lib.register_context_if_not_exists
    with LockedMetadata(path) as handle:
        # TFX makes a run a child of its pipeline only where it makes the context itself.
        pipeline = register(handle, constants.PIPELINE_CONTEXT_TYPE_NAME, pipeline_name)
        run = register(handle, constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id, parent_contexts=[pipeline])
        run.custom_properties["config_hash"].string_value = facts["config"]["hash"]
        run.custom_properties["config"].string_value = facts["config"]["yaml"]
        run.custom_properties["code"].string_value = json.dumps(facts["code"])
        handle.store.put_contexts([run])


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


def settle(path: Path, root: str, pipeline_name: str, *, run_id: str, node_id: str) -> None:
    """Records as failed what a node that was killed left open, and removes what it had half written.

    Does nothing for a node that settled its own affairs.
    """
    with LockedMetadata(path) as handle:
        _abandon(handle, root, _executions(handle, pipeline_name, run_id, node_id))


def settle_abandoned(path: Path, root: str, pipeline_name: str) -> None:
    """Does the same for all that killed runs left open. The caller holds the root, so nothing is at work."""
    if not path.exists():
        return
    with LockedMetadata(path) as handle:
        pipeline = handle.store.get_context_by_type_and_name(constants.PIPELINE_CONTEXT_TYPE_NAME, pipeline_name)
        if pipeline is not None:
            _abandon(handle, root, handle.store.get_executions_by_context(pipeline.id))


def _abandon(handle: metadata.Metadata, root: str, executions: Sequence[proto.Execution]) -> None:
    """Removes the files first: an execution that is still open is looked at again, should this be cut short."""
    for execution in filter(execution_lib.is_execution_active, executions):
        node_id = node_of(handle.store, execution)
        for folder in execution_folders(root, node_id, execution.id):
            fileio.rmtree(folder)
        index = execution.custom_properties["__stateful_working_dir_index__"].string_value
        working = f"{root}/{node_id}/.system/stateful_working_dir/{index}"
        if index and fileio.exists(working):
            fileio.rmtree(working)
        execution_publish_utils.publish_failed_execution(handle, contexts=[], execution_id=execution.id)


def execution_folders(root: str, node_id: str, execution_id: int) -> list[str]:
    """Returns the folders there are of an execution: of each output, and TFX's own."""
    node = f"{root}/{node_id}"
    outputs = [name.rstrip("/") for name in fileio.listdir(node)] if fileio.isdir(node) else []
    folders = [f"{node}/{name}/{execution_id}" for name in outputs if not name.startswith(".")]
    return [path for path in [*folders, f"{node}/.system/executor_execution/{execution_id}"] if fileio.exists(path)]


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
    return Artifact(type_name=found.type_name, uri=found.uri, properties=properties_of(found.mlmd_artifact))
