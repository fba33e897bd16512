"""The causes of failed runs, from logs of the fake server."""

import base64
import gzip
import json
import subprocess
import sys

import pytest
from kfp_server_api import V2beta1Run, V2beta1RuntimeStatus

from fullpass.kubeflow.compile.package import Package
from fullpass.kubeflow.deploy.api_requests import Cluster
from fullpass.kubeflow.deploy.causes import failures
from fullpass.kubeflow.deploy.connection import client
from fullpass.kubeflow.deploy.submit import RunSettings, end_state, start, wait
from tests.kubeflow.deploy.server import (
    WORKFLOW,
    argo_status,
    detail,
    failed_driver,
    failed_run,
    hashed,
    node_id,
    nodes_of,
    pod,
    recorded,
)

WHOLE = "toy-x7k2p(0).root"
REFUSED = (
    'Pod "toy-x7k2p-system-container-impl-{}" is invalid: spec.containers[1].resources.requests: Invalid value: '
    '"8Gi": must be less than or equal to memory limit of 4Gi'
)
RETRIED = "retry-system-container-impl"


def printed(node: str, cause: str) -> str:
    """Returns what a container with this failure really writes, between lines of the launcher."""
    program = (
        "from fullpass.base.errors import UserError\n"
        "from fullpass.kubeflow.runtime.termination import run_to_end\n"
        f"def work(): raise UserError({cause!r})\n"
        f"run_to_end(lambda: {node!r}, work)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    return (
        f"I1125 03:04:05 launcher_v2.go:190] publish success.\n{done.stderr}F1125 03:04:09 main.go:47] exit status 1\n"
    )


@pytest.fixture(scope="module")
def bad_rows() -> str:
    return printed("Ingest", "399 of 399 rows cannot be used.\nFirst: row 1: 'é' {\"x\": 1}, s3://k:secret@store/x")


def ended(cluster: Cluster, server, package: Package, fields: dict) -> list[str]:
    server.progress = [fields]
    run = wait(cluster, start(cluster, package, RunSettings("toys")).run_id, [], print, poll=0)
    return failures(cluster, run, ["done", "first", "second", "ingest"])


def test_the_sentence_of_the_failed_node_is_told_without_secrets(cluster, server, package, bad_rows):
    server.logs[pod("ingest.executor")] = bad_rows
    [told] = ended(cluster, server, package, failed_run("ingest"))
    assert told == "Ingest: 399 of 399 rows cannot be used.\nFirst: row 1: 'é' {\"x\": 1}, s3://***@store/x"


@pytest.mark.parametrize("template", ["system-container-impl", RETRIED, "first-system-container-impl", None])
def test_a_pod_is_found_by_each_name_that_a_release_gives_it(cluster, server, package, template):
    path = "first.executor(0)"
    server.logs[pod(path, template) if template else node_id(path)] = 'fullpass-failure: "Ingest: no files"\n'
    assert ended(cluster, server, package, failed_run("first", retry_nodes=True)) == ["Ingest: no files"]


def test_attempts_and_several_tasks_tell_each_cause_once(cluster, server, package):
    for number in range(3):
        server.logs[pod(f"first.executor({number})", RETRIED)] = 'fullpass-failure: "A: gone"\n'
        server.logs[pod(f"second.executor({number})", RETRIED)] = f'fullpass-failure: "B: {number // 2}"\n'
    told = ended(cluster, server, package, failed_run("first", "second", attempts=3))
    assert told == ["A: gone", "B: 1", "B: 0"]  # the last attempt ended the task


@pytest.mark.parametrize("of_dags", ["", "(0)"])
@pytest.mark.parametrize("dags", [(), ("second",), ("pipeline", "second")])
def test_a_failed_driver_is_told_of_by_its_log_though_no_detail_names_its_pod(cluster, server, package, dags, of_dags):
    fields, path = failed_driver("first", *dags, of_dags=of_dags), f"{of_dags}.".join((*dags, "first-driver"))
    log = "I1125 main.go:102] starting\nF1125 main.go:81] KFP driver: driver.Container failed: rpc error: Unavailable\n"
    server.logs[pod(f"{path}{of_dags}", "system-container-driver", of_dags)] = log
    server.logs[pod(f"done-driver{of_dags}", "system-container-driver", of_dags)] = "of a driver that did not fail"
    [told] = ended(cluster, server, package, fields)
    assert told.splitlines()[0] == f"first-driver{of_dags}: its log ends with" and "rpc error: Unavailable" in told
    server.logs.clear()
    [told, *_] = ended(cluster, server, package, fields)
    assert told.startswith("first: failed, and its log cannot be read")


NODES = (
    "find-inputs", "ingest", "schema", "statistics-gen", "transform", "trainer", "example-validator", "data-gate",
    "schema-comparison", "span-comparison", "last-blessed-model", "end-last-blessed-model", "parity", "evaluator",
    "import-last-blessed-model", "serving-check", "pusher", "report",
)  # fmt: skip


def test_a_recorded_failure_is_told_by_the_log_of_the_node_that_failed_and_by_no_other(cluster, server, package):
    server.progress = [recorded("failed-ingest")]
    for number in (3116642938, 2230123418, 2651508946):  # executor(0) of tasks that succeeded
        server.logs[f"taxi-bad-xqcms-system-container-impl-{number}"] = "I1128 launcher_v2.go:190] publish success.\n"
    server.logs["taxi-bad-xqcms-system-container-impl-2215323851"] = 'fullpass-failure: "Ingest: 9 of 9 rows"\n'
    run = wait(cluster, start(cluster, package, RunSettings("toys")).run_id, [], print, poll=0)
    assert failures(cluster, run, NODES) == ["Ingest: 9 of 9 rows"]
    server.logs["taxi-bad-xqcms-system-container-impl-2215323851"] = "F1128 main.go:47] exit status 7\n"
    assert failures(cluster, run, NODES) == ["ingest: its log ends with\n  F1128 main.go:47] exit status 7"]


def test_a_failed_importer_in_a_nested_dag_and_a_failed_driver_of_the_run_are_told_of(cluster, server, package):
    server.logs[pod("second.first", "system-importer")] = "F1125 main.go:81] no provider scheme found in artifact URI\n"
    [told] = ended(cluster, server, package, nodes_of({"second.first": "FAILED"}))
    assert told.startswith("first: its log ends with") and "no provider scheme" in told
    details = [detail("root-driver", "FAILED")]
    [told] = ended(cluster, server, package, {"state": "FAILED", "run_details": {"task_details": details}})
    assert told.startswith("root: failed, and its log cannot be read")


def test_a_killed_container_is_told_of_by_the_end_of_its_log(cluster, server, package):
    server.logs[pod("first.executor")] = "\n".join(f"line {n}" for n in range(9)) + "\ntoken=ghp_" + "a1B2" * 9 + "\n"
    [told] = ended(cluster, server, package, failed_run("first"))
    assert told.startswith("first: its log ends with\n  line 5\n  line 6")
    assert "ghp_a1B2" not in told and "***" in told
    server.logs[pod("first.executor")] += "F1125 03:04:09 main.go:47] failed to execute component: signal: killed\n"
    [told] = ended(cluster, server, package, failed_run("first"))
    assert told.startswith("first: was killed, as for memory above its limit; its log ends with\n  line 6")


def test_without_logs_the_failed_tasks_are_named_with_the_servers_reason(cluster, server, package):
    told = ended(cluster, server, package, failed_run("first", "second"))
    assert [line.split(":")[0] for line in told] == ["first", "second"]
    assert all("The specified key does not exist" in line for line in told)


def test_an_api_without_the_log_or_without_pods_still_names_the_task(cluster, server, package):
    bare = {"display_name": "first", "state": "FAILED"}
    fields = {"state": "FAILED", "run_details": {"task_details": [bare]}}
    assert ended(cluster, server, package, fields) == [
        "first: failed, and its log cannot be read, as when its pod was deleted or never started (the API lists no pod "
        "of a failed task)."
    ]
    server.log_status = 404
    [told] = ended(cluster, server, package, failed_run("first"))
    assert told.startswith("first: failed, and its log cannot be read, as when its pod was deleted")
    assert "(reading the log of toy-x7k2p-" in told


def test_an_api_server_that_gives_empty_logs_is_told_with_the_address_that_reads_them(cluster, server, package):
    """A single-user 2.14.4 answers so for every pod (recorded/2.14/bad-data.json)."""
    server.lost_log = ""
    [told] = ended(cluster, server, package, failed_run("first"))
    assert "(the API server gives an empty log. Kubeflow's page (service ml-pipeline-ui) reads logs" in told


def test_the_server_of_the_page_reads_logs_at_its_own_path(serve, package):
    server = serve(namespaces=("team-a",))
    server.is_page, cluster = True, Cluster(client(server.address, {}), "team-a")
    server.logs[pod("first.executor", RETRIED)] = 'fullpass-failure: "A: gone"\n'
    assert ended(cluster, server, package, failed_run("first")) == ["A: gone"]
    [told] = ended(cluster, server, package, failed_run("second"))
    assert told.startswith("second: failed") and "Could not get main container logs" in told


def test_behind_a_login_and_in_a_namespace_the_log_is_asked_for_with_the_same_identity(serve, package):
    server = serve(token="t", namespaces=("team-a",))
    server.logs[pod("first.executor")] = 'fullpass-failure: "A: gone"\n'
    cluster = Cluster(client(server.address, {"FULLPASS_KUBEFLOW_TOKEN": "t"}), "team-a")
    assert ended(cluster, server, package, failed_run("first")) == ["A: gone"]


def nested_retries() -> dict[str, tuple[str, str, str]]:
    """Nodes of a run of 2.17 as shipped, whose pod of `first` Kubernetes refuses: every node is retried twice."""
    nodes = {}
    for number in range(3):
        nodes[f"{WHOLE}(0).first(0).executor({number})"] = ("Error", REFUSED.format(number), f"05:0{number}")
        nodes[f"{WHOLE}({number + 1}).second-driver(0)"] = ("Failed", "main: Error (exit code 1)", f"06:0{number}")
    return nodes


def test_a_refused_pod_is_told_in_the_words_of_kubernetes_before_retries_that_fail_over_it(cluster, server, package):
    server.workflow = argo_status(nested_retries())
    unresolved = "F1128 main.go:81] KFP driver: driver.Container failed: failed to resolve inputs: no execution\n"
    for number in range(1, 4):
        path = f"{WHOLE}({number}).second-driver(0)"
        server.logs[hashed(path).replace(WORKFLOW, f"{WORKFLOW}-system-container-driver")] = unresolved
    told = ended(cluster, server, package, {"state": "FAILED"})
    assert told[0] == f"first: {REFUSED.format(2)}"
    assert told[-1].splitlines()[0] == "second-driver(0): its log ends with" and "failed to resolve" in told[-1]
    assert len(told) == 4


def test_without_a_workflow_the_retries_that_fail_over_a_refused_pod_come_after_it(cluster, server, package):
    paths = [path.removeprefix("toy-x7k2p(0).root(0).") for path in nested_retries() if "root(0)" in path]
    fields = nodes_of(dict.fromkeys(paths, "FAILED"))
    later = nodes_of({"second-driver(0)": "FAILED"}, attempt=1)["run_details"]["task_details"]
    fields["run_details"]["task_details"] += later
    path = f"{WHOLE}(1).second-driver(0)"
    server.logs[hashed(path).replace(WORKFLOW, f"{WORKFLOW}-system-container-driver")] = "failed to resolve inputs\n"
    told = ended(cluster, server, package, fields)
    assert told[0].startswith("first: failed, and its log cannot be read") and "never started" in told[0]
    assert "failed to resolve inputs" in told[1] and len(told) == 2


def test_a_failed_attempt_of_a_task_that_succeeded_is_no_cause(cluster, server, package):
    server.workflow = argo_status(
        {
            f"{WHOLE}(0).first(0).executor(0)": ("Error", "pod deleted", "05:00"),
            f"{WHOLE}(0).first(0).executor(1)": ("Succeeded", "", "05:10"),
            f"{WHOLE}(0).first(0).executor": ("Succeeded", "", "05:10"),
            f"{WHOLE}(0).first(0)": ("Succeeded", "", "05:10"),
            f"{WHOLE}(0).second(0).executor(0)": ("Failed", "main: Error (exit code 1): Second: no rows", "05:20"),
        }
    )
    assert ended(cluster, server, package, {"state": "FAILED"}) == ["Second: no rows"]


def test_of_two_failures_the_one_that_ended_first_is_the_cause(cluster, server, package):
    server.workflow = argo_status(
        {
            f"{WHOLE}(0).first(0).executor(0)": ("Failed", "main: Error (exit code 1): First: no disk", "05:30"),
            f"{WHOLE}(0).second(0).executor(0)": ("Failed", "main: OOMKilled (exit code 137)", "05:20"),
            f"{WHOLE}(0).ingest(0).executor(0)": ("Failed", "Pod was active longer than the deadline", "05:40"),
        }
    )
    assert ended(cluster, server, package, {"state": "FAILED"}) == [
        "second: was killed for memory above its limit (OOMKilled).",
        "First: no disk",
        "ingest: Pod was active longer than the deadline",
    ]


def test_the_nodes_of_a_large_workflow_are_read_though_argo_compresses_them(cluster, server, package):
    status = argo_status(nested_retries())
    packed = base64.b64encode(gzip.compress(json.dumps(status.pop("nodes")).encode())).decode()
    server.workflow = status | {"compressedNodes": packed}
    assert ended(cluster, server, package, {"state": "FAILED"})[0] == f"first: {REFUSED.format(2)}"


def test_a_workflow_that_argo_refused_is_told_in_its_words(cluster, server, package):
    server.workflow = {"phase": "Error", "message": "invalid spec: templates.root.tasks.first is unknown"}
    told = ended(cluster, server, package, {"state": "FAILED"})
    assert told == ["invalid spec: templates.root.tasks.first is unknown"]


def test_the_recorded_end_of_a_container_above_its_limit_is_told_and_no_other_log(cluster, server, package):
    """The pods of the recording, by their names in 2.17; their logs are as the launcher writes them."""
    details = recorded("oomkilled")["run_details"]["task_details"]
    for node in {child["pod_name"] for task in details for child in task.get("child_tasks", [])}:
        name = node.replace("taxi-mmhnt-", "taxi-mmhnt-system-container-impl-")
        server.logs[name] = "I1128 19:06:02 launcher_v2.go:190] publish success.\n"
    server.logs["taxi-mmhnt-system-container-impl-4189390929"] = "F1128 main.go:47] signal: killed\n"
    server.progress = [recorded("oomkilled")]
    run = wait(cluster, start(cluster, package, RunSettings("toys")).run_id, [], print, poll=0)
    assert failures(cluster, run, NODES) == [
        "transform: was killed, as for memory above its limit; its log ends with\n  F1128 main.go:47] signal: killed"
    ]


def test_a_run_that_was_terminated_is_canceled_though_the_api_calls_it_failed():
    """2.17 ends it as FAILED, with CANCELING before."""
    states = [{"state": "RUNNING"}, {"state": "CANCELING"}, {"state": "FAILED"}]
    history = [V2beta1RuntimeStatus(**status) for status in states]
    assert end_state(V2beta1Run(state="FAILED", state_history=history)) == "CANCELED"
    assert end_state(V2beta1Run(state="FAILED", state_history=history[:1] + history[2:])) == "FAILED"
    assert end_state(V2beta1Run(state="SUCCEEDED", state_history=history)) == "SUCCEEDED"
