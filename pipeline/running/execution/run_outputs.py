"""Reads the output artifacts of a run's nodes from the metadata; it needs only ML Metadata."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ml_metadata import proto

from fullpass.components.internals.tfx_internals import constants
from fullpass.components.mlmd_values import RecordedArtifact
from fullpass.pipeline.running.execution.events import RunResult
from fullpass.pipeline.running.execution.locked_store import locked_store

OUTPUT_EVENTS = frozenset({proto.Event.OUTPUT, proto.Event.INTERNAL_OUTPUT, proto.Event.DECLARED_OUTPUT})


def outputs(result: RunResult, node_id: str) -> dict[str, list[RecordedArtifact]]:
    """Returns the output artifacts of a node in a run, by output name; cached and reused nodes have outputs too.

    Raises:
        KeyError: The run has no such node.
    """
    result.node(node_id)
    return outputs_in(result.metadata_path, result.pipeline_name, result.run_id, node_id)


def outputs_in(path: Path, pipeline_name: str, run_id: str, node_id: str) -> dict[str, list[RecordedArtifact]]:
    """Returns the output artifacts of a node in a run, by output name; empty if it was not part of the run.

    Args:
        path: The SQLite file of the metadata.
        pipeline_name: The name of the pipeline in the metadata.
        run_id: The id of the run.
        node_id: The id of the node.
    """
    found: dict[str, list[RecordedArtifact]] = {}
    with locked_store(path) as store:
        executions = executions_of(store, pipeline_name, run_id, node_id)
        events = store.get_events_by_execution_ids([one.id for one in executions]) if executions else []
        made = [event for event in events if event.type in OUTPUT_EVENTS]
        records = {
            artifact.id: artifact for artifact in store.get_artifacts_by_id([event.artifact_id for event in made])
        }
    for event in made:
        found.setdefault(event.path.steps[0].key, []).append(RecordedArtifact.of(records[event.artifact_id]))
    return found


def executions_of(store: Any, pipeline_name: str, run_id: str, node_id: str) -> Sequence[proto.Execution]:
    """Returns the executions of a node in a run, from a store of ML Metadata; empty if it was not part of the run."""
    run = store.get_context_by_type_and_name(constants.PIPELINE_RUN_CONTEXT_TYPE_NAME, run_id)
    node = store.get_context_by_type_and_name(constants.NODE_CONTEXT_TYPE_NAME, f"{pipeline_name}.{node_id}")
    if run is None or node is None:
        return ()
    of_node = {execution.id for execution in store.get_executions_by_context(node.id)}
    return [execution for execution in store.get_executions_by_context(run.id) if execution.id in of_node]
