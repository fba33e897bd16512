"""What the process of a node does: TFX's own driver, executor and publisher, and how they ended."""

import re

import grpc
from ml_metadata import proto
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.portable import launcher
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import local_deployment_config_pb2, pipeline_pb2

from pipeline.execution import failure
from pipeline.execution.events import Status
from pipeline.execution.node_process import Outcome

RESOLVER_TYPE = "tfx.dsl.components.common.resolver.Resolver"
IMPORTER_TYPE = "tfx.dsl.components.common.importer.Importer"
_UNMET_INPUT = re.compile(r"inputs\[(?P<input>\w+)\]")
_NOTHING_FOUND = grpc.StatusCode.FAILED_PRECONDITION.value[0]


def launch(
    node: pipeline_pb2.PipelineNode,
    pipeline: pipeline_pb2.Pipeline,
    deployment: local_deployment_config_pb2.LocalDeploymentConfig,
    handle: metadata.Metadata,
) -> Outcome:
    """Runs one node of a compiled pipeline to its end.

    Args:
        node: A node of `pipeline`.
        pipeline: The IR, with its run id filled in.
        deployment: Says which executor and driver belong to a node.
        handle: The metadata, not entered.

    Raises:
        Exception: Whatever the executor raised; the metadata then records the execution as failed.
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
        return Outcome(status=Status.SKIPPED)
    with handle:
        [execution] = handle.store.get_executions_by_id([info.execution_id])
        artifacts = execution_lib.get_output_artifacts(handle, info.execution_id)
    return _outcome(node, execution, outputs=sum(map(len, artifacts.values())))


def _outcome(node: pipeline_pb2.PipelineNode, execution: proto.Execution, outputs: int) -> Outcome:
    """Reads how a launch that raised nothing ended; TFX records inputs that it cannot resolve, and returns."""
    if execution.last_known_state == execution.CACHED:
        return Outcome(status=Status.CACHED, outputs=outputs)
    if not execution_lib.is_execution_failed(execution):
        return Outcome(status=Status.OK, outputs=outputs)
    reason = execution_lib.get_execution_result(execution)
    if node.node_info.type.name == RESOLVER_TYPE and reason.code == _NOTHING_FOUND:
        # A resolver may find nothing, as on a first run; a node that cannot do without says so itself.
        return Outcome(status=Status.OK)
    return Outcome(status=Status.FAILED, error=_missing_input(node, reason.result_message))


def _missing_input(node: pipeline_pb2.PipelineNode, message: str) -> str:
    """Words for inputs that TFX could not resolve; names the nodes that should have made them."""
    named = _UNMET_INPUT.search(message)
    if named is None:
        return failure.explain_text(message)
    channels = node.inputs.inputs[named["input"]].channels
    producers = {channel.producer_node_query.id for channel in channels} - {""}
    source = f" from {' or '.join(sorted(producers))}, which has none" if producers else ", and there is none"
    return f'It needs the input "{named["input"]}"{source}.'
