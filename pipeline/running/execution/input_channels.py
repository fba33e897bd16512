"""Finds the inputs of nodes in the metadata, in time that hardly grows with the number of earlier runs.

TFX reads all executions of the pipeline for every input of every node: 10 seconds each after 1,000 runs of 15 nodes.
"""

from collections.abc import Sequence
from typing import Any

from ml_metadata import errors, proto

from fullpass.components.internals.tfx_internals import artifact_utils, channel_resolver, constants, pipeline_pb2
from fullpass.pipeline.running.execution.records import executions_in

_resolve_by_executions = channel_resolver.resolve_single_channel


def install() -> None:
    """Makes TFX's launcher find inputs by the functions of this module."""
    channel_resolver.resolve_single_channel = _resolve
    channel_resolver._get_executions_by_all_contexts = _executions_of_all


def _resolve(handle_like: Any, channel: pipeline_pb2.InputSpec.Channel) -> list[Any]:
    """Returns the artifacts of a channel. Those of any node, as a resolver reads them, are found by their type."""
    if [query.type.name for query in channel.context_queries] != [constants.PIPELINE_CONTEXT_TYPE_NAME]:
        return _resolve_by_executions(handle_like, channel)
    store = channel_resolver.mlmd_cm.get_handle(handle_like).store
    try:
        kind = store.get_artifact_type(channel.artifact_query.type.name)
    except errors.NotFoundError:
        return []
    found = [one for one in store.get_artifacts_by_type(kind.name) if one.state == proto.Artifact.LIVE]
    name = channel.context_queries[0].name.field_value.string_value
    pipelines = {one.name: one.id for one in store.get_contexts_by_type(constants.PIPELINE_CONTEXT_TYPE_NAME)}
    if pipelines.keys() != {name}:
        own = pipelines.get(name)
        found = [one for one in found if own in {context.id for context in store.get_contexts_by_artifact(one.id)}]
    return artifact_utils.deserialize_artifacts(kind, found)


def _executions_of_all(store: Any, contexts: Sequence[proto.Context]) -> list[proto.Execution]:
    """Returns the executions that belong to all of these contexts; a run or a node belongs to one pipeline only."""
    narrow = {one.id for one in contexts if one.type != constants.PIPELINE_CONTEXT_TYPE_NAME}
    return executions_in(store, narrow or {one.id for one in contexts}) if contexts else []
