"""Training on several pods: manifests as Kubernetes' own client parses them, and a Job from start to end."""

import base64
import json
import re
import subprocess
import sys
import textwrap

import pytest

from fullpass.base.errors import UserError
from fullpass.components.library_versions import line
from fullpass.kubeflow.config import EnvironmentConfig
from fullpass.kubeflow.protocol import pack
from fullpass.kubeflow.runtime.executor_input import parse_message
from fullpass.kubeflow.runtime.worker_entrypoint import tf_config
from fullpass.kubeflow.runtime.worker_launcher import job_name, manifests, run_as_job, service_account
from tests.kubeflow.runtime.kubernetes_server import KubernetesServer, as_kubernetes_reads_it

ENVIRONMENT = {
    "image": "registry.example/taxi:1",
    "kubeflow": "2.5",
    "registry": "gs://b/registry",
    "pipeline_root": "gs://b/artifacts",
    "artifacts": "direct",
    "nodes": {
        "Trainer": {
            "workers": {"count": 3, "port": 3333, "queue": "gpus"},
            "cpu": {"request": "500m", "limit": "4"},
            "memory": {"limit": "8Gi"},
            "accelerator": {"resource": "nvidia.com/gpu", "count": 2},
            "node_selector": {"pool": "gpu"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "env": {"MODE": "x"},
            "secrets": [{"name": "store", "env": {"KEY": "key"}, "mount": "/secrets"}],
            "volumes": [{"claim": "models", "mount": "/models"}],
            "timeout": "2h",
        }
    },
}
NODE = EnvironmentConfig.model_validate(ENVIRONMENT).node("Trainer")


def test_the_manifests_are_whole_in_the_client_of_kubernetes():
    service, job = manifests("taxi-trainer-1", NODE, ["--plan", "{}"], pull_secrets=["login"], pull_policy="Always")
    assert as_kubernetes_reads_it(service, "V1Service") == service
    assert as_kubernetes_reads_it(job, "V1Job") == job
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


def test_the_pods_run_as_the_run_does_and_get_no_proxy():
    """Workload Identity and similar open the store for the run's account. An Istio proxy would outlive the worker."""
    _, job = manifests("taxi-trainer-1", NODE, [], service_account="pipeline-runner")
    template = job["spec"]["template"]
    assert template["spec"]["serviceAccountName"] == "pipeline-runner"
    assert template["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    assert as_kubernetes_reads_it(job, "V1Job") == job
    _, job = manifests("taxi-trainer-1", NODE, [])
    assert "serviceAccountName" not in job["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"sub": "system:serviceaccount:team-a:default-editor", "aud": ["k"]}, "default-editor"),
        ({"sub": "system:serviceaccount:kubeflow:pipeline-runner", "exp": 1}, "pipeline-runner"),
        ({"sub": "jane"}, None),
        ({}, None),
    ],
)
def test_a_token_says_whose_it_is(claims, expected):
    header, payload = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "RS256"}, claims)
    )
    assert service_account(f"{header}.{payload}.c2ln\n") == expected


def test_a_misspelt_field_would_be_seen():
    _, job = manifests("taxi-trainer-1", NODE, [])
    job["spec"]["completionsMode"] = job["spec"].pop("completionMode")
    assert as_kubernetes_reads_it(job, "V1Job") != job


def test_each_pod_has_what_the_environment_file_gives_the_node():
    _, job = manifests("taxi-trainer-1", NODE, ["--plan", "{}"])
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    gpus = {"nvidia.com/gpu": "2"}
    assert container["resources"] == {
        "requests": {"cpu": "500m", **gpus},
        "limits": {"cpu": "4", "memory": "8Gi", **gpus},
    }
    assert {e["name"]: e.get("value") for e in container["env"]} == {
        "FULLPASS_JOB": "taxi-trainer-1", "FULLPASS_PORT": "3333", "FULLPASS_WORKERS": "3", "MODE": "x", "KEY": None,
    }  # fmt: skip
    assert container["volumeMounts"] == [
        {"name": "mount-0", "mountPath": "/models"}, {"name": "mount-1", "mountPath": "/secrets"},
    ]  # fmt: skip
    assert job["spec"]["activeDeadlineSeconds"] == 7200 and pod["nodeSelector"] == {"pool": "gpu"}


def test_every_pod_knows_the_cluster_by_the_names_that_kubernetes_gives_it(monkeypatch):
    from fullpass.trainer.fit.worker_cluster import read_cluster

    service, job = manifests("j", NODE, [])
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"] == service["spec"]["selector"]["job-name"]
    assert job["spec"]["completionMode"] == "Indexed" and service["spec"]["clusterIP"] == "None"
    given = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
    monkeypatch.setenv("TF_CONFIG", tf_config({**given, "JOB_COMPLETION_INDEX": "2"}))
    cluster = read_cluster()
    assert cluster.addresses == ("j-0.j:3333", "j-1.j:3333", "j-2.j:3333") and cluster.own == 2


def test_names_leave_room_for_the_index_of_a_pod():
    names = {job_name("a" * 63, "Trainer") for _ in range(3)}
    assert len(names) == 3 and max(map(len, names)) <= 50


@pytest.mark.parametrize("pipeline", ["taxi", "2026-tips", "1", "a" * 63, "9" * 63])
def test_names_are_those_of_a_service_too(pipeline):
    """A DNS-1035 label begins with a letter, unlike the names of pipelines and Jobs."""
    assert re.fullmatch("[a-z][-a-z0-9]{0,48}[a-z0-9]", job_name(pipeline, "Trainer"))


EXECUTOR = """
    import json, os
    from tfx.dsl.components.base import base_executor

    class Counts(base_executor.BaseExecutor):
        def Do(self, input_dict, output_dict, exec_properties):
            [model] = output_dict["model"]
            task = json.loads(os.environ["TF_CONFIG"])["task"]
            if task["index"] == exec_properties["fails"]:
                raise ValueError("the loss is no number")
            os.makedirs(model.uri, exist_ok=True)
            run = json.load(open(os.environ["FULLPASS_RUN_FACTS"]))
            model.set_string_custom_property("run", str(run["run_id"]))
            open(f"{model.uri}/worker-{task['index']}", "w").close()
            model.set_int_custom_property("by", task["index"])
"""


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Returns `trained(fails)`, which runs two workers on the fake Kubernetes; returns the result and the server."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "counting.py").write_text(textwrap.dedent(EXECUTOR))

    monkeypatch.setenv(
        "FULLPASS_PACKAGE_FACTS", pack({"pipeline": "taxi", "config": {"yaml": "name: taxi"}, "functions": []})
    )

    def work(fails=-1, **given):
        store = tmp_path / "store" / "taxi" / "run-7" / "trainer" / "salt"
        trainer = {
            "node": "Trainer", "prefix": "", "executor": "counting.Counts", "parameters": {"fails": "int"},
            "inputs": {}, "reads": {}, "windows": [], "outputs": {"model": "tfx.types.standard_artifacts.Model"},
            "beam": None,
        }  # fmt: skip
        folder = str(tmp_path / "pipeline")
        plan = {"line": line(), "folder": folder, "artifacts": "direct", "nodes": [trainer]}
        answer = tmp_path / "outputs" / "answer.json"
        message = {
            "inputs": {"parameterValues": {"fails": float(fails)}},
            "outputs": {"artifacts": {"model": {"artifacts": [{"uri": f"{store}/model"}]}}, "outputFile": str(answer)},
        }
        args = ["--plan", json.dumps(plan), "--executor-input", json.dumps(message), f"--output=model={tmp_path}/local"]
        node = {**NODE.model_dump(mode="json"), "workers": {"count": 2, "port": 3333}}
        settings = {"pipeline": "taxi", "node_id": "Trainer", "node": node, "pull_secrets": [], "pull_policy": None}
        with KubernetesServer(tmp_path / "pods", **given) as server:
            task = parse_message(json.dumps(message), {}, {"model": f"{tmp_path}/local"})
            run_as_job(server.client(), "ns", settings, args, task, account="pipeline-runner", poll=0.2)
        return json.loads(answer.read_text()), server, store

    return work


@pytest.mark.integration
def test_a_job_does_the_work_of_a_node_and_leaves_nothing_behind(trained, tmp_path):
    left = tmp_path / "store" / "taxi" / "run-7" / "trainer" / "salt" / "model" / "left"  # by an earlier attempt
    left.parent.mkdir(parents=True)
    left.touch()
    answer, server, store = trained()
    [model] = answer["artifacts"]["model"]["artifacts"]
    assert model["uri"] == f"{store}/model" and model["metadata"] == {"by": 0, "run": "run-7"}
    assert sorted(file.name for file in (store / "model").iterdir()) == ["worker-0", "worker-1"]
    assert server.objects == {} and server.created == ["services", "jobs"]
    assert server.accounts == ["pipeline-runner"]


@pytest.mark.integration
def test_a_worker_that_fails_is_named_with_its_cause(trained):
    with pytest.raises(UserError, match=r"worker taxi-trainer-\w+-1: exit status 1: Trainer: .*the loss is no number"):
        trained(fails=1)


def test_an_account_that_may_not_create_jobs_is_told_what_it_needs(trained):
    with pytest.raises(
        UserError, match=r"creating the job taxi-trainer-\w+: the run's service account may not.* jobs"
    ) as told:
        trained(forbidden="jobs")
    assert 'cannot create resource "jobs" in API group "batch"' in str(told.value)


@pytest.mark.integration
def test_the_container_names_what_it_lacks_outside_a_cluster(tmp_path):
    settings = json.dumps({"node_id": "Trainer"})
    done = subprocess.run(
        [sys.executable, "-m", "fullpass.kubeflow.runtime.worker_launcher", "--workers", settings, "--plan", "{}",
         "--executor-input", "{}"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and "Trainer: " in done.stderr and "cluster" in done.stderr
