"""Reads runs and nodes from the records of a metadata store; it needs only ML Metadata."""

import json
from collections.abc import Mapping
from typing import Any

from ml_metadata import proto

from fullpass.components.internals.tfx_internals import constants

RESOLVER_TYPE = "tfx.dsl.components.common.resolver.Resolver"


def recorded_facts(run: proto.Context) -> dict[str, Any]:
    """Returns the provenance that `facts_as_properties` put on the context of a run; empty if there is none."""
    recorded = {name: value.string_value for name, value in run.custom_properties.items()}
    if "config" not in recorded:
        return {}
    config = {"hash": recorded["config_hash"], "yaml": recorded["config"]}
    return {"run": run.name, "config": config, "code": json.loads(recorded["code"])}


def facts_as_properties(facts: Mapping[str, Any]) -> dict[str, str]:
    """Returns the provenance of a run as properties of its context: hash and text of the YAML, and the code as JSON."""
    return {
        "config_hash": facts["config"]["hash"],
        "config": facts["config"]["yaml"],
        "code": json.dumps(facts["code"]),
    }


def node_of(store: Any, execution: proto.Execution) -> str:
    """Returns the node id of an execution in a metadata store."""
    contexts = store.get_contexts_by_execution(execution.id)
    [node] = [context.name for context in contexts if context.type == constants.NODE_CONTEXT_TYPE_NAME]
    return str(node.partition(".")[2])
