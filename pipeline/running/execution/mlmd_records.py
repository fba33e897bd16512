"""Reads runs and nodes from the records of a metadata store; needs ML Metadata alone."""

import json
from typing import Any

from ml_metadata import proto
from tfx.dsl.compiler import constants


def recorded_facts(run: proto.Context) -> dict[str, Any]:
    """Returns the provenance that `metadata_store.record_run` put on the context of a run; empty if it did not."""
    recorded = {name: value.string_value for name, value in run.custom_properties.items()}
    if "config" not in recorded:
        return {}
    config = {"hash": recorded["config_hash"], "yaml": recorded["config"]}
    return {"run": run.name, "config": config, "code": json.loads(recorded["code"])}


def node_of(store: Any, execution: proto.Execution) -> str:
    """Returns the node id of an execution in a metadata store."""
    contexts = store.get_contexts_by_execution(execution.id)
    [node] = [context.name for context in contexts if context.type == constants.NODE_CONTEXT_TYPE_NAME]
    return str(node.partition(".")[2])
