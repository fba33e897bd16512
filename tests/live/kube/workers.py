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
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests import REPOSITORY
from tests.kubeflow.backend.run import Backend
from tests.live.kube.api import Json
from tests.live.kube.cluster import NAMESPACE, NODES, STOOD_IN, Cluster, cluster
from tests.live.shared_folder import SharedFolder
from tests.live.taxi import taxi_pipeline

pytestmark = pytest.mark.timeout(2400)
TASKS = ("ingest", "schema", "transform", "trainer")
RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
"""What docs/kubeflow.md, Permissions, says that the account of runs needs for workers."""
# Every update uses all rows, so their order does not matter, and nothing is drawn by chance.
TRAINING = (
    "training: {epochs: 20, batch_size: 30000, optimizer: sgd, learning_rate: 0.5, early_stopping: null, mask_rate: 0, "
    "checkpoint: {every_steps: 3}}\n"
)
METRICS = ("loss", "val_log_loss", "val_auc")
AS_POD = "tests.live.kube.as_pod"


@dataclass
class Trained:
    """What a Trainer made: training.json, seconds, attempts."""

    training: Json
    seconds: float
    attempts: int

    def last(self, metric: str) -> float:
        """Returns a metric after the last epoch."""
        return self.training["history"][metric][-1]


class Trainers:
    """Runs of the taxi package whose Trainer is a pod of a cluster."""

    def __init__(self, found: Cluster) -> None:
        self.cluster, self.folder = found, found.folder
        self.volume = found.make_volume("models")
        self.pipeline = taxi_pipeline(self._made(self.folder / "pipeline"))
        text = self.pipeline.read_text().replace("dropout: 0.1", "dropout: 0")
        before, _, after = text.partition("training:")
        self.pipeline.write_text(before + TRAINING + after.partition("\n")[2])
        self.backend = Backend(self.volume / "kfp", root=f"{self.volume}/artifacts")
        self.backend.store = SharedFolder(self.volume)
        self.table: list[tuple[str, Trained]] = []

    @staticmethod
    def _made(folder: Path) -> Path:
        folder.mkdir()
        return folder

    def train(
        self, name: str, node: Json, *, hurt: Callable[["Trainers"], None] = lambda _: None, service: bool = False
    ) -> Trained:
        """Runs the package; adds a line to the table. node: settings of the Trainer. hurt: called beside it."""
        thread = threading.Thread(target=hurt, args=[self], daemon=True)
        thread.start()
        result = self.backend.run(self._package(node, service), timeout=1500)
        thread.join(10)
        [*_, model] = sorted(
            self.volume.glob("artifacts/*/*/trainer/*/model_run/**/training.json"), key=os.path.getmtime
        )
        made = Trained(json.loads(model.read_text()), result.seconds["trainer"], result.attempts["trainer"])
        self.table.append((name, made))
        return made

    def print_table(self) -> None:
        """Prints seconds, attempts and last metrics of every training, and what is stood in for."""
        print(
            "\n| Trainer | seconds | attempts | resumed at update | " + " | ".join(METRICS) + " |\n" + "|---" * 7 + "|"
        )
        for name, made in self.table:
            last = " | ".join(f"{made.last(metric):.6f}" for metric in METRICS)
            resumed = made.training["resumed_at_update"]
            print(f"| {name} | {made.seconds:.0f} | {made.attempts} | {resumed} | {last} |")
        print(f"{STOOD_IN}, Kubeflow (the fake of the tests), the bucket (a volume).")

    def _package(self, node: Json, service: bool) -> str:
        text = self.pipeline.read_text()
        pipeline = self.pipeline.with_name("served.yaml" if service else "plain.yaml")
        pipeline.write_text(text + ("input: {service: {}}\n" if service else ""))
        volume = {"claim": "models", "mount": str(self.volume)}
        environment = {
            "image": "x:1", "kubeflow": "2.5", "tasks": "separate", "folder": str(self.pipeline.parent),
            "defaults": {"volumes": [volume]},
            "registry": f"{self.volume}/registry", "push_to": f"{self.volume}/taxi", "artifacts": "direct",
            "pipeline_root": "gs://bucket/artifacts", "nodes": {"Trainer": {"retries": {"count": 2}, **node}},
        }  # fmt: skip
        file, package = self.folder / "env.yaml", self.folder / "package.yaml"
        file.write_text(json.dumps(environment))
        command = ["fullpass", "compile", pipeline, "--env", file, "-o", package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        spec, platform = yaml.safe_load_all(package.read_text())
        nodes = spec["components"]["comp-nodes"]["dag"]
        nodes["tasks"] = {name: nodes["tasks"][name] for name in TASKS}
        for task in nodes["tasks"].values():
            task["dependentTasks"] = [name for name in task.get("dependentTasks", ()) if name in TASKS]
        container = spec["deploymentSpec"]["executors"]["exec-trainer"]["container"]
        found = self.cluster.kubernetes
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

    def share(self, part: float) -> Json:
        """Returns a request for a part of the node's processors."""
        cores = self.cluster.kubernetes.get("/api/v1/nodes/node")["status"]["allocatable"]["cpu"]
        return {"requests": {"cpu": f"{int(part * 1000 * int(cores))}m"}}

    def workers(self) -> list[Json]:
        """Waits until the workers of a Job have written a checkpoint; returns their pods, in the order of indices."""
        while not list(self.volume.glob("registry/**/*ckpt*")):
            time.sleep(0.2)
        return sorted(self.cluster.pods("job-name"), key=lambda pod: pod["metadata"]["name"])


@pytest.fixture(scope="module")
def trainers(tmp_path_factory) -> Iterator[Trainers]:
    with cluster(tmp_path_factory.mktemp("kube")) as found:
        for name in ("x:1", "taxi:1"):
            found.add_image(name, NODES)
        group = "rbac.authorization.k8s.io/v1"
        name = {"metadata": {"name": "pipeline-runner"}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pipeline-runner"}
        account = {"kind": "ServiceAccount", "name": "pipeline-runner", "namespace": NAMESPACE}
        found.kubernetes.apply([
            {"apiVersion": "v1", "kind": "ServiceAccount", **name},
            {"apiVersion": group, "kind": "Role", **name, "rules": RULES},
            {"apiVersion": group, "kind": "RoleBinding", **name, "roleRef": role, "subjects": [account]},
        ], NAMESPACE)  # fmt: skip
        made = Trainers(found)
        yield made
        made.print_table()


@pytest.fixture(scope="module")
def one(trainers) -> Trained:
    """One pod, without a Job."""
    return trainers.train("one pod", {})


@pytest.fixture(scope="module")
def two(trainers) -> Trained:
    """A Job of two workers, each of which reads its own files."""
    return trainers.train("two workers", {"workers": {"count": 2}})


def test_two_workers_learn_what_one_pod_learns(trainers, one, two):
    # The knots of numbers are the mean of those of all workers, not those of all rows.
    assert two.last("val_auc") == pytest.approx(one.last("val_auc"), abs=0.005)
    assert two.last("val_log_loss") == pytest.approx(one.last("val_log_loss"), rel=0.02)
    assert two.training["devices"] == "2 x CPU" and two.training["rows"] == one.training["rows"]
    events = trainers.cluster.kubernetes.get(f"/api/v1/namespaces/{NAMESPACE}/events", fieldSelector="reason=Started")
    started = [event["involvedObject"] for event in events["items"]]
    assert len({entry["name"] for entry in started if entry["fieldPath"] == "spec.containers{worker}"}) == 2
    assert not trainers.cluster.kubernetes.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")["items"]


def same_history(found: Trained, expected: Trained) -> None:
    for name in METRICS:
        assert found.training["history"][name] == pytest.approx(expected.training["history"][name], rel=1e-4)


def killed(trainers: Trainers) -> None:
    """Kills the second worker."""
    trainers.cluster.kill(trainers.workers()[1])


def preempted(trainers: Trainers) -> None:
    """Creates a pod of a higher priority, which the scheduler finds room for in the place of a worker."""
    trainers.workers()
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1}
    container = {"name": "main", "image": "x:1", "command": ["sleep", "2"], "resources": trainers.share(0.5)}
    pod = {"restartPolicy": "Never", "priorityClassName": "urgent", "containers": [container]}
    of_pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": pod}
    trainers.cluster.kubernetes.apply([urgent, of_pod], NAMESPACE)


@pytest.mark.parametrize("hurt", [killed, preempted])
def test_a_lost_worker_costs_a_restart_from_the_last_checkpoint(trainers, two, hurt):
    case = f"two workers, one {hurt.__name__}"
    cpu = {"request": trainers.share(0.4)["requests"]["cpu"]}
    found = trainers.train(case, {"workers": {"count": 2}, "cpu": cpu, "env": {"CASE": hurt.__name__}}, hurt=hurt)
    assert found.attempts == 2 and found.training["resumed_at_update"] > 0
    same_history(found, two)


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
    trainers.cluster.kubernetes.apply(objects, NAMESPACE)
    case = "one pod, tf.data service of three"
    found = trainers.train(case, {"env": {"FULLPASS_INPUT_SERVICE": "input-dispatcher:5050"}}, service=True)
    same_history(found, one)
