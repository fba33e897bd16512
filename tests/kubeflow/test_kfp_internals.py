"""What Fullpass relies on in Kubeflow Pipelines, in the installed packages: a new version of them fails here first."""

import inspect
import warnings

import kfp_server_api
import pytest
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2
from tfx.dsl.components.base import base_driver, executor_spec
from tfx.dsl.components.common.resolver import Resolver

from fullpass.components.ingest.spans.spans import Window, span_unit
from fullpass.kubeflow import kfp_internals as internals
from fullpass.pipeline.authoring.loading.load import load
from fullpass.pipeline.running.build import build_nodes
from fullpass.pipeline.running.tfx_components import RunPaths
from tests import REPOSITORY

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kfp import dsl
    from kfp.compiler import pipeline_spec_builder
    from kfp.dsl import importer_node, placeholders
    from kfp.local import importer_handler

pytestmark = pytest.mark.integration


def test_placeholders_are_those_of_the_sdk():
    assert dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER == internals.MESSAGE
    assert placeholders.InputPathPlaceholder("x")._to_string() == internals.path_placeholder("inputs", "x")
    assert placeholders.OutputPathPlaceholder("x")._to_string() == internals.path_placeholder("outputs", "x")
    assert internals.path_placeholder("inputs", "x").startswith(internals.UNRESOLVED)
    assert dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER == internals.SCHEDULE_TIME_PLACEHOLDER


def test_importers_have_the_names_of_the_sdk():
    assert (importer_node.URI_KEY, importer_node.OUTPUT_KEY) == (internals.IMPORTER_URI, internals.IMPORTER_ARTIFACT)
    source = inspect.getsource(importer_handler)
    assert f"parameter_values['{internals.IMPORTER_URI}']" in source and f"'{internals.IMPORTER_ARTIFACT}':" in source


def test_the_specification_knows_the_schema_version_and_the_exit_strategy():
    builder = inspect.getsource(pipeline_spec_builder)
    assert f"schema_version = '{internals.SCHEMA_VERSION}'" in builder
    policy = pipeline_spec_pb2.PipelineTaskSpec.TriggerPolicy()
    json_format.ParseDict(internals.EXIT, policy)
    assert policy.strategy == policy.ALL_UPSTREAM_TASKS_COMPLETED


def test_kfps_client_keeps_its_last_response_and_renews_its_token():
    client = kfp_server_api.ApiClient(kfp_server_api.Configuration(host="http://127.0.0.1"))
    assert "self.last_response = response_data" in inspect.getsource(kfp_server_api.ApiClient)
    client.last_response = type("Response", (), {"data": '{"runs": []}'})
    assert internals.has_json_answer(client)
    client.last_response.data = "[]"
    assert not internals.has_json_answer(client)
    client.configuration.refresh_api_key_hook = lambda used: used.api_key.update(authorization="new")
    assert client.configuration.get_api_key_with_prefix("authorization") == "new"


def test_nodes_of_tfx_can_run_in_containers():
    """A container runs the executor alone: no driver of a node does anything, and each executor is a class."""
    loaded = load(REPOSITORY / "examples" / "taxi" / "pipeline.yaml")
    paths = RunPaths(
        resolve=loaded.resolve, window=Window(span_unit(loaded.config.data), ()), known=(), analyzer_cache="",
        span_statistics="", span_verdicts="", compress=True, push_to="serving",
    )  # fmt: skip
    nodes = [node for node in build_nodes(loaded, paths) if not isinstance(node, Resolver)]
    assert len(nodes) > 12
    for node in nodes:
        assert node.driver_class is base_driver.BaseDriver, node.id
        assert isinstance(node.executor_spec, executor_spec.ExecutorClassSpec), node.id


@pytest.mark.parametrize(
    ("uri", "run"),
    [
        ("minio://mlpipeline/v2/artifacts/trips/run-7/trainer/salt/model", "run-7"),
        ("s3://bucket/trips/run-7/trainer/salt/model", "run-7"),
        ("/local/outputs/trips-2026/trainer/salt/model", None),
        ("model", None),
    ],
)
def test_the_run_is_read_from_the_addresses_that_the_backend_gives(uri, run):
    assert internals.run_id([uri], "trips") == run


def test_nodes_have_the_ids_of_argo():
    """32-bit FNV-1a of the path, by the published value of b"foobar"."""
    assert internals._fnv("foobar") == 0xBF9CF968
    around = ["w", "w(0)", "w(0).root", "w(0).root(0)", "w(0).root(0).a", "w(0).root(0).a(0)"]
    ids = {f"w-{internals._fnv(path)}": path for path in (*around, "w(0).root(0).a(0).executor", "w.root.b-driver")}
    assert internals.argo_paths("w", ["a", "b"], 1, ids).items() >= {k: v for k, v in ids.items() if v != "w"}.items()
