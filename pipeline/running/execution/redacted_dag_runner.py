"""TFX's LocalDagRunner with a metadata store that redacts secrets on write."""

from pathlib import Path

from tfx.orchestration.local.local_dag_runner import LocalDagRunner

from fullpass.base.errors import UserError
from fullpass.components.internals.tfx_internals import constants, pipeline_pb2, runner_utils, runtime_parameter_utils
from fullpass.pipeline.running.execution.events import Status, new_run_id
from fullpass.pipeline.running.execution.launch import launch
from fullpass.pipeline.running.execution.metadata_store import LockedMetadata


class RedactedDagRunner(LocalDagRunner):
    """Runs the nodes of a pipeline one after the other in this process, like `tfx run`."""

    def run_with_ir(self, pipeline: pipeline_pb2.Pipeline, run_options: pipeline_pb2.RunOptions | None = None) -> None:
        """See base class.

        Raises:
            UserError: A node lacks an input.
        """
        run_id = {constants.PIPELINE_RUN_ID_PARAMETER_NAME: new_run_id()}
        runtime_parameter_utils.substitute_runtime_parameter(pipeline, run_id)
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        metadata = LockedMetadata(
            Path(deployment.metadata_connection_config.database_connection_config.sqlite.filename_uri)
        )
        for node in pipeline.nodes:
            outcome = launch(node.pipeline_node, pipeline, deployment, metadata)
            if outcome.status is Status.FAILED:
                raise UserError(f"{node.pipeline_node.node_info.id}: {outcome.error}")
