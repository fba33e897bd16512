"""What `tfx_internals` promises of TFX: another version that differs fails here first, with a name."""

import inspect
from operator import attrgetter

import pytest

from fullpass.components.internals import tfx_internals

PARAMETERS = {
    "artifact_utils.decode_split_names": ["split_names"],
    "artifact_utils.encode_split_names": ["splits"],
    "artifact_utils.get_single_instance": ["artifact_list"],
    "artifact_utils.get_single_uri": ["artifact_list"],
    "artifact_utils.get_split_uri": ["artifact_list", "split"],
    "base_beam_component.BaseBeamComponent.__init__": ["self", "spec", "custom_executor_spec"],
    "base_beam_executor.BaseBeamExecutor.Do": ["self", "input_dict", "output_dict", "exec_properties"],
    "base_beam_executor.BaseBeamExecutor._get_tmp_dir": ["self"],
    "base_beam_executor.BaseBeamExecutor._make_beam_pipeline": ["self"],
    "channel_resolver._get_executions_by_all_contexts": ["store", "contexts"],
    "channel_resolver.resolve_single_channel": ["handle_like", "channel"],
    "compiler.Compiler.compile": ["self", "tfx_pipeline", "parent_pipeline_ctx"],
    "compiler_utils.node_context_name": ["pipeline_context_name", "node_id"],
    "component_spec.ChannelParameter.__init__": ["self", "type", "optional", "allow_empty", "is_async"],
    "component_spec.ExecutionParameter.__init__": ["self", "type", "optional", "use_proto"],
    "context_lib.register_context_if_not_exists": [
        "metadata_handle",
        "context_type_name",
        "context_name",
        "parent_contexts",
    ],
    "execution_lib.get_input_artifacts": ["metadata_handle", "execution_id"],
    "execution_lib.get_output_artifacts": ["metadata_handle", "execution_id"],
    "execution_lib.is_execution_active": ["execution"],
    "execution_lib.is_execution_failed": ["execution"],
    "execution_lib.is_execution_successful": ["execution"],
    "execution_publish_utils.publish_failed_execution": [
        "metadata_handle",
        "contexts",
        "execution_id",
        "executor_output",
    ],
    "executor_spec.BeamExecutorSpec.__init__": ["self", "executor_class"],
    "executor_spec.ExecutorClassSpec.__init__": ["self", "executor_class"],
    "import_utils.import_class_by_path": ["class_path"],
    "io_utils.SchemaReader.read": ["self", "schema_path"],
    "io_utils.copy_dir": ["src", "dst", "allow_regex_patterns", "deny_regex_patterns"],
    "io_utils.write_pbtxt_file": ["file_name", "proto"],
    "json_utils.dumps": ["obj"],
    "json_utils.loads": ["s"],
    "launcher.Launcher.launch": ["self"],
    "node_proto_view.get_view_for_all_in": ["pipeline"],
    "partial_run_utils.snapshot": ["mlmd_handle", "pipeline", "base_run_id"],
    "path_utils.serving_model_path": ["output_uri", "is_old_artifact"],
    "runner_utils.extract_executor_spec": ["deployment_config", "node_id"],
    "runner_utils.extract_local_deployment_config": ["pipeline"],
    "runtime_parameter_utils.substitute_runtime_parameter": ["msg", "parameter_bindings"],
}


@pytest.mark.parametrize("name", tfx_internals.MODULES)
def test_every_name_is_where_it_is_said_to_be(name):
    assert getattr(tfx_internals, name) is not None


@pytest.mark.parametrize("path", PARAMETERS)
def test_what_is_called_takes_the_same_parameters(path):
    name, _, attribute = path.partition(".")
    called = attrgetter(attribute)(getattr(tfx_internals, name))
    assert list(inspect.signature(inspect.unwrap(called)).parameters) == PARAMETERS[path]


def test_names_of_contexts_are_those_of_the_metadata_of_earlier_runs():
    constants = tfx_internals.constants
    names = (
        constants.PIPELINE_CONTEXT_TYPE_NAME,
        constants.PIPELINE_RUN_CONTEXT_TYPE_NAME,
        constants.NODE_CONTEXT_TYPE_NAME,
        constants.PIPELINE_RUN_ID_PARAMETER_NAME,
    )
    assert names == ("pipeline", "pipeline_run", "node", "pipeline-run-id")


def test_another_name_is_refused():
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = tfx_internals.other
