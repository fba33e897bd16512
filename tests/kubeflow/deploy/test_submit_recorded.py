"""`submit` and `schedule` against the answers that the API servers of releases gave to the pipeline of taxi."""

import re

import pytest

from fullpass.kubeflow.deploy import api_requests, recurring_runs
from fullpass.kubeflow.deploy.api_requests import Cluster
from fullpass.kubeflow.deploy.causes import failures
from fullpass.kubeflow.deploy.connection import client
from fullpass.kubeflow.deploy.recurring_runs import DesiredSchedule
from fullpass.kubeflow.deploy.submit import RunSettings, end_state, start, wait
from tests.kubeflow.deploy.replay import RELEASES, Recording

TASKS = [
    "nodes", "find-inputs", "last-blessed-model", "ingest-and-schema", "statistics-gen-to-span-comparison", "transform",
    "data-gate-and-trainer", "evaluator-to-report",
]  # fmt: skip
SETTINGS = RunSettings("taxi")


@pytest.fixture
def taxi(package):
    """A package of the name of the recorded one."""
    package.pipeline["pipelineInfo"]["name"] = "taxi"
    return package


def waited(recording: Recording, taxi, tasks=TASKS) -> tuple[list[str], list[str], str]:
    """Replays a run; returns the printed lines, its causes, and its end."""
    lines: list[str] = []
    with recording.serving() as address:
        cluster = Cluster(client(address, {}))
        run = wait(cluster, start(cluster, taxi, SETTINGS).run_id, tasks, lines.append, poll=0)
        causes = failures(cluster, run, tasks) if run.state == "FAILED" else []
    return lines, causes, end_state(run)


@pytest.mark.parametrize("release", RELEASES)
def test_a_run_is_started_and_told_task_by_task(release, taxi):
    recording = Recording(release, "first-run")
    lines, _, end = waited(recording, taxi)
    assert end == "SUCCEEDED" and not recording.unknown
    done = [found[1] for line in lines if (found := re.fullmatch(r"(\S+): succeeded after \d+ s", line))]
    assert sorted(done) == sorted(TASKS)


@pytest.mark.parametrize("release", RELEASES)
def test_the_cause_of_a_failure_is_the_sentence_of_its_node(release, taxi):
    _, [cause, *more], end = waited(Recording(release, "bad-data"), taxi)
    assert end == "FAILED" and not more
    assert cause.startswith("Ingest: ") and "/pipeline/bad.csv, row 122: 'ten" in cause


@pytest.mark.parametrize("release", RELEASES)
def test_without_the_older_api_the_failed_pod_is_found_by_the_task_details(release, taxi):
    recording = Recording(release, "bad-data")
    recording.left = [one for one in recording.left if "/v1beta1/" not in one["request"]]
    log = next(
        one for one in recording.left if one["request"].endswith("/log")
    )  # asked for by its name in the Workflow
    log["answer"] = 'fullpass-failure: "Ingest: 9 of 9 rows"\n'
    assert waited(recording, taxi)[1] == ["Ingest: 9 of 9 rows"]


@pytest.mark.parametrize("release", RELEASES)
def test_a_container_above_its_memory_is_named(release, taxi):
    _, causes, end = waited(Recording(release, "OOM"), taxi, [*TASKS, "trainer", "data-gate"])
    assert end == "FAILED"
    assert causes[0].startswith("trainer: was killed for memory above its limit (OOMKilled)")


@pytest.mark.parametrize("release", RELEASES)
def test_a_terminated_run_is_told_as_canceled(release):
    recording = Recording(release, "wait-for-it")
    [run_id] = {
        one["answer"]["run_id"]
        for one in recording.left
        if re.fullmatch(r"GET \S+/v2beta1/runs/[\w-]+", one["request"])
    }
    with recording.serving() as address:
        assert end_state(wait(Cluster(client(address, {})), run_id, TASKS, print, poll=0)) == "CANCELED"


@pytest.mark.parametrize("release", RELEASES)
def test_a_schedule_is_created_kept_paused_resumed_and_deleted(release, monkeypatch):
    recording = Recording(release, "schedule")
    [uploaded] = [one["answer"] for one in recording.left if one["request"].endswith("/upload_version")]
    monkeypatch.setattr(api_requests, "version_name", lambda package: uploaded["display_name"])
    desired = DesiredSchedule("taxi", "0 * * * * *", "the package", SETTINGS)
    with recording.serving() as address:
        cluster = Cluster(client(address, {}))
        plans = [recurring_runs.plan(cluster, desired)]
        recurring_runs.apply(cluster, desired, plans[0])
        plans.append(recurring_runs.plan(cluster, desired))
        table = recurring_runs.table(cluster.recurring_runs("taxi"))
        for verb in ("pause", "resume", "delete"):
            recurring_runs.change(cluster, "taxi", verb)
    assert [plan.change for plan in plans] == ["create", "keep"] and not recording.unknown
    assert re.search(r"(?m)^taxi +0 \* \* \* \* \* +enabled ", table)
