"""Uploading packages, starting runs and waiting for them, against the fake server."""

import re
from datetime import UTC, datetime

import pytest
import yaml

from fullpass.base.errors import UserError
from fullpass.kubeflow.compile.package import to_yaml
from fullpass.kubeflow.deploy.api_requests import Cluster, version_name
from fullpass.kubeflow.deploy.connection import Unreachable, client
from fullpass.kubeflow.deploy.submit import RunSettings, run_parameters, start, wait
from tests.kubeflow.deploy.server import REFUSALS, argo_status


def state(name: str, state: str, **more) -> dict:
    return {"display_name": name, "state": state, **more}


def test_a_run_refers_to_the_uploaded_version_with_its_parameters(cluster, server, package, text):
    run = start(cluster, package, RunSettings("toys", "runner", {"push": False}))
    (version,) = server.versions.values()
    body = server.things["runs"][run.run_id]
    assert body["pipeline_version_reference"] == {
        "pipeline_id": version["pipeline_id"],
        "pipeline_version_id": version["pipeline_version_id"],
    }
    assert body["runtime_config"] == {"parameters": {"push": False}} and body["service_account"] == "runner"
    assert server.things["experiments"][body["experiment_id"]]["display_name"] == "toys"
    assert server.packages[version["pipeline_version_id"]] == list(yaml.safe_load_all(text))
    posted = [path.removeprefix("/apis/v2beta1/") for verb, path in server.requests if verb == "POST"]
    assert posted == ["pipelines", "pipelines/upload_version", "experiments", "runs"]


def test_the_same_package_is_one_version_and_another_is_another(cluster, server, package, text):
    first = cluster.upload("toy", text)
    again = cluster.upload("toy", text)
    package.pipeline["sdkVersion"] = "other"
    other = cluster.upload("toy", to_yaml(package))
    assert (first.new, again.new, other.new) == (True, False, True)
    assert first.version_id == again.version_id != other.version_id
    assert [v["display_name"] for v in server.versions.values()] == [version_name(text), version_name(to_yaml(package))]
    assert len(server.things["pipelines"]) == 1


def test_what_stands_on_a_later_page_is_found(cluster, server, package, text):
    for number in range(5):
        package.pipeline["sdkVersion"] = f"{number}"
        cluster.upload("toy", to_yaml(package))
    assert not cluster.upload("toy", to_yaml(package)).new and len(server.versions) == 5
    assert server.largest_page == 2


@pytest.mark.parametrize("refusal", ["schema version", "two platforms"])
def test_a_refused_package_is_refused_in_words_and_leaves_nothing(cluster, server, text, refusal):
    server.refusing = {"pipelines/upload_version": refusal}
    with pytest.raises(UserError, match=re.escape(REFUSALS[refusal]["body"]["error_message"])) as refused:
        cluster.upload("toy", text)
    assert "uploading pipeline toy, version sha256-" in str(refused.value)
    assert not server.things["pipelines"] and not server.versions


def test_names_that_are_too_long_are_not_even_sent(cluster, server, text):
    with pytest.raises(UserError, match="128 characters. Received 129"):
        cluster.upload("x" * 129, text)
    with pytest.raises(UserError, match="63 characters. Received 64"):
        Cluster(client(server.address, {}), "n" * 64)
    assert not server.requests


def test_a_package_that_is_too_large_is_not_sent(cluster, server):
    with pytest.raises(UserError, match="33,554,432"):
        cluster.upload("toy", "x" * (32 * 2**20 + 1))
    assert not server.requests


def test_an_upload_at_the_same_time_is_told_of(cluster, server, text):
    cluster.upload("toy", text)
    server.failing, server.refusing = [(200, '{"pipelines": []}')], {"pipelines": "pipeline exists"}
    with pytest.raises(UserError, match="exists already.*toy already exists"):
        cluster.upload("toy", text)


def test_parameters_are_texts_that_the_package_declares(package):
    assert run_parameters(package, []) == {} and run_parameters(package, ["data_path=a=b.csv"]) == {
        "data_path": "a=b.csv"
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("data_pat=x", 'mean "data_path"'),
        ("data_path", "NAME=VALUE"),
        ("data_path=s3://AKIAIOSFODNN7EXAMPLE:x@b", "everyone can read the parameters"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(package, given, expected):
    with pytest.raises(UserError, match=expected):
        run_parameters(package, [given])


def test_waiting_tells_each_change_once_and_ends_with_the_run(cluster, server, package, text):
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    done = state("first", "SUCCEEDED", start_time=begin.isoformat(), end_time=begin.replace(second=42).isoformat())
    broken = state("second", "FAILED")
    server.progress = [
        {"state": "PENDING"},
        {
            "state": "RUNNING",
            "run_details": {"task_details": [state("root-driver", "RUNNING"), state("first", "RUNNING")]},
        },
        {"state": "RUNNING", "run_details": {"task_details": [state("first", "RUNNING")]}},
        {"state": "RUNNING", "run_details": {"task_details": [done, state("second", "PENDING")]}},
        {"state": "FAILED", "run_details": {"task_details": [done, broken]}},
    ]
    lines: list[str] = []
    run = start(cluster, package, RunSettings("toys"))
    ended = wait(cluster, run.run_id, ["first", "second"], lines.append, poll=0)
    assert lines == ["first: running", "first: succeeded after 42 s", "second: failed"]
    assert ended.state == "FAILED"


def test_a_pod_that_stays_pending_is_told_of_once(cluster, server, package):
    details = [state("first", "RUNNING"), state("executor", "PENDING")]
    waiting = {"state": "RUNNING", "run_details": {"task_details": details}}
    server.progress = [*[waiting] * 4, {"state": "SUCCEEDED"}]
    lines: list[str] = []
    wait(cluster, start(cluster, package, RunSettings("toys")).run_id, ["first"], lines.append, poll=0, stuck=0)
    assert [line.split(".")[0] for line in lines] == ["first: running", "first: a pod has been pending for 0 s"]
    assert "image" in lines[1] and "kubectl describe pod" in lines[1]
    message = "Unschedulable: 0/3 nodes are available: 3 Insufficient memory."
    path = "toy-x7k2p(0).root(0).first(0).executor(0)"
    server.workflow = argo_status({path: ("Pending", message, "05:00")})
    server.progress = [*[waiting] * 4, {"state": "SUCCEEDED"}]
    lines.clear()
    wait(cluster, start(cluster, package, RunSettings("toys")).run_id, ["first"], lines.append, poll=0, stuck=0)
    assert lines[1] == f"first: a pod has been pending for 0 s.\n  first: {message}"


def test_waiting_outlives_an_api_that_is_away_for_a_while(cluster, server, package, text):
    server.progress = [{"state": "SUCCEEDED"}]
    run = start(cluster, package, RunSettings("toys"))
    server.failing = [(503, "<html>down</html>"), (502, "")]
    lines: list[str] = []
    assert wait(cluster, run.run_id, [], lines.append, poll=0).state == "SUCCEEDED"
    assert len(lines) == 2 and all("is temporarily unavailable" in line for line in lines)
    server.failing = [(503, "")] * 3
    with pytest.raises(Unreachable, match="503"):
        wait(cluster, run.run_id, [], lines.append, poll=0, patience=0)


def test_waiting_ends_at_its_limit_and_says_that_the_run_goes_on(cluster, server, package, text):
    server.progress = [{"state": "RUNNING"}]
    run = start(cluster, package, RunSettings("toys"))
    with pytest.raises(UserError, match="It continues; see http.*/#/runs/details/"):
        wait(cluster, run.run_id, [], print, poll=0, timeout=0)
