"""The command line against the fake server."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fullpass.base.errors import UserError
from fullpass.kubeflow.protocol import FAILURE
from fullpass.pipeline.cli import app
from tests.kubeflow.conftest import ENVIRONMENT, REPOSITORY
from tests.kubeflow.deploy.server import failed_run, pod


@pytest.fixture
def files(tmp_path) -> list[str]:
    """The arguments of a command: the taxi example with a schedule, and an environment file."""
    text = (REPOSITORY / "examples" / "taxi" / "pipeline.yaml").read_text()
    (tmp_path / "pipeline.yaml").write_text(text + '\nschedule: {cron: "0 3 * * 7"}\n')
    (tmp_path / "env.yaml").write_text(ENVIRONMENT)
    return [str(tmp_path / "pipeline.yaml"), "--env", str(tmp_path / "env.yaml")]


def fullpass(*arguments: str, **variables: str):
    return CliRunner().invoke(app, arguments, env=variables, catch_exceptions=True)


@pytest.mark.integration
def test_from_a_pipeline_file_to_a_schedule_that_is_paused_and_deleted(files, server):
    at = {"KF_PIPELINES_ENDPOINT": server.address}
    server.progress = [{"state": "SUCCEEDED"}]
    submitted = fullpass("submit", *files, "--param", "data_path=gs://rows/*.csv", **at)
    assert submitted.exit_code == 0, submitted
    (run,) = server.things["runs"].values()
    link = f"{server.address}/#/runs/details/{run['run_id']}"
    assert submitted.stdout.splitlines() == [f"run {run['run_id']}: {link}", f"run {run['run_id']}: succeeded"]
    assert run["runtime_config"]["parameters"] == {"data_path": "gs://rows/*.csv"}

    assert "will be created (0 0 3 * * 0)" in fullpass("schedule", "apply", *files, "--dry-run", **at).stdout
    assert not server.things["recurringruns"]
    assert "will be created (0 0 3 * * 0)" in fullpass("schedule", "apply", *files, **at).stdout
    # The schedule uses the pipeline version that the run uploaded.
    assert len(server.versions) == 1
    assert "is up to date" in fullpass("schedule", "apply", *files, **at).stdout
    assert "paused" in fullpass("schedule", "pause", files[0], **at).stdout
    assert "taxi  0 0 3 * * 0  paused" in fullpass("schedule", "list", *files, **at).stdout
    assert fullpass("schedule", "resume", files[0], **at).exit_code == 0
    assert "enabled" in fullpass("schedule", "list", *files[1:], **at).stdout
    assert "deleted" in fullpass("schedule", "delete", files[0], **at).stdout
    assert not server.things["recurringruns"]


@pytest.mark.integration
def test_a_run_takes_the_span_it_is_given_and_a_scheduled_one_what_is_new(files, server):
    at = {"KF_PIPELINES_ENDPOINT": server.address}
    refused = fullpass("submit", *files, "--span", "2013-01-05", **at)
    assert isinstance(refused.exception, UserError) and "data.source has no spans" in str(refused.exception)
    pipeline = Path(files[0])
    path = "package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv"
    pipeline.write_text(pipeline.read_text().replace(path, "trips/{YYYY}-{MM}-{DD}.csv"))
    submitted = fullpass("submit", *files, "--span", "2013-01-05", "--no-wait", **at)
    assert submitted.exit_code == 0, submitted
    (run,) = server.things["runs"].values()
    assert run["runtime_config"]["parameters"] == {"span": "2013-01-05"}
    assert fullpass("schedule", "apply", *files, **at).exit_code == 0
    (scheduled,) = server.things["recurringruns"].values()
    assert scheduled["runtime_config"]["parameters"] == {"span": "new"}
    # Since 2.17 a run receives its scheduled time, and with a lag it uses the span of that time.
    pipeline.write_text(pipeline.read_text().replace('"0 3 * * 7"', '"0 3 * * 7", lag: 1'))
    refused = fullpass("schedule", "apply", *files, **at)
    assert "lag if spans are dates (from 2.17)" in str(refused.exception)
    Path(files[2]).write_text(ENVIRONMENT.replace('"2.5"', '"2.17"'))
    assert fullpass("schedule", "apply", *files, **at).exit_code == 0
    (scheduled,) = server.things["recurringruns"].values()
    assert scheduled["runtime_config"]["parameters"] == {"span": "scheduled"}


@pytest.mark.integration
def test_a_watch_has_runs_and_a_schedule_of_its_own(files, server):
    at = {"KF_PIPELINES_ENDPOINT": server.address}
    with Path(files[0]).open("a") as file:
        file.write("serving_log: {source: {format: serving_log, path: '/models/log/*/*'}}\n")
    submitted = fullpass("submit", *files, "--watch", "--no-wait", "--param", "date=2026-01-21", **at)
    assert submitted.exit_code == 0, submitted
    (run,) = server.things["runs"].values()
    assert run["runtime_config"]["parameters"] == {"date": "2026-01-21"}
    assert run["display_name"].startswith("taxi-watch ")
    assert "watch.cron is missing" in str(fullpass("schedule", "apply", *files, "--watch", **at).exception)
    Path(files[2]).write_text(ENVIRONMENT + "watch: {cron: '0 6 * * *'}\n")
    assert fullpass("schedule", "apply", *files, "--watch", **at).exit_code == 0
    assert "taxi-watch  0 0 6 * * *" in fullpass("schedule", "list", *files[1:], **at).stdout
    assert fullpass("schedule", "delete", files[0], "--watch", **at).exit_code == 0
    assert not server.things["recurringruns"]


@pytest.mark.integration
def test_a_batch_prediction_runs_once_and_on_a_schedule_of_its_own(files, server):
    at = {"KF_PIPELINES_ENDPOINT": server.address}
    predict = "predict: {rows: '/models/{YYYY}-{MM}-{DD}.csv', output: '/models/out/{YYYY}-{MM}-{DD}.csv'}\n"
    Path(files[2]).write_text(ENVIRONMENT + predict)
    submitted = fullpass("submit", *files, "--predict", "--no-wait", "--param", "date=2026-01-02", **at)
    assert submitted.exit_code == 0, submitted
    (run,) = server.things["runs"].values()
    assert run["runtime_config"]["parameters"] == {"date": "2026-01-02"}
    assert run["display_name"].startswith("taxi-predict ")
    refused = fullpass("schedule", "apply", *files, "--predict", **at)
    assert "predict.cron is missing" in str(refused.exception)
    Path(files[2]).write_text(ENVIRONMENT + predict.replace("}\n", ", cron: '0 5 * * *'}\n"))
    for arguments in ((*files, "--predict"), files):
        assert fullpass("schedule", "apply", *arguments, **at).exit_code == 0
    assert "paused" in fullpass("schedule", "pause", files[0], "--predict", **at).stdout
    listed = fullpass("schedule", "list", *files[1:], **at).stdout
    assert "taxi-predict  0 0 5 * * *  paused" in listed and "taxi  " in listed
    assert fullpass("schedule", "delete", files[0], "--predict", **at).exit_code == 0
    (left,) = server.things["recurringruns"].values()
    assert left["display_name"] == "taxi"


@pytest.mark.integration
def test_a_run_that_fails_says_why_and_fails_the_command(files, server):
    server.progress = [failed_run("ingest-and-schema")]
    server.logs[pod("ingest-and-schema.executor")] = FAILURE + json.dumps("Ingest: data/*.csv: no such files")
    failed = fullpass("submit", *files, "--host", server.address)
    assert failed.exit_code == 1 and isinstance(failed.exception, UserError)
    assert str(failed.exception) == "Ingest: data/*.csv: no such files"
    assert failed.stdout.splitlines()[1:] == [
        "ingest-and-schema: failed",
        failed.stdout.splitlines()[0].split(": ")[0] + ": failed",
    ]
    for state, expected in (
        ("FAILED", "failed before its first task.*kubectl describe workflow"),
        ("CANCELED", "was cancel"),
    ):
        server.progress = [{"state": state}]
        assert re.search(expected, str(fullpass("submit", *files, "--host", server.address).exception))


@pytest.mark.integration
def test_of_several_failures_the_cause_is_told_and_the_others_when_asked_for(files, server):
    server.progress = [failed_run("ingest-and-schema", "transform")]
    server.logs[pod("ingest-and-schema.executor")] = FAILURE + json.dumps("Ingest: data/*.csv: no such files")
    server.logs[pod("transform.executor")] = FAILURE + json.dumps("Transform: no disk")
    failed = fullpass("submit", *files, "--host", server.address)
    [run] = server.things["runs"]
    assert str(failed.exception).splitlines() == [
        "Ingest: data/*.csv: no such files",
        f"1 more in this run, which may follow from it: --run {run} --all-causes tells them.",
    ]
    again = fullpass("submit", *files, "--host", server.address, "--run", run, "--all-causes")
    assert str(again.exception).splitlines() == ["Ingest: data/*.csv: no such files", "Transform: no disk"]
    assert list(server.things["runs"]) == [run]
    refused = fullpass("submit", *files, "--host", server.address, "--run", run, "--param", "data_path=x")
    assert isinstance(refused.exception, UserError) and "was started already" in str(refused.exception)


def test_a_file_without_a_schedule_is_not_scheduled(files, server):
    shutil.copy(REPOSITORY / "examples" / "taxi" / "pipeline.yaml", files[0])
    refused = fullpass("schedule", "apply", *files, "--host", server.address)
    assert "schedule is missing" in str(refused.exception) and not server.requests


def test_data_that_is_only_on_the_cluster_is_a_warning(files, server):
    text = Path(files[0]).read_text()
    Path(files[0]).write_text(
        text.replace("package:tfx/examples/chicago_taxi_pipeline/data/simple/data.csv", "gone/*.csv")
    )
    listed = fullpass("schedule", "list", *files, "--host", server.address)
    assert listed.exit_code == 0 and "gone/*.csv" in listed.stderr


def test_a_schedule_that_waits_for_a_file_is_not_taken_for_one_that_does(files, server):
    text = Path(files[0]).read_text().replace('{cron: "0 3 * * 7"}', '{cron: "0 3 * * 7", wait_for: "x/{YYYY}"}')
    Path(files[0]).write_text(text)
    refused = fullpass("schedule", "apply", *files, "--host", server.address)
    assert "start only at set times" in str(refused.exception) and not server.requests
