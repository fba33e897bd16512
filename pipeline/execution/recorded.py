"""What records of a metadata store say of runs and nodes; takes ML Metadata alone."""

import json
from typing import Any

from ml_metadata import proto
from tfx.dsl.compiler import constants


def recorded_facts(run: proto.Context) -> dict[str, Any]:
    """Returns what a run recorded of itself on its context (`metadata_store.record_run`); nothing where it did not."""
    said = {name: value.string_value for name, value in run.custom_properties.items()}
    if "config" not in said:
        return {}
    config = {"hash": said["config_hash"], "yaml": said["config"]}
    return {"run": run.name, "config": config, "code": json.loads(said["code"])}


def node_of(store: Any, execution: proto.Execution) -> str:
    """Returns the id of the node of an execution, asking a metadata store."""
    contexts = store.get_contexts_by_execution(execution.id)
    [node] = [context.name for context in contexts if context.type == constants.NODE_CONTEXT_TYPE_NAME]
    return str(node.partition(".")[2])
