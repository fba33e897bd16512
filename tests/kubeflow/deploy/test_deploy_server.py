"""The fake server against kfp's own client: it accepts a package compiled by kfp, and rejects invalid requests."""

import warnings

import kfp
import kfp_server_api
import pytest
from kfp import compiler, dsl

from tests.kubeflow.deploy.server import is_robfig_cron


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


def test_kfps_client_is_refused_what_the_real_server_refuses(kfp_client, file):
    pipeline = kfp_client.upload_pipeline(file, pipeline_name="hello")
    experiment = kfp_client.create_experiment("hello")
    for status, ask in [
        (409, lambda: kfp_client.upload_pipeline(file, pipeline_name="hello")),
        (400, lambda: kfp_client.upload_pipeline(file, pipeline_name="x" * 129)),
        (
            400,
            lambda: kfp_client.create_recurring_run(
                experiment.experiment_id, "daily", cron_expression="0 0 25 * * *", pipeline_id=pipeline.pipeline_id,
                version_id="none",
            ),
        ),
    ]:  # fmt: skip
        with pytest.raises(kfp_server_api.ApiException) as refused:
            ask()
        assert refused.value.status in (status, 404)


@pytest.mark.parametrize(
    ("line", "accepted"),
    [("0 0 3 * * *", True), ("0 0 3 * * 7", False), ("0 */5 * 1,15 jan mon-fri", True), ("0 3 * *", False)],
)
def test_cron_lines_as_the_backend_reads_them(line, accepted):
    assert is_robfig_cron(line) is accepted
