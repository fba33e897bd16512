"""The metadata of local runs: one SQLite file, which one process at a time locks."""

import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ml_metadata import proto
from tfx.dsl.io import fileio

from fullpass.base import locks
from fullpass.components.ingest.component import FINGERPRINT
from fullpass.components.ingest.spans.ingest_request import KnownSpan
from fullpass.components.ingest.writing.manifest import MANIFEST
from fullpass.components.internals.tfx_internals import (
    compiler_utils,
    constants,
    context_lib,
    execution_lib,
    execution_publish_utils,
    metadata,
)
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.root.layout import lock_of
from fullpass.pipeline.running.execution.records import (
    RedactedStore,
    executions_of,
    facts_as_properties,
    locked_store,
    node_of,
)

INGEST = "Ingest"


class LockedMetadata(metadata.Metadata):
    """TFX's metadata handle with a lock against all other processes while it is entered.

    Concurrent writers make SQLite poll and finally fail with "database is locked", and TFX reads and writes in separate
    transactions. TFX enters the handle for the driver and the publisher of a node but not for its executor, so nodes
    wait only milliseconds for each other.
    """

    def __init__(self, path: Path) -> None:
        """Opens the SQLite file at `path`, which is created on first use."""
        super().__init__(metadata.sqlite_metadata_connection_config(str(path)))
        self._lock_path = lock_of(path)
        # TFX enters a handle recursively, and also from the thread of its execution watcher.
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

    @property
    def store(self) -> Any:
        """The store, which redacts secrets on write."""
        return RedactedStore(super().store)

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


def record_run(path: Path, pipeline_name: str, run_id: str, facts: RunFacts) -> None:
    """Records the provenance of a run (pipeline/record/provenance.py) on its context, before it starts."""
    register = context_lib.register_context_if_not_exists
    with LockedMetadata(path) as handle:
        # TFX makes a run a child of its pipeline only if TFX creates the context itself.
        pipeline = register(handle, constants.PIPELINE_CONTEXT_TYPE_NAME, pipeline_name)
        run = register(handle, constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id, parent_contexts=[pipeline])
        for key, value in facts_as_properties(facts).items():
            run.custom_properties[key].string_value = value
        handle.store.put_contexts([run])


def newest_run_with(path: Path, pipeline_name: str, node_ids: Collection[str], *, but: str = "") -> str | None:
    """Returns the id of the newest run, other than `but`, in which all of `node_ids` succeeded, or None."""
    if not path.exists():
        return None
    with locked_store(path) as store:
        for run in _runs(store, pipeline_name):
            if run.name != but and all(_succeeded(store, pipeline_name, run.name, i) for i in node_ids):
                return run.name
    return None


def _runs(store: Any, pipeline_name: str) -> list[proto.Context]:
    """Returns the contexts of the runs of a pipeline, newest first."""
    pipeline = store.get_context_by_type_and_name(constants.PIPELINE_CONTEXT_TYPE_NAME, pipeline_name)
    children = [] if pipeline is None else store.get_children_contexts_by_context(pipeline.id)
    runs = [run for run in children if run.type == constants.PIPELINE_RUN_CONTEXT_TYPE_NAME]
    return sorted(runs, key=lambda run: run.create_time_since_epoch, reverse=True)


def ingested_spans(path: Path, pipeline_name: str) -> tuple[KnownSpan, ...]:
    """Returns the spans that an earlier run of the pipeline ingested and whose files still exist."""
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


def close_executions(path: Path, root: str, pipeline_name: str, *, run_id: str, node_id: str) -> None:
    """Marks the open executions of a killed node as failed, and removes their files; does nothing if none is open."""
    with LockedMetadata(path) as handle:
        _close(handle, root, executions_of(handle.store, pipeline_name, run_id, node_id))


def close_abandoned(path: Path, root: str, pipeline_name: str) -> None:
    """Closes the executions that a killed run left open. The caller holds the run lock, so none of them is running.

    Only the newest run with executions is read: when it began, it closed those of earlier runs.
    """
    if not path.exists():
        return
    with LockedMetadata(path) as handle:
        for run in _runs(handle.store, pipeline_name):
            executions = handle.store.get_executions_by_context(run.id)
            _close(handle, root, executions)
            if executions:
                return


def _close(handle: metadata.Metadata, root: str, executions: Sequence[proto.Execution]) -> None:
    """Removes the files of open executions, then marks them as failed.

    In this order, an execution is still open after an interruption, and the next run closes it.
    """
    for execution in filter(execution_lib.is_execution_active, executions):
        node_id = node_of(handle.store, execution)
        for folder in _execution_folders(root, node_id, execution.id):
            fileio.rmtree(folder)
        index = execution.custom_properties["__stateful_working_dir_index__"].string_value
        working = f"{root}/{node_id}/.system/stateful_working_dir/{index}"
        if index and fileio.exists(working):
            fileio.rmtree(working)
        execution_publish_utils.publish_failed_execution(handle, contexts=[], execution_id=execution.id)


def _execution_folders(root: str, node_id: str, execution_id: int) -> list[str]:
    """Returns the existing folders of an execution: one per output, and TFX's own folder."""
    node = f"{root}/{node_id}"
    outputs = [name.rstrip("/") for name in fileio.listdir(node)] if fileio.isdir(node) else []
    folders = [f"{node}/{name}/{execution_id}" for name in outputs if not name.startswith(".")]
    return [path for path in [*folders, f"{node}/.system/executor_execution/{execution_id}"] if fileio.exists(path)]


def _succeeded(store: Any, pipeline_name: str, run_id: str, node_id: str) -> bool:
    executions = executions_of(store, pipeline_name, run_id, node_id)
    return any(map(execution_lib.is_execution_successful, executions))
