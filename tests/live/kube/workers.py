"""Training on several pods, and a tf.data service of pods, on a Kubernetes control plane: `make check-kube-workers`.

The tasks before the Trainer run as in the tests' fake of Kubeflow. The Trainer's container runs in a pod, and creates
its Job with the rights that docs/kubeflow.md names. A folder that all pods mount stands for the bucket.
"""

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests import REPOSITORY
from tests.kubeflow.backend.run import Backend
from tests.live.kube.api import Json
from tests.live.kube.cluster import NAMESPACE, cluster
from tests.live.kube.kubelet import Kubelet
from tests.live.shared_folder import SharedFolder
from tests.live.taxi import taxi_pipeline

pytestmark = pytest.mark.timeout(2400)
TASKS = ("find-inputs", "ingest", "schema", "statistics-gen", "transform", "trainer")
RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
"""What docs/kubeflow.md, Permissions, says that the account of runs needs for workers."""
# Every update uses all rows, so their order does not matter.
TRAINING = (
    "training: {epochs: 60, batch_size: 30000, optimizer: sgd, learning_rate: 0.5, checkpoint: {every_steps: 3}}\n"
)
AS_POD = "tests.live.kube.as_pod"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass
class Trained:
    """What a Trainer made: training.json, seconds, attempts, and the names of its workers' pods in their order."""

    training: Json
    seconds: float
    attempts: int
    pods: list[str] = field(default_factory=list)


class Trainers:
    """Runs of the taxi package whose Trainer is a pod of a cluster."""

    def __init__(self, kubelet: Kubelet, folder: Path) -> None:
        self.kubelet, self.folder = kubelet, folder
        self.volume = kubelet.volume("models")
        self.volume.mkdir()
        self.volume.chmod(0o2775)
        self.pipeline = taxi_pipeline(self._made(folder / "pipeline"))
        text = self.pipeline.read_text().replace("dropout: 0.1", "dropout: 0")
        before, _, after = text.partition("training:")
        self.pipeline.write_text(before + TRAINING + after.partition("\n")[2])
        self.backend = Backend(self.volume / "kfp", root=f"{self.volume}/artifacts")
        self.backend.store = SharedFolder(self.volume)

    @staticmethod
    def _made(folder: Path) -> Path:
        folder.mkdir()
        return folder

    def train(
        self, node: Json, *, hurt: Callable[["Trainers"], None] = lambda _: None, service: bool = False
    ) -> Trained:
        """Runs the package. node: the settings of the Trainer. hurt: called beside the training."""
        before = len(self.kubelet.ran)
        thread = threading.Thread(target=hurt, args=[self], daemon=True)
        thread.start()
        result = self.backend.run(self._package(node, service), timeout=1500)
        thread.join(10)
        [*_, model] = sorted(
            self.volume.glob("artifacts/*/*/trainer/*/model_run/**/training.json"), key=os.path.getmtime
        )
        pods = [name for name, _, _ in self.kubelet.ran[before:]]
        return Trained(json.loads(model.read_text()), result.seconds["trainer"], result.attempts["trainer"], pods)

    def _package(self, node: Json, service: bool) -> str:
        text = self.pipeline.read_text()
        pipeline = self.pipeline.with_name("served.yaml" if service else "plain.yaml")
        pipeline.write_text(text + ("input: {service: {}}\n" if service else ""))
        volume = {"claim": "models", "mount": str(self.volume)}
        environment = {
            "image": "x:1", "kubeflow": "2.5", "folder": str(self.pipeline.parent), "defaults": {"volumes": [volume]},
            "registry": f"{self.volume}/registry", "push_to": f"{self.volume}/taxi", "artifacts": "direct",
            "pipeline_root": "gs://bucket/artifacts", "nodes": {"Trainer": {"retries": {"count": 2}, **node}},
        }  # fmt: skip
        file, package = self.folder / "env.yaml", self.folder / "package.yaml"
        file.write_text(json.dumps(environment))
        command = ["fullpass", "compile", pipeline, "--env", file, "-o", package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        spec, platform = yaml.safe_load_all(package.read_text())
        tasks = {name: spec["root"]["dag"]["tasks"][name] for name in TASKS}
        for task in tasks.values():
            task["dependentTasks"] = [name for name in task.get("dependentTasks", ()) if name in tasks]
        spec["root"]["dag"]["tasks"] = tasks
        container = spec["deploymentSpec"]["executors"]["exec-trainer"]["container"]
        found = self.kubelet.cluster
        given = {"address": found.address, "token": found.token, "ca": str(found.ca), "pod": self.pod(container)}
        (self.folder / "pod.json").write_text(json.dumps(given))
        before = ["env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", AS_POD, str(self.folder / "pod.json")]
        container["command"] = [*before, *container["command"]]
        return yaml.safe_dump_all([spec, platform])

    def pod(self, container: Json) -> Json:
        """Returns the pod of a container, as the backend and Argo describe it."""
        spec = {
            "restartPolicy": "Never", "serviceAccountName": "pipeline-runner",
            "containers": [{
                "name": "main", "image": container["image"], "env": [
                    *container.get("env", ()),
                    {"name": "KFP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "KFP_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                ],
                "volumeMounts": [{"name": "models", "mountPath": str(self.volume)}],
            }],
            "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
        }  # fmt: skip
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "trainer-"}, "spec": spec}

    def worker(self, index: int) -> Json:
        """Waits until a worker of a Job has written a checkpoint; returns its pod."""
        while not list(self.volume.glob("registry/**/*ckpt*")) and not list(self.volume.glob("registry/**/checkpoint")):
            time.sleep(0.2)
        time.sleep(2)
        while True:
            for pod in self.kubelet.cluster.get(PODS)["items"]:
                labels = pod["metadata"].get("labels", {})
                if labels.get("batch.kubernetes.io/job-completion-index") == str(index):
                    return pod


@pytest.fixture(scope="module")
def trainers(tmp_path_factory) -> Iterator[Trainers]:
    folder = tmp_path_factory.mktemp("kube")
    for part in (folder, *folder.parents[:-2]):
        part.chmod(0o755)
    with cluster(folder) as kubelet:
        group = "rbac.authorization.k8s.io/v1"
        name = {"metadata": {"name": "pipeline-runner"}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pipeline-runner"}
        account = {"kind": "ServiceAccount", "name": "pipeline-runner", "namespace": NAMESPACE}
        kubelet.cluster.apply([
            {"apiVersion": "v1", "kind": "ServiceAccount", **name},
            {"apiVersion": group, "kind": "Role", **name, "rules": RULES},
            {"apiVersion": group, "kind": "RoleBinding", **name, "roleRef": role, "subjects": [account]},
        ], NAMESPACE)  # fmt: skip
        yield Trainers(kubelet, folder)


@pytest.fixture(scope="module")
def one(trainers) -> Trained:
    """One pod, without a Job."""
    return trainers.train({})


@pytest.fixture(scope="module")
def two(trainers) -> Trained:
    """A Job of two workers."""
    return trainers.train({"workers": {"count": 2}})


def test_two_workers_learn_what_one_pod_learns(trainers, one, two):
    print(f"\none pod: {one.seconds:.0f} s; two workers: {two.seconds:.0f} s")
    same_history(two, one)
    assert sum("trainer-" in name and name.endswith("/worker") for name in two.pods) == 2
    assert not trainers.kubelet.cluster.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]


def same_history(found: Trained, expected: Trained) -> None:
    for name in ("loss", "val_log_loss", "val_auc"):
        assert found.training["history"][name] == pytest.approx(expected.training["history"][name], rel=1e-4)


def killed(trainers: Trainers) -> None:
    """Kills the second worker."""
    pod = trainers.worker(1)["metadata"]["name"]
    trainers.kubelet.container(NAMESPACE, pod, "worker").signal("KILL")


def preempted(trainers: Trainers) -> None:
    """Takes the first worker's place for another pod, as the scheduler does."""
    path = f"{PODS}/{trainers.worker(0)['metadata']['name']}"
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "preempting",
    }
    trainers.kubelet.cluster.patch(f"{path}/status", {"status": {"conditions": [condition]}})
    trainers.kubelet.cluster.delete(path)


@pytest.mark.parametrize("hurt", [killed, preempted])
def test_a_lost_worker_costs_a_restart_from_the_last_checkpoint(trainers, one, hurt):
    found = trainers.train({"workers": {"count": 2}, "env": {"CASE": hurt.__name__}}, hurt=hurt)
    print(f"\n{hurt.__name__}: {found.seconds:.0f} s in {found.attempts} attempts")
    assert found.attempts == 2
    same_history(found, one)


def test_a_service_of_pods_parses_for_the_trainer(trainers, one):
    text = (
        (REPOSITORY / "docs" / "input.md")
        .read_text()
        .partition("kubectl apply -f - <<'END'\n")[2]
        .partition("    END")[0]
    )
    objects = list(yaml.safe_load_all(textwrap.dedent(text)))
    for item in objects[1:]:  # the folder that stands for the bucket
        pod = trainers.pod({"image": "x:1"})["spec"]
        item["spec"]["template"]["spec"] |= {"volumes": pod["volumes"]}
        item["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = pod["containers"][0]["volumeMounts"]
    trainers.kubelet.cluster.apply(objects, NAMESPACE)
    found = trainers.train({"env": {"FULLPASS_INPUT_SERVICE": "input-dispatcher:5050"}}, service=True)
    print(f"\nwith a service of two pods: {found.seconds:.0f} s")
    same_history(found, one)
