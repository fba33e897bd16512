"""Runs the driver, executor and publisher of a node with TFX's launcher, in the process of the node."""

import re
from pathlib import Path

import grpc
from ml_metadata import proto

from fullpass.components.ingest.readers.crashes import worker_ended_text
from fullpass.components.internals.tfx_internals import (
    execution_lib,
    launcher,
    local_deployment_config_pb2,
    metadata,
    pipeline_pb2,
    runner_utils,
)
from fullpass.pipeline.record.events import Status
from fullpass.pipeline.running.execution import failure, input_channels
from fullpass.pipeline.running.execution.artifact_checksums import record_checksums
from fullpass.pipeline.running.execution.node_process import NodeOutcome
from fullpass.pipeline.running.execution.records import RESOLVER_TYPE
from fullpass.preprocessing.internals.beam_internals import (
    end_bundles_at_once,
    fail_with_workers,
    inspect_steps_once,
    skip_ipython,
)

IMPORTER_TYPE = "tfx.dsl.components.common.importer.Importer"
_UNMET_INPUT = re.compile(r"inputs\[(?P<input>\w+)\]")
_NOTHING_FOUND = grpc.StatusCode.FAILED_PRECONDITION.value[0]
input_channels.install()
inspect_steps_once()
end_bundles_at_once()
fail_with_workers(worker_ended_text)
skip_ipython()


def launch(
    node: pipeline_pb2.PipelineNode,
    pipeline: pipeline_pb2.Pipeline,
    deployment: local_deployment_config_pb2.LocalDeploymentConfig,
    handle: metadata.Metadata,
) -> NodeOutcome:
    """Runs one node of a compiled pipeline to completion.

    Args:
        pipeline: The IR, with its run id filled in.
        deployment: Maps nodes to executors and drivers.
        handle: The metadata, not entered.

    Raises:
        Exception: The executor failed; the metadata then records the execution as failed.
    """
    node_id = node.node_info.id
    info = launcher.Launcher(
        pipeline_node=node,
        mlmd_connection=handle,
        pipeline_info=pipeline.pipeline_info,
        pipeline_runtime_spec=pipeline.runtime_spec,
        executor_spec=runner_utils.extract_executor_spec(deployment, node_id),
        custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, node_id),
    ).launch()
    if info is None or info.execution_id is None:
        return NodeOutcome(status=Status.SKIPPED)
    with handle:
        [execution] = handle.store.get_executions_by_id([info.execution_id])
        artifacts = execution_lib.get_output_artifacts(handle, info.execution_id)
    outcome = _outcome(node, execution, outputs=sum(map(len, artifacts.values())))
    if outcome.status is Status.OK and node.node_info.type.name != RESOLVER_TYPE:
        made = [artifact.mlmd_artifact for found in artifacts.values() for artifact in found]
        record_checksums(Path(pipeline.runtime_spec.pipeline_root.field_value.string_value), made)
    return outcome


def _outcome(node: pipeline_pb2.PipelineNode, execution: proto.Execution, outputs: int) -> NodeOutcome:
    """Returns the outcome of a launch that raised nothing; for unresolved inputs, TFX records a failure and returns."""
    if execution.last_known_state == execution.CACHED:
        return NodeOutcome(status=Status.CACHED, outputs=outputs)
    if not execution_lib.is_execution_failed(execution):
        return NodeOutcome(status=Status.OK, outputs=outputs)
    reason = execution_lib.get_execution_result(execution)
    if node.node_info.type.name == RESOLVER_TYPE and reason.code == _NOTHING_FOUND:
        # A resolver may find nothing, for example on a first run. Nodes that require its output fail themselves.
        return NodeOutcome(status=Status.OK)
    return NodeOutcome(status=Status.FAILED, error=_missing_input(node, reason.result_message))


def _missing_input(node: pipeline_pb2.PipelineNode, message: str) -> str:
    """Returns the message for an input that TFX could not resolve, with the nodes that produce it."""
    named = _UNMET_INPUT.search(message)
    if named is None:
        return failure.explain_text(message)
    channels = node.inputs.inputs[named["input"]].channels
    producers = {channel.producer_node_query.id for channel in channels} - {""}
    source = f" from {' or '.join(sorted(producers))}, which has none" if producers else ", and there is none"
    return f'It needs the input "{named["input"]}"{source}.'
