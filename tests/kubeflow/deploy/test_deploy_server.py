"""The fake server against kfp's own client."""

import warnings

import kfp
import pytest
from kfp import compiler, dsl


@dsl.container_component
def hello():
    return dsl.ContainerSpec(image="registry.example/hello:1", command=["true"])


@pytest.fixture
def file(tmp_path):
    @dsl.pipeline(name="hello")
    def pipeline(who: str = "you"):
        hello()

    compiler.Compiler().compile(pipeline, str(tmp_path / "hello.yaml"))
    return str(tmp_path / "hello.yaml")


@pytest.fixture
def kfp_client(server):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return kfp.Client(host=server.address, namespace="kubeflow-user")


def test_kfps_client_uploads_runs_and_schedules(kfp_client, file, server):
    pipeline = kfp_client.upload_pipeline(file, pipeline_name="hello")
    version = kfp_client.upload_pipeline_version(file, "two", pipeline_id=pipeline.pipeline_id)
    experiment = kfp_client.create_experiment("hello")
    run = kfp_client.run_pipeline(
        experiment.experiment_id,
        "once",
        pipeline_id=pipeline.pipeline_id,
        version_id=version.pipeline_version_id,
        params={"who": "me"},
    )
    assert kfp_client.get_run(run.run_id).state == "PENDING"
    recurring = kfp_client.create_recurring_run(
        experiment.experiment_id,
        "daily",
        cron_expression="0 0 3 * * *",
        pipeline_id=pipeline.pipeline_id,
        version_id=version.pipeline_version_id,
    )
    kfp_client.disable_recurring_run(recurring.recurring_run_id)
    assert kfp_client.get_recurring_run(recurring.recurring_run_id).status == "DISABLED"
    assert kfp_client.get_pipeline_id("hello") == pipeline.pipeline_id
