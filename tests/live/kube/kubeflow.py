"""`make check-kube`: Kubeflow Pipelines' own programs run packages on a Kubernetes control plane."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.e2e.kubeflow_package import taxi_lines
from tests.live.kube.api import Json
from tests.live.kube.cluster import NAMESPACE, cluster
from tests.live.kube.kubelet import Kubelet
from tests.live.kube.platform import Platform, start_platform
from tests.live.servers import needed
from tests.live.taxi import taxi_pipeline

pytestmark = pytest.mark.timeout(3600)
BUILD = (
    "It is a checkout of github.com/kubeflow/pipelines at the tag of the release, with its programs in bin/: go build "
    "-o bin/ ./backend/src/apiserver ./backend/src/agent/persistence ./backend/src/crd/controller/scheduledworkflow "
    "./backend/src/v2/cmd/driver ./backend/src/v2/cmd/launcher-v2"
)
ENVIRONMENT = """\
image: registry.example/taxi:1.4.2
kubeflow: "2.17"
registry: /models/registry
push_to: /models/taxi
defaults: {volumes: [{claim: models, mount: /models}]}
"""
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ENDED = ("Succeeded", "Failed", "Error")
PREDICT = """predict:
  {rows: "/pipeline/rows/{YYYY}.csv", output: "/models/predictions/{YYYY}.parquet", model: pushed, lag: 1d}
"""
TABLE: list[tuple[str, ...]] = []


@dataclass
class Done:
    """The end of a command: exit status, output, seconds."""

    code: int
    output: str
    seconds: float


@dataclass
class Runs:
    """Runs of one pipeline."""

    kubelet: Kubelet
    host: str
    folder: Path
    case: int = 0

    def fullpass(self, *arguments: str) -> Done:
        """Runs a command of Fullpass."""
        began = time.monotonic()
        done = subprocess.run(["fullpass", *arguments], capture_output=True, text=True, check=False, timeout=1800)
        return Done(done.returncode, done.stdout + done.stderr, time.monotonic() - began)

    def environment(self, nodes: str = "") -> str:
        """Writes an environment file; returns its path. nodes: its key `nodes`."""
        self.case += 1
        file = self.folder / f"env-{self.case}.yaml"
        file.write_text(ENVIRONMENT + nodes)
        return str(file)

    def variant(self, name: str, changes: dict[str, str]) -> None:
        """Writes a changed copy of the pipeline."""
        text = (self.folder / "pipeline" / "pipeline.yaml").read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (self.folder / "pipeline" / name).write_text(text)

    def submit(
        self, name: str, *more: str, nodes: str = "", pipeline: str = "pipeline.yaml", hurt: Callable = lambda: None
    ) -> Done:
        """Submits a run and waits for it; adds a line to the table. hurt: called beside the run."""
        before = {item["metadata"]["name"] for item in self.workflows()}
        file = str(self.folder / "pipeline" / pipeline)
        threading.Thread(target=hurt, daemon=True).start()
        done = self.fullpass("submit", file, "--env", self.environment(nodes), "--host", self.host, *more)
        print(f"\n{done.output[-3000:]}")
        made = [item for item in self.workflows() if item["metadata"]["name"] not in before]
        self.tell(name, done.code, made, done.seconds)
        return done

    def tell(self, name: str, code: int, made: list[Json], seconds: float) -> None:
        """Adds a line to the table."""
        pods = sum(node["type"] == "Pod" for item in made for node in item.get("status", {}).get("nodes", {}).values())
        size = sum(len(json.dumps(item, separators=(",", ":"))) for item in made)
        TABLE.append((name, str(code), str(pods), f"{seconds:.0f}", str(size)))
        print(", ".join(TABLE[-1]), flush=True)

    def workflow(self, name: str) -> Json:
        """Returns a Workflow."""
        return self.kubelet.cluster.get(f"{WORKFLOWS}/{name}")

    def containers(self, node: str) -> list[str]:
        """Returns the names of the pods that run the container of a node."""
        found = self.kubelet.cluster.get(PODS)["items"]
        mark = f'"node": "{node}"'
        return [
            pod["metadata"]["name"]
            for pod in found
            if pod["status"].get("phase") == "Running" and mark in json.dumps(pod["spec"]).replace("\\", "")
        ]

    def pod_of(self, node: str) -> str:
        """Waits for the container of a node; returns the name of its pod."""
        until(lambda: self.containers(node), 900)
        return self.containers(node)[0]

    def delete_pod(self, node: str) -> None:
        """Deletes the pod of a node in the middle of its work."""
        name = self.pod_of(node)
        time.sleep(5)
        self.kubelet.cluster.delete(f"{PODS}/{name}")

    def workflows(self) -> list[Json]:
        """Returns all Workflows."""
        return self.kubelet.cluster.get(WORKFLOWS)["items"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Iterator[Runs]:
    checkout = needed("KFP", BUILD)
    folder = tmp_path_factory.mktemp("kube")
    for part in (folder, *folder.parents[:-2]):
        part.chmod(0o755)
    (folder / "pipeline").mkdir()
    taxi_pipeline(folder / "pipeline")
    platform = Platform(Path(os.environ["KUBE_BIN"]), checkout, folder / "pipeline")
    with cluster(folder, platform.image) as kubelet:
        try:
            yield Runs(kubelet, start_platform(kubelet, platform, folder), folder)
        except BaseException:
            for log in sorted((folder / "node" / "pods").glob("*/*/log"))[-30:]:
                print(f"== {log}\n{log.read_text(errors='replace')[-1500:]}")
            raise
    print("\ncase, exit status, pods, seconds, bytes of the Workflow")
    for line in TABLE:
        print(", ".join(line))


def test_the_first_run(runs):
    done = runs.submit("first run")
    assert done.code == 0
    assert [folder for folder in (runs.kubelet.volume("models") / "taxi").iterdir() if folder.name.isdigit()]


def test_an_unchanged_run_trains_nothing(runs):
    done = runs.submit("unchanged")
    assert done.code == 0 and not runs.containers("Trainer")


def test_bad_data_fail_with_their_row(runs):
    header, *rows = taxi_lines(200)
    rows[120] = "ten" + rows[120]
    runs.variant("bad.yaml", {"trips.csv": "bad.csv"})
    (runs.folder / "pipeline" / "bad.csv").write_text(header + "".join(rows))
    done = runs.submit("bad data", pipeline="bad.yaml")
    assert done.code == 1 and "bad.csv" in done.output


def test_a_pod_that_is_deleted_is_tried_again(runs):
    runs.variant("longer.yaml", {"epochs: 1": "epochs: 2"})
    done = runs.submit("deleted pod", pipeline="longer.yaml", hurt=lambda: runs.delete_pod("Trainer"))
    assert done.code == 0


def test_a_container_that_is_killed_for_memory_says_so(runs):
    runs.variant("memory.yaml", {"epochs: 1": "epochs: 3"})
    done = runs.submit("OOM", pipeline="memory.yaml", nodes="nodes: {Trainer: {memory: {limit: 300Mi}}}\n")
    assert done.code == 1 and "memory" in done.output and "OOMKilled" in done.output


def test_predictions(runs):
    (runs.folder / "pipeline" / "rows").mkdir()
    (runs.folder / "pipeline" / "rows" / "2026.csv").write_text("".join(taxi_lines(300)))
    done = runs.submit("--predict", "--predict", "--param", "date=2026-01-02", nodes=PREDICT)
    assert done.code == 0
    assert (runs.kubelet.volume("models") / "predictions" / "2026.parquet").exists()


def test_a_recurring_run(runs):
    runs.variant("scheduled.yaml", {"push:": 'schedule: {cron: "* * * * *"}\npush:'})
    given = [str(runs.folder / "pipeline" / "scheduled.yaml"), "--env", runs.environment(), "--host", runs.host]
    before = len(runs.workflows())
    done = runs.fullpass("schedule", "apply", *given)
    assert done.code == 0, done.output
    until(lambda: len(runs.workflows()) > before, 150)
    done = runs.fullpass("schedule", "delete", *given)
    assert done.code == 0, done.output
    newest = max(runs.workflows(), key=lambda item: item["metadata"]["creationTimestamp"])["metadata"]["name"]
    began = time.monotonic()
    until(lambda: runs.workflow(newest)["status"].get("phase") in ENDED, 1200)
    made = runs.workflow(newest)
    assert made["status"]["phase"] == "Succeeded"
    runs.tell("recurring", 0, [made], time.monotonic() - began)


def test_a_terminated_run_stops_its_pods_and_is_deleted(runs):
    runs.variant("stopped.yaml", {"epochs: 1": "epochs: 400"})
    before = {item["metadata"]["name"] for item in runs.workflows()}
    done = runs.submit("started", "--no-wait", pipeline="stopped.yaml")
    assert done.code == 0
    [made] = [item for item in runs.workflows() if item["metadata"]["name"] not in before]
    name, run = made["metadata"]["name"], made["metadata"]["labels"]["pipeline/runid"]
    runs.pod_of("Trainer")
    began = time.monotonic()
    requests.post(f"{runs.host}/apis/v2beta1/runs/{run}:terminate", timeout=60).raise_for_status()
    until(lambda: runs.workflow(name)["status"].get("phase") in ENDED, 300)
    until(lambda: not runs.containers("Trainer"), 120)
    runs.tell("terminated", 1, [runs.workflow(name)], time.monotonic() - began)
    told = runs.submit("wait for it", "--run", run, pipeline="stopped.yaml")
    assert told.code == 1 and "terminated" in told.output
    requests.delete(f"{runs.host}/apis/v2beta1/runs/{run}", timeout=60).raise_for_status()
    until(lambda: name not in {item["metadata"]["name"] for item in runs.workflows()}, 60)


def until(holds: Callable[[], object], seconds: float) -> None:
    """Waits until something holds."""
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last, "waited in vain"
        time.sleep(1)
