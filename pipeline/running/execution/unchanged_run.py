"""Repeats an unchanged run by writing only its records, without TFX, TensorFlow or Beam.

A successful run of all nodes leaves a state file: a digest of all inputs that determine its nodes, and the state of the
metadata after it. If the next run finds both unchanged and every artifact complete, each node would get its results
from the cache. So the run writes the records that TFX would write in that case, and ends.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ml_metadata import proto

from fullpass.base import state_file
from fullpass.components.ingest.spans.ingest_request import spans_read
from fullpass.components.ingest.spans.spans import Window
from fullpass.components.internals.tfx_internals import constants
from fullpass.components.library_versions import COMPUTING, version
from fullpass.components.push.push import rolled_back_origins
from fullpass.pipeline.authoring.loading.load import Loaded
from fullpass.pipeline.authoring.user_code import beside_code, user_digest, user_functions
from fullpass.pipeline.record import events
from fullpass.pipeline.record.events import Listener, NodeResult, RunResult, Status
from fullpass.pipeline.record.facts import RunFacts
from fullpass.pipeline.record.provenance import source_digest
from fullpass.pipeline.root.layout import RootLayout
from fullpass.pipeline.root.sqlite_files import sqlite_state
from fullpass.pipeline.running.execution.artifact_checksums import damaged_artifacts
from fullpass.pipeline.running.execution.records import (
    OUTPUT_EVENTS,
    RESOLVER_TYPE,
    facts_as_properties,
    locked_store,
    node_of,
)

_WHOLE = frozenset({Status.OK, Status.CACHED})


@dataclass(frozen=True)
class LastFullRun:
    """The last successful run of all nodes in a root.

    Attributes:
        inputs: The digest of all its inputs, see `inputs_of`.
        metadata: The state of the metadata after it.
    """

    run_id: str
    inputs: str
    metadata: str
    nodes: tuple[str, ...]


def inputs_of(loaded: Loaded, root: Path, window: Window) -> str:
    """Returns a digest of all inputs of a run's pipeline and its resolvers, except the metadata.

    These are the config, the data, the user's code, the files beside it, those of vocabularies and weights, Fullpass's
    own code, the versions of the libraries that compute, and the models that a rollback has put aside.
    """
    target = Path(loaded.resolve(loaded.config.push.to))
    decide = [
        loaded.config.model_dump(mode="json"),
        [str(loaded.folder), str(root), str(target)],
        repr(window),
        repr(spans_read(loaded.config.ingest_config, window)),
        user_digest(loaded),
        beside_code(user_functions(loaded.config)),
        source_digest(),
        [version(package) for package in COMPUTING],
        sorted(rolled_back_origins(target)),
    ]
    return hashlib.sha256(json.dumps(decide).encode()).hexdigest()


def write_state(root: Path, inputs: str, result: RunResult) -> None:
    """Writes the state file of a run, if all its nodes ran and succeeded. The caller holds the run lock.

    Args:
        root: The root, whose metadata is unchanged since the end of the run.
        inputs: The digest from `inputs_of`, computed before the run started.
    """
    if result.ok and all(node.status in _WHOLE for node in result.nodes):
        nodes = tuple(node.id for node in result.nodes)
        run = LastFullRun(result.run_id, inputs, sqlite_state(result.metadata_path), nodes)
        state_file.write(RootLayout(root).last_full_run, asdict(run))


def find_unchanged(root: Path, inputs: str) -> LastFullRun | None:
    """Returns the last successful run of all nodes, if nothing has changed since; None if the nodes must run."""
    layout = RootLayout(root)
    try:
        run = state_file.read_as(LastFullRun, layout.last_full_run, "It is written anew after the next run.")
    except (FileNotFoundError, state_file.DamagedState):
        return None
    if run.inputs != inputs or not layout.metadata.is_file() or run.metadata != sqlite_state(layout.metadata):
        return None
    with locked_store(layout.metadata) as store:
        _, executions = _recorded(store, run.run_id)
        events = store.get_events_by_execution_ids([execution.id for execution in executions])
        made = store.get_artifacts_by_id([event.artifact_id for event in events if event.type in OUTPUT_EVENTS])
        whole = all(one.state == proto.Artifact.LIVE and Path(one.uri).exists() for one in made)
        return run if whole and not damaged_artifacts(root, store) else None


def record_repeat(
    run: LastFullRun, root: Path, name: str, run_id: str, facts: RunFacts, listener: Listener, seconds: float
) -> RunResult:
    """Records a run whose nodes all reuse the results of `run`, and sends its events.

    Args:
        run: The run from `find_unchanged`.
        root: The root, whose run lock the caller holds.
    """
    layout = RootLayout(root)
    listener(events.RunStarted(run_id=run_id, pipeline_name=name, node_ids=run.nodes, base_run_id=None))
    with locked_store(layout.metadata, writes=True) as store:
        before, executions = _recorded(store, run.run_id)
        context = _record_context(store, before, run_id, facts)
        results = dict(_record_node(store, execution, before, context) for execution in executions)
    nodes = tuple(results[node] for node in run.nodes)
    for node in nodes:
        listener(events.NodeEnded(result=node))
    result = RunResult(run_id=run_id, pipeline_name=name, metadata_path=layout.metadata, nodes=nodes, seconds=seconds)
    listener(events.RunEnded(result=result))
    return result


def _recorded(store: Any, run_id: str) -> tuple[proto.Context, Sequence[proto.Execution]]:
    context = store.get_context_by_type_and_name(constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id)
    return context, sorted(store.get_executions_by_context(context.id), key=lambda one: one.id)


def _record_context(store: Any, before: proto.Context, run_id: str, facts: RunFacts) -> proto.Context:
    """Records the context of a run as a child of the same pipeline as the earlier run."""
    context = proto.Context(type_id=before.type_id, name=run_id)
    context.custom_properties.MergeFrom(before.custom_properties)
    for name, value in facts_as_properties(facts).items():
        context.custom_properties[name].string_value = value
    [context.id] = store.put_contexts([context])
    parents = [
        proto.ParentContext(child_id=context.id, parent_id=p.id)
        for p in store.get_parent_contexts_by_context(before.id)
    ]
    store.put_parent_contexts(parents)
    return context


def _record_node(
    store: Any, execution: proto.Execution, before: proto.Context, run: proto.Context
) -> tuple[str, NodeResult]:
    """Records an execution that reuses the outputs of another one; a resolver counts as having resolved them again."""
    looked_up = execution.type == RESOLVER_TYPE
    state = execution.last_known_state if looked_up else proto.Execution.CACHED
    copy = proto.Execution(type_id=execution.type_id, last_known_state=state)
    copy.properties.MergeFrom(execution.properties)
    copy.custom_properties.MergeFrom(execution.custom_properties)
    events = store.get_events_by_execution_ids([execution.id])
    artifacts = {one.id: one for one in store.get_artifacts_by_id([event.artifact_id for event in events])}
    pairs = [
        (artifacts[event.artifact_id], proto.Event(artifact_id=event.artifact_id, type=event.type, path=event.path))
        for event in events
    ]
    contexts = [run if one.id == before.id else one for one in store.get_contexts_by_execution(execution.id)]
    store.put_execution(copy, pairs, contexts)
    node = node_of(store, execution)
    made = sum(event.type in OUTPUT_EVENTS for event in events)
    return node, NodeResult(id=node, status=Status.OK if looked_up else Status.CACHED, outputs=made)
